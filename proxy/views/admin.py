"""Operators' orders to this gateway's subscriptions, workers and groups, and to the gateway itself.

Implements `admin_api.ports.GatewayControl`, on what `admin_view` finds. Everything here runs on the gateway's event
loop, outside the path of messages.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from proxy.config.relations import unmet
from proxy.core.dispatcher import OrderingMode
from proxy.errors import ClientError, Conflict, NotFound
from proxy.groups.messages import ReplayTarget
from proxy.groups.streams import GroupId
from proxy.net.subscription.order_book import LimitsWanted
from proxy.net.subscription.policy import settings_again
from proxy.views.admin_view import AdminView
from proxy.views.values import LimitsInForce

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from proxy.net.subscription.order_book import Orders
    from proxy.net.subscription.parking import ParkingLot
    from proxy.net.subscription.subscription import Subscription
    from proxy.views.lookup import Key


class Admin(AdminView):
    """Orders of operators, and all that they read."""

    reloads: Callable[[str], Any] | None = None
    """Reads the configuration again, for who orders it."""

    def pause(self, key: Key, *, by: str = "") -> None:
        """Pause deliveries. Raises `NotFound`."""
        self._find(key).orders.pause(by=by)

    def resume(self, key: Key, *, by: str = "") -> None:
        """Resume deliveries. Raises `NotFound`, unless a subscription without workers is paused."""
        self._check_owner(key)
        book = self._subscriptions.orders
        if self._subscriptions.find(key) is None and book.of(key).paused:
            with book.changing(key) as orders:
                orders.paused = False
        else:
            self._find(key).orders.resume(by=by)

    def drain(self, key: Key, name: str, *, drained: bool, by: str = "") -> int:
        """Stop or resume new deliveries to a worker. Raises `NotFound`, except to revert an absent worker's order."""
        stands = name in self._subscriptions.orders.of(key).drained
        subscription = self._to_order(key, name, lambda orders: orders.drained, undo=not drained)
        if subscription is None:
            return 0
        if drained or not stands:
            self._workers(subscription, name)
        return subscription.orders.drain(name, drained=drained, by=by)

    def exclude(self, key: Key, name: str, *, excluded: bool, by: str = "") -> int:
        """Give a worker's slots to others for good, or readmit it. Raises `NotFound`, as `drain`."""
        stands = name in self._subscriptions.orders.of(key).excluded
        subscription = self._to_order(key, name, lambda orders: orders.excluded, undo=not excluded)
        if subscription is None:
            return 0
        if not stands and (excluded or name not in subscription.state.dispatcher.quarantined):
            self._workers(subscription, name)
        return subscription.orders.exclude(name, excluded=excluded, by=by)

    def take_out(
        self, key: Key, *, message_key: bytes | None, slot: int | None, redrive: bool, by: str = ""
    ) -> tuple[int, int]:
        """Redrive or drop what is parked of a key's slot; the slot, and how many messages that are at present.

        Raises `NotFound`, also if nothing of it is parked, and `ClientError` for a slot that cannot be.
        """
        found, lot, place = self._parked(key, message_key, slot)
        return place, found.orders.take_out(lot, place, redrive=redrive, by=by)

    def drop_incomplete(
        self, key: Key, *, message_key: bytes | None, slot: int | None, by: str = ""
    ) -> tuple[int, int]:
        """Drop chunks of messages that are parked in part; the slot, and how many. Raises as `take_out`."""
        found, lot, place = self._parked(key, message_key, slot)
        return place, found.orders.drop_incomplete(lot, place, by=by)

    def _parked(self, key: Key, message_key: bytes | None, slot: int | None) -> tuple[Subscription, ParkingLot, int]:
        """A slot that is parked, with its subscription and lot."""
        found = self._find(key)
        place = self._slot(found, message_key, slot)
        if found.lot is None or place not in found.lot.parked_slots:
            raise NotFound(f"hash slot {place} is not parked")
        return found, found.lot, place

    def _to_order(self, key: Key, name: str, names: Callable[[Orders], set[str]], *, undo: bool) -> Subscription | None:
        """The subscription of a worker to order something; None if without one an order of it was undone.

        `names` are the workers of whom it is ordered. Raises `NotFound`.
        """
        self._check_owner(key)
        book = self._subscriptions.orders
        if undo and self._subscriptions.find(key) is None and name in names(book.of(key)):
            with book.changing(key) as orders:
                names(orders).discard(name)
            return None
        return self._find(key)

    def stand_down(self, replica: str) -> int:
        """A replica stops: see `DeploymentView.stand_down`. Raises `NotFound` in any other mode."""
        return self._part().stand_down(replica)

    def drain_replica(self, *, drained: bool) -> None:
        """Let this replica own nothing, or its share again. Raises `NotFound` in any other mode, and `Conflict`."""
        self._part().drain(drained=drained)

    def evict(self, key: Key, name: str, *, by: str = "") -> int:
        """Close a worker's consumer. Raises `NotFound`."""
        subscription = self._find(key)
        self._workers(subscription, name)
        return subscription.orders.evict(name, by=by)

    def move(self, key: Key, replica: str | None, *, by: str = "") -> None:
        """Let a certain replica serve it; None for any.

        Raises `NotFound` in any other mode and for a replica that is not there, and `Conflict` if it has no owner.
        """
        part = self._part()
        if part.streams(*key):
            raise Conflict(
                "replicas share it by streams, in proportion to their workers: it has no owner to move it to"
            )
        if replica is not None:
            part.find(replica)
        self._find(key).orders.move(replica or "", by=by)

    def change_mode(self, key: Key, mode: str | None, *, by: str = "") -> None:
        """Set the ordering mode; None for that of the clients or the configuration.

        Raises `NotFound`, and `Conflict` for a change into or out of unordered delivery.
        """
        self._check_owner(key)
        book = self._subscriptions.orders
        present = self._subscriptions.find(key)
        if mode is None and book.of(key).mode is not None:
            if present is not None:
                present.orders.revert_mode(by=by)
            else:
                with book.changing(key) as orders:
                    orders.mode = None
            return
        subscription = present or self._find(key)
        if mode is not None:
            try:
                subscription.orders.change_mode(OrderingMode(mode), by=by)
            except ClientError as error:
                raise Conflict(str(error)) from error

    def change_limits(self, key: Key, limits: Mapping[str, Any], *, keep: bool = False, by: str = "") -> LimitsInForce:
        """Set limits by their names in the configuration; None resets a limit. Returns those in effect.

        Limits that are not named are reset, or with `keep` stay as they are. Raises `NotFound`, unless active ones of
        a subscription without workers are reverted, and `Conflict` if they contradict each other.
        """
        self._check_owner(key)
        book = self._subscriptions.orders
        wanted = LimitsWanted(**({**book.of(key).limits.named(), **limits} if keep else limits))
        self._check_limits(key, wanted, limits)
        nothing = LimitsWanted()
        if self._subscriptions.find(key) is None and wanted == nothing and book.of(key).limits != nothing:
            with book.changing(key) as orders:
                orders.limits = nothing
        else:
            self._find(key).orders.change_limits(wanted, by=by)
        return self._limits(key, wanted)

    def reload(self, *, by: str) -> Any:
        """Read the configuration again; returns what changed. Raises `ConfigurationError` if nothing did."""
        if self.reloads is None:
            raise Conflict("this gateway was started without a configuration that it could read again")
        return self.reloads(by)

    def _check_limits(self, key: Key, wanted: LimitsWanted, named: Collection[str]) -> None:
        """Apply the configuration's relations between these settings; what workers ask for does not count.

        They may be broken by what was ordered before, if the configuration has changed since: then that is said.
        """
        settings = wanted.applied(settings_again({}, key, self._subscriptions.services.settings))
        broken = list(unmet(dict(asdict(settings), max_frame_bytes=self._max_frame_bytes)))
        if not broken:
            return
        before = [name for name in wanted.named() if name not in named and any(f"{name} (" in each for each in broken)]
        told = f"; ordered before: {', '.join(before)}; take that back first (keyline limits --reset)" if before else ""
        raise Conflict("; ".join(broken) + told)

    def replay(
        self,
        key: Key,
        position: tuple[int, int] | None,
        published_ms: int | None,
        answered: Callable[[str | None], None],
    ) -> None:
        """Replay a whole group from a position; `answered` gets the error later, or None.

        Raises `NotFound` for a group that this replica is not in.
        """
        if self._groups is None or not self._groups.replay(
            GroupId(*key), ReplayTarget(position, published_ms), answered
        ):
            raise self._no_group(key)
