"""Carrying out what operators ask of a subscription that is here; what they asked stands in the order book."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import structlog

from proxy.core.dispatcher import OrderingMode
from proxy.errors import ClientError
from proxy.net.subscription.policy import settings_again

if TYPE_CHECKING:
    from proxy.net.subscription.ack_leases import AckLeases
    from proxy.net.subscription.membership import Membership
    from proxy.net.subscription.order_book import LimitsWanted, Orders
    from proxy.net.subscription.parking import ParkingLot
    from proxy.net.subscription.quarantines import Quarantines
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers

log = structlog.get_logger("keyline.subscription")


class OperatorOrders:
    """To one subscription; `by` is who gives an order, for events and the log."""

    def __init__(
        self,
        state: SubscriptionState,
        services: Services,
        consumers: UpstreamConsumers,
        membership: Membership,
        ack_leases: AckLeases,
        quarantines: Quarantines,
    ) -> None:
        """Nothing is asked yet, but for what the order book has."""
        self._state = state
        self._services = services
        self._consumers = consumers
        self._membership = membership
        self._ack_leases = ack_leases
        self._quarantines = quarantines

    def pause(self, *, by: str = "") -> None:
        """Deliver nothing until `resume`; acks and joins go on."""
        with self._services.orders.changing(self._state.key) as orders:
            orders.paused = True
        self._state.dispatcher.pause()
        self._tell("pause", by)

    def resume(self, *, by: str = "") -> None:
        """Take `pause` back. A gateway that is shutting down delivers nothing all the same."""
        with self._services.orders.changing(self._state.key) as orders:
            orders.paused = False
        if not self._services.shutting_down:
            self._state.dispatcher.resume(self._state.now())
            self._state.schedule_flush()
        self._tell("resume", by)

    def drain(self, name: str, *, drained: bool, by: str = "") -> int:
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
        self._tell("drain" if drained else "end of the drain", by, worker=name)
        return len(workers)

    def evict(self, name: str, *, by: str = "") -> int:
        """Close the consumers of workers of this name, as a broker would; what they held goes to others.

        Returns how many there were. Official clients come again at once, and get messages again unless their name is
        drained.
        """
        self._tell("evict", by, worker=name)
        return self._membership.close_all(name, "evicted by an operator")

    def exclude(self, name: str, *, excluded: bool, by: str = "") -> int:
        """Workers of this name lose their slots and what they hold to others, or take part again.

        Their consumers are closed. Whenever their clients come again they are connected and own no slot, until they are
        readmitted, which ends their quarantine too. Returns how many of them are here.
        """
        with self._services.orders.changing(self._state.key) as orders:
            if excluded:
                orders.excluded.add(name)
            else:
                orders.excluded.discard(name)
        self._tell("exclude" if excluded else "readmit", by, worker=name)
        if excluded:
            self._membership.count_shut_out()
            return self._membership.close_all(name, "excluded by an operator")
        self._quarantines.release(name)
        return self._membership.readmit(name)

    def take_out(self, lot: ParkingLot, slot: int, *, redrive: bool, by: str = "") -> int:
        """Redrive or drop what is parked of a slot; how many messages that are at present."""
        self._tell("redrive" if redrive else "drop", by, slot=slot)
        return lot.order(slot, redrive=redrive)

    def drop_incomplete(self, lot: ParkingLot, slot: int, *, by: str = "") -> int:
        """Drop chunks of messages that are parked in part; how many."""
        self._tell("drop incomplete", by, slot=slot)
        return lot.drop_incomplete(slot)

    def change_mode(self, mode: OrderingMode, *, by: str = "") -> None:
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
        self._tell("ordering mode", by, mode=mode.value)

    def revert_mode(self, *, by: str = "") -> None:
        """Order as the clients or the configuration say."""
        policy = self._state.policy
        if policy.mode is not policy.asked:
            self.change_mode(policy.asked, by=by)
        with self._services.orders.changing(self._state.key) as orders:
            orders.mode = None

    def take_over(self, wanted: Orders) -> None:
        """Carry out what was ordered at another replica; each order that changes is told, without who gave it."""
        stands = self._services.orders.of(self._state.key)
        if wanted.paused != stands.paused:
            (self.pause if wanted.paused else self.resume)()
        for name in sorted(wanted.drained ^ stands.drained):
            self.drain(name, drained=name in wanted.drained)
        for name in sorted(wanted.excluded ^ stands.excluded):
            self.exclude(name, excluded=name in wanted.excluded)
        if wanted.limits != stands.limits:
            self.change_limits(wanted.limits)
        if wanted.replica != stands.replica:
            self.move(wanted.replica)
        if wanted.mode is None and stands.mode is not None:
            self.revert_mode()
        elif wanted.mode is not None and wanted.mode is not stands.mode:
            with suppress(ClientError):  # workers that want no order have come since
                self.change_mode(wanted.mode)

    def move(self, replica: str, *, by: str = "") -> None:
        """Let a certain replica serve it, in owner mode; empty for any. It is handed over as in a restart."""
        with self._services.orders.changing(self._state.key) as orders:
            orders.replica = replica
        self._tell("move", by, replica=replica)

    def change_limits(self, limits: LimitsWanted, *, by: str = "") -> None:
        """Bound the subscription so from now on; what is there already beyond a bound stays and is not added to."""
        with self._services.orders.changing(self._state.key) as orders:
            orders.limits = limits
        settings = limits.applied(self._state.asked)
        self._consumers.bound(settings)
        self._state.change_settings(settings)
        self._ack_leases.look_again()
        self._tell("limits", by, **limits.named())

    def configured(self, settings: SubscriptionSettings) -> SubscriptionSettings:
        """What would be in effect with these settings of the configuration: with the workers' properties and orders."""
        state = self._state
        asked = state.asked_under(settings)
        return self._services.orders.of(state.key).limits.applied(asked)

    def ordered(self, settings: SubscriptionSettings) -> SubscriptionSettings:
        """What operators alone make of these settings of the configuration.

        Only they can be told of a contradiction: what a worker asks for must not keep a configuration from others, and
        of its delays the shorter one holds.
        """
        state = self._state
        return self._services.orders.of(state.key).limits.applied(settings_again({}, state.key, settings))

    def reconfigure(self, settings: SubscriptionSettings) -> None:
        """The configuration has changed to these: they hold from now on, as for `change_limits`."""
        state = self._state
        state.reconfigure(settings)
        in_effect = self.configured(settings)
        if in_effect != state.settings:
            self._consumers.bound(in_effect)
            state.change_settings(in_effect)
            self._ack_leases.look_again()

    def _tell(self, what: str, by: str, **more: object) -> None:
        state = self._state
        if by:
            more["by"] = by
        state.happened("operator_order", order=what, **more)
        log.info("operator order applied", order=what, topic=state.topic, subscription=state.name, **more)
