"""What a worker holds."""

from __future__ import annotations

from pydantic import BaseModel, Field


class PendingAck(BaseModel):
    """One delivery that is not acknowledged whole."""

    message_id: str = Field(description="ledger:entry as the worker was given it.", examples=["17:3"])
    position: str = Field(description="ledger:entry at the broker; differs for a part of a batch.", examples=["17:3"])
    messages: int = Field(description="Those not acknowledged.")
    slots: list[int] = Field(description="At most 10.")
    slots_count: int
    attempts: int
    redeliveries: int
    sent_age_s: float
    age_s: float = Field(description="Since the broker sent it to the gateway.")
    draining: bool = Field(description="Another worker, which owns a slot of it now, waits for it.")
    chunk: bool


class PendingPage(BaseModel):
    """Some of them, in topic order."""

    deliveries: list[PendingAck]
    next: str | None = Field(description="Give it as `after` for the next page; null if this is the last.")
    total: int
