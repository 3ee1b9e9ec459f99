"""What replicas say to each other for an operator, and what is told of those that say nothing."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import Base64Bytes, BaseModel, Field


@dataclass(frozen=True, slots=True)
class Question:
    """A request that another replica is to answer; the replica that sends it has checked the caller's role."""

    method: str
    target: str
    """Path as it was requested, and the query."""
    caller: str
    headers: dict[str, str] = field(default_factory=dict)
    body: Base64Bytes = b""


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """What an answer begins with; its body follows."""

    status: int
    headers: dict[str, str]


class StandingDown(BaseModel):
    """What clients of a replica that stops have still."""

    unacked: int


class Unanswered(BaseModel):
    """A replica whose part is missing in an answer about all of them."""

    replica: str
    problem: str = Field(description="Why it did not answer.")
