"""A subscription that this replica owns: delivered under a lease, consumed whole, and handed over in one piece.

Its one consumer at the broker has the whole hash space as a STICKY range, which the broker gives to no other
meanwhile: a replica that still consumes after its lease has ended keeps the next owner out, instead of delivering
beside it. One that direct workers share for now (`policy.is_migrating`) is consumed beside these instead.

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
        streams_here.open_stream(self._dispatcher, WHOLE_STREAM, self._subscription.state.now())
        self._subscription.schedule_flush()

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
        """Deliver nothing; workers keep what they have."""
        streams_here.hold_stream(self._dispatcher, WHOLE_STREAM, self._subscription.state.now())
        self._subscription.schedule_flush()

    def give_up(self, done: Callable[[], None]) -> None:
        """Close every worker's consumer and the gateway's; `done` is called when the broker has answered.

        Those that have not joined yet are led to the next owner.
        """
        self._subscription.disconnect_workers(OwnedElsewhere("the subscription goes to another replica; try again"))
        self._subscription.end(done)
