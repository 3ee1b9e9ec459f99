"""Entries on their way to workers: whole, cut by key, or as they are because nobody can look inside."""

from __future__ import annotations

import pytest

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress
from proxy.wire.metadata import build_tail, peek, verify_checksum
from tests.net.subscription_rig import Delivered, SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, T, batch, single

Two = tuple[SubscriptionRig, Worker, Worker, str, str]


def two(permits: int = 50) -> Two:
    """Two workers, and a key of each."""
    rig = SubscriptionRig()
    first, second = rig.worker("a", permits=permits), rig.worker("b", permits=permits)
    return rig, first, second, rig.key_for("a"), rig.key_for("b")


def only(worker: Worker) -> Delivered:
    """The one message a worker got since the last look."""
    (delivered,) = worker.messages()
    return delivered


def compressed(tail_messages: list[tuple[str | None, bytes]], codec: int) -> bytes:
    """A batch in one of the four codecs."""
    plain = batch(tail_messages)
    metadata, _, start = peek(plain)
    metadata.compression = codec  # type: ignore[assignment]
    return build_tail(metadata, compress(codec, plain[start:]))


# ---- whole entries ---------------------------------------------------------------------------------------------------


def test_an_unbatched_message_arrives_byte_for_byte() -> None:
    """Metadata, checksum and payload are the producer's, whatever fields it wrote."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    tail = single("k", b"payload", event_time=5, properties=[pb.KeyValue(key="trace", value="1")])
    rig.link.deliver((3, tail), redeliveries=4)
    delivered = only(worker)
    assert (delivered.ledger, delivered.entry, delivered.redeliveries) == (LEDGER, 3, 4)
    assert delivered.tail == tail


def test_each_key_goes_to_its_owner_in_order() -> None:
    """The slot decides, by ordering key before partition key; a message without a key has a place too."""
    rig, first, second, mine, other = two()
    rig.link.deliver(
        (0, single(mine)),
        (1, single(other)),
        (2, single(mine)),
        (3, single(mine, ordering_key=other.encode())),
    )
    assert (first.entries(), second.entries()) == ([0, 2], [1, 3])
    rig.link.deliver((4, single(None)))
    assert sorted(first.entries() + second.entries()) == [4]


def test_what_a_worker_gets_in_a_turn_is_pushed_before_the_next_ones_is_made() -> None:
    """It can work meanwhile. Of one that reads no further the rest follows, and is pushed then."""
    rig, first, second, mine, other = two()
    mixed = batch([(mine, b"0"), (other, b"1"), (mine, b"2")])
    rig.sendings.clear()
    rig.link.deliver((0, mixed), (1, single(other)), (2, single(mine)))
    assert sorted(rig.sendings[::2]) == ["1 written", "2 written"]
    assert rig.sendings[1::2] == [each.replace("written", "pushed") for each in rig.sendings[::2]]
    assert (len(first.messages()), len(second.messages())) == (2, 2)
    first.stop_reading()
    rig.sendings.clear()
    rig.link.deliver((3, mixed))
    assert rig.sendings == ["2 written", "2 pushed"]
    first.read_again()
    assert rig.sendings[2:] == ["1 written", "1 pushed"]


@pytest.mark.parametrize("accepts", [True, False])
def test_broker_entry_metadata_reaches_only_who_understands_it(accepts: bool) -> None:  # noqa: FBT001
    """Other clients would take it for a broken message."""
    rig = SubscriptionRig()
    worker = rig.subscribe("a")
    worker.accepts_broker_entry_metadata = accepts
    worker.flow(5)
    header = pb.BrokerEntryMetadata(broker_timestamp=5).SerializeToString()
    tail = single("k")
    rig.link.deliver((0, b"\x0e\x02" + len(header).to_bytes(4, "big") + header + tail))
    assert only(worker).tail.endswith(tail)
    assert (rig.link.consumers != {}) is True
    worker.redeliver()
    assert (only(worker).tail == tail) is not accepts


def test_a_batch_of_one_key_travels_as_it_came() -> None:
    """No message is repacked where one worker gets them all: same bytes, same id, permits of every message."""
    rig, first, second, mine, _ = two(permits=4)
    tail = batch([(mine, b"0"), (mine, b"1"), (mine, b"2")])
    rig.link.deliver((0, tail))
    assert only(first).tail == tail
    assert second.messages() == []
    assert first.ask_stats().availablePermits == 1


def test_a_batch_of_keys_that_one_worker_owns_travels_as_it_came() -> None:
    """Several keys, several slots, one owner: whole."""
    rig, first, _, mine, _ = two()
    tail = batch([(mine, b"0"), (rig.key_for("a", 1), b"1"), (rig.key_for("a", 2), b"2")])
    rig.link.deliver((0, tail))
    delivered = only(first)
    assert (delivered.tail, delivered.entry) == (tail, 0)
    first.ack(0)
    assert rig.link.acked() == [(LEDGER, 0)]


def test_a_batch_without_keys_is_not_cut() -> None:
    """There is no order to keep."""
    rig, first, second, _, _ = two()
    tail = batch([(None, b"0"), (None, b"1")])
    rig.link.deliver((0, tail))
    assert [item.tail for item in first.messages() + second.messages()] == [tail]


# ---- slices ----------------------------------------------------------------------------------------------------------


def test_a_mixed_batch_is_delivered_by_each_messages_key() -> None:
    """Each worker gets a smaller batch of its own messages, in their order, under an id of its own."""
    rig, first, second, mine, other = two()
    rig.link.deliver((0, batch([(mine, b"0"), (other, b"1"), (mine, b"2"), (other, b"3"), (other, b"4")])))
    one, two_ = only(first), only(second)
    assert one.messages == ((mine, b"0"), (mine, b"2"))
    assert two_.messages == ((other, b"1"), (other, b"3"), (other, b"4"))
    assert one.ledger == two_.ledger == LEDGER
    assert len({0, one.entry, two_.entry}) == 3
    assert verify_checksum(one.tail)
    assert verify_checksum(two_.tail)
    shown = rig.statistics().subscriptions[0]
    assert (shown.mixed_batches, shown.sliced_deliveries) == (1, 2)


def test_the_entry_is_acknowledged_when_its_last_slice_is() -> None:
    """Never for a neighbour, and not for ever unacknowledged either (G3)."""
    rig, first, second, mine, other = two()
    rig.link.deliver((0, batch([(mine, b"0"), (other, b"1")])))
    one, two_ = only(first), only(second)
    first.ack(one)
    assert rig.link.acked() == []
    first.ack(two_)
    assert rig.link.acked() == [], "the neighbour's slice is not the first worker's to acknowledge"
    second.ack(two_)
    assert rig.link.acked() == [(LEDGER, 0)]


def test_a_slice_comes_again_under_the_same_id_at_the_same_worker() -> None:
    """So a late ack of the first delivery still counts for the same messages."""
    rig, first, _, mine, other = two()
    rig.link.deliver((0, batch([(mine, b"0"), (other, b"1")])))
    once = only(first)
    first.redeliver(once)
    again = only(first)
    assert (again.entry, again.messages, again.redeliveries) == (once.entry, once.messages, 1)


def test_what_a_leaver_held_of_a_batch_goes_to_who_stays() -> None:
    """The other half stays where it is, and both halves together acknowledge the entry."""
    rig, first, second, mine, other = two()
    rig.link.deliver((0, batch([(mine, b"0"), (other, b"1")])))
    kept = only(first)
    second.lose()
    moved = only(first)
    assert (moved.messages, moved.redeliveries) == (((other, b"1"),), 1)
    first.ack(kept, moved)
    assert rig.link.acked() == [(LEDGER, 0)]


def test_a_batch_is_cut_where_the_permits_end() -> None:
    """A worker never gets more than it granted (G5); the rest follows with its next grant."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=2)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1"), ("k", b"2")])))
    start = only(worker)
    assert start.payloads == [b"0", b"1"]
    worker.flow(1)
    rest = only(worker)
    assert rest.payloads == [b"2"]
    worker.ack(start, rest)
    assert rig.link.acked() == [(LEDGER, 0)]


@pytest.mark.parametrize("codec", [pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY])
def test_a_compressed_batch_is_opened_and_its_slices_travel_uncompressed(codec: int) -> None:
    """Each of the four codecs; the client reads a slice by the metadata in it."""
    rig, first, second, mine, other = two()
    rig.link.deliver((0, compressed([(mine, b"0" * 100), (other, b"1" * 100)], codec)))
    assert only(first).messages == ((mine, b"0" * 100),)
    assert only(second).messages == ((other, b"1" * 100),)


def test_a_batch_of_which_an_earlier_life_acknowledged_some_brings_the_rest_only() -> None:
    """The broker's ack_set says which messages are left; those acknowledged are not delivered again."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1"), ("k", b"2")])), ack_set=[0b101])
    left = only(worker)
    assert (left.payloads, left.ack_set) == ([b"0", b"2"], ())
    worker.ack(left)
    (place,) = rig.link.sent(T.ACK)[-1].ack.message_id
    assert (place.entryId, list(place.ack_set)) == (0, [0b010]), "it may be in a transaction: see `kept_back`"
