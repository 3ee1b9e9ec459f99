"""Opened batches of one subscription, within its memory budget.

A batch that was opened to see whose its messages are stays open until it is acknowledged, because every piece that
leaves is cut out of it. What that costs counts as held. While the budget is spent, compressed batches are closed: one
that comes then at once, one that is opened again as soon as all that waits of it was cut. So each is decompressed at
most once more when its turn comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.wire.batch_reader import BatchReader
from proxy.wire.codecs import opened_payload
from proxy.wire.errors import MetadataError
from proxy.wire.metadata import peek, peek_key, shown_key
from proxy.wire.opened_batch import OpenedBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from proxy.core.entry import Batch, Part
    from proxy.core.outstanding import Outstanding


def key_of(part: Part) -> str | None:
    """The key of a part that is a whole entry, as text; None where it has several, none, or cannot be read."""
    if part.batch is not None:
        return None
    try:
        metadata, key, _ = peek_key(part.tail)
    except MetadataError:
        return None
    keyed = metadata.HasField("partition_key") or metadata.HasField("ordering_key")
    return shown_key(key) if keyed else None


class BatchContents:
    """What is kept in `Batch.content`."""

    __slots__ = ("_budget_bytes", "_outstanding", "_peek_max_bytes")

    def __init__(self, outstanding: Outstanding, budget_bytes: int, peek_max_bytes: int) -> None:
        """`budget_bytes` for all that the subscription holds; no payload may open to more than `peek_max_bytes`."""
        self._outstanding = outstanding
        self._budget_bytes = budget_bytes
        self._peek_max_bytes = peek_max_bytes

    def keep(self, batch: Batch, opened: OpenedBatch) -> None:
        """A batch that the dispatcher has not got yet comes with what was read of it."""
        size = opened.bytes_held
        if self._outstanding.bytes_held + size > self._budget_bytes:
            opened.close()
            size = opened.bytes_held
        batch.content = opened
        batch.bytes_held += size

    def piece(self, batch: Batch, indexes: Sequence[int]) -> bytes:
        """The tail of a smaller batch with the messages `indexes` of one that the dispatcher has.

        Raises:
            WireError: it cannot be opened; not if it was once.
        """
        if batch.foreign:
            return batch.tail
        opened = batch.content
        if not isinstance(opened, OpenedBatch):
            opened = self._open(batch)
        if not opened.compressed:
            return opened.piece(batch.tail, indexes)
        if not opened.is_open:
            opened.open(batch.tail, self._peek_max_bytes)
            self._grew(batch, opened.payload_bytes)
        piece = opened.piece(batch.tail, indexes)
        if self._outstanding.bytes_held > self._budget_bytes and not _to_be_cut(batch):
            opened.close()
            self._grew(batch, -opened.payload_bytes)
        return piece

    def _open(self, batch: Batch) -> OpenedBatch:
        """One whose messages have one slot, so that there was no need to read each, until a part of it had to leave."""
        metadata, _, start = peek(batch.tail)
        size, limit = metadata.uncompressed_size, self._peek_max_bytes
        payload = opened_payload(batch.tail, start, metadata.compression, size, limit)
        reader = BatchReader(metadata, payload, batch.total)
        reader.read(batch.total)
        opened = batch.content = OpenedBatch(metadata, start, payload, reader)
        self._grew(batch, opened.bytes_held)
        return opened

    def _grew(self, batch: Batch, size: int) -> None:
        batch.bytes_held += size
        self._outstanding.grew(size)


def _to_be_cut(batch: Batch) -> bool:
    """Whether a part of it waits, or lies in an outbox other than the one that is being written."""
    unwritten = 0
    for part in batch.parts:
        if part.holder is None:
            return True
        unwritten += part in part.holder.outbox
    return unwritten > 1
