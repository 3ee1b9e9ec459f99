"""Orders and their answers."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field


class Mode(BaseModel):
    """How the subscription is ordered from now on."""

    model_config = ConfigDict(extra="forbid")

    ordering_mode: Literal["draining_hashes", "last_sent_position"] | None = Field(
        description="Null is what the clients or the configuration say."
    )


class Owner(BaseModel):
    """Which replica is to serve a subscription."""

    model_config = ConfigDict(extra="forbid")

    replica: str | None = Field(
        max_length=1_000, description="Its configured or its whole name; null is any.", examples=["keyline-0"]
    )


class Limits(BaseModel):
    """Limits of one subscription, named as in the configuration.

    Absent or null is the value of the configuration, or of the workers' consumer properties.
    """

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"max_unacked_messages_per_worker": 1000}]}
    )

    look_ahead_messages_per_worker: int | None = Field(None, ge=1, le=1_000_000)
    look_ahead_messages_per_subscription: int | None = Field(None, ge=1, le=10_000_000)
    subscription_memory_bytes: int | None = Field(None, ge=1 << 20, le=1 << 40)
    max_unacked_messages_per_worker: int | None = Field(None, ge=0, le=10_000_000, description="0 is no limit.")
    key_window: int | None = Field(None, ge=0, le=1_000_000, description="0 is no limit.")
    retry_delay_ms: int | None = Field(None, ge=0, le=86_400_000)
    retry_multiplier: float | None = Field(None, ge=1, le=100, allow_inf_nan=False)
    retry_delay_max_ms: int | None = Field(None, ge=1, le=86_400_000)
    dead_letter_after: int | None = Field(None, ge=0, le=1_000, description="Attempts; 0 is no limit.")
    ack_lease_ms: int | None = Field(None, ge=0, le=86_400_000, description="0 is no limit.")
    quarantine_after: int | None = Field(None, ge=0, le=1_000, description="Lost ack leases; 0 is never.")
    quarantine_ms: int | None = Field(None, ge=1, le=86_400_000)
    key_share_percent: float | None = Field(None, ge=0, le=37, allow_inf_nan=False, description="0 is no limit.")


class LimitValues(BaseModel):
    """All limits."""

    look_ahead_messages_per_worker: int
    look_ahead_messages_per_subscription: int
    subscription_memory_bytes: int
    max_unacked_messages_per_worker: int
    key_window: int
    retry_delay_ms: int
    retry_multiplier: float
    retry_delay_max_ms: int
    dead_letter_after: int
    ack_lease_ms: int
    quarantine_after: int
    quarantine_ms: int
    key_share_percent: float


class LimitsInForce(BaseModel):
    """The limits of one subscription."""

    in_effect: LimitValues
    configured: LimitValues = Field(description="Those of the configuration, or of consumer properties.")


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
    excluded: list[str] = Field(description="Names of workers that own no slots.")
    ordering_mode: str | None = Field(description="Null is what the clients or the configuration say.")
    limits: dict[str, float] = Field(description="What is not named is the configuration's.")
    replica: str | None = Field(description="Which is to serve it, in owner mode; null is any.")


class ChangedSetting(BaseModel):
    """A setting before a reload and now; secrets are masked."""

    before: Any
    now: Any


class ReloadedSettings(BaseModel):
    """What a reload did."""

    changed: dict[str, ChangedSetting] = Field(description="Settings that are now in effect.")
    needs_restart: list[str] = Field(description="Settings that differ and take effect only with a restart.")
