"""What operators order, and where it is carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeAlias

from tests.sim.forbidden import Forbidden
from tests.sim.gateway import decided

if TYPE_CHECKING:
    from collections.abc import Mapping

    from proxy.net.subscription.order_book import LimitsWanted
    from proxy.net.subscription.subscription import Subscription
    from tests.sim.deployment.world import Topic
    from tests.sim.seats import Seat


class Ordered(Protocol):
    """What can be ordered of one subscription."""

    def pause(self) -> None:
        """Deliver nothing."""

    def resume(self) -> None:
        """Take that back."""

    def drain(self, name: str, *, drained: bool) -> object:
        """Workers of the name get nothing new, or do again."""

    def exclude(self, name: str, *, excluded: bool) -> object:
        """They own nothing, or do again."""

    def change_limits(self, limits: LimitsWanted) -> object:
        """These hold from now on, and no others."""

    def move(self, replica: str) -> None:
        """A replica is to serve it, or any if it is not named."""


class Taker:
    """Where an order is carried out."""

    def __init__(self, topic: Topic, subscription: Subscription | None, orders: Ordered) -> None:
        """Without a subscription there are no workers, and no deliveries to be held against an order."""
        self.orders = orders
        self.forbidden = Forbidden() if subscription is None else topic.model.forbidden
        self._subscription = subscription
        self._model = topic.model

    def decided(self) -> Mapping[Seat, int]:
        """Deliveries that may follow."""
        return {} if self._subscription is None else decided(self._subscription, self._model)

    @property
    def busy(self) -> bool:
        """Whether there are any."""
        if self._subscription is None:
            return False
        return any(worker.outbox for worker in self._subscription.state.dispatcher.workers.values())


Give: TypeAlias = Callable[[Taker], None]


def pausing(taker: Taker) -> None:
    """Nothing is delivered from now on."""
    taker.orders.pause()
    taker.forbidden.pause(taker.decided())


def resuming(taker: Taker) -> None:
    """All is."""
    taker.forbidden.resume()
    taker.orders.resume()
