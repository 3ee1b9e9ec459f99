"""Parked keys."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class ParkedSlot(BaseModel):
    """A hash slot that is parked."""

    slot: int
    state: Literal["parked", "redriving", "dropping"]
    messages: int = Field(description="In the parking topic.")
    keys: list[str] = Field(description="Of its first messages, each once; at most 10, of 128 bytes each.")
    attempts: int = Field(description="Of the first message, when it was parked.")
    first_published_ms: int | None = Field(description="When the first message was published, since the epoch.")


class ParkedSlots(BaseModel):
    """What is parked of a subscription."""

    parking_topic: str | None = Field(description="Null if the subscription has no `park_after`.")
    parked_slots: int
    parked_messages: int
    trouble: str = Field(description="Why the parking topic does not take what is to go there; empty if it does.")
    slots: list[ParkedSlot]


class ParkedMessage(BaseModel):
    """A message in the parking topic."""

    position: str = Field(description="In the original topic, `ledger:entry`.")
    batch_index: int | None
    parked_position: str = Field(description="In the parking topic.")
    key: str = Field(description="At most its first 128 bytes.")
    attempts: int
    published_ms: int
    size_bytes: int


class TakenOut(BaseModel):
    """What an order to a parked slot concerns."""

    slot: int
    messages: int = Field(description="Parked of it at present.")
