"""Transactions at any moment: random walks with a broker that keeps pending acknowledgements, each from its seed.

Beside what other walks hold: while a transaction has a message, no other worker gets anything of its key, whether its
worker is there or not; nothing committed comes again; what is aborted does, before what is newer.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest

from proxy.errors import UpstreamError
from proxy.net.subscription.acks import bits_of, words_of
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_chaos import BrokerModel, Checker, Client
from tests.net.subscription_rig import Delivered, SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, FakeBrokerLink, T
from tests.net.test_subscription_chaos import Walk, walked

OPEN_MAX = 3


@dataclass
class Transaction:
    """One that has not ended."""

    number: int
    pending: dict[int, int] = field(default_factory=dict)
    """Entry to the bits of the messages that the broker has in it."""
    meant: dict[int, Client] = field(default_factory=dict)
    """Message to who acknowledged it, whether or not the broker knows."""


class TransactionalBroker(BrokerModel):
    """As a broker's pending acks: not sent while they are so, sent again after an abort."""

    def __init__(self, rig: SubscriptionRig, dice: random.Random) -> None:
        super().__init__(rig, dice)
        self.open: dict[int, Transaction] = {}
        self.aborted: dict[int, Client] = {}
        """Messages to be sent again, of transactions whose end the gateway did not see, and who had them."""
        self.late: dict[int, Transaction] = {}
        """Those that were acknowledged in after their end."""
        self.prompt = False
        """Whether it notices these at once."""
        self.replay: set[int] = set()
        """Entries that an abort gave back."""

    def pending_of(self, entry: int) -> int:
        """Bits of its messages that transactions have."""
        transactions = (*self.open.values(), *self.late.values())
        return sum(transaction.pending.get(entry, 0) for transaction in transactions)

    def dispatch(self, most: int) -> None:
        """First what was given back; then as the base, and what is pending is left out."""
        self._count_flows()
        if self.prompt:
            self._abort_late()
        for consumer in self.consumers:
            for _ in range(most):
                if consumer.permits <= 0 or consumer.exclusive:
                    break
                again = sorted(number for number in self.replay if number < consumer.next_entry)
                if again:
                    number = again[0]
                elif consumer.next_entry < len(self.entries):
                    number = consumer.next_entry
                    consumer.next_entry += 1
                else:
                    break
                self.replay.discard(number)
                entry = self.entries[number]
                left = entry.unacked & ~self.pending_of(number)
                if not left:
                    continue
                for each in entry.numbers:
                    self.aborted.pop(each, None)
                consumer.permits -= left.bit_count()
                if consumer.consumer_id in consumer.link.consumers:
                    ack_set = () if left == (1 << len(entry.numbers)) - 1 else words_of(left)
                    consumer.link.deliver((number, entry.tail), ack_set=ack_set, to=consumer.consumer_id)

    def _carry_out(self, link: FakeBrokerLink, command: pb.BaseCommand) -> Exception | None:
        done = next((number for number, entry in enumerate(self.entries) if entry.unacked), len(self.entries)) - 1
        link.mark_delete = LEDGER, done
        if command.type == T.ADD_SUBSCRIPTION_TO_TXN:
            number = command.addSubscriptionToTxn.txnid_least_bits
            return None if number in self.open else UpstreamError("no such transaction", pb.TransactionNotFound)
        if command.type != T.ACK or not command.ack.HasField("txnid_least_bits"):
            return super()._carry_out(link, command)
        # One that has ended is begun anew, and aborted when another ends: a broker knows no better (low water mark).
        number = command.ack.txnid_least_bits
        transaction = self.open.get(number) or self.late.setdefault(number, Transaction(number))
        wanted = {}
        for place in command.ack.message_id:
            entry = self.entries[place.entryId]
            assert place.batch_size == (len(entry.numbers) if len(entry.numbers) > 1 else 0)
            bits = ((1 << len(entry.numbers)) - 1) & ~bits_of(place.ack_set)
            if bits & (self.pending_of(place.entryId) | ~entry.unacked):
                for index, each in enumerate(entry.numbers):
                    if bits >> index & 1 and not transaction.pending.get(place.entryId, 0) >> index & 1:
                        transaction.meant.pop(each, None)
                return UpstreamError("in pending ack status", pb.TransactionConflict)
            wanted[place.entryId] = bits
        for number, bits in wanted.items():
            transaction.pending[number] = transaction.pending.get(number, 0) | bits
        return None

    def _abort_late(self) -> None:
        for late in self.late.values():
            self.replay.update(late.pending)
        self.late.clear()

    def end(self, transaction: Transaction, *, committed: bool) -> set[int]:
        """The coordinator's word; returns the messages that it was about at the broker."""
        del self.open[transaction.number]
        self._abort_late()
        messages = set()
        for number, bits in transaction.pending.items():
            entry = self.entries[number]
            messages |= {each for place, each in enumerate(entry.numbers) if bits >> place & 1}
            if committed:
                entry.unacked &= ~bits
            else:
                self.replay.add(number)
        return messages


class TransactionChecker(Checker):
    """Knows whose the messages are that transactions have."""

    def __init__(self, rig: SubscriptionRig, broker: TransactionalBroker) -> None:
        super().__init__(rig, broker)
        self._pending = broker
        self.acks: dict[int, tuple[Transaction, list[int]]] = {}
        """By request."""

    def _answer(self, client: Client, command: pb.BaseCommand) -> None:
        if command.type == T.ACK_RESPONSE and command.ackResponse.HasField("error"):
            transaction, numbers = self.acks.get(command.ackResponse.request_id, (None, []))
            for number in numbers:
                if transaction is not None:
                    transaction.meant.pop(number, None)
        super()._answer(client, command)

    def _delivery(self, client: Client, delivered: Delivered) -> None:
        if client.ended:
            return
        taken = dict(self._pending.aborted)
        for transaction in self._pending.open.values():
            taken |= transaction.meant
        for key, body in delivered.messages:
            number = int(body)
            assert number not in taken, f"message {number} is in a transaction"
            rivals = [each for each, had in taken.items() if had is not client and self._pending.key_of[each] == key]
            assert not rivals, f"{key} is at another worker in a transaction: {number} and {rivals}"
        # What it has had it may overtake.
        mine = {each: delivered for each, had in taken.items() if had is client and each not in client.held}
        client.held.update(mine)
        super()._delivery(client, delivered)
        for each in mine:
            client.held.pop(each, None)


class TransactionWalk(Walk):
    """One random walk."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.broker = self.transactional = TransactionalBroker(self.rig, self.dice)
        self.checker = self.transactions = TransactionChecker(self.rig, self.broker)
        self._numbers = 0

    def new_rig(self) -> SubscriptionRig:
        """The broker stores acknowledgements of single messages: only then transactions have some of a batch."""
        return SubscriptionRig(look_ahead_messages_per_worker=self.dice.choice((3, 30)))

    def unsubscribe(self, client: Client) -> None:
        """Not here: it ends transactions by no word of the coordinator's; this is what happens most instead."""
        self.ack_in_transaction(client)

    def seek(self, client: Client) -> None:
        """Likewise."""
        self.ack_in_transaction(client)

    def ack(self, client: Client) -> None:
        """In a transaction or not."""
        if self.dice.random() < 0.6:
            super().ack(client)
        else:
            self.ack_in_transaction(client)

    def ack_in_transaction(self, client: Client) -> None:
        """Some or all messages of a delivery."""
        if not client.held:
            return
        if not self.transactional.open or (len(self.transactional.open) < OPEN_MAX and self.dice.random() < 0.3):
            self._numbers += 1
            self.transactional.open[self._numbers] = Transaction(self._numbers)
        transaction = self.dice.choice(list(self.transactional.open.values()))
        chosen = client.held[self.dice.choice(list(client.held))]
        numbers = [int(body) for body in chosen.payloads]
        left = [number for number in numbers if client.held.get(number) is chosen]
        done = self.dice.sample(left, self.dice.randint(1, len(left))) if self.dice.random() < 0.6 else left
        for number in done:
            del client.held[number]
            transaction.meant[number] = client
        request_id = self.request_id(client)
        self.transactions.acks[request_id] = transaction, done
        command = pb.CommandAck(consumer_id=client.worker.consumer_id, ack_type=pb.CommandAck.Individual)
        command.request_id, command.txnid_most_bits, command.txnid_least_bits = request_id, 0, transaction.number
        place = command.message_id.add(ledgerId=chosen.ledger, entryId=chosen.entry)
        if len(done) < len(numbers):
            bits = sum(1 << index for index, number in enumerate(numbers) if number not in done)
            place.ack_set.extend(words_of(bits))
        client.worker.port.ack(command)
        self.rig.clock.settle()

    def end(self, transaction: Transaction, *, committed: bool, told: bool) -> None:
        """By the coordinator, whose answer passes the gateway if it is `told`."""
        known = self.transactional.end(transaction, committed=committed)
        if committed:
            self.checker._acked.update(known)
        elif not told:
            self.transactional.aborted.update({each: transaction.meant[each] for each in known})
        # What came too late is nobody's until the gateway is told so.
        self.broker.forgotten.update(set(transaction.meant) - known)
        if told:
            self.rig.subscriptions.transaction_ended((0, transaction.number), committed=committed)
            self.rig.clock.settle()

    def step(self) -> None:
        """As the base; now and then a transaction ends."""
        if self.transactional.open and self.dice.random() < 0.06:
            transaction = self.dice.choice(list(self.transactional.open.values()))
            committed, told = self.dice.random() < 0.5, self.dice.random() < 0.5
            self.trace.append(f"end {transaction.number} {committed=} {told=}")
            self.end(transaction, committed=committed, told=told)
            self.checker.look()
        else:
            super().step()
        self.count()

    def count(self) -> None:
        """What is counted of open transactions is what is held in them."""
        for key in self.rig.subscriptions.all_keys():
            subscription = self.rig.subscriptions.find(key)
            assert subscription is not None
            here = subscription.state.dispatcher.in_transaction
            helds = here.all()
            assert here.open == Counter(held.transaction for held in helds)
            waited_for = Counter(slot for held in helds if not held.released for slot in held.part.message_slots())
            assert {slot: here.count_of(slot) for slot in waited_for} == waited_for
            assert here.messages >= sum(waited_for.values()) == sum(here._by_slot.values())

    def break_off(self) -> None:
        """Lose the connection; a broker stores what transactions have done."""
        self.broker.lose()

    def heal(self) -> None:
        """All transactions end first."""
        for transaction in list(self.transactional.open.values()):
            self.end(transaction, committed=self.dice.random() < 0.5, told=self.dice.random() < 0.5)
        self.transactional.prompt = True
        super().heal()


@pytest.mark.parametrize("seed", range(20))
def test_a_walk_with_transactions_keeps_the_guarantees(seed: int) -> None:
    """However they end, by any side, and seen by any worker or none; then all gets through."""
    walked(TransactionWalk(seed), seed)
