"""G8, and what operators read: the numbers that the gateway shows, against a count of what it wrote to its workers.

PIP-379's draining hashes are kept by the gateway as things happen; here they are counted anew from the model of the
wire each time: of every worker, the slots of what it holds that belong to somebody else now.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from proxy.core.dispatcher import OrderingMode
from proxy.core.statistics import WorkerStatistics, dispatcher_statistics_steps
from proxy.core.steps import finished
from tests.sim.gateway import seat_of, slot_of
from tests.sim.seats import Violation

if TYPE_CHECKING:
    from proxy.net.subscription.subscription import Subscription
    from tests.sim.checkers import Model
    from tests.sim.gateway import Gateway
    from tests.sim.seats import Seat
    from tests.sim.storage import Storage


class Numbers:
    """At the end of some of the gateway's turns."""

    def __init__(self, storage: Storage, model: Model) -> None:
        self._storage = storage
        self._model = model
        self.looked = 0

    def look(self, gateway: Gateway) -> None:
        """Compare, unless something is under way that the wire does not show yet."""
        subscription = gateway.subscription
        if subscription is None or subscription.state.ended or self._model.unsettled:
            return
        self._opaque(subscription)
        workers = subscription.state.dispatcher.workers
        if any(worker.outbox for worker in workers.values()) or subscription.state.dispatcher.in_transaction:
            return
        self.looked += 1
        shown = finished(dispatcher_statistics_steps(subscription.state.dispatcher, subscription.state.now()))
        pending = 0
        for worker, numbers in zip(workers.values(), shown.workers, strict=True):
            seat = seat_of(subscription, worker, self._model)
            if seat is not None:
                self._worker(subscription, seat, numbers)
                pending += sum(self._draining(subscription, seat).values())
        self._same("draining_hashes_unacked_messages", shown.draining_hashes_unacked_messages, pending)
        listed = sum(numbers.draining_hashes_count for numbers in shown.workers)
        self._same("draining_hashes_count", shown.draining_hashes_count, listed)

    def _worker(self, subscription: Subscription, seat: Seat, numbers: WorkerStatistics) -> None:
        held = [[number for number in delivered if number >= 0] for delivered in seat.held.values()]
        draining = self._draining(subscription, seat)
        self._same(f"available_permits of {seat.name}", numbers.available_permits, seat.permits)
        self._same(f"pending_acks of {seat.name}", numbers.pending_acks, len(held))
        self._same(f"unacked_messages of {seat.name}", numbers.unacked_messages, sum(map(len, held)))
        self._same(f"draining_hashes_count of {seat.name}", numbers.draining_hashes_count, len(draining))
        listed = {item.hash: item.unack_msgs for item in numbers.draining_hashes}
        self._same(f"draining_hashes of {seat.name}", listed, dict(draining))

    def _draining(self, subscription: Subscription, seat: Seat) -> Counter[int]:
        """Slot to how many messages of it the worker holds though it owns it no more."""
        draining: Counter[int] = Counter()
        if subscription.state.policy.mode is OrderingMode.UNORDERED:
            return draining
        for delivered in seat.held.values():
            for slot in [self._slot(subscription, number) for number in delivered if number >= 0]:
                owner = subscription.state.dispatcher.select(slot)
                if owner is None or seat_of(subscription, owner, self._model) is not seat:
                    draining[slot] += 1
        return draining

    def _slot(self, subscription: Subscription, number: int) -> int:
        message = self._storage.messages[number]
        return slot_of(subscription, message.entry.outer_key if message.entry.opaque else message.key)

    def _opaque(self, subscription: Subscription) -> None:
        """At least what was delivered so, at most what a broker sent."""
        counted = subscription.state.counters.opaque_batches
        seen, sent = len(self._model.opaque_in_life), self._storage.opaque_sent
        if not seen <= counted <= sent:
            raise Violation(f"G8: {counted} opaque batches counted, {seen} delivered, {sent} sent")

    def _same(self, what: str, shown: object, counted: object) -> None:
        if shown != counted:
            raise Violation(f"G8: {what} is shown as {shown}, and is {counted}")
