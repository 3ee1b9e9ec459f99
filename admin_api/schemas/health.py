"""Answers of the health checks."""

from __future__ import annotations

from pydantic import BaseModel


class Liveness(BaseModel):
    """The event loop runs, or there would be no answer."""

    live: bool = True


class Readiness(BaseModel):
    """Whether clients should be sent here."""

    ready: bool
    reasons: list[str]
    """Why not; empty if ready."""
