"""Copies in the parking topic that another client has made up: left out, counted, and no assertion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.core.positions import pack
from proxy.core.sticky_key import murmur31
from proxy.net.subscription.summary import subscription_summary
from proxy.net.subscription.topic_reading import QUIET_S
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_encoded_tail, build_tail
from proxy.wire.parked import keep, read
from tests.net.subscription_rig_broker import LEDGER, TOPIC, single
from tests.net.test_subscription_parking import Lot, acked, arrive, opened, order_redrive, payload, redriven

if TYPE_CHECKING:
    from tests.net.subscription_rig import SubscriptionRig, Worker


def forged(key: str, entry: int, index: int | None = None, **fields: Any) -> bytes:
    """A copy that says that it was parked of an entry, with a content of its own."""
    metadata = pb.MessageMetadata(
        producer_name=b"mallory",
        sequence_id=1,
        publish_time=1,
        partition_key=key.encode(),
        **fields,
    )
    keep(metadata, (TOPIC, "s"), (pack(LEDGER, entry), index), murmur31(key.encode()), 1, b"")
    return build_tail(metadata, b"forged")


def refused(rig: SubscriptionRig) -> int:
    """How many copies were left out."""
    return subscription_summary(rig.subscription).parked_copies_refused


def begin(*copies: bytes) -> tuple[SubscriptionRig, Lot, Worker]:
    """A gateway that finds a parked key, and these."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    lot.entries += copies
    lot.pump(rig)
    return rig, lot, worker


def test_a_copy_with_the_id_of_a_message_that_a_worker_has_is_left_out() -> None:
    """That one is delivered and acknowledged as ever; the key's own messages are redriven."""
    rig, lot, worker = begin(forged("k", 7))
    arrive(rig, (7, single("other", b"7")))
    (other,) = worker.messages()
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1"]
    assert refused(rig) == 1
    worker.ack(other)
    assert acked(rig) == [0, 1, 7]
    assert not rig.subscription.state.dispatcher.diversions.parked
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"forged"], "it stays where it is"


def test_a_copy_is_taken_back_when_the_message_of_its_id_comes() -> None:
    """Its redrive ends; ordered again, it is left out."""
    rig, lot, worker = begin(forged("k", 7))
    order_redrive(rig)
    rig.clock.advance(QUIET_S)
    lot.pump(rig)
    for expected in (b"0", b"1"):
        (message,) = worker.messages()
        assert message.payloads == [expected]
        worker.ack(message)
        lot.pump(rig)
    (fake,) = worker.messages()
    assert fake.payloads == [b"forged"]
    arrive(rig, (7, single("other", b"7")))
    (other,) = worker.messages()
    assert other.payloads == [b"7"]
    lot.pump(rig)
    assert refused(rig) == 1
    order_redrive(rig)
    assert redriven(rig, lot, worker) == []
    assert refused(rig) == 2
    assert not rig.subscription.state.dispatcher.diversions.parked
    worker.ack(other)
    assert acked(rig) == [0, 1, 7]


def test_two_copies_with_one_id_are_not_both_on_their_way() -> None:
    """The whole entry and a message of it are two ids; the same twice is one message."""
    rig, lot, worker = begin(forged("k", 7), forged("k", 7, 0), forged("k", 7))
    order_redrive(rig)
    rig.clock.advance(QUIET_S)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"forged", b"forged"]
    assert lot.left() == []


def test_what_cannot_be_of_the_gateways_own_is_not_believed() -> None:
    """One message of a batch that is a batch."""
    copy = forged("k", 7, 0, num_messages_in_batch=5)
    assert read(copy) is None
    rig, lot, worker = begin(copy)
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1"]


@pytest.mark.parametrize("said", ["origin", "hash", "producer", "sequence-id", "publish-time", "schema-version"])
def test_a_copy_that_says_something_that_is_no_text_is_left_out(said: str) -> None:
    """The connection that it comes by is shared by all subscriptions of the broker: no exception may end it."""
    name, value = f"keyline.parked.{said}", "no text!"
    metadata = pb.MessageMetadata(producer_name=b"mallory", sequence_id=1, publish_time=1)
    keep(metadata, (TOPIC, "s"), (pack(LEDGER, 7), None), 1, 1, b"")
    (pair,) = [each for each in metadata.properties if each.key == name]
    pair.value = value
    copy = build_encoded_tail(metadata.SerializeToString().replace(value.encode(), b"\xff" * len(value)), b"forged")
    assert read(copy) is None
    rig, lot, worker = begin(copy)
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1"]


def test_of_a_copy_no_more_is_kept_than_is_shown() -> None:
    """Clients choose keys and uuids, as long as a message may be; an index of many must stay small."""
    long = "k" * 1_000_000
    first, second = (
        read(forged(long, 7, uuid=f"{long}{message}", num_chunks_from_msg=2, chunk_id=0)) for message in range(2)
    )
    assert first is not None
    assert second is not None
    assert first.key == "k" * 128 + "…"
    assert first.chunk is not None
    assert second.chunk is not None
    assert first.chunk[0] != second.chunk[0]
    assert len(first.chunk[0]) < 100
