"""Made-up workers that acknowledge some of what they have inside transactions."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from proxy.wire import pulsar_pb2 as pb
from tests.sim.transactions import Transaction, ack_frame, end_frame
from tests.sim.worker import Delivery, Worker

if TYPE_CHECKING:
    from proxy.wire.pulsar_pb2 import BaseCommand
    from tests.sim.transactions import Coordinator

T = pb.BaseCommand
OPEN_S = 1.0
"""Mean time between a transaction's first acknowledgement and its end."""
ACKED_SO = 0.4
"""Of messages and batches, how many are acknowledged in one, whole or in part."""
IN_PART = 0.6
"""Of batches acknowledged so, how many are in part."""
COMMITTED = 0.6
TOLD = 0.5
"""That the end is told by way of the gateway."""
NEVER_ENDED = 0.15
"""That a transaction is left to its timeout."""


class TransactionalWorker(Worker):
    """One client, with one transaction at a time."""

    def __init__(self, coordinator: Coordinator, *arguments: Any) -> None:
        """As the base says; transactions are begun past the gateway."""
        self._coordinator = coordinator
        self._open: Transaction | None = None
        self._waiting: dict[int, Transaction] = {}
        """Requests that the broker has not answered."""
        self._named: dict[int, list[Delivery]] = {}
        """What each of them is about."""
        self._latest: dict[tuple[int, int], Delivery] = {}
        """By message id, what was to be acknowledged last."""
        super().__init__(*arguments)

    def closed(self, reason: str) -> None:
        """As the base says; what was not answered will not be, and its transaction times out."""
        if self._open in self._waiting.values():
            self._open = None
        self._waiting.clear()
        self._named.clear()
        super().closed(reason)

    def _plan_acks(self, deliveries: list[Delivery], think_s: float) -> None:
        self._latest.update(((delivery.ledger, delivery.entry), delivery) for delivery in deliveries)
        if self._coordinator.over or self._dice.random() >= ACKED_SO:
            super()._plan_acks(deliveries, think_s)
            return
        wanted = [(delivery, delivery.left) for delivery in deliveries]
        first, whole = wanted[0]
        if len(first.numbers) > 1 and not first.opaque and self._dice.random() < IN_PART:
            bits = self._dice.randint(1, whole - 1)
            wanted = [(first, bits)]
            again = self._coordinator.gives_rest_back()
            rest = partial(self._nack, first) if again else partial(self._ack, first, whole & ~bits)
            self._later(think_s * self._dice.random() * 2, rest)
        self._later(think_s, partial(self._ack_in_transaction, wanted))

    def _ack_in_transaction(self, wanted: list[tuple[Delivery, int]]) -> None:
        """These bits of deliveries, unless one has come again since: clients know only the latest."""
        if any(self._latest[delivery.ledger, delivery.entry] is not delivery for delivery, _ in wanted):
            return
        if self._coordinator.over:
            for delivery, bits in wanted:
                self._ack(delivery, bits)
        if self._coordinator.over or self._transport is None or not self._joined:
            return
        transaction = self._transaction()
        places = []
        for delivery, bits in wanted:
            self._meant.update(number for index, number in enumerate(delivery.numbers) if bits >> index & 1)
            count = len(delivery.numbers)
            left = ((1 << count) - 1) & ~bits
            places.append((delivery.ledger, delivery.entry, count, [left] if left else []))
        request_id = self._new_request()
        self._waiting[request_id] = transaction
        self._named[request_id] = [delivery for delivery, _ in wanted]
        self._send(ack_frame(self._consumer_id, transaction, places, request_id))

    def _transaction(self) -> Transaction:
        """The one that is open, or a new one."""
        if self._open is None or self._open.ended_at is not None:
            self._open = self._coordinator.begin()
            if self._dice.random() >= NEVER_ENDED:
                self.process.call_later(self._dice.expovariate(1.0) * OPEN_S, partial(self._end, self._open))
        return self._open

    def _end(self, transaction: Transaction) -> None:
        """When all its acknowledgements are answered, as clients do; one that never is leaves it to its timeout."""
        if transaction in self._waiting.values():
            self.process.call_later(OPEN_S, partial(self._end, transaction))
            return
        if transaction.ended_at is not None or (transaction is not self._open and not transaction.failed):
            return
        if transaction is self._open:
            self._open = None
        committed = not transaction.failed and self._dice.random() < COMMITTED
        if self._dice.random() < TOLD and self._transport is not None:
            self._send(end_frame(transaction, self._new_request(), committed=committed))
        else:
            self._coordinator.end(transaction, committed=committed)

    def _not_allowed(self, deliveries: list[Delivery]) -> None:
        """These are not taken in any transaction; the worker has them still, and wants them again."""
        for delivery in deliveries:
            self._nack(delivery)

    def _command(self, command: BaseCommand) -> None:
        if command.type == T.ACK_RESPONSE:
            transaction = self._waiting.pop(command.ackResponse.request_id, None)
            named = self._named.pop(command.ackResponse.request_id, [])
            if transaction is not None and command.ackResponse.HasField("error"):
                transaction.failed = True
                self._not_allowed(named if command.ackResponse.error == pb.NotAllowedError else [])
        elif command.type == T.END_TXN_RESPONSE:
            self.unanswered.discard(command.endTxnResponse.request_id)
        super()._command(command)
