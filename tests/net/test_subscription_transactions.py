"""Acknowledgements inside transactions: what the broker is told, and what each answer and each end does."""

from __future__ import annotations

from collections import Counter

import pytest

from proxy.net.broker.settings import BrokerSettings
from proxy.net.subscription.acks import bits_of
from proxy.net.subscription.closing import CLOSING_S_MAX
from proxy.net.subscription.transactions import (
    ASK_S,
    ASKED_MAX,
    COORDINATOR_S,
    HELD_S_MAX,
    IDS_MAX,
    RESEND_S,
    TransactionalAcks,
)
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import Delivered, SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, FakeBrokerLink, T, batch, single
from tests.net.test_subscription_openings import bomb

TXN = (0, 5)
LOOKS = 60.0
ANSWER_S = BrokerSettings(("pulsar://b:6650",), "test").request_timeout_s
"""By then a broker has answered, or is taken for one that never will."""


def ack(
    rig: SubscriptionRig,
    worker: Worker,
    *items: int | Delivered,
    ack_set: tuple[int, ...] = (),
    transaction: tuple[int, int] = TXN,
    request_id: int = 9,
) -> None:
    """An acknowledgement inside a transaction, as a client sends it."""
    command = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Individual, request_id=request_id)
    for item in items:
        ledger, entry = (LEDGER, item) if isinstance(item, int) else (item.ledger, item.entry)
        command.message_id.add(ledgerId=ledger, entryId=entry, ack_set=ack_set)
    command.txnid_most_bits, command.txnid_least_bits = transaction
    worker.port.ack(command)
    rig.clock.settle()


def end(rig: SubscriptionRig, *, committed: bool, transaction: tuple[int, int] = TXN) -> None:
    """The coordinator has ended it, and the answer passed the gateway."""
    rig.subscriptions.transaction_ended(transaction, committed=committed)
    rig.clock.settle()


def holding(count: int = 3) -> tuple[SubscriptionRig, Worker]:
    """A worker that has the messages 0 to `count`, all of one key, and has room for more."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=1_000)
    rig.link.deliver(*[(entry, single("k")) for entry in range(count)])
    assert worker.entries() == list(range(count))
    rig.link.log.clear()
    return rig, worker


def test_it_goes_to_the_broker_in_its_transaction_and_is_answered_by_it() -> None:
    """One command, under the gateway's own consumer; the worker hears when the broker has said yes."""
    rig, worker = holding()
    rig.link.held.add(T.ACK)
    ack(rig, worker, 0, 1)
    (sent,) = rig.link.sent(T.ACK)
    assert (sent.ack.txnid_most_bits, sent.ack.txnid_least_bits) == TXN
    assert [(place.entryId, list(place.ack_set), place.batch_size) for place in sent.ack.message_id] == [
        (0, [], 0),
        (1, [], 0),
    ]
    assert worker.commands() == []
    rig.link.answer(T.ACK)
    receipt = worker.receipt()
    assert (receipt.request_id, receipt.txnid_most_bits, receipt.txnid_least_bits) == (9, *TXN)
    assert not receipt.HasField("error")


def test_a_commit_is_an_ack_and_an_abort_a_redelivery() -> None:
    """As the coordinator's answer tells, of every subscription that has a part in the transaction."""
    rig, worker = holding()
    ack(rig, worker, 0)
    ack(rig, worker, 1, transaction=(0, 6))
    rig.link.log.clear()
    end(rig, committed=True)
    assert rig.link.acked() == [(LEDGER, 0)]
    end(rig, committed=False, transaction=(0, 6))
    assert [(each.entry, each.redeliveries) for each in worker.messages()] == [(1, 1)]
    end(rig, committed=True, transaction=(0, 6))
    assert rig.link.acked() == []
    assert len(rig.subscriptions.services.transactions._open) == 0


def test_what_came_again_before_it_was_acknowledged_anew_tells_of_the_transaction_before() -> None:
    """A batch that has to be opened beside the loop first: it is not delivered while it is in the next transaction."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=1_000)
    tail = bomb("k", "x")
    rig.link.deliver((0, tail))
    ack(rig, worker, *worker.messages())
    end(rig, committed=False)
    again = worker.messages()
    rig.background.held = True
    rig.link.deliver((0, tail), redeliveries=1)
    ack(rig, worker, *again, transaction=(0, 6))
    rig.background.carry_out()
    assert worker.messages() == []
    rig.link.log.clear()
    end(rig, committed=True, transaction=(0, 6))
    assert rig.link.acked() == [(LEDGER, 0)]


def test_what_is_refused_comes_again() -> None:
    """The broker's own words reach the client, and the message is where it was."""
    rig, worker = holding(1)
    rig.link.refusals[T.ACK] = (pb.TransactionConflict, "in pending ack status")
    ack(rig, worker, 0)
    receipt = worker.receipt()
    assert (receipt.error, receipt.message) == (pb.TransactionConflict, "in pending ack status")
    assert worker.entries() == [0]


def test_what_a_worker_does_not_hold_is_a_conflict() -> None:
    """Named twice, acknowledged, or never delivered: the broker is not asked."""
    rig, worker = holding()
    worker.ack(0)
    rig.link.log.clear()
    for entries in ((0,), (7,), (1, 1)):
        ack(rig, worker, *entries)
        assert worker.receipt().error == pb.TransactionConflict
    assert rig.link.sent(T.ACK) == []
    assert rig.statistics().subscriptions[0].acks_refused == 3


def test_too_many_at_once_are_refused() -> None:
    """All are taken in one turn of the loop, so that their number is bounded."""
    rig, worker = holding()
    ack(rig, worker, *range(IDS_MAX + 1))
    receipt = worker.receipt()
    assert receipt.error == pb.NotAllowedError
    assert str(IDS_MAX) in receipt.message


def test_one_of_no_messages_is_answered_at_once() -> None:
    """Ids may be made up, as fast as a client sends: the broker is not asked, and none is remembered."""
    rig, worker = holding()
    ack(rig, worker)
    assert not worker.receipt().HasField("error")
    assert rig.link.sent(T.ACK) == []
    assert len(rig.subscriptions.services.transactions._open) == 0


def test_an_answer_costs_the_same_however_much_is_held() -> None:
    """Thousands of them come in one read: looking at all that is held for each would stop the gateway for seconds."""
    rig, worker = holding(9)
    rig.link.held.add(T.ACK)
    for entry in range(9):
        ack(rig, worker, entry, transaction=(0, entry))
    looked: list[set[tuple[int, int]]] = []
    tidy = TransactionalAcks._tidy

    def noted(acks: TransactionalAcks, transactions: set[tuple[int, int]]) -> None:
        looked.append(transactions)
        tidy(acks, transactions)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionalAcks, "_tidy", noted)
        rig.link.answer(T.ACK)
        rig.link.refuse(T.ACK, pb.TransactionConflict, "in pending ack status")
        end(rig, committed=True, transaction=(0, 0))
    assert looked == [{(0, 1)}, {(0, 0)}]
    assert len(rig.subscriptions.services.transactions._open) == 7
    assert worker.entries() == [1]


def test_single_messages_of_a_batch_have_their_places_in_the_original() -> None:
    """A worker knows its slice only; the broker is told which messages of the entry, and of how many."""
    rig = SubscriptionRig()
    first = rig.worker("a", permits=9)
    second = rig.worker("b", permits=9)
    mine, others = rig.key_for("a"), rig.key_for("b")
    rig.link.deliver((4, batch([(others, b"0"), (mine, b"1"), (others, b"2"), (mine, b"3")])))
    (slice_of_a,) = first.messages()
    assert second.messages()[0].payloads == [b"0", b"2"]
    rig.link.log.clear()
    command = pb.CommandAck(consumer_id=first.consumer_id, ack_type=pb.CommandAck.Individual, request_id=9)
    command.message_id.add(ledgerId=slice_of_a.ledger, entryId=slice_of_a.entry, ack_set=[0b01], batch_size=2)
    command.txnid_most_bits, command.txnid_least_bits = TXN
    first.port.ack(command)
    rig.clock.settle()
    (sent,) = rig.link.sent(T.ACK)
    (place,) = sent.ack.message_id
    assert (place.entryId, bits_of(place.ack_set), place.batch_size) == (4, 0b0111, 4)
    end(rig, committed=False)
    assert [each.payloads for each in first.messages()] == [[b"3"]]


def test_a_part_of_a_batch_needs_a_broker_that_stores_such_acks() -> None:
    """Else what is left of the batch could never be acknowledged beside it."""
    rig = SubscriptionRig(upstream_batch_index_ack=False)
    worker = rig.worker("a", permits=9)
    rig.link.deliver((4, batch([("k", b"0"), ("k", b"1")])))
    ack(rig, worker, 4, ack_set=(0b10,))
    receipt = worker.receipt()
    assert receipt.error == pb.NotAllowedError
    assert "upstream_batch_index_ack" in receipt.message
    ack(rig, worker, 4)
    assert not worker.receipt().HasField("error")


def sent_again() -> tuple[SubscriptionRig, Worker, FakeBrokerLink]:
    """Message 0's was lost with its connection, and is on its way by the next."""
    rig, worker = holding(1)
    rig.link.held.add(T.ACK)
    ack(rig, worker, 0)
    rig.link.lose()
    link = rig.brokers.new_link()
    link.held.add(T.ACK)
    rig.clock.advance(LOOKS)
    return rig, worker, link


def test_a_lost_connection_is_followed_by_the_same_ack() -> None:
    """The broker may have it already; that it says so is success, and its answer is the worker's."""
    rig, worker, link = sent_again()
    (sent,) = [command for command in link.sent(T.ACK) if command.ack.HasField("txnid_most_bits")]
    assert sent.ack.message_id[0].entryId == 0
    link.refuse(T.ACK, pb.TransactionConflict, "in pending ack status")
    assert not worker.receipt().HasField("error")
    end(rig, committed=True)
    assert worker.entries() == []


def test_a_consumer_that_the_broker_closed_is_followed_by_the_same_ack() -> None:
    """On the same connection: a broker never answers what is asked of a consumer that is gone."""
    rig, worker = holding(1)
    rig.link.held.add(T.ACK)
    ack(rig, worker, 0)
    rig.link.close_consumer()
    rig.link.waiting = [asked for asked in rig.link.waiting if asked.command.type != T.ACK]
    rig.clock.advance(ANSWER_S / 2)
    first, second = (command.ack for command in rig.link.sent(T.ACK))
    assert first.consumer_id != second.consumer_id
    assert first.message_id == second.message_id
    assert (second.txnid_most_bits, second.txnid_least_bits) == TXN
    rig.link.refuse(T.ACK, pb.TransactionConflict, "in pending ack status")
    assert not worker.receipt().HasField("error")


def test_one_that_the_broker_did_not_answer_before_both_ends_comes_again() -> None:
    """The transaction's and the consumer's: nobody knows whether the broker had it."""
    rig, worker = holding(1)
    rig.link.held.add(T.ACK)
    ack(rig, worker, 0)
    end(rig, committed=True)
    rig.link.close_consumer()
    rig.link.waiting = [asked for asked in rig.link.waiting if asked.command.type != T.ACK]
    rig.clock.advance(ANSWER_S / 2)
    assert worker.receipt().HasField("error")
    assert len(rig.link.sent(T.ACK)) == 1
    assert worker.entries() == [0]


def test_what_was_not_sent_before_the_end_is_never_sent() -> None:
    """The broker would keep it pending for ever."""
    rig, worker = holding(1)
    rig.link.lose()
    ack(rig, worker, 0)
    end(rig, committed=True)
    assert worker.receipt().error == pb.TransactionConflict
    link = rig.brokers.new_link()
    rig.clock.advance(LOOKS)
    assert link.sent(T.ACK) == []
    assert worker.entries() == [0]


@pytest.mark.parametrize("committed", [True, False])
def test_what_was_not_answered_before_the_end_comes_again(committed: bool) -> None:  # noqa: FBT001 - a parameter
    """It may have come too late for the broker, and nothing may be lost; the answer is waited for all the same."""
    rig, worker = holding(1)
    rig.link.held.add(T.ACK)
    ack(rig, worker, 0)
    end(rig, committed=committed)
    assert worker.entries() == []
    rig.link.answer(T.ACK)
    assert worker.entries() == [0]
    assert len(rig.link.sent(T.ACK)) == 1


def test_the_broker_s_redelivery_tells_of_an_abort_elsewhere() -> None:
    """Timed out, or ended by another client: newer messages of the key come behind it."""
    rig, worker = holding(1)
    ack(rig, worker, 0)
    rig.link.deliver((0, single("k")), (1, single("k")), redeliveries=1)
    assert worker.entries() == [0, 1]


def test_the_mark_delete_position_tells_of_a_commit_elsewhere() -> None:
    """The broker is asked for it while something is held, and no longer."""
    rig, worker = holding(2)
    ack(rig, worker, 0)
    rig.link.log.clear()
    rig.clock.advance(3 * ASK_S)
    assert rig.link.taken(T.GET_LAST_MESSAGE_ID)
    assert rig.link.acked() == []
    rig.link.mark_delete = (LEDGER, 0)
    rig.clock.advance(2 * ASK_S)
    assert rig.link.acked() == [(LEDGER, 0)]
    rig.link.taken(T.GET_LAST_MESSAGE_ID)
    rig.clock.advance(5 * ASK_S)
    assert rig.link.taken(T.GET_LAST_MESSAGE_ID) == []
    assert worker.entries() == []


def test_the_position_told_after_a_reconnect_does_too() -> None:
    """It is no move of the cursor, which would have the broker's messages taken for new ones."""
    rig, worker = holding(2)
    ack(rig, worker, 0)
    rig.link.lose()
    link = rig.brokers.new_link()
    link.held.add(T.GET_LAST_MESSAGE_ID)
    link.mark_delete = (LEDGER, 0)
    rig.clock.advance(LOOKS)
    link.answer(T.GET_LAST_MESSAGE_ID)  # that of the new consumer, before any that is asked every second
    assert (LEDGER, 0) in link.acked()
    link.deliver((0, single("k")), (1, single("k")))
    assert worker.entries() == []


def test_a_subscription_without_workers_stays_until_its_transactions_have_ended() -> None:
    """The next worker would get newer messages of the key before what is aborted."""
    rig, worker = holding(2)
    ack(rig, worker, 0)
    worker.commands()
    worker.close()
    assert rig.count == 1
    second = rig.worker("b", permits=9)
    assert second.entries() == []
    end(rig, committed=False)
    assert second.entries() == [0, 1]


def test_a_close_is_answered_when_the_broker_has_the_ack() -> None:
    """Not at the transaction's end: the client that waits may be the one that ends it."""
    rig, worker = holding(2)
    rig.link.held.add(T.ACK)
    ack(rig, worker, 0)
    worker.close()
    assert worker.answers() == []
    rig.link.answer(T.ACK)
    assert worker.answers() == [T.ACK_RESPONSE, T.SUCCESS]
    assert rig.count == 1
    end(rig, committed=True)
    rig.link.answer(T.ACK)
    assert rig.count == 0
    rig, worker = holding(2)
    ack(rig, worker, 0)
    worker.ack(1)
    worker.answers()
    worker.close()
    assert worker.answers() == [T.SUCCESS]
    assert rig.count == 1


def test_it_stays_no_longer_than_for_unconfirmed_acks() -> None:
    """What nobody ends must not keep the subscription from others."""
    rig, worker = holding(1)
    ack(rig, worker, 0)
    worker.lose()
    assert rig.count == 1
    rig.clock.advance(CLOSING_S_MAX + 1)
    assert rig.count == 0
    assert len(rig.subscriptions.services.transactions._open) == 0


def waiting_for_one_that_left() -> tuple[SubscriptionRig, Worker]:
    """A worker that has a key's next message in wait, behind one that has left with its transaction open."""
    rig = SubscriptionRig()
    first = rig.worker("a", permits=9)
    second = rig.worker("b", permits=9)
    key = rig.key_for("a")
    rig.link.deliver((0, single(key)))
    ack(rig, first, 0)
    first.lose()
    rig.link.deliver((1, single(key)))
    assert second.entries() == []
    return rig, second


def test_a_coordinator_that_knows_it_no_more_sets_its_keys_free() -> None:
    """A commit elsewhere, most likely: the key goes on; the broker is asked until it is known."""
    rig, second = waiting_for_one_that_left()
    rig.clock.advance(3 * COORDINATOR_S)
    (asked, *_) = rig.link.sent(T.ADD_SUBSCRIPTION_TO_TXN)
    told = asked.addSubscriptionToTxn
    assert (told.txnid_most_bits, told.txnid_least_bits) == TXN
    assert not told.subscription  # an id may be made up: nothing is added to another's transaction
    assert second.entries() == []
    rig.link.refusals[T.ADD_SUBSCRIPTION_TO_TXN] = (pb.TransactionNotFound, "no such transaction")
    rig.link.log.clear()
    rig.clock.advance(COORDINATOR_S + RESEND_S + 2 * ASK_S)
    assert second.entries() == [1]
    assert rig.link.acked() == []
    rig.link.mark_delete = (LEDGER, 0)
    rig.clock.advance(2 * ASK_S)
    assert rig.link.taken(T.GET_LAST_MESSAGE_ID)
    rig.clock.advance(10 * ASK_S)
    assert not rig.link.taken(T.GET_LAST_MESSAGE_ID)
    assert rig.link.acked() == []
    rig.link.deliver((0, single("k")), redeliveries=1)
    assert (rig.link.acked(), second.entries()) == ([(LEDGER, 0)], []), "an early unload lost nothing of it"


def test_of_many_transactions_each_is_asked_for_in_its_turn() -> None:
    """Those that were asked for already come behind the others, however many of them are open."""
    rounds = 8
    count = rounds * ASKED_MAX
    rig, worker = holding(count)
    for number in range(count):
        ack(rig, worker, number, transaction=(0, number))
    rig.clock.advance(COORDINATOR_S + 2 * rounds * ASK_S + ASK_S / 2)
    asked = Counter(each.addSubscriptionToTxn.txnid_least_bits for each in rig.link.sent(T.ADD_SUBSCRIPTION_TO_TXN))
    assert len(asked) == count
    assert set(asked.values()) <= {2, 3}


def test_other_answers_of_a_coordinator_mean_nothing() -> None:
    """It may not tell strangers, be elsewhere by now, or be at the end of the transaction just now."""
    rig, second = waiting_for_one_that_left()
    rig.link.refusals[T.ADD_SUBSCRIPTION_TO_TXN] = (pb.NotAllowedError, "not the owner of the transaction")
    rig.clock.advance(20 * COORDINATOR_S)
    assert second.entries() == []


def test_keys_do_not_wait_for_ever() -> None:
    """For a transaction whose end is not seen another worker gets the key after a bound."""
    rig, second = waiting_for_one_that_left()
    rig.clock.advance(HELD_S_MAX - 10)
    assert second.entries() == []
    rig.clock.advance(20)
    assert second.entries() == [1]


def test_a_seek_forgets_open_transactions() -> None:
    """The broker begins anew, and so do we."""
    rig, worker = holding(2)
    ack(rig, worker, 0)
    worker.seek(0)
    assert len(rig.subscriptions.services.transactions._open) == 0
    end(rig, committed=True)
