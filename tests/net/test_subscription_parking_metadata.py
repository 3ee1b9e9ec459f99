"""Parked messages whose metadata no client of today writes: each copy is read back, so that no key waits for ever."""

from __future__ import annotations

from typing import Any, Final

import pytest

from proxy.net.broker.producer import GatewayProducer
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_tail, peek
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import batch, single
from tests.net.test_subscription_parking import (
    Lot,
    acked,
    arrive,
    opened,
    order_redrive,
    payload,
    redriven,
)

ODD: Final[dict[str, dict[str, Any]]] = {
    "a chunk behind the last": {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": 2},
    "a chunk before the first": {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": -1},
    "a chunk of none": {"uuid": "u", "num_chunks_from_msg": 0, "chunk_id": 0},
    "a chunk of an unknown number": {"uuid": "u", "chunk_id": 1},
    "a chunk of fewer than none": {"uuid": "u", "num_chunks_from_msg": -2, "chunk_id": -3},
    "a chunk of no message": {"num_chunks_from_msg": 2, "chunk_id": 1},
    "a chunk of a message without a name": {"uuid": "", "num_chunks_from_msg": 2, "chunk_id": 0},
    "an only chunk of a negative size": {"uuid": "u", "num_chunks_from_msg": 1, "total_chunk_msg_size": -5},
    "a chunk that is an encrypted batch": {
        "uuid": "u",
        "num_chunks_from_msg": 2,
        "num_messages_in_batch": 3,
        "encryption_keys": [pb.EncryptionKeys(key="e", value=b"v")],
    },
    "a batch of none": {"num_messages_in_batch": 0},
    "a batch of fewer than none": {"num_messages_in_batch": -7},
    "a batch of one that is none": {"num_messages_in_batch": 1},
    "a batch of too many": {"num_messages_in_batch": 2**31 - 1},
    "another sequence": {"sequence_id": 2**64 - 1, "highest_sequence_id": 1},
    "another time": {"publish_time": 2**64 - 1, "event_time": 2**64 - 1, "deliver_at_time": -1},
    "no producer": {"producer_name": b""},
    "a marker of an unknown kind": {"marker_type": 99},
    "a transaction": {"txnid_most_bits": 2**64 - 1, "txnid_least_bits": 0},
    "replicated": {"replicated_from": "far", "replicate_to": ["here"]},
    "a schema": {"schema_version": b"\xff", "schema_id": b"\xff\1"},
    "null": {"null_partition_key": True, "null_value": True},
    "an ordering key": {"ordering_key": b"k", "partition_key": b"\xff\xfe"},
    "properties that a copy has": {
        "properties": [
            pb.KeyValue(key=f"keyline.parked.{name}", value="9:9")
            for name in ("origin", "hash", "mark", "attempts", "topic", "subscription", "new")
        ]
    },
}


def odd(body: bytes, **fields: Any) -> bytes:
    """The tail of a message of the key `k`, with these fields."""
    made: dict[str, Any] = {"producer_name": b"shop", "sequence_id": 7, "publish_time": 1, "partition_key": b"k"}
    return build_tail(pb.MessageMetadata(**(made | fields)), body)


def all_acked(rig: SubscriptionRig) -> bool:
    """Whether nothing is outstanding, and no copy awaited."""
    assert rig.subscription.lot is not None
    return not rig.subscription.state.dispatcher.outstanding.entries and not rig.subscription.lot._coming


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("name", ODD)
def test_whatever_a_producer_wrote_is_read_back_and_redriven(name: str, *, killed: bool) -> None:
    """Else the key was stuck behind a copy that is never read, and after a restart the message was lost."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, odd(b"odd", **ODD[name])), (2, single("k", b"2")))
    _redeliver_first(worker)
    lot.pump(rig)
    assert len(lot.left()) == 3
    assert acked(rig) == [0, 1, 2]
    if killed:
        rig, worker = opened(lot)
    rig.clock.settle()
    assert all_acked(rig)
    assert rig.subscription.lot is not None
    ((_, parked),) = rig.subscription.lot.log.slots.items()
    assert [each.position & 0xFF for each in parked.values()] == [0, 1, 2]
    assert {each.chunk for each in parked.values()} == {None}, "a plain message"
    arrive(rig, (3, single("k", b"3")))
    order_redrive(rig)
    assert payloads_until_done(rig, lot, worker) == [b"0", b"odd", b"2", b"3"]
    assert not rig.subscription.state.dispatcher.diversions.parked
    assert lot.left() == []


def payloads_until_done(rig: SubscriptionRig, lot: Lot, worker: Worker) -> list[bytes]:
    """The bytes behind each message's metadata; a whole batch that cannot be read is one."""
    seen: list[bytes] = []
    worker.flow(2**31 - 1)
    lot.pump(rig)
    while messages := worker.messages():
        for message in messages:
            seen.append(payload(message.tail))
            worker.ack(message)
        lot.pump(rig)
    return seen


def _redeliver_first(worker: Worker) -> None:
    (first,) = worker.messages()
    worker.redeliver(first)


def test_a_message_of_a_batch_that_claims_to_be_a_chunk_is_parked_alone() -> None:
    """Clients read such an entry as a batch; its message would wait in the lot for the rest of a chunked one."""
    lot = Lot()
    rig, worker = opened(lot)
    fields = {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": 0, "total_chunk_msg_size": 9}
    arrive(rig, (0, single("k", b"0")), (1, batch([("k", b"1"), ("k", b"2")], **fields)))
    _redeliver_first(worker)
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"1", b"2"]
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2"]
    assert not rig.subscription.state.dispatcher.diversions.parked


def test_a_chunk_with_impossible_numbers_has_no_part_in_a_message_that_a_worker_has_begun() -> None:
    """Whoever knows a message's uuid could have its rest go to another worker."""
    rig = SubscriptionRig()
    worker = rig.subscribe("a")
    worker.flow(50)
    chunk = {"uuid": "u", "num_chunks_from_msg": 3}
    rig.link.deliver((0, single("k", b"0", chunk_id=0, **chunk)), (1, single("k", b"x", chunk_id=3, **chunk)))
    assert len(rig.subscription.state.dispatcher.chunked) == 1


def test_a_copy_with_the_first_number_of_a_producer_is_read_though_a_property_lacks_its_value() -> None:
    """Required fields that only consumers need are asked of no message, whatever its number."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0", properties=[pb.KeyValue(key="valueless")])))
    (first,) = worker.messages()
    (producer,) = rig.link.producers.values()
    assert isinstance(producer, GatewayProducer)
    producer.next_sequence_id = 0
    worker.redeliver(first)
    lot.pump(rig)
    assert peek(lot.entries[lot.left()[0]]).metadata.sequence_id == 0, "else this shows nothing"
    assert all_acked(rig)
    assert acked(rig) == [0]
