"""Chunked messages with too many attempts on the wire: a client of the other topic can put them together."""

from __future__ import annotations

import pytest

from proxy.errors import UpstreamError
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import peek
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, T, single
from tests.net.test_subscription_dead_letters import receipt, rig_of
from tests.net.test_subscription_parking import Lot, acked, arrive, opened, payload

PIECES = (b"po", b"is", b"on")


def chunk(index: int) -> bytes:
    """A piece of the poisoned message."""
    size = len(b"".join(PIECES))
    total = len(PIECES)
    return single("k", PIECES[index], uuid="u", chunk_id=index, num_chunks_from_msg=total, total_chunk_msg_size=size)


def given_back(rig: SubscriptionRig, worker: Worker, attempts: int = 2) -> None:
    """The worker gets the message so often, and names the last chunk alone, as clients do."""
    rig.link.deliver(*((index, chunk(index)) for index in range(len(PIECES))))
    for _ in range(attempts):
        messages = worker.messages()
        assert [message.entry for message in messages] == [0, 1, 2]
        worker.redeliver(messages[-1])


def copies(rig: SubscriptionRig) -> list[bytes]:
    """Payloads that were published since the last look, all of one message with right metadata."""
    tails, rig.link.published = rig.link.published[:], []
    for tail in tails:
        metadata, _, start = peek(tail)
        index = metadata.chunk_id
        assert (metadata.uuid, metadata.num_chunks_from_msg, metadata.total_chunk_msg_size) == ("u", 3, 6)
        assert tail[start:] == PIECES[index]
        assert pb.KeyValue(key="ORIGIN_MESSAGE_ID", value=f"{LEDGER}:{index}:-1") in metadata.properties
    return [payload(tail) for tail in tails]


def stored(rig: SubscriptionRig, *sequence_ids: int) -> None:
    """The broker has these, of the newest producer."""
    producer = list(rig.link.producers.values())[-1]
    for sequence_id in sequence_ids:
        producer.stored(sequence_id)
    rig.clock.settle()
    rig.link.log = [command for command in rig.link.log if command.type != T.SEND]


def test_all_chunks_go_in_order_and_are_acknowledged_behind_the_last_receipt() -> None:
    """With their metadata; what comes of the key meanwhile waits."""
    rig, worker = rig_of()
    given_back(rig, worker)
    assert worker.messages() == []
    rig.link.deliver((3, single("k", b"next")))
    assert copies(rig) == [*PIECES]
    stored(rig, 0, 1)
    assert rig.link.acked() == []
    assert worker.messages() == []
    stored(rig, 2)
    assert rig.link.acked() == [(LEDGER, 0), (LEDGER, 1), (LEDGER, 2)]
    assert worker.entries() == [3]


@pytest.mark.parametrize("had", [0, 1, 2])
def test_a_message_of_which_chunks_had_no_receipt_goes_again_from_the_first(had: int) -> None:
    """A client of the topic that gets a chunk twice within a message throws the message away."""
    rig, worker = rig_of()
    given_back(rig, worker)
    assert copies(rig) == [*PIECES]
    stored(rig, *range(had))
    rig.link.lose()
    rig.brokers.new_link()
    sent: list[bytes] = []
    for _ in range(9):
        rig.clock.advance(1)
        sent += copies(rig)
        receipt(rig)
    assert sent == [*PIECES]
    assert {entry for _, entry in rig.link.acked()} == {0, 1, 2}


def test_a_message_of_which_a_chunk_was_refused_goes_again_from_the_first_once_it_is_taken() -> None:
    """Meanwhile that chunk is tried alone: a client may have given up the message in between."""
    rig, worker = rig_of()
    given_back(rig, worker)
    assert copies(rig) == [*PIECES]
    (producer,) = rig.link.producers.values()
    producer.stored(0)
    producer.not_stored(1, UpstreamError("too large for this topic", pb.NotAllowedError))
    stored(rig, 2)
    rig.clock.advance(1)
    assert set(copies(rig)) == {PIECES[1]}
    assert rig.link.acked() == []
    receipt(rig)
    assert copies(rig) == [*PIECES]
    assert rig.link.acked() == []
    receipt(rig)
    assert rig.link.acked() == [(LEDGER, 0), (LEDGER, 1), (LEDGER, 2)]
    assert not rig.subscription.state.dispatcher.diversions.held


def test_a_message_of_which_a_chunk_was_refused_goes_whole_also_when_another_is_taken_first() -> None:
    """What the topic takes then, it may take of all."""
    rig, worker = rig_of(attempts=1)
    rig.link.deliver((5, single("other", b"large")), (6, single("other", b"behind")))
    worker.redeliver(*worker.messages())
    given_back(rig, worker, attempts=1)
    rig.link.published.clear()
    (producer,) = rig.link.producers.values()
    for sequence_id, refused in enumerate((True, False, False, True, False)):
        if refused:
            producer.not_stored(sequence_id, UpstreamError("too large for this topic", pb.NotAllowedError))
        else:
            producer.stored(sequence_id)
    stored(rig)
    rig.clock.advance(1)
    receipt(rig)
    sent = [payload(tail) for tail in rig.link.published]
    assert sent[-3:] == [*PIECES]
    receipt(rig)
    assert {entry for _, entry in rig.link.acked()} == {0, 1, 2, 5, 6}


def test_a_gateway_that_ends_between_the_copies_leaves_all_chunks_to_the_next() -> None:
    """The first copy is there twice then, and the message is whole behind it."""
    rig, worker = rig_of()
    given_back(rig, worker)
    stored(rig, 0)
    worker.close()
    assert rig.link.acked() == []


def test_a_parked_chunked_message_is_parked_whole_and_stays_so_if_its_redrive_fails() -> None:
    """Although the worker asks for its last chunk alone, each time."""
    lot = Lot()
    rig, worker = opened(lot)
    assert rig.subscription.lot is not None
    arrive(rig, *((index, chunk(index)) for index in range(len(PIECES))), (3, single("k", b"next")))
    worker.redeliver(worker.messages()[-1])
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [*PIECES, b"next"]
    assert acked(rig) == [0, 1, 2, 3]
    for succeeds in (False, True):
        (slot,) = rig.subscription.lot.parked_slots
        rig.subscription.lot.order(slot, redrive=True)
        lot.pump(rig)
        messages = worker.messages()
        assert [message.payloads for message in messages] == [[piece] for piece in PIECES]
        if succeeds:
            worker.ack(*messages)
        else:
            worker.redeliver(messages[-1])
        lot.pump(rig)
        assert len(lot.left()) == (1 if succeeds else 4)
    assert [message.payloads for message in worker.messages()] == [[b"next"]]
