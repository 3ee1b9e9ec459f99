"""Slots: who owns them, why they wait, and what a join or leave would move."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from admin_api.schemas.subscriptions import DrainingHash, UrgencyName, Verdict, WorkerStateName

SlotNumber = Annotated[int, Field(ge=0, le=65_535)]

WaitState = Literal[
    "flowing",
    "upstream_behind",
    "no_owner",
    "excluded",
    "quarantined",
    "draining",
    "in_transaction",
    "unblocking_interval",
    "window_full",
    "retry_wait",
    "dead_letter",
    "parked",
    "beyond_share",
    "no_permits",
    "not_reading",
    "unacked_limit",
    "join_position",
    "drained_by_operator",
    "no_lease",
    "paused",
]
"""Why a slot waits."""


class Ring(BaseModel):
    """The whole hash space of a subscription; slots in no range have no owner."""

    hash_space: int = Field(description="How many slots there are; with 65,535 the first is 1, else 0.")
    workers: list[str] = Field(description="Names, in join order.")
    ranges: list[Annotated[list[int], Field(min_length=3, max_length=3)]] = Field(
        description="First slot, last slot, and the owner's place in `workers`; ascending."
    )
    draining_hashes_count: int


class DrainingPage(BaseModel):
    """Some of the slots that drain, ascending."""

    now: float
    draining_hashes_count: int = Field(description="All there are, of the subscription or the worker.")
    draining_hashes: list[DrainingHash]
    holders: list[str] = Field(description="Who holds each of them.")
    next: int | None = Field(description="Give it as `after` for the next page; null if this is the last.")


class WaitingHead(BaseModel):
    """The first message, or batch of messages, that waits."""

    position: str = Field(description="ledger:entry", examples=["17:4"])
    messages: int
    age_s: float = Field(description="Since the broker sent it to the gateway.")
    attempts: int = Field(description="How often it was sent to a worker.")
    redeliveries: int


class BlockingDelivery(BaseModel):
    """Something unacknowledged that must go first."""

    position: str = Field(description="ledger:entry", examples=["17:3"])
    slot: int
    messages: int
    sent_age_s: float | None = Field(description="Since it was last sent; null if it waits itself.")
    attempts: int
    redeliveries: int
    holder: str | None = Field(description="Who has it; null if it waits itself.")


class Explanation(BaseModel):
    """A slot at one moment."""

    slot: int = Field(description="The one named, or that of the key.")
    owner: str | None
    holder: str | None = Field(description="Who has unacknowledged messages of it.")
    state: WaitState
    waiting_messages: int
    waiting_age_s: float | None
    pending_acks: int
    unacked_messages: int
    head: WaitingHead | None
    join_position: str | None = Field(description="PIP-282: everything up to it must be acknowledged first.")
    join_position_entries: int
    blocking: list[BlockingDelivery] = Field(description="What must go first; at most 10.")
    released_in_s: float | None = Field(
        description="Until it is released, in the states `unblocking_interval` and `retry_wait`."
    )
    ack_lease_ends_in_s: float | None = Field(
        description="Until the holder loses the slot and all else that it has, unless it acknowledges or asks for more "
        "time; null where `ack_lease_ms` is not set."
    )
    unblocks: str = Field(
        description="One sentence: who must do what.",
        examples=["w1 must acknowledge, give back or lose 3 messages, the oldest 17:3 sent 12.1 s ago to w1"],
    )
    verdict: Verdict


class StuckSlot(BaseModel):
    """A slot with messages that wait."""

    slot: int
    key: str | None = Field(
        description="Of its first message, at most 128 bytes; null where it is not known. Others may share the slot."
    )
    state: WaitState
    waiting_messages: int
    waiting_s: float = Field(description="Since what has waited longest of it came.")
    position: str = Field(description="ledger:entry of its first message.", examples=["17:4"])
    worker: str | None = Field(description="Who has to acknowledge, ask for more or read.")
    worker_state: WorkerStateName | None
    urgency: UrgencyName = Field(description="Whether a person has to do something about that worker.")


class StuckSlots(BaseModel):
    """Those that have waited longest."""

    slots: list[StuckSlot]
    waiting_slots: int = Field(description="All that wait.")
    waiting_messages: int


class HotKey(BaseModel):
    """A key with many messages. What is not acknowledged is that of its hash slot, which other keys may share."""

    key: str = Field(description="At most its first 128 bytes; producer and sequence id for a message without a key.")
    slot: int
    messages_per_s: float = Field(description="That came from the broker lately: at least so many, by samples.")
    share_percent: float = Field(description="Of all messages that came lately.")
    waiting_messages: int
    unacked_messages: int = Field(description="At workers, or acknowledged in transactions that are open.")
    oldest_s: float | None = Field(description="Since the oldest of both came; null if there are none.")
    state: WaitState
    worker: str | None = Field(description="Who has messages of the slot, or would get them.")


class HotKeys(BaseModel):
    """The keys with the most messages of the last minute, that with the most first."""

    messages_per_s: float = Field(description="Of all keys.")
    keys: list[HotKey]


class JoinAsked(BaseModel):
    """A worker that might come."""

    model_config = ConfigDict(extra="forbid", json_schema_extra={"examples": [{"worker": "worker-4"}]})

    worker: str = Field(min_length=1, max_length=1_000)
    sticky_ranges: list[Annotated[list[SlotNumber], Field(min_length=2, max_length=2)]] = Field(
        [], max_length=1_000, description="What it would ask for, both ends inclusive; of a STICKY subscription only."
    )


class PreviewedMove(BaseModel):
    """Slots that would go from one owner to another."""

    start: int
    end: int = Field(description="Inclusive.")
    source: str | None
    target: str | None


class PreviewedWorker(BaseModel):
    """One worker before and after."""

    name: str
    joins: bool
    leaves: bool
    slots_before: int
    slots_after: int
    share_before: float
    share_after: float
    slots_that_would_drain: int
    messages_that_would_drain: int


class Preview(BaseModel):
    """What a join, or leaves, would change."""

    moves: list[PreviewedMove] = Field(description="Ascending, at most 1,000.")
    moves_count: int
    slots_moved: int
    share_moved: float
    slots_that_would_drain: int
    messages_that_would_drain: int
    messages_redelivered: int = Field(description="Sent to workers that would leave, to be sent again.")
    waiting_messages_moved: int
    workers: list[PreviewedWorker]
