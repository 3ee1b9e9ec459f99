"""Upstream consumers of a subscription: their permits, what comes in by them, and their recovery after a loss.

A subscription has one for all its keys; one that a group of replicas shares has one for each stream that is leased to
this replica: none at first, and none again when all went to others, while its workers stay. `UpstreamConsumer` has what
is separate for each: its permits, the run of entries that is being read, and its progress in coming back after a loss.
`UpstreamConsumers` sums them up; its state and error are those of the first that is not ready.

Source: design section 5; EIP-0028, "Session Side".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from proxy.core import reposition
from proxy.core.upstream_window import UpstreamWindow
from proxy.net.countdown import after_all
from proxy.net.subscription.former import FormerConsumer
from proxy.net.subscription.receiving import Receiving
from proxy.net.subscription.upstream import SubscriptionUpstream, UpstreamState
from proxy.wire import commands
from proxy.wire.messages import NO_EXTRAS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.core.hash_ranges import HashRange
    from proxy.net.subscription.sentinel import Sentinel
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.net.subscription.state import Lifecycle, SubscriptionState
    from proxy.wire import pulsar_pb2 as pb
    from proxy.wire.messages import Extras

WHOLE: Final = 0
"""The number under which an ordinary subscription has its one consumer, for the whole hash space."""

PERMITS_MAX: Final = (1 << 31) - 1
"""Most permits of one FLOW: a broker reads them as a signed number."""

log = structlog.get_logger("keyline.subscription")


class StreamListener(Protocol):
    """Who wants to know how a stream's consumer at the broker fares.

    Called at any time after `Subscription.open_stream` returned, never after `close_stream` was called or the
    subscription has ended; may call both from within.
    """

    def stream_opened(self, stream: int) -> None:
        """It is subscribed, for the first time or again: the broker's messages of the stream arrive here."""

    def stream_refused(self, stream: int, error: Exception) -> None:
        """An attempt to subscribe failed; there will be another, unless the stream is closed.

        `error` is an `UpstreamError` with the broker's code where the broker said no (ConsumerAssignError: another
        consumer has some of the slots), `UpstreamUnavailable` where it could not be asked.
        """

    def stream_lost(self, stream: int, reason: str) -> None:
        """It was subscribed and is no more; it comes back by itself."""


class UpstreamConsumer:
    """One of them; implements `ports.UpstreamConsumer`."""

    def __init__(
        self,
        state: SubscriptionState,
        services: Services,
        consumers: UpstreamConsumers,
        lifecycle: Lifecycle,
        template: pb.CommandSubscribe,
        stream: int,
        listener: StreamListener,
        slots: HashRange | None = None,
    ) -> None:
        """Not open yet, and one of `consumers` now; `slots` as for `Receiving`.

        A first attempt to subscribe that fails is repeated if the subscription is streamed.
        """
        settings = state.settings
        self.stream = stream
        self.slots = slots
        self.window = UpstreamWindow(
            budget_bytes=settings.subscription_memory_bytes,
            look_ahead_per_worker=settings.look_ahead_messages_per_worker,
            look_ahead_total=settings.look_ahead_messages_per_subscription,
        )
        digest = None if state.recorder is None else state.recorder.digest
        self.receiving = Receiving(
            state.dispatcher,
            state.contents,
            self.window,
            state.counters,
            state.now,
            settings.batch_peek_max_bytes,
            services.openings,
            self.messages_end,
            self._entry_failed,
            slots,
            digest,
            state.tracer,
            state.hot_keys,
            state.monitor,
        )
        self.message = self.receiving.message if digest is None else self.receiving.recorded
        if state.tracer is not None:
            self.message = self.receiving.traced
        """`ports.UpstreamConsumer.message`, without a call in between."""
        former = FormerConsumer(state.key, services.formers, settings.keep_alive_s)
        self.upstream = SubscriptionUpstream(
            template,
            services.brokers.deliveries,
            state.clock,
            settings,
            self,
            self._ready,
            lambda error: listener.stream_refused(stream, error),
            self._mark_delete_told,
            former,
            persistent=state.streamed,
        )
        self.at_end_of_topic = False
        self.fetching = True
        """Whether it is granted permits; not while its stream is released."""
        self.sentinel: Sentinel | None = None
        """Beside it at the broker, where others may consume beside it."""
        self.waits_for_cursor = False
        """Whether it is granted none, and acknowledges nothing, until the broker has told where the cursor stands."""
        self.stands_changed: Callable[[bool], None] = _nothing
        """Told when it stands at the broker, and when it is lost."""
        self._state = state
        self._consumers = consumers
        self._lifecycle = lifecycle
        self._listener = listener
        self._facts: dict[str, Any] = {"stream": stream} if state.streamed else {}
        self._closing = self._closed = False
        """Closed is when the broker has answered, or can't."""
        self._waiting_for_close: list[Callable[[], None]] = []
        consumers.add(self)

    @property
    def behind(self) -> bool:
        """Whether the broker may have more than it was asked for, or something it sent waits to be opened."""
        if self.window.outstanding <= 0 or self.upstream.state is not UpstreamState.READY:
            return True
        return bool(self.receiving.queue.entries)

    def close(self, done: Callable[[], None] | None = None, *, tell_broker: bool = True) -> None:
        """End for good, and call `done` as `SubscriptionUpstream.close` does; may be repeated."""
        self.receiving.queue.clear()
        if self._closed:
            if done is not None:
                done()
            return
        if done is not None:
            self._waiting_for_close.append(done)
        if not self._closing:
            self._closing = True
            if self.sentinel is not None:
                self.sentinel.leave()
            self.upstream.close(self._close_answered, tell_broker=tell_broker)

    def _close_answered(self) -> None:
        self._closed = True
        waiting, self._waiting_for_close = self._waiting_for_close, []
        for done in waiting:
            done()

    def send_permits(self, permits: int) -> None:
        """Send the broker what the window granted; only while ready."""
        link = self.upstream.link
        assert link is not None
        while permits > 0:
            piece = min(permits, PERMITS_MAX)
            link.send(commands.flow(self.upstream.consumer_id, piece))
            permits -= piece

    def _ready(self) -> None:
        """Subscribed: grant permits, repeat what may have been lost."""
        state = self._state
        self.receiving.end_run()  # one that the loss of the connection cut short
        self.window.reconnected()
        again = self.upstream.connects > 1
        state.cursor.attached(again=again)
        self.waits_for_cursor = state.cursor.unknown
        if again:
            state.acks.after_reconnect()
            state.transactions.after_reconnect()
        if self.sentinel is not None:
            self.sentinel.stand()
        state.happened("upstream_ready", connects=self.upstream.connects, **self._facts)
        self.stands_changed(True)
        self._listener.stream_opened(self.stream)
        state.schedule_flush()

    def _mark_delete_told(self, position: int | None) -> None:
        """What was acknowledged at the broker meanwhile is not delivered any more."""
        state = self._state
        if position is not None:
            state.transactions.committed_up_to(position)  # before that is taken for a move of the cursor
        state.cursor.told(position, since_closed=self.waits_for_cursor)
        self.waits_for_cursor = False
        state.schedule_flush()
        if position is None:
            return
        outstanding = state.dispatcher.outstanding
        outstanding.acknowledged_to = max(outstanding.acknowledged_to, position)
        dropped = reposition.discard_up_to(state.dispatcher, position, state.now())
        if dropped:
            log.info("acknowledged messages dropped", topic=state.topic, subscription=state.name, messages=dropped)

    # ---- UpstreamConsumer -------------------------------------------------------------------------------------

    def messages_end(self) -> None:
        """A run of entries is in: what they set free leaves now."""
        self.receiving.end_run()
        if self._state.streamed:
            self._consumers.latest = self.receiving
        self._lifecycle.flush()

    def closed_by_broker(self, reason: str) -> None:
        """Unload, or a cursor moved on purpose: what it means by what it sends then, `CursorWatch` knows."""
        self.receiving.queue.clear()
        if not self._state.closed_by_broker() and not self._state.ended:
            self.lost(reason)

    def connection_lost(self, reason: str) -> None:
        """Workers notice nothing of it."""
        if not self._state.ended:
            self.upstream.former.connection_lost()
            self.lost(reason)

    def lost(self, reason: str, *, tell_broker: bool = False) -> None:
        """The consumer at the broker is gone, or with `tell_broker` perhaps not: come back."""
        upstream, state = self.upstream, self._state
        if self.receiving.queue.entries:
            self.receiving.queue.clear()  # the broker sends it again
            state.schedule_flush()
        if upstream.state is UpstreamState.CLOSED:
            return  # the loss of another consumer on this connection has closed this one already
        was_ready = upstream.link is not None
        if self.sentinel is not None:
            self.sentinel.leave()
        state.happened("upstream_lost", reason=reason, **self._facts)
        (upstream.begin_anew if tell_broker else upstream.lost)(reason)
        self._lifecycle.upstream_lost()
        if was_ready:
            self.stands_changed(False)
            self._listener.stream_lost(self.stream, reason)

    def _entry_failed(self, reason: str) -> None:
        """As when it fails while its connection is read: come back."""
        if not self._state.ended:
            self.lost(reason, tell_broker=True)

    def reached_end_of_topic(self) -> None:
        """The topic is terminated and read to its end."""
        self.at_end_of_topic = True
        self._lifecycle.look_for_end_of_topic()


class UpstreamConsumers:
    """Owner of the consumers of one subscription."""

    def __init__(self) -> None:
        """None yet."""
        self._consumers: dict[int, UpstreamConsumer] = {}
        self._connects_before = self._budget_stops_before = 0
        """Of those that were taken away: what is counted never falls."""
        self.latest: Receiving | None = None
        """The one that read last, also when its consumer is gone: see `extras`."""

    def __len__(self) -> int:
        """How many there are."""
        return len(self._consumers)

    def __bool__(self) -> bool:
        """Whether there is one."""
        return bool(self._consumers)

    def __iter__(self) -> Iterator[UpstreamConsumer]:
        """All of them, as of now: they may come and go meanwhile."""
        return iter(list(self._consumers.values()))

    def get(self, stream: int) -> UpstreamConsumer | None:
        """The one of this stream, if there is one."""
        return self._consumers.get(stream)

    def add(self, consumer: UpstreamConsumer) -> None:
        """One more, of a stream that has none."""
        assert consumer.stream not in self._consumers, consumer.stream
        self._consumers[consumer.stream] = consumer

    def take(self, stream: int) -> UpstreamConsumer:
        """Take the one of this stream away, to be closed; KeyError if there is none."""
        consumer = self._consumers.pop(stream)
        self._connects_before += consumer.upstream.connects
        self._budget_stops_before += consumer.window.budget_stops
        return consumer

    def first_ready(self) -> UpstreamConsumer | None:
        """One by which the broker can be told something; None if it cannot be told now."""
        return next((consumer for consumer in self._consumers.values() if consumer.upstream.link is not None), None)

    def close(self, done: Callable[[], None] | None = None, *, tell_broker: bool = True) -> None:
        """End all of them for good; `done` when each is, see `UpstreamConsumer.close`. They stay here, closed."""
        consumers = list(self)
        one_closed = None if done is None else after_all(len(consumers) + 1, done)
        for consumer in consumers:
            consumer.close(one_closed, tell_broker=tell_broker)
        if one_closed is not None:
            one_closed()

    def bound(self, settings: SubscriptionSettings) -> None:
        """An operator changed the subscription's limits."""
        for consumer in self:
            window = consumer.window
            window.budget_bytes = settings.subscription_memory_bytes
            window.look_ahead_per_worker = settings.look_ahead_messages_per_worker
            window.look_ahead_total = settings.look_ahead_messages_per_subscription

    # ---- all in one word --------------------------------------------------------------------------------------

    @property
    def queued_messages(self) -> int:
        """Messages that wait until they, or what came before them, are opened."""
        return sum(consumer.receiving.queue.messages for consumer in self._consumers.values())

    @property
    def queued_bytes(self) -> int:
        """What these cost."""
        return sum(consumer.receiving.queue.bytes_held for consumer in self._consumers.values())

    @property
    def extras(self) -> Extras:
        """What is common to the frames of all entries: as the broker last sent it, by whichever consumer."""
        return NO_EXTRAS if self.latest is None else self.latest.extras

    @property
    def stands(self) -> bool:
        """Whether one of those that are here has been subscribed ever."""
        return any(consumer.upstream.connects for consumer in self._consumers.values())

    @property
    def arrived(self) -> int:
        """Messages that have come by those that are here."""
        return sum(consumer.window.arrived for consumer in self._consumers.values())

    @property
    def at_end_of_topic(self) -> bool:
        """Whether the topic is terminated, and read to its end by all that are here."""
        return bool(self._consumers) and all(consumer.at_end_of_topic for consumer in self._consumers.values())

    def are_full(self, waiting_messages: int, bytes_held: int) -> bool:
        """Whether one of them asks for nothing more because the subscription's bytes are held: as for its window."""
        return any(consumer.window.is_full(waiting_messages, bytes_held) for consumer in self._consumers.values())

    @property
    def behind(self) -> bool:
        """Whether the broker may have more for one of them than it was asked for; also where there is none."""
        return not self._consumers or any(consumer.behind for consumer in self._consumers.values())

    @property
    def state(self) -> UpstreamState:
        """Ready when all are, else that of the first that is not.

        Also ready without any: a replica without a lease needs nothing from the broker, and must not raise an alert.
        """
        states = (consumer.upstream.state for consumer in self._consumers.values())
        ready = UpstreamState.READY
        return next((state for state in states if state is not ready), ready)

    @property
    def last_error(self) -> str:
        """Why the first of those is not subscribed that failed; empty if none did."""
        return next((consumer.upstream.last_error for consumer in self if consumer.upstream.last_error), "")

    @property
    def connects(self) -> int:
        """Times that one was subscribed."""
        return self._connects_before + sum(consumer.upstream.connects for consumer in self._consumers.values())

    @property
    def permits(self) -> int:
        """Messages granted and not arrived."""
        return sum(consumer.window.outstanding for consumer in self._consumers.values())

    @property
    def budget_stops(self) -> int:
        """Times a grant was refused because the bytes were spent."""
        return self._budget_stops_before + sum(consumer.window.budget_stops for consumer in self._consumers.values())


def _nothing(_stands: bool) -> None:  # noqa: FBT001 - the one bit of news
    """Nobody asks."""
