"""Entries that are not simply messages: chunks, encrypted ones, and such as nobody can read."""

from __future__ import annotations

import pytest

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress
from proxy.wire.metadata import build_tail
from tests.net.websocket_rig import LEDGER, PUBLISHED_MS, WebsocketRig, batch, chunk, id_of, member, metadata, single
from tests.wire.message_frames import message_frame

Ack = pb.CommandAck
KEYS = [pb.EncryptionKeys(key="me", value=b"\x01", metadata=[pb.KeyValue(key="v", value="2")])]
SEALED = single(b"sealed", encryption_keys=KEYS, encryption_algo="AES", encryption_param=b"\x02")


def entries(ack: pb.CommandAck) -> list[tuple[int, list[int]]]:
    """Entry and ack set of everything an ACK names."""
    return [(place.entryId, list(place.ack_set)) for place in ack.message_id]


def test_chunks_become_one_message_and_are_acknowledged_together() -> None:
    """Under the last one's id; nothing comes before it."""
    rig = WebsocketRig(outstanding_max=3).join()
    for number, piece in enumerate((b"ab", b"cd")):
        rig.deliver(10 + number, chunk(number, 3, piece))
    assert rig.got() == []
    rig.deliver(12, chunk(2, 3, b"e"))
    assert rig.got() == [(id_of(12), b"abcde")]
    assert rig.session.granted == {0: 5}
    rig.ack(id_of(12))
    (ack,) = rig.take_acks()
    assert sorted(entries(ack)) == [(10, []), (11, []), (12, [])]
    assert rig.session.granted == {0: 6}


def test_chunks_of_several_messages_may_come_in_turns() -> None:
    """Told apart by their message's name."""
    rig = WebsocketRig().join()
    for entry, (number, uuid) in enumerate([(0, "a"), (0, "b"), (1, "b"), (1, "a")]):
        rig.deliver(entry, chunk(number, 2, f"{uuid}{number}".encode(), uuid))
    assert rig.got() == [(id_of(2), b"b0b1"), (id_of(3), b"a0a1")]
    rig.ack(id_of(2))
    assert [sorted(entries(ack)) for ack in rig.take_acks()] == [[(1, []), (2, [])]]


def test_a_refused_chunked_message_is_asked_for_from_its_beginning() -> None:
    """Every chunk comes again, and makes the message again."""
    rig = WebsocketRig().join()
    pieces = [chunk(0, 2, b"a"), chunk(1, 2, b"b")]
    for _ in range(2):
        for entry, piece in enumerate(pieces):
            rig.deliver(entry, piece)
        assert rig.got() == [(id_of(1), b"ab")]
        rig.nack(id_of(1))
        rig.clock.advance(rig.request.nack_delay_s + 1)
        assert rig.take_redelivers() == [(0, [0, 1])]


def test_a_compressed_message_was_cut_after_it_was_compressed() -> None:
    """So it is put together first."""
    rig = WebsocketRig().join()
    data = compress(pb.ZLIB, b"abc" * 100)
    for number, piece in enumerate((data[:5], data[5:])):
        rig.deliver(number, chunk(number, 2, piece, compression=pb.ZLIB, uncompressed_size=300))
    assert rig.got() == [(id_of(1), b"abc" * 100)]


@pytest.mark.parametrize("numbers", [(1, 2), (2,), (0, 2), (0, 0, 2)])
def test_chunks_that_do_not_follow_are_dropped(numbers: tuple[int, ...]) -> None:
    """Whoever sends them again begins anew; the permits are given back."""
    rig = WebsocketRig(outstanding_max=5).join()
    for entry, number in enumerate(numbers):
        rig.deliver(entry, chunk(number, 3, b"x"))
    assert rig.got() == []
    assert rig.session.granted == {0: 5 + len(numbers)}
    rig.deliver(9, chunk(0, 2, b"x", "other"))
    rig.deliver(10, chunk(1, 2, b"y", "other"))
    assert rig.got() == [(id_of(10), b"xy")]


def test_encrypted_messages_are_held_back_unless_told_otherwise() -> None:
    """FAIL: neither delivered nor acknowledged, as Pulsar's clients do; what follows comes."""
    rig = WebsocketRig(outstanding_max=2).join()
    rig.deliver(1, SEALED)
    rig.deliver(2, single())
    assert rig.got_ids() == [id_of(2)]
    assert rig.take_acks() == []
    assert rig.session.granted == {0: 3}


def test_encrypted_messages_may_be_discarded() -> None:
    """DISCARD: acknowledged, with the reason."""
    rig = WebsocketRig(encrypted="DISCARD").join(2)
    rig.deliver(1, SEALED, 1)
    assert rig.got() == []
    (ack,) = rig.take_acks()
    assert (ack.consumer_id, ack.validation_error, entries(ack)) == (1, Ack.DecryptionError, [(1, [])])


@pytest.mark.parametrize("dialect", ["v1", "v2"])
def test_encrypted_messages_may_be_consumed(dialect: str) -> None:
    """CONSUME: the client gets the payload as it is, and all it takes to read it; a batch is one message."""
    rig = WebsocketRig(encrypted="CONSUME", dialect=dialect).join()
    context = {
        "keys": {"me": {"keyValue": "AQ==", "metadata": {"v": "2"}}},
        "param": "Ag==",
        "algorithm": "AES",
        "compressionType": "LZ4",
        "uncompressedMessageSize": 99,
    }
    fields = {"encryption_algo": "AES", "encryption_param": b"\x02", "compression": pb.LZ4, "uncompressed_size": 99}
    rig.deliver(1, single(b"sealed", encryption_keys=KEYS, **fields))
    rig.deliver(2, single(b"sealed", encryption_keys=KEYS, num_messages_in_batch=3, **fields))
    alone, together = rig.heard()
    assert (alone["messageId"], alone["payload"]) == (id_of(1), "c2VhbGVk")
    assert alone["encryptionContext"] == context | {"batchSize": None}
    assert together["messageId"] == id_of(2)
    assert together["encryptionContext"] == context | {"batchSize": 3}


UNREADABLE = [
    (single(b"payload")[:-1] + b"?", Ack.ChecksumMismatch),
    (single(b"x", compression=pb.LZ4, uncompressed_size=9), Ack.DecompressionError),
    (single(b"no batch", num_messages_in_batch=2), Ack.BatchDeSerializeError),
    (single(b"", num_messages_in_batch=-1), Ack.BatchDeSerializeError),
    (build_tail(pb.MessageMetadata(publish_time=PUBLISHED_MS), b""), Ack.BatchDeSerializeError),
    (b"\x00\x00\x00\xff", Ack.BatchDeSerializeError),
    (b"", Ack.BatchDeSerializeError),
]


@pytest.mark.parametrize(("tail", "why"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_nobody_can_read_is_acknowledged_as_such(tail: bytes, why: pb.CommandAck.ValidationError) -> None:
    """As a whole, with the reason; the next message still comes, and no permit is lost."""
    rig = WebsocketRig(outstanding_max=1).join()
    rig.deliver(1, tail)
    (ack,) = rig.take_acks()
    assert (ack.ack_type, ack.validation_error, entries(ack)) == (Ack.Individual, why, [(1, [])])
    assert rig.session.granted[0] >= 2
    rig.deliver(2, single(b"next"))
    assert rig.got() == [(id_of(2), b"next")]


def test_a_batch_that_is_broken_in_the_middle_is_read_as_far_as_it_goes() -> None:
    """One message at a time; then all of it is acknowledged, for nobody will ever read the rest."""
    rig = WebsocketRig(outstanding_max=1).join()
    rig.deliver(1, batch(member(b"a"), member(b"b")[:-1]))
    assert rig.got() == [(id_of(1, 0, 2), b"a")]
    rig.ack(id_of(1, 0, 2))
    read, broken = rig.take_acks()
    assert entries(read) == [(1, [0b10])]
    assert (broken.validation_error, entries(broken)) == (Ack.BatchDeSerializeError, [(1, [])])
    rig.deliver(2, single(b"next"))
    assert rig.got() == [(id_of(2), b"next")]


def test_a_message_that_is_too_large_to_open_is_neither_lost_nor_overtaken() -> None:
    """Another kind of client may read it: the WebSocket is closed with the reason, and nothing is acknowledged."""
    rig = WebsocketRig().join()
    rig.deliver(1, single(b"x", compression=pb.ZSTD, uncompressed_size=1 << 30))
    ((code, reason),) = rig.socket.closes
    assert (code, "1,073,741,824 bytes" in reason) == (1009, True)
    assert rig.take() == []


def test_a_batch_of_any_size_is_opened_message_by_message() -> None:
    """So many fit into some hundred bytes, compressed: none may hold up the gateway."""
    count = 100_000
    rig = WebsocketRig(outstanding_max=10).join()
    plain = member(b"", partition_key=b"") * count
    tail = single(
        compress(pb.ZSTD, plain), compression=pb.ZSTD, uncompressed_size=len(plain), num_messages_in_batch=count
    )
    rig.deliver(1, tail)
    assert len(rig.got()) == 10
    opened = rig.worker._deliveries._current
    assert opened is not None
    assert opened.permits_left == count - 10


def test_unreadable_entries_in_a_row_stop_nothing() -> None:
    """What came with them in one piece is opened all the same."""
    rig = WebsocketRig().join()
    tails = [UNREADABLE[0][0], UNREADABLE[3][0], SEALED, single(b"next"), b"", single(b"last")]
    rig.tell(*(message_frame(0, LEDGER, entry, 0, tail) for entry, tail in enumerate(tails)))
    assert rig.got() == [(id_of(3), b"next"), (id_of(5), b"last")]
    assert [entries(ack) for ack in rig.take_acks()] == [[(0, [])], [(1, [])], [(4, [])]]


def test_very_old_producers_write_no_checksum() -> None:
    """There is nothing to hold against such an entry."""
    rig = WebsocketRig().join()
    encoded = metadata().SerializeToString()
    rig.deliver(1, len(encoded).to_bytes(4, "big") + encoded + b"old")
    assert rig.got() == [(id_of(1), b"old")]
