"""Parked keys and what is promised besides: who is let in when, receipts, and turns that end."""

from __future__ import annotations

import pytest

from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import T, batch, single
from tests.net.test_subscription_parking import Lot, acked, arrive, opened, order_redrive, parked, payload, redriven


def test_a_worker_that_comes_while_the_parking_topic_is_read_waits_for_that() -> None:
    """Else it would get what is newer than the parked messages of its key."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    rig = SubscriptionRig(park_after=1, key_window=1)
    lot.sent.clear()
    workers = [rig.subscribe("a"), rig.subscribe("b")]
    for worker in workers:
        worker.flow(50)
    arrive(rig, (1, single("k", b"1")))
    assert [worker.messages() for worker in workers] == [[], []]
    lot.pump(rig)
    assert [worker.answers() for worker in workers] == [[T.SUCCESS], [T.SUCCESS]]
    assert [worker.messages() for worker in workers] == [[], []]
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"1"]


def test_messages_of_a_parked_key_are_parked_in_order_whatever_stands_first_in_their_batches() -> None:
    """The first message of a batch may be of a key that is not parked, and its worker may have no permits."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    permits = next(iter(rig.subscription.state.dispatcher.workers.values())).permits
    arrive(rig, *((1 + each, single(f"other-{each}")) for each in range(permits)))
    arrive(
        rig,
        (101, batch([("another", b"x"), ("k", b"1")])),
        (102, batch([("k", b"2"), ("another", b"y")])),
    )
    lot.pump(rig)
    assert [payload(tail) for tail in lot.entries if parked(tail)] == [b"0", b"1", b"2"]


def test_a_receipt_for_a_redriven_message_waits_for_the_parking_topic() -> None:
    """Its worker may let go of it then; a gateway that is killed before would leave it parked."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("other", b"1")))
    first, other = worker.messages()
    worker.redeliver(first)
    lot.pump(rig)
    order_redrive(rig)
    lot.pump(rig)
    (again,) = worker.messages()
    rig.link.held.add(T.ACK)
    worker.ack(again, request_id=7)
    assert worker.commands() == []
    worker.ack(other, request_id=8)
    assert worker.commands() == []
    assert len([asked for asked in rig.link.waiting if asked.command.type == T.ACK]) == 2
    rig.link.answer(T.ACK)
    assert worker.receipt().request_id == 7
    rig.link.answer(T.ACK)
    assert worker.receipt().request_id == 8


def test_a_receipt_for_a_redriven_message_is_refused_if_the_subscription_ends_before() -> None:
    """It may come again: nothing has confirmed it."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    order_redrive(rig)
    lot.pump(rig)
    rig.link.held.add(T.ACK)
    worker.ack(*worker.messages(), request_id=7)
    rig.subscription.shut()
    rig.clock.settle()
    (receipt,) = [each.ackResponse for each in worker.commands() if each.type == T.ACK_RESPONSE]
    assert receipt.request_id == 7
    assert receipt.HasField("error")


def test_a_worker_that_does_not_read_keeps_no_turn_from_ending() -> None:
    """What is to be written to it waits for its socket, not for the next turn."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    arrive(rig, (1, single("other", b"1")))
    worker.room = 0
    arrive(rig, (2, single("third", b"2")))
    arrive(rig, (3, single("fourth", b"3")))
    arrive(rig, (4, single("k", b"4")))
    lot.pump(rig)
    assert 4 in acked(rig)
    worker.read_again()
    assert [message.payloads for message in worker.messages()] == [[b"1"], [b"2"], [b"3"]]


def test_a_part_of_a_redriven_batch_that_is_acknowledged_is_not_acknowledged_where_it_came_from() -> None:
    """The broker has that position acknowledged; the copy is, in the parking topic, when all of its messages are."""
    lot = Lot()
    rig, worker = opened(lot)
    keys = [pb.EncryptionKeys(key="key", value=b"value")]  # so it is parked whole
    arrive(rig, (0, batch([("k", b"0"), ("k", b"1"), ("k", b"2")], encryption_keys=keys)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    assert acked(rig) == [0]
    order_redrive(rig)
    lot.pump(rig)
    (message,) = worker.messages()
    rig.link.taken(T.ACK)
    worker.ack(message, ack_set=[0b110])
    rig.clock.advance(1.0)
    lot.pump(rig)
    assert rig.link.sent(T.ACK) == []
    worker.ack(message)
    lot.pump(rig)
    assert lot.left() == []


@pytest.mark.parametrize("back", [True, False])
def test_a_seek_leaves_what_is_parked(*, back: bool) -> None:
    """It ends a redrive, which says why. What it brings again and is parked is not delivered besides."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    order_redrive(rig)
    lot.pump(rig)
    assert len(worker.messages()) == 1
    ear = rig.subscriptions.events.listen(lambda: None)
    worker.seek(0 if back else 5)
    (failed,) = [event for event in ear.take()[1] if event.kind == "redrive_failed"]
    assert "was moved by a seek" in failed.facts["reason"]
    assert len(lot.left()) == 2
    rig, worker = opened(lot, mark_delete=None if back else 4)
    if back:
        arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")), (2, single("k", b"2")))
        lot.pump(rig)
        assert acked(rig) == [0, 1, 2]
    assert worker.messages() == []
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", *([b"2"] if back else [])]
