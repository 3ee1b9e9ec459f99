"""Taking messages off a part, and joining parts of one entry: cuts by permits, by target, by what is acknowledged.

A part that is cut gets a `Batch` if it had none, and the pieces belong to it; see `proxy.core.entry`. Entries that can
only go whole are never cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.entry import PART_BYTES, Batch, Part
from proxy.core.index_bits import bits_to_indexes

if TYPE_CHECKING:
    from collections.abc import Sequence


def cut(part: Part, size: int) -> Part:
    """Take the first `size` messages off a waiting part; the part keeps the rest."""
    assert 0 < size < part.count, f"cut {size} of {part.count}"
    indexes = tuple(part.message_indexes())
    return _take(part, indexes[:size], indexes[size:])


def _take(part: Part, taken: tuple[int, ...], left: tuple[int, ...]) -> Part:
    """Take some messages off a waiting part, which keeps those `left`; both by ascending indexes, together all it has.

    Both belong to the entry's `Batch` afterwards, which is made here if there was none.
    """
    assert len(taken) + len(left) == part.count, "a part is taken apart and not whole"
    assert part.divisible, "an entry that cannot be cut was to be cut"
    assert part.holder is None, "a pending part is not cut"
    batch_of(part)
    other = _another(part, taken)
    narrow(part, left)
    return other


def batch_of(part: Part) -> Batch:
    """The part's batch, made here if there was none."""
    batch = part.batch
    if batch is None:
        batch = part.batch = Batch(part.position, part.tail, part.count)
        batch.add(part)
    return batch


def split(part: Part, groups: Sequence[tuple[int, ...]]) -> list[Part]:
    """Take a waiting part of a batch apart: a part for each group of ascending indexes, together all that it has.

    The part itself is the last of them.
    """
    assert part.divisible, "an entry that cannot be cut was to be cut"
    assert part.holder is None, "a pending part is not cut"
    parts = [_another(part, indexes) for indexes in groups[:-1]]
    if parts:
        narrow(part, groups[-1])
    return [*parts, part]


def take_acked(part: Part, bits: int) -> Part:
    """Take messages off a pending part, as bits in its own order: it counts them as acknowledged, the result does not.

    The part must have a batch, which loses the part if nothing of it is left.
    """
    other = _another(part, tuple(bits_to_indexes(bits, part.message_indexes())))
    other.sent_at = part.sent_at
    part.acked |= bits
    if part.acked == (1 << part.count) - 1:
        assert part.batch is not None
        part.batch.parts.remove(part)
        part.holder = None
    return other


def _another(part: Part, indexes: tuple[int, ...]) -> Part:
    """A part of the same batch with these of its messages."""
    batch = part.batch
    assert batch is not None
    other = Part(part.position, part.slot, len(indexes), part.tail, part.redeliveries, part.received_at)
    other.waits_since = part.waits_since
    other.attempts = part.attempts
    other.spared = part.spared
    other.digest = part.digest
    other.batch = batch
    other.slots = part.slots
    other.indexes = indexes
    if part.slots is not None:
        other.slot = part.slots[indexes[0]]
    batch.add(other)
    return other


def narrow(part: Part, indexes: tuple[int, ...]) -> None:
    """Leave the part these of its messages."""
    part.indexes = indexes
    part.count = len(indexes)
    if part.slots is not None:
        part.slot = part.slots[indexes[0]]


def may_join(part: Part, other: Part) -> bool:
    """Whether two waiting parts can go as one: of one entry, and sent equally often."""
    return (
        part.position == other.position
        and part.attempts == other.attempts
        and part.redeliveries == other.redeliveries
        and part.spared == other.spared
        and not part.opaque
    )


def join(part: Part, other: Part) -> None:
    """Let a waiting part have another's messages; the other is no more."""
    batch = part.batch
    assert batch is not None
    assert batch is other.batch, "only parts of a batch can be joined"
    indexes = tuple(sorted((*part.message_indexes(), *other.message_indexes())))
    part.count = len(indexes)
    part.indexes = indexes if part.count < batch.total else None
    part.waits_since = min(part.waits_since, other.waits_since)
    if batch.slots is not None:
        part.slots = batch.slots
        part.slot = batch.slots[indexes[0]]
    batch.parts.remove(other)
    batch.bytes_held -= PART_BYTES


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
    left = tuple(part.unacked_indexes())
    part.indexes = left
    part.count = len(left)
    part.acked = 0
    if part.slots is not None:
        part.slot = part.slots[left[0]]
