"""What the dispatcher holds of one broker entry until it is acknowledged.

Most entries carry one message, or a batch of one key: one `Part` is the whole story, one slotted object a message on
the hot path. An entry whose messages belong to several hash slots, or that had to be cut where a worker's permits
ended, has a `Batch` that its parts share. Several parts of one batch that leave for one worker together are one
`Delivery`; a part that leaves alone is its own delivery. A worker's pending acks map a *key* to the delivery: the
packed position of a whole entry, or a negative number for a slice (`delivery_key`).

Specification: design section 3, "Mixed-key batches".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.positions import entry_of, unpack
from proxy.core.slice_id import SLICE_FLAG, slice_id, sliceable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.worker import Worker

_LEDGER_SHIFT: Final = 63
_ENTRY_MASK: Final = (1 << _LEDGER_SHIFT) - 1

PART_BYTES: Final = 360
"""What one part costs beside its entry's bytes: itself, its numbers, its places in the tables (measured, 64-bit)."""


def delivery_key(ledger: int, wire_entry: int, position: int) -> int:
    """Key of a delivery in a worker's pending acks, from what the client says in an ack.

    `position` is the packed position where `wire_entry` is a real entry; it is the key then.
    """
    if wire_entry & SLICE_FLAG:
        return -((ledger << _LEDGER_SHIFT) | wire_entry)
    return position


def wire_id(key: int) -> tuple[int, int]:
    """The (ledger, entry) by which a client knows the delivery with this key."""
    if key < 0:
        return (-key) >> _LEDGER_SHIFT, (-key) & _ENTRY_MASK
    return unpack(key)


class Chunk:
    """Where an entry stands in a chunked message: chunks after the first follow the first to its holder."""

    __slots__ = ("index", "total", "uuid")

    def __init__(self, uuid: str, index: int, total: int) -> None:
        """Chunk `index` of `total` of the message `uuid`."""
        self.uuid = uuid
        self.index = index
        self.total = total


class Batch:
    """An entry with more than one part: what its parts share."""

    __slots__ = ("bytes_held", "content", "open_parts", "parts", "position", "tail", "total", "unacked")

    def __init__(self, position: int, tail: bytes, total: int) -> None:
        """`total` messages as the entry's metadata counts them; parts are added by their maker."""
        self.position = position
        self.tail = tail
        self.total = total
        self.unacked = (1 << total) - 1
        """One bit a message of the original batch, set until a worker acknowledged it."""
        self.parts: list[Part] = []
        self.open_parts = 0
        self.bytes_held = len(tail)
        """What the entry costs until it is acknowledged: its bytes, and its parts, however many are done by then."""
        self.content: object = None
        """Whatever the one who cuts slices wants to keep: the decompressed payload and its index."""

    def add(self, part: Part) -> None:
        """One more part."""
        self.parts.append(part)
        self.open_parts += 1
        self.bytes_held += PART_BYTES


class Part:
    """The messages of one entry that share a hash slot."""

    __slots__ = (
        "acked",
        "attempts",
        "batch",
        "chunk",
        "count",
        "digest",
        "holder",
        "indexes",
        "key",
        "opaque",
        "position",
        "received_at",
        "redeliveries",
        "sent_at",
        "slot",
        "tail",
    )

    def __init__(self, position: int, slot: int, count: int, tail: bytes, redeliveries: int, now: float) -> None:
        """`count` messages; `tail` is everything behind the command on the wire."""
        self.position = position
        self.slot = slot
        self.count = count
        self.tail = tail
        self.redeliveries = redeliveries
        self.received_at = now
        self.sent_at = 0.0
        self.attempts = 0
        self.key = position
        self.holder: Worker | None = None
        self.batch: Batch | None = None
        self.indexes: tuple[int, ...] | None = None
        """Which messages of the entry, ascending; None means all."""
        self.acked: int = 0
        """Bits, in the order delivered, of messages acknowledged one by one; the part is pending until all are."""
        self.opaque = False
        """The payload cannot be read (encrypted): always delivered whole."""
        self.chunk: Chunk | None = None
        self.digest: int | tuple[int, ...] = 0
        """Where a record of messages is kept: of the key that all have, or of each message's in the original batch."""

    @property
    def order(self) -> tuple[int, int]:
        """Sort key inside a slot: topic order, then order inside the entry."""
        return self.position, self.indexes[0] if self.indexes else 0

    @property
    def remaining(self) -> int:
        """Messages not yet acknowledged one by one."""
        return self.count - self.acked.bit_count()

    @property
    def divisible(self) -> bool:
        """Whether some of its messages can be sent without the others."""
        total = self.batch.total if self.batch is not None else self.count
        return not self.opaque and sliceable(entry_of(self.position), total)

    @property
    def wire_bytes(self) -> int:
        """Bytes it takes on the wire, estimated if it is a slice."""
        return len(self.tail) if self.indexes is None or self.batch is None else _share(self.batch, self.count)

    def message_indexes(self) -> Sequence[int]:
        """Indexes of its messages in the original batch."""
        return range(self.count) if self.indexes is None else self.indexes


class Delivery:
    """Several parts of one batch at one worker, sent as one batch."""

    __slots__ = (
        "attempts",
        "count",
        "holder",
        "indexes",
        "key",
        "parts",
        "position",
        "received_at",
        "redeliveries",
        "sent_at",
        "wire_bytes",
    )

    def __init__(self, parts: Sequence[Part], holder: Worker) -> None:
        """All parts are of one batch; what leaves is their messages in the batch's order."""
        batch = parts[0].batch
        assert batch is not None, "only parts of a batch travel together"
        self.position = batch.position
        self.parts = list(parts)
        """Those with something unacknowledged; as delivered at first, fewer later."""
        self.holder = holder
        self.received_at = parts[0].received_at
        self.sent_at = 0.0
        self.attempts = 0
        self.redeliveries = max(part.redeliveries for part in parts)
        indexes = sorted(index for part in parts for index in part.message_indexes())
        self.count = len(indexes)
        self.indexes: tuple[int, ...] | None = None if self.count == batch.total else tuple(indexes)
        self.key = slice_key(batch.position, self.indexes)
        self.wire_bytes = _share(batch, self.count)

    def message_indexes(self) -> Sequence[int]:
        """Indexes of its messages in the original batch, in the order delivered."""
        return self.indexes if self.indexes is not None else range(self.count)


def _share(batch: Batch, count: int) -> int:
    return len(batch.tail) * count // batch.total


def slice_key(position: int, indexes: tuple[int, ...] | None) -> int:
    """Pending key of the messages `indexes` of the entry at `position`."""
    if indexes is None:
        return position
    ledger, entry = unpack(position)
    return -((ledger << _LEDGER_SHIFT) | slice_id(entry, indexes))


def parts_of(unit: Part | Delivery) -> Sequence[Part]:
    """The parts of a delivery; a part alone is its own."""
    return (unit,) if isinstance(unit, Part) else unit.parts


def cut(part: Part, size: int) -> Part:
    """Take the first `size` messages off a waiting part; the part keeps the rest.

    Both belong to the entry's `Batch` afterwards, which is made here if there was none.
    """
    assert 0 < size < part.count, f"cut {size} of {part.count}"
    assert part.divisible, "an entry that cannot be cut was to be cut"
    assert part.holder is None, "a pending part is not cut"
    if part.batch is None:
        part.batch = Batch(part.position, part.tail, part.count)
        part.batch.add(part)
    indexes = tuple(part.message_indexes())
    head = Part(part.position, part.slot, size, part.tail, part.redeliveries, part.received_at)
    head.attempts = part.attempts
    head.digest = part.digest
    head.batch = part.batch
    part.batch.add(head)
    head.indexes, part.indexes = indexes[:size], indexes[size:]
    part.count -= size
    return head


def forget_acked(part: Part) -> None:
    """Before a part waits again: what was acknowledged one by one is not sent once more.

    Unless it can only go whole. Masking the acknowledged messages with an ack_set would do for some clients; others
    skip what is masked without counting it as acknowledged, and so never acknowledge the entry.
    """
    if not part.acked:
        return
    if not part.divisible:
        part.acked = 0
        return
    left = tuple(index for bit, index in enumerate(part.message_indexes()) if not part.acked >> bit & 1)
    part.indexes = left
    part.count = len(left)
    part.acked = 0


def by_slot(
    position: int, tail: bytes, total: int, groups: Iterable[tuple[int, tuple[int, ...]]], redeliveries: int, now: float
) -> Batch:
    """A batch of `total` messages cut by hash slot: `groups` gives (slot, ascending indexes) for each slot.

    Messages in no group (compacted away, or acknowledged in an earlier life) are taken as acknowledged.
    """
    batch = Batch(position, tail, total)
    batch.unacked = 0
    for slot, indexes in groups:
        part = Part(position, slot, len(indexes), tail, redeliveries, now)
        part.batch = batch
        part.indexes = indexes if len(indexes) < total else None
        batch.add(part)
        for index in indexes:
            batch.unacked |= 1 << index
    return batch


def bits_to_indexes(bits: int, sequence: Sequence[int]) -> Iterable[int]:
    """Original indexes of the messages whose bits, in the order delivered, are set."""
    while bits:
        low = bits & -bits
        yield sequence[low.bit_length() - 1]
        bits ^= low
