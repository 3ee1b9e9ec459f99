"""What the dispatcher holds of one broker entry until it is acknowledged.

A `Part` is what travels together: messages of one entry that wait at one place, or that one worker was sent as one
batch. Most entries carry one message, or a batch of one key, and are one part: one slotted object a message on the hot
path. An entry whose messages have several hash slots, or that had to be cut where a worker's permits ended, has a
`Batch` besides: what is the same for all its parts, the slot of each message among it, is there once, by index. So a
batch of a hundred keys costs as many objects as it has takers. A worker's pending acks map a *key* to the part: see
`proxy.core.delivery_key`.

Specification: design section 3, "Mixed-key batches".
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, repeat
from operator import attrgetter
from typing import TYPE_CHECKING, Final, Protocol

from proxy.core.index_bits import bits_to_indexes, indexes_to_bits
from proxy.core.positions import entry_of
from proxy.core.slice_id import sliceable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_BEFORE_ALL: Final = 1 << 128
"""More than any position."""

PART_BYTES: Final = 380
"""What one part costs beside its entry's bytes: itself, its numbers, its places in the tables (measured, 64-bit)."""

MIXED_MESSAGE_BYTES: Final = 48
"""What a message costs beside that in a batch of several slots: its slot and its index, each with its place in a list
(measured, 64-bit)."""


class Chunk:
    """Where an entry stands in a chunked message: chunks after the first follow the first to its holder."""

    __slots__ = ("index", "total", "uuid")

    def __init__(self, uuid: str, index: int, total: int) -> None:
        """Chunk `index` of `total` of the message `uuid`."""
        self.uuid = uuid
        self.index = index
        self.total = total

    @property
    def is_last(self) -> bool:
        """Whether a worker that has the ones before it has the message whole now."""
        return self.index + 1 >= self.total


class Content(Protocol):
    """What is kept of an opened batch, as far as the core looks at it."""

    @property
    def bytes_held(self) -> int:
        """What it costs at present beside the entry."""


class Batch:
    """An entry that is more than one part, or was: what its parts share."""

    __slots__ = ("bytes_held", "content", "foreign", "parts", "position", "sliceable", "slots", "tail", "total")

    def __init__(self, position: int, tail: bytes, total: int, slots: Sequence[int] | None = None) -> None:
        """`total` messages as the entry's metadata counts them, with the slot of each; parts are added by their maker.

        `slots` is None where all parts have one slot.
        """
        self.position = position
        self.tail = tail
        self.total = total
        self.sliceable = sliceable(entry_of(position), total)
        """Whether slices of it can have ids."""
        self.slots = slots
        self.parts: list[Part] = []
        """Those with something unacknowledged. A message in none of them is acknowledged."""
        self.bytes_held = len(tail) + (MIXED_MESSAGE_BYTES * total if slots is not None else 0)
        """What the entry costs until it is acknowledged: its bytes, its messages' slots, its parts, its content."""
        self.content: Content | None = None
        """Data of the opened batch for the code that cuts slices."""
        self.foreign = False
        """Whether it was read from another topic, and is to be acknowledged there: see `parking`."""

    def add(self, part: Part) -> None:
        """One more part."""
        self.parts.append(part)
        self.bytes_held += PART_BYTES

    @property
    def unacked(self) -> int:
        """One bit a message of the original batch, set until a worker acknowledged it."""
        if len(self.parts) == 1 and self.parts[0].indexes is None:
            return ~self.parts[0].acked & (1 << self.total) - 1
        return indexes_to_bits(chain.from_iterable(part.unacked_indexes() for part in self.parts), self.total)


class Holder(Protocol):
    """The worker that a part was sent to, as far as what is kept of the part looks at it: see `proxy.core.worker`."""

    index: int
    name: str
    outbox: list[Part]


class Part:
    """Messages of one entry that are at one place, and at one worker once they were sent."""

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
        "slots",
        "spared",
        "tail",
        "waits_since",
    )

    def __init__(self, position: int, slot: int, count: int, tail: bytes, redeliveries: int, now: float) -> None:
        """`count` messages of one slot; `tail` is everything behind the command on the wire."""
        self.position = position
        self.slot = slot
        """Of all its messages; of the first, if it has several."""
        self.slots: Sequence[int] | None = None
        """The batch's, if its messages may have several."""
        self.count = count
        self.tail = tail
        self.redeliveries = redeliveries
        self.spared = 0
        """How many of them used no attempt: see `attempts`."""
        self.received_at = now
        self.waits_since = now
        """When it came, or came back from a worker; of no meaning while it is pending."""
        self.sent_at = 0.0
        self.attempts = 0
        self.key = position
        self.holder: Holder | None = None
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
    def foreign(self) -> bool:
        """Whether it came from the parking topic; `order` and `insert_all` look themselves, for each message."""
        return self.batch is not None and self.batch.foreign

    @property
    def attempts_used(self) -> int:
        """As `attempts` counts them."""
        return self.redeliveries - self.spared

    @property
    def order(self) -> tuple[int, int]:
        """Sort key of what waits: topic order, then order inside the entry; what was parked before all of it.

        The topic may have older messages for a second time, after a seek or a crash.
        """
        position = self.position
        if self.batch is not None and self.batch.foreign:
            position -= _BEFORE_ALL
        return position, self.indexes[0] if self.indexes else 0

    @property
    def remaining(self) -> int:
        """Messages not yet acknowledged one by one."""
        return self.count - self.acked.bit_count()

    @property
    def total(self) -> int:
        """Messages of its entry, as the entry's metadata counts them."""
        return self.batch.total if self.batch is not None else self.count

    @property
    def divisible(self) -> bool:
        """Whether some of its messages can be sent without the others."""
        batch = self.batch
        if batch is not None:
            return batch.sliceable and not self.opaque
        return not self.opaque and sliceable(entry_of(self.position), self.count)

    @property
    def wire_bytes(self) -> int:
        """Bytes it takes on the wire, estimated if it is a slice."""
        batch = self.batch
        return len(self.tail) if self.indexes is None or batch is None else len(self.tail) * self.count // batch.total

    def message_indexes(self) -> Sequence[int]:
        """Indexes of its messages in the original batch, in the order delivered."""
        return range(self.count) if self.indexes is None else self.indexes

    def unacked_indexes(self) -> Sequence[int]:
        """Those of `message_indexes` that were not acknowledged one by one."""
        indexes = self.message_indexes()
        if not self.acked:
            return indexes
        return list(bits_to_indexes(~self.acked & (1 << self.count) - 1, indexes))

    def message_slots(self) -> Iterable[int]:
        """The slot of each of its messages, in the order delivered."""
        slots = self.slots
        if slots is None:
            return repeat(self.slot, self.count)
        return slots if self.indexes is None else map(slots.__getitem__, self.indexes)

    def distinct_slots(self) -> Iterable[int]:
        """Each slot of its messages once.

        Not by a look at each message where all have one: an entry that only goes whole has as many as it claims.
        """
        return (self.slot,) if self.slots is None else dict.fromkeys(self.message_slots())

    def unacked_slots(self) -> Iterable[int]:
        """Each slot of what is not acknowledged of it once, in the order of the messages; likewise."""
        return (self.slot,) if self.slots is None else dict.fromkeys(self.slots_of(self.unacked_indexes()))

    def messages_by_slot(self) -> Iterable[tuple[int, int]]:
        """Each slot of its messages once, and how many of them have it; likewise."""
        return ((self.slot, self.count),) if self.slots is None else Counter(self.message_slots()).items()

    def slots_of(self, indexes: Sequence[int]) -> Iterable[int]:
        """The slot of each of these messages of the entry."""
        slots = self.slots
        return map(slots.__getitem__, indexes) if slots is not None else repeat(self.slot, len(indexes))

    def unacked_of(self, slot: int) -> int:
        """How many of its unacknowledged messages have this slot."""
        if self.slots is None:
            return self.remaining if self.slot == slot else 0
        return sum(each == slot for each in self.slots_of(self.unacked_indexes()))


topic_order = attrgetter("order")
"""Sort key of parts."""


def mixed_batch(
    position: int,
    tail: bytes,
    slots: Sequence[int],
    redeliveries: int,
    now: float,
    indexes: tuple[int, ...] | None = None,
) -> Batch:
    """A batch as it came, in one part; `slots` has the slot of each of its messages.

    Only the messages `indexes`, ascending, are to be delivered, if it is not None. The others (compacted away, or
    acknowledged in an earlier life) count as acknowledged.
    """
    total = len(slots)
    if indexes is None or len(indexes) == total:
        indexes, wanted = None, slots
    else:
        wanted = [slots[index] for index in indexes]
    batch = Batch(position, tail, total, None if of_one_slot(wanted) else slots)
    part = Part(position, wanted[0], len(wanted), tail, redeliveries, now)
    part.indexes = indexes
    part.slots = batch.slots
    part.batch = batch
    batch.add(part)
    return batch


def of_one_slot(slots: Sequence[int]) -> bool:
    """Whether all are the same, of one or more; most batches of many keys show at once that theirs are not."""
    return slots[0] == slots[-1] and len(set(slots)) == 1
