"""Transactions at the made-up brokers. What a gateway owes to what is acknowledged in them is in `claims`.

A coordinator has the transactions of one topic's workers. It keeps what is open, and ends what is so for too long. Its
brokers do not send what is pending in a transaction, and forget neither that nor a commit, which both are in a log of
their own. A seek changes neither: what of an entry was committed before the rest of it was acknowledged is kept back
still, and a broker that loads the topic commits once more all that ever was. Only what an acknowledgement leaves behind
the cursor is forgotten, open or not (`storage`). What is acknowledged after a transaction's end is pending until a
broker notices, by the end of another one. An abort makes an entry be sent once more, also to who has the rest of it. An
end may pass the gateway or not.

Source: `PendingAckHandleImpl`, `AbstractBaseDispatcher.filterEntriesForConsumer`. What cursors and consumers have to do
with it is compared with real brokers: `tests/integration/test_pending_acks.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from tests.sim.storage import bits_of

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from tests.sim.cluster import Consumer
    from tests.sim.machine import Process
    from tests.sim.storage import Entry, Storage

T = pb.BaseCommand
TIMEOUT_S = 20.0
"""After so long a transaction is aborted."""
NOTICED_S = 3.0
"""So late brokers notice what was acknowledged in a transaction after its end, on average."""


@dataclass(eq=False)
class Transaction:
    """One of them."""

    ids: tuple[int, int]
    """As on the wire: the coordinator's, and its own."""
    pending: dict[tuple[int, int], int] = field(default_factory=dict)
    """Place of an entry to the bits of the messages that the broker has in it."""
    ended_at: float | None = None
    told: bool = False
    """Whether the answer that told its end has passed the gateway."""
    failed: bool = False
    """Whether an acknowledgement in it was refused: its client aborts it."""


class Coordinator:
    """What it knows outlives every broker."""

    def __init__(self, process: Process, storage: Storage, dice: random.Random, number: int = 0) -> None:
        """`process` is its clock; `number` is its own among all coordinators."""
        self.number = number
        self._process = process
        self._storage = storage
        self._dice = dice
        self._transactions: dict[int, Transaction] = {}
        self.over = False
        """Whether no more are begun."""
        self.gives_rest_back: Callable[[], bool] = bool
        """Whether a worker that acknowledges some of a batch in a transaction wants the rest again; it acknowledges it
        otherwise."""
        self.on_committed: Callable[[list[int]], object] = list
        """Called with messages before the broker has them as acknowledged."""
        self.on_given_back: Callable[[Entry, int], object] = lambda _entry, _bits: None
        """Called with each entry of which an abort gave something back, and the bits of that."""

    def begin(self) -> Transaction:
        """One more, which times out."""
        number = len(self._transactions) + 1
        transaction = self._transactions[number] = Transaction((self.number, number))
        self._process.call_later(TIMEOUT_S, lambda: self.end(transaction, committed=False))
        return transaction

    def find(self, number: int) -> Transaction | None:
        """The one with this id, ended or not."""
        return self._transactions.get(number)

    def end(self, transaction: Transaction, *, committed: bool) -> None:
        """Unless it has ended."""
        if transaction.ended_at is not None:
            return
        transaction.ended_at = self._process.now()
        if not committed:
            self._give_back(transaction)
            return
        pending, transaction.pending = transaction.pending, {}
        for place, bits in pending.items():
            entry = self._storage.by_place[place]
            self.on_committed(entry.numbers_in(bits))
            self._storage.commit(entry, bits)

    @property
    def with_pending(self) -> int:
        """How many transactions have something pending, ended or not."""
        return sum(bool(transaction.pending) for transaction in self._transactions.values())

    def forget(self) -> None:
        """The subscription is deleted, and with it all that is pending."""
        self._storage.forget_transactions()
        for transaction in self._transactions.values():
            transaction.pending.clear()

    def close(self) -> None:
        """Begin no more, and end those that are open."""
        self.over = True
        for transaction in list(self._transactions.values()):
            self.end(transaction, committed=self._dice.random() < 0.5)

    def acknowledge(self, transaction: Transaction, places: Iterable[pb.MessageIdData]) -> str:
        """All of them are pending in it from now on, or none; returns why none is."""
        wanted: dict[tuple[int, int], int] = {}
        for place in places:
            entry = self._storage.by_place[place.ledgerId, place.entryId]
            bits = entry.whole & ~bits_of(place.ack_set)
            # As for a real one: an entry that is named whole may be acknowledged in part, and not pending in part.
            is_free = bool(entry.unacked) and not (entry.pending or entry.kept_back)
            free = entry.available if place.ack_set else entry.whole * is_free
            if bits & ~free:
                return f"{place.ledgerId}:{place.entryId} is acknowledged, or pending"
            wanted[entry.ledger, entry.entry] = bits & entry.unacked
        for at, bits in wanted.items():
            self._storage.by_place[at].pending |= bits
            transaction.pending[at] = transaction.pending.get(at, 0) | bits
        if transaction.ended_at is not None:
            delay_s = self._dice.expovariate(1.0) * NOTICED_S
            self._process.call_later(delay_s, lambda: self._give_back(transaction))
        return ""

    def has_open(self, number: int) -> bool:
        """Whether the message is pending in an open transaction."""
        if not self._storage.is_pending(number):
            return False
        entry = self._storage.messages[number].entry
        place, bit = (entry.ledger, entry.entry), 1 << entry.numbers.index(number)
        return any(each.pending.get(place, 0) & bit for each in self._transactions.values() if each.ended_at is None)

    def _give_back(self, transaction: Transaction) -> None:
        pending, transaction.pending = transaction.pending, {}
        for place, bits in pending.items():
            entry = self._storage.by_place[place]
            entry.pending &= ~bits
            if entry.unacked & bits:
                entry.redeliveries += 1
                self.on_given_back(entry, entry.unacked & bits)


def answer_ack(coordinator: Coordinator, consumer: Consumer, body: pb.CommandAck) -> bytes:
    """What a broker does with an acknowledgement in a transaction, and says."""
    ids = body.txnid_most_bits, body.txnid_least_bits
    transaction = coordinator.find(body.txnid_least_bits)
    assert transaction is not None, f"transaction {ids} was never begun"
    refused = coordinator.acknowledge(transaction, body.message_id)
    if refused:
        return _ack_response(body, ids, refused, pb.TransactionConflict)
    for place in body.message_id:
        consumer.acknowledged((place.ledgerId, place.entryId))
    return _ack_response(body, ids)


def _ack_response(body: pb.CommandAck, ids: tuple[int, int], message: str = "", code: int = 0) -> bytes:
    answer = pb.CommandAckResponse(consumer_id=body.consumer_id, request_id=body.request_id)
    answer.txnid_most_bits, answer.txnid_least_bits = ids
    if message:
        answer.error, answer.message = code, message  # type: ignore[assignment]
    return frames.encode_command(pb.BaseCommand(type=T.ACK_RESPONSE, ackResponse=answer))


def answer_end(coordinator: Coordinator, body: pb.CommandEndTxn) -> bytes:
    """What the coordinator does with an END_TXN, and says."""
    answer = pb.CommandEndTxnResponse(request_id=body.request_id)
    answer.txnid_most_bits, answer.txnid_least_bits = body.txnid_most_bits, body.txnid_least_bits
    transaction = coordinator.find(body.txnid_least_bits)
    assert transaction is not None
    if transaction.ended_at is None:
        coordinator.end(transaction, committed=body.txn_action == pb.COMMIT)
    else:
        answer.error, answer.message = pb.TransactionNotFound, "it has ended"
    return frames.encode_command(pb.BaseCommand(type=T.END_TXN_RESPONSE, endTxnResponse=answer))


def answer_add(coordinator: Coordinator, body: pb.CommandAddSubscriptionToTxn) -> bytes:
    """What the coordinator says to a gateway that asks whether a transaction is open."""
    answer = pb.CommandAddSubscriptionToTxnResponse(request_id=body.request_id)
    answer.txnid_most_bits, answer.txnid_least_bits = body.txnid_most_bits, body.txnid_least_bits
    transaction = coordinator.find(body.txnid_least_bits)
    if transaction is None or transaction.ended_at is not None:
        answer.error, answer.message = pb.TransactionNotFound, "it has ended"
    kind = T.ADD_SUBSCRIPTION_TO_TXN_RESPONSE
    return frames.encode_command(pb.BaseCommand(type=kind, addSubscriptionToTxnResponse=answer))


def end_frame(transaction: Transaction, request_id: int, *, committed: bool) -> bytes:
    """An END_TXN."""
    body = pb.CommandEndTxn(request_id=request_id)
    body.txnid_most_bits, body.txnid_least_bits = transaction.ids
    body.txn_action = pb.COMMIT if committed else pb.ABORT
    return frames.encode_command(pb.BaseCommand(type=T.END_TXN, endTxn=body))


def ack_frame(
    consumer_id: int, transaction: Transaction, places: Iterable[tuple[int, int, int, list[int]]], request_id: int
) -> bytes:
    """An acknowledgement in a transaction; places as for `commands.ack_in_transaction`."""
    return commands.ack_in_transaction(consumer_id, transaction.ids, places, request_id)
