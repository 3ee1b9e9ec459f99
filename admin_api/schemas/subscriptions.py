"""Subscriptions and their workers. Names that PIP-379 and PIP-282 give are used as they are; times are seconds.

Moments (`joined_at`, `since`, ...) are on the gateway's monotonic clock: compare them with `now` of the same answer.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from admin_api.schemas.groups import GroupSummary
from admin_api.schemas.replicas import Unanswered

UrgencyName = Literal["none", "watch", "act"]
"""Whether a person has to do something."""

WorkerStateName = Literal[
    "drained_by_operator",
    "refusing",
    "stopped_acknowledging",
    "not_reading",
    "slow",
    "old_message",
    "unacked_limit",
    "join_position",
    "handing_over",
    "busy",
    "ready",
]
"""The strongest that is true."""


class DrainingHash(BaseModel):
    """A slot whose former owner still holds messages of it, so that the new owner waits (PIP-379)."""

    hash: int
    unack_msgs: int = Field(description="Messages of it that the holder has not acknowledged.")
    blocked_attempts: int = Field(description="Messages that found it draining.")
    waiting_messages: int
    since: float
    owner: str | None


class Health(BaseModel):
    """Whether a worker is well, with the numbers behind it. Times are in seconds, rates in messages a second."""

    state: WorkerStateName
    urgency: UrgencyName
    says: str = Field(examples=["w1 has acknowledged nothing for 2 min 5 s; it holds 200 messages"])
    oldest_unacked: str | None = Field(description="ledger:entry of what it has held longest.")
    oldest_unacked_s: float | None
    silent_s: float | None = Field(description="Since it last acknowledged while it held messages.")
    acked_rate: float = Field(description="Over the last 10 to 20 s, or since it last acknowledged.")
    usual_acked_rate: float | None = Field(description="Its own over about ten minutes.")
    peers_acked_rate: float | None = Field(description="Median of the others that hold messages.")
    waiting_for_it: int = Field(description="Messages that go on only if it acknowledges, asks for more or reads.")


class Verdict(BaseModel):
    """What is wrong, who causes it, and which command helps."""

    state: str = Field(
        description="Lower-case words with underscores; new ones may come.", examples=["look_ahead_full"]
    )
    urgency: UrgencyName
    worker: str | None = Field(description="Who causes it.")
    says: str
    advice: str = Field(description="Who should do what; empty if nothing needs to be done.")
    command: str | None = Field(description="What helps, for a shell.", examples=["keyline exclude orders billing w1"])


class Worker(BaseModel):
    """One worker."""

    name: str
    available_permits: int
    unacked_messages: int
    pending_acks: int
    blocked_on_unacked_messages: bool
    writable: bool = Field(description="False while the client leaves its socket unread.")
    drained_by_operator: bool
    sent_messages: int
    sent_bytes: int
    acked_messages: int
    redelivered_messages: int
    unknown_acks: int = Field(description="Acks for what it did not hold: late, repeated, or not its own.")
    joined_at: float
    last_sent_at: float = Field(description="0 if never.")
    last_acked_at: float = Field(description="0 if never.")
    last_flow_at: float = Field(description="0 if never.")
    key_hash_ranges: list[Annotated[list[int], Field(min_length=2, max_length=2)]] = Field(
        description="Both ends inclusive."
    )
    hash_space_share: float
    draining_hashes_count: int
    draining_hashes_unacked_messages: int
    draining_hashes_cleared_total: int
    draining_hashes: list[DrainingHash] = Field(description="At most 1,000; the counts are whole.")
    last_sent_position_when_joining: str | None = Field(description="PIP-282: ledger:entry.")
    waits_for_join_position: bool
    ack_lease_ends_at: float | None = Field(
        description="When it loses its keys unless it acknowledges or asks for more time; null where no lease runs."
    )
    health: Health


class Dispatcher(BaseModel):
    """What the subscription decides by."""

    paused: bool
    unacked_messages: int
    outstanding_entries: int
    held_bytes: int
    waiting_messages: int
    spilled_messages: int = Field(description="Those of them that only the broker has the bytes of.")
    waiting_slots: int
    draining_hashes_count: int
    draining_hashes_unacked_messages: int
    draining_hashes_cleared_total: int
    unconfirmed_acks: int = Field(description="Sent to the broker, which has not answered yet.")
    repeated_entries: int = Field(description="Came again from the broker and were known.")
    fetched_entries: int = Field(description="Came again because the gateway asked, see `key_share_percent`.")
    permit_overshoots: int
    full_windows: int = Field(description="Slots of which messages wait because their `key_window` is full.")
    retry_waits: int = Field(description="Slots that wait until the delay of a retry is over.")
    in_transaction_messages: int = Field(
        description="Messages that workers acknowledged in transactions that have not ended."
    )
    window_overshoots: int = Field(description="Deliveries larger than `key_window`, which could not be split.")
    dead_letter_waits: int = Field(
        description="Slots that wait until the dead letter or parking topic has confirmed one of their messages."
    )
    parked_slots: int = Field(description="Slots whose messages go to the parking topic.")
    ordering_mode: Literal["draining_hashes", "last_sent_position", "unordered"]
    workers: list[Worker]
    workers_count: int
    sent_messages: int = Field(description="Since it began, workers that have left included.")
    acked_messages: int = Field(description="Likewise.")
    last_sent_position: str | None
    individually_sent_positions: str
    oldest_wait_since: float | None
    verdict: Verdict


class HandOver(BaseModel):
    """A slot that went from one worker to another after it had drained."""

    slot: int
    holder: str
    owner: str | None
    duration_s: float
    ended_at: float
    waiting_messages: int


class KeptOutWorker(BaseModel):
    """A worker that owns no slots, connected or not."""

    name: str
    address: str | None = Field(description="Null if it is not connected.")
    reason: Literal["excluded", "quarantined"]
    ends_at: float | None = Field(description="On the clock of `now`; null if an operator must readmit it.")


class Subscription(BaseModel):
    """One Key_Shared subscription of one topic partition."""

    topic: str
    subscription: str
    upstream_state: str
    upstream_connects: int
    upstream_permits: int = Field(description="Granted to the broker and not used yet.")
    joining: int
    acks_refused: int
    ack_leases_lost: int = Field(description="Workers whose consumer was closed because they held a message too long.")
    ack_lease_extensions: int = Field(description="Times that a worker asked for more time.")
    quarantines: int = Field(description="Times that a worker was quarantined for losing its ack lease too often.")
    parked_copies_refused: int = Field(description="Messages in the parking topic that another client published there.")
    takeovers_at_risk: int = Field(
        description="Times that the gateway went on although transactions were, or may have been, open when it took "
        "over, or beside another consumer at the broker, perhaps its former one."
    )
    takeover_transactions: int = Field(description="Transactions whose end it waits for since it took over.")
    opaque_batches: int
    unreadable_entries: int
    mixed_batches: int
    sliced_deliveries: int
    background_openings: int = Field(description="Batches that were decompressed beside the event loop.")
    background_opened_bytes: int = Field(description="Bytes that came out of them.")
    opening_messages: int = Field(description="Messages that wait until they, or what came before them, are opened.")
    opening_bytes: int
    budget_stops: int
    now: float
    key_shared_mode: Literal["AUTO_SPLIT", "STICKY"]
    upstream_error: str
    addresses: list[Annotated[list[str], Field(min_length=2, max_length=2)]] = Field(
        description="Consumer name and client address."
    )
    kept_out: list[KeptOutWorker] = Field(description="Excluded or quarantined workers, connected or not; at most 100.")
    hand_over_count: int
    hand_overs: list[HandOver]
    groups_mode: Literal["streams", "owner"] | None = Field(
        description="How replicas share it; streams in owner mode for one of `streamed_subscriptions`, of which each "
        "replica tells its own part. Null for a gateway that shares nothing."
    )
    group: GroupSummary | None = Field(description="This replica's member of its group; null if it has no streams.")
    served_by: str | None = Field(description="In owner mode: its owner, or the replica whose part of it this is.")
    dispatcher: Dispatcher


class Subscriptions(BaseModel):
    """A page of them, by topic and name, and what all of them share."""

    subscriptions: list[Subscription]
    next: str | None = Field(description="Give it as `after` for the next page; null if this is the last.")
    subscriptions_count: int = Field(
        description="Of the gateway, or of all replicas; one that is shared by streams counts at each of them."
    )
    workers: int
    subscriptions_refused_total: int
    workers_refused_total: int
    workers_per_subscription_refused_total: int
    held_bytes: int
    reading_stopped: bool
    reading_stops: int
    shutting_down: bool = Field(description="Of the gateway that answers.")
    unanswered: list[Unanswered] = Field(description="In owner mode: replicas whose subscriptions are missing here.")
