"""What operators asked of subscriptions, and carrying it out.

An order outlives the subscription it was given for, since that ends with its last worker: a pause must not be over
because every worker was restarted. It ends when it is taken back, or with the gateway. Workers are named, as their
clients name them, for the same reason: a drained worker that reconnects is still drained.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

import structlog

from proxy.core import policy_change
from proxy.core.dispatcher import OrderingMode
from proxy.errors import ClientError

if TYPE_CHECKING:
    from proxy.net.subscription.policy import SubscriptionPolicy
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.net.subscription.subscription import Subscription

ORDERS_MAX: Final = 10_000
"""Subscriptions with orders, present or not; each costs some hundred bytes until its orders are taken back."""

log = structlog.get_logger("keyline.subscription")


@dataclass(frozen=True, slots=True)
class LimitsWanted:
    """Limits of one subscription; None leaves what the configuration says."""

    look_ahead_messages_per_worker: int | None = None
    look_ahead_messages_per_subscription: int | None = None
    subscription_memory_bytes: int | None = None
    max_unacked_messages_per_worker: int | None = None

    def applied(self, settings: SubscriptionSettings) -> SubscriptionSettings:
        """The settings with these limits in them."""
        wanted = {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}
        return replace(settings, **wanted)


@dataclass(slots=True)
class Orders:
    """Everything asked of one subscription that still stands."""

    paused: bool = False
    drained: set[str] = field(default_factory=set)
    """Names of workers that get nothing new."""
    mode: OrderingMode | None = None
    limits: LimitsWanted = LimitsWanted()

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self.paused or bool(self.drained) or self.mode is not None or self.limits != LimitsWanted()


class OrderBook:
    """The orders of all subscriptions, by topic and name."""

    def __init__(self) -> None:
        """None yet."""
        self._orders: dict[tuple[str, str], Orders] = {}

    def __len__(self) -> int:
        """How many subscriptions have orders."""
        return len(self._orders)

    def keys(self) -> list[tuple[str, str]]:
        """Subscriptions with orders, present or not."""
        return list(self._orders)

    def of(self, key: tuple[str, str]) -> Orders:
        """What stands for a subscription, to be read."""
        return self._orders.get(key) or Orders()

    def to_change(self, key: tuple[str, str]) -> Orders:
        """The same, to be changed; `tidy` afterwards, or use `changing`.

        Raises:
            ClientError: so many subscriptions have orders that no further one may.
        """
        if key not in self._orders and len(self._orders) >= ORDERS_MAX:
            message = f"{ORDERS_MAX} subscriptions have standing orders; take some back before giving another"
            raise ClientError(message)
        return self._orders.setdefault(key, Orders())

    @contextmanager
    def changing(self, key: tuple[str, str]) -> Iterator[Orders]:
        """What stands for a subscription, present or not, to be changed within. Raises as `to_change`."""
        try:
            yield self.to_change(key)
        finally:
            self.tidy(key)

    def tidy(self, key: tuple[str, str]) -> None:
        """Forget a subscription of which nothing is asked any more."""
        if key in self._orders and not self._orders[key].any:
            del self._orders[key]


def policy_ordered(policy: SubscriptionPolicy, orders: Orders) -> SubscriptionPolicy:
    """The first worker's policy, under an operator's ordering mode where one is ordered and order is asked for."""
    if orders.mode is None or policy.mode is OrderingMode.UNORDERED:
        return policy
    return replace(policy, mode=orders.mode)


def pause(subscription: Subscription) -> None:
    """Deliver nothing until `resume`; acks and joins go on."""
    with subscription.directory.orders.changing(subscription.key) as orders:
        orders.paused = True
    subscription.dispatcher.pause()
    _tell(subscription, "pause")


def resume(subscription: Subscription) -> None:
    """Take `pause` back. A gateway that is shutting down delivers nothing all the same."""
    with subscription.directory.orders.changing(subscription.key) as orders:
        orders.paused = False
    if not subscription.directory.draining:
        subscription.dispatcher.resume(subscription.now())
        subscription.schedule_flush()
    _tell(subscription, "resume")


def drain(subscription: Subscription, name: str, *, drained: bool) -> int:
    """Workers of this name get nothing new, or do again; they keep their slots, and what they hold until it is acked.

    Returns how many of them are here; those that come later are meant as well.
    """
    dispatcher = subscription.dispatcher
    with subscription.directory.orders.changing(subscription.key) as orders:
        if drained:
            orders.drained.add(name)
        else:
            orders.drained.discard(name)
    workers = [worker for worker in dispatcher.workers.values() if worker.name == name]
    for worker in workers:
        dispatcher.set_drained(worker, drained, subscription.now())
    subscription.schedule_flush()
    _tell(subscription, "drain" if drained else "end of the drain", consumer=name)
    return len(workers)


def evict(subscription: Subscription, name: str) -> int:
    """Close the consumers of workers of this name, as a broker would; what they held goes to others.

    Returns how many there were. Official clients come again at once, and get messages again unless their name is
    drained.
    """
    found = [item for item in subscription.subscribers.values() if item.worker is not None and item.worker.name == name]
    _tell(subscription, "evict", consumer=name)
    for subscriber in found:
        subscriber.end()
        subscription.membership.leave(subscriber, "evicted by an operator")
    return len(found)


def change_mode(subscription: Subscription, mode: OrderingMode) -> None:
    """Order by another mode from now on.

    Raises:
        ClientError: the subscription's workers asked for delivery without order, or the operator does.
    """
    if mode is OrderingMode.UNORDERED or subscription.policy.mode is OrderingMode.UNORDERED:
        message = (
            "delivery without order is what clients ask for (allowOutOfOrderDelivery), when the first of them joins; "
            f"between {OrderingMode.DRAINING_HASHES.value} and {OrderingMode.LAST_SENT_POSITION.value} it can be "
            "changed at any time"
        )
        raise ClientError(message)
    with subscription.directory.orders.changing(subscription.key) as orders:
        orders.mode = mode
    subscription.policy = replace(subscription.policy, mode=mode)
    policy_change.change_mode(subscription.dispatcher, mode, subscription.now())
    subscription.schedule_flush()
    _tell(subscription, "ordering mode", mode=mode.value)


def change_limits(subscription: Subscription, limits: LimitsWanted) -> None:
    """Bound the subscription so from now on; what is there already beyond a bound stays and is not added to."""
    directory = subscription.directory
    with directory.orders.changing(subscription.key) as orders:
        orders.limits = limits
    settings = subscription.settings = limits.applied(directory.settings)
    subscription.inflows.bound(settings)
    for worker in subscription.dispatcher.workers.values():
        most = settings.max_unacked_messages_per_worker
        policy_change.change_max_unacked(subscription.dispatcher, worker, most, subscription.now())
    subscription.schedule_flush()
    _tell(subscription, "limits")


def _tell(subscription: Subscription, what: str, **more: str) -> None:
    subscription.directory.events.happened("ordered", subscription.key, order=what, **more)
    log.info("ordered by an operator", order=what, topic=subscription.topic, subscription=subscription.name, **more)
