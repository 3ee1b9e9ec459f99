"""The caller."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Me(BaseModel):
    """As far as it is known."""

    name: str | None = Field(description="From the token; null without authentication.")
    role: str | None = Field(description="`viewer`, `operator` or `admin`; null without authentication.")
    login: bool = Field(description="Whether the gateway asks who it is.")
