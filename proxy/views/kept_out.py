"""Workers of a subscription that own no slots because an operator excluded them, or because they are quarantined."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.net.subscription.subscription import Subscription

KEPT_OUT_LISTED_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class KeptOutWorker:
    """One of them."""

    name: str
    address: str | None
    """None if it is not connected: such a worker is known only where an operator excluded it."""
    reason: str
    """``excluded`` or ``quarantined``."""
    ends_at: float | None
    """Of its quarantine, on the subscription's clock."""


def kept_out(subscription: Subscription) -> tuple[KeptOutWorker, ...]:
    """Those that are connected first, at most `KEPT_OUT_LISTED_MAX`."""
    return tuple(islice(_all(subscription), KEPT_OUT_LISTED_MAX))


def _all(subscription: Subscription) -> Iterator[KeptOutWorker]:
    excluded = subscription.services.orders.of(subscription.state.key).excluded
    ends = subscription.state.dispatcher.quarantined
    connected = set()
    for subscriber in subscription.membership.excluded:
        name = subscriber.command.consumer_name
        connected.add(name)
        reason = "excluded" if name in excluded else "quarantined"
        yield KeptOutWorker(name, subscriber.link.peer, reason, None if name in excluded else ends.get(name))
    for name in sorted(excluded - connected):
        yield KeptOutWorker(name, None, "excluded", None)
