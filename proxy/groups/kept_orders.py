"""Operators' orders as a group's topic keeps them, so that they outlive the replica that carries them out.

The replica that serves a subscription changes its orders and tells the leader, again and again until a record has them.
Each change has a number above the one before: a repetition that is late changes nothing. So an order that was taken
back is remembered for a while as one that asks for nothing. A replica that was cut off may have counted on beyond what
the next one had kept meanwhile; so each says which change of others it knew, and is refused if there is a later one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeVar

from proxy.groups.bundles import bundle_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

S = TypeVar("S")

ORDERS_MAX: Final = 1_000
"""Subscriptions with orders; each record of the group has all of them."""
TEXT_MAX: Final = 8_000
"""Characters of one subscription's orders."""
TAKEN_BACK_MAX: Final = 200
"""Subscriptions of which it is remembered that their orders were taken back."""


@dataclass(frozen=True, slots=True)
class KeptOrders:
    """What stands for one subscription of one topic."""

    topic: str
    subscription: str
    number: int
    """Of the change."""
    text: str
    """What is asked; empty if nothing is. Only those that carry it out read it."""
    replica: str = ""
    """Where the subscription is to be served, as operators name replicas; empty if anywhere."""
    by: str = ""
    """The replica that says so; empty from a release that does not tell it."""
    after: int = 0
    """Number of the last kept change that it knew."""

    def overlooks(self, kept: KeptOrders) -> bool:
        """Whether another replica had this one kept, and it is not known here."""
        return bool(self.by and kept.by) and kept.by != self.by and kept.number > self.after


def names_of(replica: str) -> tuple[str, str]:
    """As operators may name a replica: by its whole name, or without what tells this process from those before."""
    return replica, replica.rpartition("-")[0] or replica


class OrdersKept:
    """The leader's table of them."""

    def __init__(self, kept: Iterable[KeptOrders]) -> None:
        """What the last record has."""
        self._kept = {(each.topic, each.subscription): each for each in kept}

    def keep(self, orders: KeptOrders) -> bool:
        """Whether it is news, and kept. What is too much is not; its replica tells so."""
        key = orders.topic, orders.subscription
        before = self._kept.get(key)
        if before is not None and (orders.number <= before.number or orders.overlooks(before)):
            return False
        full = sum(1 for each in self._kept.values() if each.text) >= ORDERS_MAX
        if len(orders.text) > TEXT_MAX or (full and orders.text and (before is None or not before.text)):
            return False
        self._kept.pop(key, None)  # the last change stands last
        self._kept[key] = orders
        taken_back = [key for key, each in self._kept.items() if not each.text]
        for old in taken_back[:-TAKEN_BACK_MAX]:
            del self._kept[old]
        return True

    def wanted(self, streams_count: int, sessions: Mapping[str, S]) -> dict[int, S]:
        """Which session is to have which bundle, of these sessions by their replicas."""
        found: dict[int, S] = {}
        by_name = {name: session for replica, session in sessions.items() for name in names_of(replica)}
        for each in self._kept.values():
            if each.replica in by_name:
                found[bundle_of(each.topic, each.subscription, streams_count)] = by_name[each.replica]
        return found

    def all(self) -> tuple[KeptOrders, ...]:
        """For the record."""
        return tuple(self._kept.values())
