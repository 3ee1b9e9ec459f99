"""Carrying out what operators ask of a subscription that is here; what they asked stands in the order book."""

from __future__ import annotations

from typing import TYPE_CHECKING

import structlog

from proxy.core.dispatcher import OrderingMode
from proxy.errors import ClientError

if TYPE_CHECKING:
    from proxy.net.subscription.membership import Membership
    from proxy.net.subscription.order_book import LimitsWanted
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers

log = structlog.get_logger("keyline.subscription")


class OperatorOrders:
    """To one subscription."""

    def __init__(
        self, state: SubscriptionState, services: Services, consumers: UpstreamConsumers, membership: Membership
    ) -> None:
        """Nothing is asked yet, but for what the order book has."""
        self._state = state
        self._services = services
        self._consumers = consumers
        self._membership = membership

    def pause(self) -> None:
        """Deliver nothing until `resume`; acks and joins go on."""
        with self._services.orders.changing(self._state.key) as orders:
            orders.paused = True
        self._state.dispatcher.pause()
        self._tell("pause")

    def resume(self) -> None:
        """Take `pause` back. A gateway that is shutting down delivers nothing all the same."""
        with self._services.orders.changing(self._state.key) as orders:
            orders.paused = False
        if not self._services.shutting_down:
            self._state.dispatcher.resume(self._state.now())
            self._state.schedule_flush()
        self._tell("resume")

    def drain(self, name: str, *, drained: bool) -> int:
        """Workers of this name get nothing new, or do again; they keep their slots, and what they hold until acked.

        Returns how many of them are here; those that come later are meant as well.
        """
        dispatcher = self._state.dispatcher
        with self._services.orders.changing(self._state.key) as orders:
            if drained:
                orders.drained.add(name)
            else:
                orders.drained.discard(name)
        workers = [worker for worker in dispatcher.workers.values() if worker.name == name]
        for worker in workers:
            dispatcher.set_drained(worker, drained, self._state.now())
        self._state.schedule_flush()
        self._tell("drain" if drained else "end of the drain", worker=name)
        return len(workers)

    def evict(self, name: str) -> int:
        """Close the consumers of workers of this name, as a broker would; what they held goes to others.

        Returns how many there were. Official clients come again at once, and get messages again unless their name is
        drained.
        """
        subscribers = self._membership.subscribers.values()
        found = [item for item in subscribers if item.worker is not None and item.worker.name == name]
        self._tell("evict", worker=name)
        for subscriber in found:
            subscriber.end()
            self._membership.leave(subscriber, "evicted by an operator")
        return len(found)

    def change_mode(self, mode: OrderingMode) -> None:
        """Order by another mode from now on.

        Raises:
            ClientError: the subscription's workers asked for delivery without order, or the operator does.
        """
        if mode is OrderingMode.UNORDERED or self._state.policy.mode is OrderingMode.UNORDERED:
            message = (
                "delivery without order is what clients ask for (allowOutOfOrderDelivery), when the first of them "
                f"joins; between {OrderingMode.DRAINING_HASHES.value} and {OrderingMode.LAST_SENT_POSITION.value} it "
                "can be changed at any time"
            )
            raise ClientError(message)
        with self._services.orders.changing(self._state.key) as orders:
            orders.mode = mode
        self._state.change_mode(mode)
        self._tell("ordering mode", mode=mode.value)

    def change_limits(self, limits: LimitsWanted) -> None:
        """Bound the subscription so from now on; what is there already beyond a bound stays and is not added to."""
        with self._services.orders.changing(self._state.key) as orders:
            orders.limits = limits
        settings = limits.applied(self._services.settings)
        self._consumers.bound(settings)
        self._state.change_settings(settings)
        self._tell("limits")

    def _tell(self, what: str, **more: str) -> None:
        state = self._state
        state.happened("operator_order", order=what, **more)
        log.info("operator order applied", order=what, topic=state.topic, subscription=state.name, **more)
