"""What operators asked of subscriptions and have not taken back.

An order outlives the subscription it was given for, since that ends with its last worker: a pause must not be over
because every worker was restarted. It ends when it is taken back, or with the gateway; in owner mode only when it is
taken back. Workers are named, as their clients name them, for the same reason: a drained worker that reconnects is
still drained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from proxy.core.dispatcher import OrderingMode
from proxy.errors import ClientError
from proxy.net.events import LISTED_MAX

if TYPE_CHECKING:
    from proxy.net.subscription.settings import SubscriptionSettings

ORDERS_MAX: Final = 10_000
"""Subscriptions with orders, present or not; each costs some hundred bytes until its orders are taken back."""


@dataclass(frozen=True, slots=True)
class LimitsWanted:
    """Limits of one subscription; None leaves what the configuration says."""

    look_ahead_messages_per_worker: int | None = None
    look_ahead_messages_per_subscription: int | None = None
    subscription_memory_bytes: int | None = None
    max_unacked_messages_per_worker: int | None = None
    key_window: int | None = None
    retry_delay_ms: int | None = None
    retry_multiplier: float | None = None
    retry_delay_max_ms: int | None = None
    dead_letter_after: int | None = None
    ack_lease_ms: int | None = None
    quarantine_after: int | None = None
    quarantine_ms: int | None = None
    key_share_percent: float | None = None

    def applied(self, settings: SubscriptionSettings) -> SubscriptionSettings:
        """The settings with these limits in them."""
        return settings.changed(self.named())

    def named(self) -> dict[str, float]:
        """Those that are not the configuration's."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


@dataclass(slots=True)
class Orders:
    """Everything asked of one subscription that still stands."""

    paused: bool = False
    drained: set[str] = field(default_factory=set)
    """Names of workers that get nothing new."""
    excluded: set[str] = field(default_factory=set)
    """Names of workers that own no slots."""
    mode: OrderingMode | None = None
    limits: LimitsWanted = LimitsWanted()
    replica: str = ""
    """Which is to serve it, in owner mode; empty for any."""

    @property
    def any(self) -> bool:
        """Whether there is one."""
        return self != Orders()

    def told(self) -> dict[str, list[str]]:
        """For the event of a subscription that begins: names of excluded workers, if there are any."""
        return {"excluded": sorted(self.excluded)[:LISTED_MAX]} if self.excluded else {}


class OrderBook:
    """The orders of all subscriptions, by topic and name."""

    def __init__(self) -> None:
        """None yet."""
        self._orders: dict[tuple[str, str], Orders] = {}
        self.changed: Callable[[tuple[str, str]], None] = lambda _: None
        """Hears of each subscription whose orders may have changed."""

    def keys(self) -> list[tuple[str, str]]:
        """Subscriptions with orders, present or not."""
        return list(self._orders)

    def of(self, key: tuple[str, str]) -> Orders:
        """What stands for a subscription, to be read."""
        return self._orders.get(key) or Orders()

    @contextmanager
    def changing(self, key: tuple[str, str]) -> Iterator[Orders]:
        """What stands for a subscription, present or not, to be changed within; forgotten if it is nothing then.

        Raises:
            ClientError: the limit of subscriptions with orders is reached.
        """
        if key not in self._orders and len(self._orders) >= ORDERS_MAX:
            message = f"{ORDERS_MAX} subscriptions have standing orders; take some back before giving another"
            raise ClientError(message)
        orders = self._orders.setdefault(key, Orders())
        try:
            yield orders
        finally:
            if not orders.any:
                self._orders.pop(key, None)
        self.changed(key)
