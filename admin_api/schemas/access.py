"""Who asks."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Me(BaseModel):
    """As far as it is known."""

    name: str | None = Field(description="As the token says; null where nobody is asked.")
    role: str | None = Field(description="`viewer`, `operator` or `admin`; null where nobody is asked.")
    login: bool = Field(description="Whether the gateway asks who it is.")
