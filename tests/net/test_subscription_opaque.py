"""Entries that cannot be opened, or are not what they say: delivered whole, as by a broker, and counted (G8)."""

from __future__ import annotations

import pytest

from proxy.core.entry import Part
from proxy.net.subscription import batch_slots as subscription_batch_slots
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_encoded_tail
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, batch, single
from tests.net.test_subscription_delivery import only, two


def encrypted(messages: list[tuple[str | None, bytes]]) -> bytes:
    """A batch that the gateway has no key for."""
    return batch(messages, encryption_keys=[pb.EncryptionKeys(key="pub", value=b"secret")])


def test_an_encrypted_batch_goes_whole_to_the_owner_of_its_first_key_and_is_counted() -> None:
    """As at a broker: its order per key inside is the producer's business, and operators can see that (G8)."""
    rig, first, second, mine, other = two()
    tail = encrypted([(mine, b"0"), (other, b"1")])
    rig.link.deliver((0, tail))
    assert only(first).tail == tail
    assert second.messages() == []
    assert rig.statistics().subscriptions[0].opaque_batches == 1
    first.ack(0)
    assert rig.link.acked() == [(LEDGER, 0)]


def test_an_encrypted_batch_overshoots_the_permits_rather_than_never_leave() -> None:
    """It cannot be cut, so one permit is enough; the overshoot is counted and paid back."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=1)
    tail = encrypted([("k", b"0"), ("k", b"1"), ("k", b"2")])
    rig.link.deliver((0, tail), (1, single("k")))
    assert worker.entries() == [0]
    worker.flow(2)
    assert worker.entries() == []
    worker.flow(1)
    assert worker.entries() == [1]
    assert rig.statistics().subscriptions[0].dispatcher.permit_overshoots == 1


def test_a_partly_acknowledged_encrypted_batch_goes_whole_again() -> None:
    """It cannot be repacked, and many clients never acknowledge an entry of which messages were masked."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    tail = encrypted([("k", b"0"), ("k", b"1")])
    rig.link.deliver((0, tail), ack_set=[0b10])
    (delivered,) = worker.messages()
    assert delivered.tail == tail
    assert delivered.ack_set == ()
    worker.ack(0)
    assert rig.link.acked() == [(LEDGER, 0)]


@pytest.mark.parametrize(
    "damage",
    [
        {"num_messages_in_batch": 9},
        {"num_messages_in_batch": 2, "compression": pb.LZ4, "uncompressed_size": 100},
        {"num_messages_in_batch": (1 << 31) - 1},
    ],
)
def test_a_batch_that_is_not_what_it_says_goes_whole_and_is_counted(damage: dict[str, object]) -> None:
    """A count that does not fill the payload, bytes that do not decompress: the client will complain, we go on."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=50)
    tail = single("k", b"not a batch", **damage)
    rig.link.deliver((0, tail))
    assert only(worker).tail == tail
    assert rig.statistics().subscriptions[0].opaque_batches == 1
    worker.ack(0)
    assert rig.link.acked() == [(LEDGER, 0)]


def test_a_count_that_cannot_be_costs_a_worker_no_more_than_a_large_batch() -> None:
    """A producer that claims two thousand million messages would silence its key's owner for good."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=50)
    rig.link.deliver((0, single("k", b"not a batch", num_messages_in_batch=(1 << 31) - 1)))
    worker.ack(0)
    worker.flow(1 << 20)
    rig.link.deliver((1, single("k")))
    assert worker.entries() == [0, 1]


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        b"\x0e\x01",
        b"\x0e\x01\x00\x00\x00\x00\xff\xff\xff\xff",
        b"\x0e\x02\xff",
        b"\x0e\x02\x00\x00\xff\xff" + bytes(20),
        b"garbage" * 9,
    ],
)
def test_an_entry_whose_metadata_cannot_be_read_is_delivered_and_counted(tail: bytes) -> None:
    """As by the broker, under the key of messages without one: the client says what is wrong with it."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=5)
    rig.link.deliver((0, tail), (1, single("k")))
    assert [item.tail for item in worker.messages()] == [tail, single("k")]
    assert rig.statistics().subscriptions[0].unreadable_entries == 1
    worker.ack(0)
    assert rig.link.acked() == [(LEDGER, 0)]


def test_the_chunks_of_a_message_follow_its_first_to_the_same_worker() -> None:
    """Also when the key's owner has changed between: half a message is of no use to anybody."""
    rig = SubscriptionRig()
    first = rig.worker("a", permits=9)

    def chunk(index: int) -> bytes:
        return single("k", b"part", uuid="u-1", chunk_id=index, num_chunks_from_msg=3, total_chunk_msg_size=12)

    rig.link.deliver((0, chunk(0)))
    others = [rig.worker(name, permits=9) for name in "bcdefgh"]
    rig.link.deliver((1, chunk(1)), (2, chunk(2)))
    assert first.entries() == [0, 1, 2]
    assert all(worker.messages() == [] for worker in others)


def test_a_chunk_whose_uuid_is_no_text_has_one_that_is() -> None:
    """A producer may write what it likes there; in compiled code an exception would end the broker's connection."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    for index in range(2):
        metadata = pb.MessageMetadata(producer_name=b"p", sequence_id=1, publish_time=1, partition_key=b"k")
        metadata.uuid, metadata.chunk_id, metadata.num_chunks_from_msg = "uuid", index, 2
        raw = metadata.SerializeToString().replace(b"uuid", b"\xff" * 4)
        rig.link.deliver((index, build_encoded_tail(raw, b"part")))
    assert worker.entries() == [0, 1]
    entries = rig.subscription.state.dispatcher.outstanding.entries.values()
    uuids = {part.chunk.uuid for part in entries if isinstance(part, Part) and part.chunk is not None}
    assert uuids == {repr(b"\xff" * 4)}


@pytest.mark.parametrize(("entry", "count"), [(1 << 27, 2), (0, (1 << 15) + 1)])
def test_a_mixed_batch_whose_slices_could_have_no_ids_goes_whole_and_is_counted(entry: int, count: int) -> None:
    """An entry number or a batch beyond what the ids of slices hold; one key alone is no reason to count it."""
    rig, first, second, mine, other = two(permits=100_000)
    rig.link.deliver((entry, batch([(mine, b"")] * count)))
    assert rig.statistics().subscriptions[0].opaque_batches == 0
    tail = batch([(mine, b"")] * (count - 1) + [(other, b"")])
    rig.link.deliver((entry + 1, tail))
    assert [item.entry for item in first.messages()] == [entry, entry + 1]
    assert second.messages() == []
    assert rig.statistics().subscriptions[0].opaque_batches == 1


def test_a_batch_too_large_to_be_cut_is_not_read_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few kilobytes, compressed, may hold a million messages of two keys: seconds of everybody's time for nothing."""
    rig, first, _, mine, other = two(permits=100_000)
    read: list[int] = []
    monkeypatch.setattr(subscription_batch_slots, "BatchReader", lambda *_: read.append(_[2]))
    rig.link.deliver((0, batch([(mine, b""), (other, b"")] * ((1 << 14) + 1))))
    assert read == []
    assert first.entries() == [0]
    assert rig.statistics().subscriptions[0].opaque_batches == 1
