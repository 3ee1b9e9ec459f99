"""A consumer that a subscription has at the broker, and how it comes back.

A state machine without IO: locate the topic's broker, subscribe, be ready; when the connection or the consumer is
gone, back off and begin again, for as long as there are workers. What the dispatcher holds survives all of that (G4).

A first subscribe that fails is the workers' business: they get the broker's own error. Later failures are ours: they
are retried for ever, counted, and shown, because the workers hold messages that must be acknowledged one day.

A consumer of all slots for itself may be let in because the broker has found the one before it dead. It was beside that
one then, and is given what that one had as redeliveries, in no order that batches of several keys could keep. So it
leaves and comes again: to a subscription without consumers, which begins at its first message that is not acknowledged.

One that stood, was lost and is refused because another has its slots is over, and its workers come again: that one, of
streams for instance, may have been given what is here, and more.

The consumer of a stream is no worker's business even at first: the replica that had the stream before may be about to
go.

Where a broker lets in one consumer of the slots at a time, it is asked whether its connection still carries anything: a
replica that was cut off, and learns by a new connection what it is to have, would wait for an answer by the former
until its keep-alive ends, and keys with it. One that shares all slots is not: it would wait for its own former consumer
(`former`), which the broker has not given up, and all keys with it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final

import structlog

from proxy.core.hash_ranges import HashRange
from proxy.core.positions import is_packable, pack
from proxy.core.sticky_key import RANGE_SLOT_COUNT
from proxy.errors import UpstreamUnavailable, broker_code
from proxy.net.alarm import Alarm
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import (
        BrokerDirectory,
        BrokerLink,
        Clock,
        UpstreamConsumer,
    )
    from proxy.net.subscription.former import FormerConsumer
    from proxy.net.subscription.settings import SubscriptionSettings

ALL_SLOTS: Final = HashRange(0, RANGE_SLOT_COUNT - 1)
STEADY_S: Final = 1.0
"""A consumer that stood so long and is lost comes back at once; one that is lost sooner backs off further."""

BESIDE_S: Final = 0.05
"""An answer to an owner's SUBSCRIBE that took so long may have waited for its former consumer's end."""

STREAM_BACKOFF_MS_MAX: Final = 1_000
"""For a stream's consumer: its former owner is about to leave, and its keys wait meanwhile."""

ASK_BACKOFF_MS_MAX: Final = 3_000
"""For one that waits for its former one's end: keys wait meanwhile, and thousands of subscriptions may ask at once."""

log = structlog.get_logger("keyline.subscription")


class UpstreamState(Enum):
    """Where the consumer at the broker stands."""

    IDLE = "idle"
    LOCATING = "locating"
    SUBSCRIBING = "subscribing"
    READY = "ready"
    BACKING_OFF = "backing_off"
    CLOSED = "closed"


class SubscriptionUpstream:
    """One Key_Shared consumer at the broker."""

    def __init__(
        self,
        template: pb.CommandSubscribe,
        brokers: BrokerDirectory,
        clock: Clock,
        settings: SubscriptionSettings,
        consumer: UpstreamConsumer,
        ready: Callable[[], None],
        refused: Callable[[Exception], None],
        mark_delete_told: Callable[[int | None], None],
        former: FormerConsumer,
        *,
        persistent: bool,
    ) -> None:
        """`template` is our SUBSCRIBE, but for its ids: its options create the subscription if it is not there.

        With `persistent`, attempts before the first success are repeated as those after it are.

        `consumer` gets what the broker sends. `ready` is called when it is subscribed, for the first time or again, and
        `mark_delete_told` after that: everything up to there is acknowledged at the broker; None if it does not tell.
        `refused` is called when the very first attempt failed, or another has all slots that this one had, and the
        consumer is closed; of a persistent one when any failed, and it tries again.
        """
        self._topic = template.topic
        self._sticky = template.keySharedMeta.keySharedMode == pb.STICKY
        self._template = template.SerializeToString()
        """Parsed, it takes five times as much."""
        self._persistent = persistent
        self._brokers = brokers
        self._clock = clock
        self._settings = settings
        self._on_ready = ready
        self._on_refused = refused
        self._on_mark_delete = mark_delete_told
        self._consumer = consumer
        self.former = former
        self._timer = Alarm(clock)
        self._failures = 0
        self._ready_at = 0.0
        self._attempt = 0
        self._held_back = False
        self._asked_at = 0.0
        self._beside = False
        """Whether the broker said that another consumer has our slots, since we were let in last."""
        self._comes_again = False
        self.state = UpstreamState.IDLE
        self.link: BrokerLink | None = None
        """Set while ready, and only then."""
        self._subscribing: BrokerLink | None = None
        self.consumer_id = 0
        self.connects = 0
        self.last_error = ""

    def open(self) -> None:
        """Begin."""
        assert self.state in (UpstreamState.IDLE, UpstreamState.BACKING_OFF), self.state
        self.state = UpstreamState.LOCATING
        self._attempt += 1
        attempt = self._attempt
        self._brokers.locate(self._topic, lambda result: self._located(attempt, result))

    @property
    def exclusive(self) -> bool:
        """Whether it is an owner's: the broker lets no other in beside it."""
        return self._sticky and not self._persistent

    @property
    def parked(self) -> bool:
        """Whether it is gone at the broker, and is not to come back by itself."""
        return self._held_back and self.state is UpstreamState.BACKING_OFF

    def hold_back(self) -> None:
        """If it is lost, or not subscribed yet, wait for `go_on`: another replica may own it.

        What keeps leases from coming may have ended its connection, too.
        """
        self._held_back = True
        if self.parked:
            self._timer.cancel()
        self.doubt()

    def go_on(self) -> None:
        """Come back by itself as ever, at once if it is gone."""
        parked, self._held_back = self.parked, False
        if parked:
            self.open()
        self.doubt()

    def doubt(self) -> None:
        """The broker may have given the connection up without a word that arrived, as while a network was cut."""
        if self.link is not None:
            self.link.doubt()

    def close(self, done: Callable[[], None] | None = None, *, tell_broker: bool = True) -> None:
        """End for good, and call `done` when the broker has answered, or can't.

        `tell_broker` False where the broker has closed the consumer already.
        """
        link = self.link or self._subscribing
        self._end(UpstreamState.CLOSED)
        if link is None or not tell_broker:
            if link is not None:
                link.drop_consumer(self.consumer_id)
            if done is not None:
                done()
            return
        self.former.close(link, self.consumer_id, done)

    def lost(self, reason: str) -> None:
        """The consumer is gone at the broker: come back, at once the first time."""
        if self.state in (UpstreamState.CLOSED, UpstreamState.BACKING_OFF, UpstreamState.IDLE):
            return
        if self.link is not None:
            self.link.drop_consumer(self.consumer_id)
            if self._clock.now() - self._ready_at >= STEADY_S:
                self._failures = 0
        log.info("upstream consumer lost", topic=self._topic, reason=reason)
        self._retry(reason, at_once=True)

    def begin_anew(self, reason: str) -> None:
        """Whether the consumer still stands at the broker is not known: close it there, and come back."""
        if self.link is not None:
            self.former.close(self.link, self.consumer_id)
        self.lost(reason)

    # ---- steps ------------------------------------------------------------------------------------------------

    def _located(self, attempt: int, result: BrokerLink | Exception) -> None:
        if attempt != self._attempt or self.state is not UpstreamState.LOCATING:
            return
        if isinstance(result, Exception):
            self._failed(result)
            return
        self.state = UpstreamState.SUBSCRIBING
        self._subscribing = result
        self._asked_at = self._clock.now()
        self.consumer_id = result.new_consumer(self._consumer)
        subscribe = pb.CommandSubscribe.FromString(self._template)
        if self.connects:
            _begin_no_more(subscribe)
        if self.former.ask():
            claim(subscribe, ALL_SLOTS)
        subscribe.consumer_id = self.consumer_id

        def build(request_id: int) -> bytes:
            subscribe.request_id = request_id
            return encode_command(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=subscribe))

        result.request(build, lambda reply: self._subscribed(attempt, result, reply))
        if self._sticky:
            result.doubt()

    def _subscribed(self, attempt: int, link: BrokerLink, reply: pb.BaseCommand | Exception) -> None:
        if attempt != self._attempt or self.state is not UpstreamState.SUBSCRIBING:
            return
        if isinstance(reply, Exception):
            if isinstance(reply, UpstreamUnavailable):
                # The broker may still execute it: a consumer without a reader would block its keys forever.
                self.former.close(link, self.consumer_id)
            else:
                link.drop_consumer(self.consumer_id)
            self._failed(reply)
            return
        if self._held_back:
            self.former.close(link, self.consumer_id)
            self._retry("it was held back meanwhile", at_once=True)
            return
        if self.former.asked or self._was_beside():
            self.former.gone()
            self._come_again(attempt, link)
            return
        self._subscribing = None
        self._comes_again = False
        self.link = link
        self.state = UpstreamState.READY
        self._ready_at = self._clock.now()
        self.last_error = ""
        self.connects += 1
        self.former.let_in()
        self._on_ready()
        self._ask_mark_delete(attempt, link)

    def _ask_mark_delete(self, attempt: int, link: BrokerLink) -> None:
        consumer_id = self.consumer_id

        def answered(reply: pb.BaseCommand | Exception) -> None:
            if isinstance(reply, Exception):
                self._clock.call_soon(untold)  # with a connection that breaks, requests end before consumers
            elif attempt == self._attempt and self.link is link:
                self._on_mark_delete(mark_delete_of(reply))

        def untold() -> None:
            if attempt == self._attempt and self.link is link:
                self._on_mark_delete(None)

        link.request(lambda request_id: commands.get_last_message_id(consumer_id, request_id), answered)

    def _was_beside(self) -> bool:
        """Whether another consumer of all slots may have been at the broker when it let this one in."""
        if not self.exclusive:
            return False
        late = self._clock.now() - self._asked_at >= BESIDE_S
        return self._beside or (late and not self._comes_again)

    def _come_again(self, attempt: int, link: BrokerLink) -> None:
        self._end(UpstreamState.BACKING_OFF)
        self._beside, self._comes_again, self._failures = False, True, 0

        def closed() -> None:
            if attempt == self._attempt and self.state is UpstreamState.BACKING_OFF and not self._held_back:
                self.open()

        self.former.close(link, self.consumer_id, closed)

    def _failed(self, error: Exception) -> None:
        self.former.refused(error)
        self._beside = self._beside or self._contended(error)
        if not self.connects and not self._persistent and not self._contended(error):
            self._end(UpstreamState.CLOSED)
            self._on_refused(error)
            return
        if self.connects and self.exclusive and self._contended(error):
            self._end(UpstreamState.CLOSED)
            self._on_refused(UpstreamUnavailable("another consumer has taken the subscription"))
            return
        self._retry(self.former.says(error), at_once=False)
        if self._persistent:
            self._on_refused(error)

    def _contended(self, error: Exception) -> bool:
        """Whether another's consumer has our slots still: it goes, or the broker finds it gone."""
        return self.former.stands(error) or (self._sticky and broker_code(error) == pb.ConsumerAssignError)

    def _retry(self, reason: str, *, at_once: bool) -> None:
        self._end(UpstreamState.BACKING_OFF)
        self.last_error = reason
        settings = self._settings
        delay_ms = settings.reconnect_backoff_initial_ms * 2 ** min(max(self._failures - 1, 0), 20)
        longest_ms = settings.reconnect_backoff_max_ms
        if self._sticky:
            longest_ms = min(longest_ms, STREAM_BACKOFF_MS_MAX)
        elif self.former.asked:
            longest_ms = min(longest_ms, ASK_BACKOFF_MS_MAX)
        delay_ms = 0 if at_once and not self._failures else min(delay_ms, longest_ms)
        self._failures += 1
        if not self._held_back:
            self._timer.set(delay_ms / 1000, self.open)

    def _end(self, state: UpstreamState) -> None:
        self.state = state
        self.link = None
        self._subscribing = None
        self._timer.cancel()


def mark_delete_of(reply: pb.BaseCommand) -> int | None:
    """The position in a GET_LAST_MESSAGE_ID_RESPONSE up to which all is acknowledged; None if it has none."""
    answer = reply.getLastMessageIdResponse
    if not answer.HasField("consumer_mark_delete_position"):
        return None
    place = answer.consumer_mark_delete_position
    entry = place.entryId if place.entryId < 1 << 63 else place.entryId - (1 << 64)
    return pack(place.ledgerId, entry) if is_packable(place.ledgerId, entry) else None


def upstream_subscribe(worker: pb.CommandSubscribe, replica_name: str) -> pb.CommandSubscribe:
    """What the first worker asked for, as a consumer of the gateway's own.

    Kept: everything that shapes the subscription (durability, position, schema, properties). Replaced: what belongs
    to the worker alone; the workers' own hash ranges are the dispatcher's business.
    """
    ours = pb.CommandSubscribe()
    ours.CopyFrom(worker)
    ours.consumer_name = replica_name
    ours.ClearField("metadata")
    ours.ClearField("priority_level")
    ours.ClearField("consumer_epoch")
    ours.keySharedMeta.Clear()
    ours.keySharedMeta.keySharedMode = pb.AUTO_SPLIT
    ours.keySharedMeta.allowOutOfOrderDelivery = worker.keySharedMeta.allowOutOfOrderDelivery
    ours.metadata.add(key="keyline.replica", value=replica_name)
    return ours


def owner_subscribe(worker: pb.CommandSubscribe, replica_name: str) -> pb.CommandSubscribe:
    """The same for an owner: a consumer of all slots, beside which the broker lets no other consume any."""
    ours = upstream_subscribe(worker, replica_name)
    claim(ours, ALL_SLOTS)
    return ours


def stream_subscribe(
    worker: pb.CommandSubscribe, replica_name: str, stream: int, first_slot: int, last_slot: int
) -> pb.CommandSubscribe:
    """The same for one stream: a consumer of exactly these slots, both ends included, which the broker gives no other.

    That the subscription is there was seen to by the probe of its first worker; so where that worker wanted to begin is
    done with, or each stream that comes here would move the cursor of all replicas back.
    """
    ours = upstream_subscribe(worker, replica_name)
    ours.consumer_name = f"{replica_name}-{stream}"
    claim(ours, HashRange(first_slot, last_slot))
    _begin_no_more(ours)
    return ours


def claim(subscribe: pb.CommandSubscribe, slots: HashRange) -> None:
    """Make it the SUBSCRIBE of a consumer beside which the broker lets no other consume any of these slots."""
    subscribe.keySharedMeta.keySharedMode = pb.STICKY
    subscribe.keySharedMeta.hashRanges.add(start=slots.start, end=slots.end)


def _begin_no_more(template: pb.CommandSubscribe) -> None:
    """Once subscribed, a reconnect goes on where the cursor is: some brokers would move it back again."""
    template.ClearField("start_message_rollback_duration_sec")
