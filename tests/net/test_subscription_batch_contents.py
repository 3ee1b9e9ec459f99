"""A batch is opened once, what that costs is counted, and a spent budget closes what can be opened again."""

from __future__ import annotations

import zlib

import pytest

from proxy.core.cutting import split
from proxy.core.entry import Batch, mixed_batch
from proxy.core.outstanding import Outstanding
from proxy.core.worker import Worker
from proxy.net.subscription.batch_contents import BatchContents
from proxy.wire import codecs
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.batch_reader import BatchReader
from proxy.wire.codecs import decompress
from proxy.wire.metadata import build_tail, peek
from proxy.wire.opened_batch import OpenedBatch
from tests.wire.batches import index_batch
from tests.wire.builders import metadata_of

COUNT = 6
PAYLOAD = b"".join(
    len(encoded).to_bytes(4, "big") + encoded + bytes(500)
    for encoded in (
        pb.SingleMessageMetadata(payload_size=500, partition_key=b"k%d" % index, sequence_id=index).SerializeToString()
        for index in range(COUNT)
    )
)
ROOMY = 1 << 20


class Rig:
    """One subscription's contents; every decompression is counted."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, budget_bytes: int = ROOMY) -> None:
        self.outstanding = Outstanding()
        self.contents = BatchContents(self.outstanding, budget_bytes, ROOMY)
        self.decompressions = 0
        monkeypatch.setattr(codecs, "decompress", self._decompress)

    def _decompress(self, compression: int, payload: bytes, size: int, limit: int) -> bytes:
        self.decompressions += 1
        return decompress(compression, payload, size, limit)

    def batch(self, position: int = 1, *, compressed: bool = True, opened: bool = True) -> Batch:
        """A batch of a slot for each message comes, read at the intake or, if it has one slot only, not."""
        metadata = metadata_of(num_messages_in_batch=COUNT, uncompressed_size=len(PAYLOAD))
        if compressed:
            metadata.compression = pb.ZLIB
        tail = build_tail(metadata, zlib.compress(PAYLOAD) if compressed else PAYLOAD)
        batch = mixed_batch(position, tail, list(range(1, COUNT + 1)), 0, 0.0)
        if opened:
            reader = BatchReader(metadata, PAYLOAD, COUNT)
            reader.read(COUNT)
            self.contents.keep(batch, OpenedBatch(metadata, peek(tail)[2], PAYLOAD, reader))
        self.outstanding.add(position, batch, batch.bytes_held)
        return batch

    def pieces(self, batch: Batch) -> list[bytes]:
        """What leaves of it for two workers, one after the other."""
        worker = Worker("a")
        pieces = []
        for part in split(batch.parts[0], [(0, 2, 4), (1, 3, 5)]):
            part.holder = worker
            worker.outbox = [part]
            assert part.indexes is not None
            pieces.append(self.contents.piece(batch, part.indexes))
        return pieces


def payloads(piece: bytes) -> list[bytes]:
    """The messages of a piece, whole."""
    metadata, _, start = peek(piece)
    singles = index_batch(piece[start:], metadata.num_messages_in_batch)
    return [piece[start:][single.start : single.end] for single in singles]


@pytest.mark.parametrize("compressed", [True, False], ids=["zlib", "uncompressed"])
@pytest.mark.parametrize("budget_bytes", [ROOMY, 0], ids=["room", "spent"])
@pytest.mark.parametrize("opened", [True, False], ids=["mixed", "one-slot"])
def test_pieces_hold_their_messages_however_often_it_was_opened(
    compressed: bool,  # noqa: FBT001
    budget_bytes: int,
    opened: bool,  # noqa: FBT001
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whether it stays open, was closed as it came, or is read only now."""
    rig = Rig(monkeypatch, budget_bytes)
    first, second = map(payloads, rig.pieces(rig.batch(compressed=compressed, opened=opened)))
    singles = index_batch(PAYLOAD, COUNT)
    messages = [PAYLOAD[single.start : single.end] for single in singles]
    assert (first, second) == (messages[::2], messages[1::2])


def test_with_room_nothing_is_decompressed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not for the first pieces, nor for those that come back from a worker."""
    rig = Rig(monkeypatch)
    batch = rig.batch()
    rig.pieces(batch)
    rig.contents.piece(batch, (0,))
    assert rig.decompressions == 0


def test_over_budget_it_is_opened_once_when_its_turn_comes_and_closed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it costs meanwhile is counted, and what is counted is given back with it."""
    rig = Rig(monkeypatch, budget_bytes=len(PAYLOAD) // 2)
    batch = rig.batch()
    closed_bytes = rig.outstanding.bytes_held
    assert closed_bytes < len(PAYLOAD)
    first, second = split(batch.parts[0], [(0, 2, 4), (1, 3, 5)])
    workers = Worker("a"), Worker("b")
    for part, worker in zip((first, second), workers, strict=True):
        part.holder = worker
        worker.outbox = [part]
    rig.outstanding.grew(batch.bytes_held - rig.outstanding.bytes_held)
    rig.contents.piece(batch, (0, 2, 4))
    assert rig.outstanding.bytes_held >= closed_bytes + len(PAYLOAD)
    workers[0].outbox = []
    rig.contents.piece(batch, (1, 3, 5))
    assert rig.decompressions == 1
    assert rig.outstanding.bytes_held < closed_bytes + len(PAYLOAD)
    rig.outstanding.complete(batch.position, batch.bytes_held)
    assert rig.outstanding.bytes_held == 0


def test_what_is_open_counts_as_held(monkeypatch: pytest.MonkeyPatch) -> None:
    """With its opened size if it came compressed; else only what is known of its messages."""
    sizes = {}
    for compressed in (True, False):
        rig = Rig(monkeypatch)
        batch = rig.batch(compressed=compressed)
        assert rig.outstanding.bytes_held == batch.bytes_held
        sizes[compressed] = batch.bytes_held - len(batch.tail)
    assert sizes[True] - sizes[False] == len(PAYLOAD)
