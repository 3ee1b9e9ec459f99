"""One consumer of ours at the broker, and what comes in by it.

A subscription has one for all its keys; one that a group of replicas shares has one for each stream that is leased to
this replica. Whatever must not be mixed between two of them is here: the permits that each was granted, the run of
entries that is being read, and how far each has got in coming back after a loss.

Source: design section 5; EIP-0028, "Session Side".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import structlog

from proxy.core import reposition
from proxy.core.upstream_window import UpstreamWindow
from proxy.net.subscription.intake import Intake
from proxy.net.subscription.upstream import SubscriptionUpstream, UpstreamState
from proxy.wire import commands

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.hash_ranges import HashRange
    from proxy.net.subscription.subscription import Subscription
    from proxy.wire import pulsar_pb2 as pb

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
        """It is subscribed, for the first time or again: whatever the broker has for the stream comes here."""

    def stream_refused(self, stream: int, error: Exception) -> None:
        """An attempt to subscribe failed; there will be another, unless the stream is closed.

        `error` is an `UpstreamError` with the broker's code where the broker said no (ConsumerAssignError: another
        consumer has some of the slots), `UpstreamUnavailable` where it could not be asked.
        """

    def stream_lost(self, stream: int, reason: str) -> None:
        """It was subscribed and is no more; it comes back by itself."""


class Inflow:
    """Implements `ports.UpstreamConsumer` towards the broker and `UpstreamOwner` towards its consumer there."""

    def __init__(
        self,
        subscription: Subscription,
        template: pb.CommandSubscribe,
        stream: int,
        listener: StreamListener,
        slots: HashRange | None = None,
        *,
        persistent: bool,
    ) -> None:
        """Not open yet. `template` and `persistent` are as for `SubscriptionUpstream`, `slots` as for `Intake`."""
        settings = subscription.settings
        self.stream = stream
        self.window = UpstreamWindow(
            budget_bytes=settings.subscription_memory_bytes,
            look_ahead_per_worker=settings.look_ahead_messages_per_worker,
            look_ahead_total=settings.look_ahead_messages_per_subscription,
        )
        self.intake = Intake(
            subscription.dispatcher,
            subscription.contents,
            self.window,
            subscription.counters,
            subscription.now,
            settings.batch_peek_max_bytes,
            subscription.directory.openings,
            self.messages_end,
            self._entry_failed,
            slots,
            None if subscription.recorder is None else subscription.recorder.digest,
        )
        self.message = self.intake.message if subscription.recorder is None else self.intake.recorded
        """`ports.UpstreamConsumer.message`, without a call in between."""
        directory = subscription.directory
        self.upstream = SubscriptionUpstream(
            template, directory.brokers, subscription.clock, settings, self, self, persistent=persistent
        )
        self.at_end_of_topic = False
        self.fetching = True
        """Whether it is granted permits; not while its stream is given back."""
        self.waits_for_cursor = False
        """Whether it is granted none, and acknowledges nothing, until the broker has told where the cursor stands."""
        self._subscription = subscription
        self._listener = listener
        self._facts: dict[str, Any] = {"stream": stream} if subscription.streamed else {}
        self._closing = self._closed = False
        """Closed is when the broker has answered, or can't."""
        self._waiting_for_close: list[Callable[[], None]] = []

    @property
    def behind(self) -> bool:
        """Whether the broker may have more than it was asked for, or something it sent waits to be opened."""
        if self.window.outstanding <= 0 or self.upstream.state is not UpstreamState.READY:
            return True
        return bool(self.intake.queue.entries)

    def close(self, done: Callable[[], None] | None = None, *, tell_broker: bool = True) -> None:
        """End for good, and call `done` as `SubscriptionUpstream.close` does; may be repeated."""
        self.intake.queue.clear()
        if self._closed:
            if done is not None:
                done()
            return
        if done is not None:
            self._waiting_for_close.append(done)
        if not self._closing:
            self._closing = True
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

    # ---- UpstreamOwner ----------------------------------------------------------------------------------------

    def upstream_ready(self) -> None:
        """Subscribed: grant permits, repeat what may have been lost."""
        subscription = self._subscription
        self.intake.end_run()  # one that the loss of the connection cut short
        self.window.reconnected()
        again = self.upstream.connects > 1
        subscription.cursor.attached(again=again)
        self.waits_for_cursor = subscription.cursor.unknown
        if again:
            subscription.acks.after_reconnect()
        subscription.directory.events.happened(
            "upstream_ready", subscription.key, connects=self.upstream.connects, **self._facts
        )
        self._listener.stream_opened(self.stream)
        subscription.schedule_flush()

    def upstream_refused(self, error: Exception) -> None:
        """The broker does not let us, or cannot be asked."""
        self._listener.stream_refused(self.stream, error)

    def upstream_mark_delete(self, position: int | None) -> None:
        """What was acknowledged at the broker meanwhile is not delivered any more."""
        subscription = self._subscription
        subscription.cursor.told(position, since_closed=self.waits_for_cursor)
        self.waits_for_cursor = False
        subscription.schedule_flush()
        if position is None:
            return
        dropped = reposition.discard_up_to(subscription.dispatcher, position, subscription.now())
        if dropped:
            log.info(
                "messages dropped below mark-delete",
                topic=subscription.topic,
                subscription=subscription.name,
                messages=dropped,
            )

    # ---- UpstreamConsumer -------------------------------------------------------------------------------------

    def messages_end(self) -> None:
        """A run of entries is in: what they set free leaves now."""
        self.intake.end_run()
        subscription = self._subscription
        if subscription.streamed:
            subscription.inflows.latest = self.intake
        subscription.flush()

    def closed_by_broker(self, reason: str) -> None:
        """Unload, or a cursor moved on purpose: what it means by what it sends then, `CursorWatch` knows."""
        subscription = self._subscription
        self.intake.queue.clear()
        sought = subscription.requests.busy
        if sought:
            subscription.cursor.moved()
        else:
            subscription.cursor.closed()
        if subscription.ended:
            return
        if sought:
            subscription.requests.consumer_closed()
        else:
            self.lost(reason)

    def connection_lost(self, reason: str) -> None:
        """Workers notice nothing of it."""
        if not self._subscription.ended:
            self.lost(reason)

    def lost(self, reason: str, *, tell_broker: bool = False) -> None:
        """The consumer at the broker is gone, or with `tell_broker` perhaps not: come back."""
        upstream, subscription = self.upstream, self._subscription
        if self.intake.queue.entries:
            self.intake.queue.clear()  # the broker sends it again
            subscription.schedule_flush()
        if upstream.state is UpstreamState.CLOSED:
            return  # another one's loss, of the same connection, made somebody close this one
        was_ready = upstream.link is not None
        subscription.directory.events.happened("upstream_lost", subscription.key, reason=reason, **self._facts)
        (upstream.begin_anew if tell_broker else upstream.lost)(reason)
        if subscription.inflows.first_ready() is None:
            subscription.parting.release()
        if was_ready:
            self._listener.stream_lost(self.stream, reason)

    def _entry_failed(self, reason: str) -> None:
        """As when it fails while its connection is read: come back."""
        if not self._subscription.ended:
            self.lost(reason, tell_broker=True)

    def reached_end_of_topic(self) -> None:
        """The topic is terminated and read to its end."""
        self.at_end_of_topic = True
        self._subscription.look_for_end_of_topic()
