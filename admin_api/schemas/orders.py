"""Orders and their answers."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Mode(BaseModel):
    """How the subscription is ordered from now on."""

    model_config = ConfigDict(extra="forbid")

    ordering_mode: Literal["draining_hashes", "last_sent_position"] | None = Field(
        description="Null is what the clients or the configuration say."
    )


class Limits(BaseModel):
    """Limits of one subscription, named as in the configuration; absent or null is the configuration's value."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"max_unacked_messages_per_worker": 1000}]}
    )

    look_ahead_messages_per_worker: int | None = Field(None, ge=1, le=1_000_000)
    look_ahead_messages_per_subscription: int | None = Field(None, ge=1, le=10_000_000)
    subscription_memory_bytes: int | None = Field(None, ge=1 << 20, le=1 << 40)
    max_unacked_messages_per_worker: int | None = Field(None, ge=0, le=10_000_000, description="0 is no limit.")


class LimitsInEffect(BaseModel):
    """What holds now."""

    look_ahead_messages_per_worker: int
    look_ahead_messages_per_subscription: int
    subscription_memory_bytes: int
    max_unacked_messages_per_worker: int


class Concerned(BaseModel):
    """How many workers of that name are here."""

    workers: int


class StandingOrders(BaseModel):
    """What was ordered of one subscription and not taken back."""

    topic: str
    subscription: str
    present: bool = Field(description="Whether any of its workers is here; orders wait for those that are not.")
    paused: bool
    drained: list[str] = Field(description="Names of workers that get nothing new.")
    ordering_mode: str | None = Field(description="Null is what the clients or the configuration say.")
    limits: dict[str, int] = Field(description="What is not named is the configuration's.")
