"""Operators' orders in owner mode: kept in the group's topic, known to every replica, carried out by the owner.

The owner of a subscription changes its orders here and has the leader keep them (`groups.kept_orders`). Every other
replica hears of them with the group's records, and has them in its order book when the subscription comes to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog
from pydantic import TypeAdapter, ValidationError

from proxy.groups.bundles import DEPLOYMENT
from proxy.groups.encoding import encode
from proxy.groups.kept_orders import TEXT_MAX, KeptOrders
from proxy.groups.messages import KeepOrders
from proxy.net.alarm import Alarm
from proxy.net.subscription.order_book import Orders

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.memory import GroupMemory
    from proxy.groups.streams import GroupId
    from proxy.net.ports import Clock
    from proxy.net.subscription.directory import Subscriptions

    Key = tuple[str, str]

AGAIN_S: Final = 1.0
"""How often the leader is told until a record has it."""
_ORDERS: Final = TypeAdapter(Orders)

log = structlog.get_logger("keyline.owner")


class SharedOrders:
    """The order book of one replica, kept equal to that of all."""

    def __init__(
        self,
        replica: str,
        subscriptions: Subscriptions,
        clock: Clock,
        tell_leader: Callable[[bytes], None],
        group: GroupId = DEPLOYMENT,
    ) -> None:
        """`replica` is this one's name; `tell_leader` sends a message to the leader of `group`, if there is one."""
        self._group = group
        self._replica = replica
        self._subscriptions = subscriptions
        self._book = subscriptions.orders
        self._tell_leader = tell_leader
        self._numbers: dict[Key, int] = {}
        """Of the last change that is known, by subscription."""
        self._kept: dict[Key, int] = {}
        """Of the last change that a record had, by subscription."""
        self._unkept: dict[Key, KeptOrders] = {}
        """Changes of this replica that no record has yet."""
        self._timer = Alarm(clock)
        self._learning = False
        self._book.changed = self._changed

    def close(self) -> None:
        """Tell nothing more."""
        self._timer.cancel()

    def learn(self, record: GroupMemory) -> None:
        """What the group's last record says."""
        for kept in record.orders:
            key = kept.topic, kept.subscription
            mine = self._unkept.get(key)
            self._kept[key] = kept.number
            known = self._numbers.get(key, 0)
            if kept.number > known or (mine is not None and (kept.number >= mine.number or mine.overlooks(kept))):
                self._take(key, kept)

    def _take(self, key: Key, kept: KeptOrders) -> None:
        self._numbers[key] = kept.number
        mine = self._unkept.pop(key, None)
        if mine is not None and mine != kept and self._subscriptions.find(key) is not None:
            self._changed(key)  # a former owner came first, and the present one has the last word
            return
        if kept.text == self._text(key):
            return
        try:
            wanted = _ORDERS.validate_json(kept.text) if kept.text else Orders()
        except ValidationError as error:  # of a release that knows more orders than this one
            reason = error.errors(include_url=False)[0]["msg"]
            log.warning("kept orders not understood", topic=kept.topic, subscription=kept.subscription, reason=reason)
            return
        self._learning = True
        try:
            self._carry_out(key, wanted)
        finally:
            self._learning = False

    def _carry_out(self, key: Key, wanted: Orders) -> None:
        subscription = self._subscriptions.find(key)
        if subscription is not None:
            subscription.orders.take_over(wanted)
            return
        with self._book.changing(key) as orders:
            orders.paused, orders.mode, orders.limits = wanted.paused, wanted.mode, wanted.limits
            orders.drained, orders.excluded, orders.replica = wanted.drained, wanted.excluded, wanted.replica

    def _changed(self, key: Key) -> None:
        """Something was ordered here."""
        if self._learning:
            return
        text = self._text(key)
        if len(text) > TEXT_MAX:
            log.warning("orders not kept", topic=key[0], subscription=key[1], reason="they name too many workers")
            return
        self._numbers[key] = self._numbers.get(key, 0) + 1
        wanted_at, after = self._book.of(key).replica, self._kept.get(key, 0)
        self._unkept[key] = KeptOrders(*key, self._numbers[key], text, wanted_at, self._replica, after)
        self._say()

    def _text(self, key: Key) -> str:
        orders = self._book.of(key)
        return _ORDERS.dump_json(orders).decode() if orders.any else ""

    def _say(self) -> None:
        self._timer.cancel()
        for kept in self._unkept.values():
            self._tell_leader(encode(KeepOrders(self._group, kept), self._group))
        if self._unkept:
            self._timer.set(AGAIN_S, self._say)
