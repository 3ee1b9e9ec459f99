"""A subscription that this replica owns: delivered under a lease, consumed whole, and handed over in one piece.

Its one consumer at the broker has the whole hash space as a STICKY range, which the broker gives to no other
meanwhile: a replica that still consumes after its lease has ended keeps the next owner out, instead of delivering
beside it. One that direct workers share for now (`policy.is_migrating`) is consumed beside these instead.

While that consumer is lost nothing is delivered: others may consume meanwhile that no lease keeps away, as streams do
while `streamed_subscriptions` is changed. If one does, the subscription ends here (`upstream`). Beside direct workers
it ends in any case: the broker has given them what is here, also what workers of this replica have, and does not say
which. So these are told what a broker's own consumers find out, that their consumers are gone, and come again.

Handing over: nothing more is delivered; what workers have they may acknowledge, until the deadline; then every worker's
consumer is closed, so that it comes again and is led to the next owner, and the gateway's at the broker, behind the
acks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core import streams_here
from proxy.core.stream_leases import StreamLeases
from proxy.errors import OwnedElsewhere, UpstreamUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers

WHOLE_STREAM: Final = 0
"""The one stream of a subscription that is not cut."""


class Ownership(Protocol):
    """Who says which subscriptions this replica owns."""

    def check(self, key: tuple[str, str]) -> None:
        """Raise `OwnedElsewhere` for a subscription, by topic and name, that is not this replica's now."""

    def began(self, owned: OwnedSubscription) -> None:
        """It is served here from now on; it may deliver nothing before `renew`."""

    def ended(self, key: tuple[str, str]) -> None:
        """It is served here no more."""


class LeasedSubscription(Protocol):
    """A subscription, as far as its owner's side knows it; see `Subscription` for what each does."""

    @property
    def state(self) -> SubscriptionState:
        """What its parts share."""

    @property
    def consumers(self) -> UpstreamConsumers:
        """Its one consumer at the broker."""

    @property
    def subscribers(self) -> Sized:
        """Its workers."""

    def schedule_flush(self) -> None:
        """Send what may go at the end of this turn."""

    def disconnect_workers(self, error: UpstreamUnavailable | None = None) -> None:
        """Close every worker's consumer."""

    def end(self, done: Callable[[], None] | None = None) -> None:
        """End here and at the broker."""


class OwnedSubscription:
    """What its owner does with a subscription."""

    def __init__(self, subscription: LeasedSubscription) -> None:
        """Without a lease."""
        self._subscription = subscription
        self._dispatcher = subscription.state.dispatcher
        self._dispatcher.leases = self._leases = StreamLeases(1)
        self.key = subscription.state.key
        self._is_leased = False
        self._stands = True
        """Whether no other can consume; before its consumer stands for the first time there is nothing to deliver."""
        consumer = subscription.consumers.get(WHOLE_STREAM)
        assert consumer is not None
        self._exclusive = consumer.upstream.exclusive
        consumer.stands_changed = self._stands_changed

    @property
    def idle(self) -> bool:
        """Whether workers have nothing of it, and the broker has confirmed every ack."""
        return self._subscription.state.idle

    @property
    def served(self) -> bool:
        """Whether it has workers."""
        return bool(self._subscription.subscribers)

    def open(self, until: float, send_s: float) -> None:
        """Deliver until then, by monotonic seconds; `send_s` as for `StreamLeases`."""
        self._leases.send_s = send_s
        self._leases.until = until
        self._is_leased = True
        if self._stands:
            self._doubt()
            self._open()

    def renew(self, until: float, now: float) -> None:
        """Deliver until then; what waits goes out if it could not before.

        It is called every second for each of thousands: where nothing can wait for it, only the end is noted.
        """
        leases = self._leases
        if now < leases.until:
            leases.until = until
        else:
            streams_here.renew(self._dispatcher, until, now)
            self._subscription.schedule_flush()

    def hold(self) -> None:
        """Deliver nothing; workers keep what they have.

        What keeps leases from coming may have ended its connection, too.
        """
        self._is_leased = False
        self._doubt()
        self._close()

    def give_up(self, done: Callable[[], None]) -> None:
        """Close every worker's consumer and the gateway's; `done` is called when the broker has answered.

        Those that have not joined yet are led to the next owner.
        """
        self._subscription.disconnect_workers(OwnedElsewhere("the subscription goes to another replica; try again"))
        self._subscription.end(done)

    # ---- within

    def _stands_changed(self, stands: bool) -> None:  # noqa: FBT001 - the one bit of news
        self._stands = stands
        if not stands:
            self._close()
            if not self._exclusive:
                self._subscription.state.clock.call_soon(self._end)
        elif self._is_leased:
            self._open()

    def _end(self) -> None:
        """In a turn of its own: what was lost may be in the midst of being read."""
        if not self._subscription.state.ended:
            lost = UpstreamUnavailable("the consumer beside direct workers was lost; try again")
            self._subscription.disconnect_workers(lost)
            self._subscription.end()

    def _doubt(self) -> None:
        for consumer in self._subscription.consumers:
            consumer.upstream.doubt()

    def _open(self) -> None:
        streams_here.open_stream(self._dispatcher, WHOLE_STREAM, self._subscription.state.now())
        self._subscription.schedule_flush()

    def _close(self) -> None:
        streams_here.hold_stream(self._dispatcher, WHOLE_STREAM, self._subscription.state.now())
        self._subscription.schedule_flush()
