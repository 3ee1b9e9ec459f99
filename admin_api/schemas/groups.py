"""Groups of replicas that share a subscription. Moments are on the gateway's clock, as `now` of the same answer."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, model_validator


class GroupCounters(BaseModel):
    """Counts since the subscription's first worker came to this replica."""

    streams_opened: int = Field(description="Streams that it began to consume.")
    streams_released: int
    streams_overdue: int = Field(description="Of these, those whose workers had some of it still at the deadline.")
    streams_refused: int = Field(description="Attempts to consume a stream that the broker refused.")


class GroupSummary(BaseModel):
    """One group in numbers, as this replica knows it."""

    topic: str
    subscription: str
    now: float
    replica: str = Field(description="This one: its configured name, and what tells this process from those before.")
    state: Literal["connecting", "replaying", "updating", "disconnected"] = Field(
        description="connecting: no leader has answered, nothing is delivered; replaying: leased streams are "
        "delivered; updating: besides, streams are being released."
    )
    leader: str | None = Field(description="The replica that leads, as far as it is known here.")
    leads: bool = Field(description="Whether that is this one.")
    epoch: int | None = Field(description="Of the leader whose leases this replica has, or which it is itself.")
    version: int | None = Field(description="Of the set of streams that it has, within the epoch.")
    lease_left_s: float = Field(description="For how long it may deliver without word from the leader.")
    workers_count: int
    streams_count: int = Field(description="Streams that the group is cut into; 0 before the first lease.")
    streams_here: int = Field(description="Streams leased to this replica.")
    streams_releasing: int = Field(description="Streams that it has to release, and has not.")
    counters: GroupCounters


class StreamHere(BaseModel):
    """A stream that this replica has, or releases."""

    stream: int
    first_slot: int
    last_slot: int
    holding: Literal["open", "held", "releasing"] = Field(
        description="open: delivered while the lease lasts; held: not delivered for want of a leader; releasing: "
        "delivered no more, released when workers have acknowledged what they have."
    )
    upstream_state: Literal["none", "idle", "locating", "subscribing", "ready", "backing_off", "closed"] = Field(
        description="The state of its consumer at the broker."
    )
    upstream_error: str = Field(description="Why that is not ready, in the broker's words.")
    acknowledged: str | None = Field(description="ledger:entry; everything of the stream up to there is acknowledged.")
    unacked_messages: int
    rate: float = Field(description="Messages a second that came in lately.")


class GroupSession(BaseModel):
    """A replica's session, as the leader knows it."""

    replica: str
    number: int
    state: Literal["waiting_replaying", "replaying", "waiting_updating", "updating", "dropped"]
    workers_count: int
    version: int | None
    streams: list[int]
    streams_releasing: list[int]
    heard_s: float = Field(description="How long ago it was heard of.")


class StreamProgress(BaseModel):
    """A stream, as the leader knows it."""

    stream: int
    first_slot: int
    last_slot: int
    owner: str | None = Field(description="The replica that has it; null while it waits for one.")
    refused: bool = Field(description="Whether the broker still refuses its owner, because another consumer has it.")
    acknowledged: str | None
    unacked_messages: int
    rate: float


class Leadership(BaseModel):
    """What only the leader knows."""

    epoch: int
    sessions: list[GroupSession]
    streams: list[StreamProgress]


class Group(BaseModel):
    """One group with everything that this replica knows of it."""

    summary: GroupSummary
    streams: list[StreamHere]
    leading: Leadership | None = Field(description="Null at a replica that does not lead: ask the leader's.")


class Groups(BaseModel):
    """Some groups, by topic and subscription; in owner mode those of `streamed_subscriptions`."""

    mode: Literal["streams", "owner"] | None = Field(
        description="How this gateway shares (groups_mode); null for one that shares nothing (groups_enabled)."
    )
    replica: str | None = Field(description="This replica; null for a gateway that shares nothing.")
    groups: list[GroupSummary]
    next: str | None = Field(description="Give it as `after` for the next page; null if this is the last.")


class ReplicaShare(BaseModel):
    """What a replica has, by the deployment's last record."""

    replica: str
    address: str = Field(description="Where other replicas find it.")
    bundles: int


class Deployment(BaseModel):
    """All replicas in owner mode, as this one knows them."""

    replica: str = Field(description="This one: its configured name, and what tells this process from those before.")
    state: Literal["connecting", "replaying", "updating", "disconnected"] = Field(
        description="Of its session with the leader: it delivers what it owns in replaying and updating."
    )
    lease_left_s: float = Field(description="For how long it may deliver without word from the leader.")
    leader: str | None = Field(description="The replica that wrote the last record.")
    epoch: int
    bundles_count: int = Field(description="Parts that all subscriptions are divided into; 0 before the first record.")
    bundles_without_owner: int = Field(description="Those that move, or wait for a replica.")
    replicas: list[ReplicaShare] = Field(description="All of them, by name.")
    drained: bool = Field(description="Whether this replica owns nothing, by an operator's order.")
    bundles_here: int
    bundles_leaving: int = Field(description="Bundles that this replica releases and still has.")
    subscriptions_here: int = Field(description="Subscriptions that it serves as their owner.")
    handed_over_total: int = Field(description="Subscriptions that it has handed over.")
    handed_over_undrained_total: int = Field(description="Of these, those of which workers had something still.")
    legs_accepted_total: int = Field(description="Connections that other replicas opened for their clients.")
    connections_refused_total: int = Field(description="Connections to the replicas' port that proved nothing.")


class MessagePlace(BaseModel):
    """Where a message is."""

    model_config = ConfigDict(extra="forbid")

    ledger: int = Field(ge=0, lt=1 << 63)
    entry: int = Field(ge=0, lt=1 << 63)


class ReplayFrom(BaseModel):
    """Where a group is to go on; exactly one is given."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"published_at": "2026-11-22T10:00:00Z"}]}
    )

    position: MessagePlace | None = Field(None, description="The first message that is delivered.")
    published_at: AwareDatetime | None = Field(
        None, description="The first message published then or later, by the clocks of its producers."
    )
    end: Literal["earliest", "latest"] | None = Field(None, description="Everything there is, or nothing of it.")

    @model_validator(mode="after")
    def _one(self) -> Self:
        given = [name for name in ("position", "published_at", "end") if getattr(self, name) is not None]
        if len(given) != 1:
            message = f"exactly one of position, published_at and end is wanted; given: {', '.join(given) or 'none'}"
            raise ValueError(message)
        return self


class Replayed(BaseModel):
    """The subscription's cursor was moved, while no replica delivered anything."""

    subscription: str


class GroupTopic(BaseModel):
    """A topic that replicas made."""

    topic: str
    kind: Literal["group", "deployment", "mail"] = Field(
        description="group: the records of a group; deployment: those of owner mode, with the orders of operators; "
        "mail: messages between replicas, which are not stored."
    )
    in_use_because: str | None = Field(
        description="Why it is not removed, for a group's in the broker's words; null if no replica is in its group."
    )


class GroupTopics(BaseModel):
    """Topics that replicas made."""

    namespace: str = Field(description="`groups_namespace`.")
    topics: list[GroupTopic]
    next: str | None = Field(description="`after` of the next page; null behind the last one.")


class TopicRemoved(BaseModel):
    """Nothing of a group is stored any more; the broker deletes the empty topic."""

    topic: str
