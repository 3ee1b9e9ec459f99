"""Receipts: a worker hears that its acks are confirmed once, after the broker said so, or that they are not."""

from __future__ import annotations

from proxy.core.positions import pack
from proxy.net.subscription.acks import INDEX_ACKS_S, RETRY_S
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, T, batch, single
from tests.net.test_subscription_acks import index_acks, ready


def test_a_receipt_comes_after_the_brokers_confirmation() -> None:
    """A worker may let go of its own state on it."""
    rig, worker = ready(1)
    rig.link.held.add(T.ACK)
    worker.ack(0, request_id=5)
    assert worker.commands() == []
    rig.link.answer(T.ACK)
    receipt = worker.receipt()
    assert (receipt.consumer_id, receipt.request_id) == (worker.consumer_id, 5)
    assert not receipt.HasField("error")


def test_a_receipt_passes_the_brokers_refusal_on() -> None:
    """Its code and words; the ack stays unconfirmed, and goes again after a reconnect."""
    rig, worker = ready(1)
    rig.link.held.add(T.ACK)
    worker.ack(0, request_id=5)
    rig.link.refuse(T.ACK, pb.PersistenceError, "cursor is fenced")
    receipt = worker.receipt()
    assert (receipt.error, receipt.message) == (pb.PersistenceError, "cursor is fenced")
    assert rig.statistics().subscriptions[0].dispatcher.unconfirmed_acks == 1
    rig.link.close_consumer()
    rig.link.acked()
    rig.clock.advance(0)
    assert rig.link.acked() == [(LEDGER, 0)]


def test_an_ack_that_the_broker_refused_is_sent_again_after_a_while() -> None:
    """Or the entry would stay in its backlog until the connection happens to break. Index acks too."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, single("k")), (1, batch([("k", b"0"), ("k", b"1")])))
    rig.link.held.add(T.ACK)
    worker.ack(0)
    worker.ack(1, ack_set=[0b10])
    rig.clock.advance(INDEX_ACKS_S)
    rig.link.log.clear()
    for _ in range(2):
        rig.link.refuse(T.ACK, pb.PersistenceError, "metadata store is away")
    assert rig.link.sent(T.ACK) == []
    rig.clock.advance(RETRY_S)
    whole, single_messages = rig.link.taken(T.ACK)
    assert [place.entryId for place in whole.ack.message_id] == [0]
    assert [list(place.ack_set) for place in single_messages.ack.message_id] == [[0b10]]


def test_a_receipt_for_nothing_is_answered_at_once() -> None:
    """An ack of what was acknowledged already has nothing to wait for."""
    rig, worker = ready(1)
    worker.ack(0)
    worker.ack(0, request_id=5)
    assert worker.receipt().request_id == 5
    assert len(rig.link.sent(T.ACK)) == 1


def test_a_receipt_survives_a_lost_connection() -> None:
    """The ack goes again on the new connection, and the receipt comes when that one is confirmed, once."""
    rig, worker = ready(1)
    rig.link.held.add(T.ACK)
    worker.ack(0, request_id=5)
    old, new = rig.link, rig.brokers.new_link()
    new.held.add(T.ACK)
    old.lose()
    rig.clock.advance(0)
    assert worker.commands() == []
    assert new.acked() == [(LEDGER, 0)]
    new.answer(T.ACK)
    assert worker.receipt().request_id == 5
    rig.clock.advance(60)
    assert worker.commands() == []


def test_a_receipt_in_two_commands_survives_a_lost_connection_and_comes_once() -> None:
    """Both commands are told of the loss; the worker is answered once all the same."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, single("k")), (1, batch([("k", b"0"), ("k", b"1")])))
    worker.messages()
    rig.link.held.add(T.ACK)
    command = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Individual, request_id=5)
    command.message_id.add(ledgerId=LEDGER, entryId=0)
    command.message_id.add(ledgerId=LEDGER, entryId=1).ack_set.append(0b10)
    worker.port.ack(command)
    rig.clock.settle()
    assert len(rig.link.sent(T.ACK)) == 2
    old, _ = rig.link, rig.brokers.new_link()
    old.lose()
    rig.clock.advance(0)
    assert worker.receipt().request_id == 5


def test_a_receipt_does_not_wait_for_an_answer_that_a_closed_consumer_never_gets() -> None:
    """The broker says nothing to acks of a consumer it closed; the new consumer's ack confirms."""
    rig, worker = ready(1)
    rig.link.held.add(T.ACK)
    worker.ack(0, request_id=5)
    rig.link.held.clear()
    rig.link.close_consumer()
    rig.clock.advance(0)
    assert worker.receipt().request_id == 5
    rig.link.time_out(T.ACK)
    rig.clock.advance(60)
    assert worker.commands() == []


def test_an_ack_that_timed_out_on_a_connection_that_stands_is_sent_again() -> None:
    """There is no reconnect to wait for; index acks too, and the receipt waits on."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, single("k")), (1, batch([("k", b"0"), ("k", b"1")])))
    rig.link.held.add(T.ACK)
    worker.ack(0, request_id=5)
    worker.ack(1, ack_set=[0b10])
    rig.clock.advance(INDEX_ACKS_S)
    rig.link.log.clear()
    rig.link.time_out(T.ACK)
    assert worker.commands() == []
    assert rig.link.acked() == [(LEDGER, 0)]
    rig.link.time_out(T.ACK)
    assert index_acks(rig.link) == [(1, 0b10)]
    rig.link.answer(T.ACK)
    assert worker.receipt().request_id == 5


def test_a_receipt_that_waits_for_a_broker_outlives_its_worker() -> None:
    """The ack is not given up with the last worker, so neither is its receipt; who closes does not wait for it."""
    rig, worker = ready(1)
    rig.brokers.held = True
    rig.link.lose()
    worker.ack(0, request_id=5)
    worker.close(6)
    assert worker.answers() == [T.SUCCESS]
    rig.brokers.new_link()
    rig.brokers.held = False
    rig.clock.advance(0)
    assert not worker.receipt().HasField("error")


def test_a_receipt_in_flight_is_answered_though_the_worker_left() -> None:
    """The ack left before the close, and the close waits for its answer; an ack without an answer goes once more."""
    for confirmed in (True, False):
        rig, worker = ready(1)
        rig.link.held.add(T.ACK)
        worker.ack(0, request_id=5)
        worker.close(6)
        assert worker.answers() == []
        if confirmed:
            rig.link.answer(T.ACK)
            assert worker.answers() == [T.ACK_RESPONSE, T.SUCCESS]
        else:
            rig.link.time_out(T.ACK)
            assert worker.answers() == [T.SUCCESS]
            rig.link.answer(T.ACK)
            assert not worker.receipt().HasField("error")


def test_a_receipt_of_a_worker_whose_connection_is_gone_is_dropped() -> None:
    """The ack counts; nothing is written to a link that is gone."""
    rig, worker = ready(1)
    rig.link.held.add(T.ACK)
    worker.ack(0, request_id=5)
    worker.lose()
    rig.link.answer(T.ACK)
    assert worker.commands() == []


def test_a_receipt_asked_for_while_the_cursor_moves_is_not_a_success() -> None:
    """What was acknowledged behind a seek in the same turn is forgotten with everything else."""
    rig, worker = ready(1)
    rig.link.held.add(T.SEEK)
    worker.seek(0)
    command = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Individual, request_id=5)
    command.message_id.add(ledgerId=LEDGER, entryId=0)
    worker.port.ack(command)
    rig.link.answer(T.SEEK)
    receipts = [answer.ackResponse for answer in worker.commands() if answer.type == T.ACK_RESPONSE]
    assert [receipt.error for receipt in receipts] == [pb.ServiceNotReady]


def test_confirmed_acks_are_known_as_such() -> None:
    """Until the broker's word a position counts as unconfirmed, and no longer."""
    rig, worker = ready(2)
    rig.link.held.add(T.ACK)
    worker.ack(0, 1)
    outstanding = rig.subscription.state.dispatcher.outstanding
    assert outstanding.unconfirmed == {pack(LEDGER, 0), pack(LEDGER, 1)}
    rig.link.answer(T.ACK)
    assert outstanding.unconfirmed == set()
    assert outstanding.was_confirmed(pack(LEDGER, 0))
