"""Messages of an entry that the broker keeps back, and may send later.

Problem: a broker sends an entry without those of its messages that are acknowledged, and without those that were
acknowledged in a transaction that has not ended. Which of both it is, nothing tells. A gateway that was killed took its
knowledge of open transactions with it, and workers may acknowledge past the gateway. If the entry were acknowledged
whole once all that was sent of it is, a transaction that is aborted afterwards would have nothing to give back: its
messages would be lost (G3).

Rule: an entry is acknowledged as far as it was sent, with a bit for each message that was kept back. The broker has it
done when these are acknowledged too, which most are already. If it sends some of them after all, these are news, though
the entry is not: they join what is here of it, or it is here again with these alone. What was acknowledged of it stays
so. Their order is that of what comes late: behind newer messages of their keys that have left already, before the
others.

What this life's workers acknowledged in transactions whose end is not seen in time is kept back by the broker, too
(`leave`): it has all of that, and here it would take memory and keep join gates shut for as long as an older message is
not acknowledged. An entry that came before that, and waited to be opened until after it, is no news of these messages.

Not for an entry that cannot be cut: it goes whole, with what was kept back, so that workers acknowledge all of it.

Source: `AbstractBaseDispatcher.filterEntriesForConsumer`, `ManagedCursorImpl.asyncDelete` (ack sets are combined),
`PendingAckHandleImpl.individualAckAbortCommon`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.cutting import batch_of, narrow
from proxy.core.entry import MIXED_MESSAGE_BYTES, PART_BYTES, Batch, Part
from proxy.core.index_bits import bits_to_indexes, indexes_to_bits
from proxy.core.outstanding import ALL_KEPT_BACK, size_of

if TYPE_CHECKING:
    from proxy.core.outstanding import Outstanding


def news_of(part: Part, before: int, kept_back: int) -> int:
    """Messages of an entry that comes again which had been kept back and are not any more, as bits.

    `part` is the entry as it comes, without the messages `kept_back`; `before` were kept back when it came before.
    """
    return before & _bits_of(part) & ~kept_back


def leave_out(part: Part, left: int) -> bool:
    """Take these messages from an entry that comes, if it can be cut; False if it has no others."""
    rest = _bits_of(part) & ~left
    if rest:
        reduce_to(part, rest)
    return bool(rest)


def _bits_of(part: Part) -> int:
    return (1 << part.total) - 1 if part.indexes is None else indexes_to_bits(part.indexes, part.total)


def leave(outstanding: Outstanding, part: Part, now: float) -> bool:
    """The broker alone has this part of an entry from now on; True if nothing of the entry is here any more."""
    position, batch = part.position, part.batch
    if batch is None or not part.divisible:
        outstanding.left_alone(position, ALL_KEPT_BACK, now)
        outstanding.left_whole(position, size_of(batch or part))
        return True
    bits = indexes_to_bits(part.message_indexes(), batch.total)
    outstanding.left_alone(position, bits, now)
    kept = outstanding.kept_back.get(position, 0) | bits
    outstanding.keep_back(position, kept)
    batch.parts.remove(part)
    if batch.parts:
        outstanding.part_done(batch)
        return False
    if kept == (1 << batch.total) - 1:
        outstanding.left_whole(position, batch.bytes_held)
    else:
        outstanding.complete(position, batch.bytes_held)
    return True


def reduce_to(part: Part, news: int) -> None:
    """Leave an entry that comes again only these messages, unless that is all of it, or it cannot be cut."""
    if part.divisible and news != (1 << part.total) - 1:
        batch = batch_of(part)
        narrow(part, tuple(bits_to_indexes(news, range(batch.total))))


def join(outstanding: Outstanding, part: Part, news: int) -> Part:
    """Let an entry that is outstanding have these messages more, whose slots `part` has; they wait nowhere yet."""
    here = outstanding.entries[part.position]
    assert isinstance(here, Batch), "an entry that came in part is a batch"
    indexes, first = tuple(bits_to_indexes(news, range(here.total))), here.parts[0]
    other = Part(here.position, part.slot, len(indexes), here.tail, part.redeliveries, part.received_at)
    other.indexes, other.digest, other.batch = indexes, first.digest, here
    found = list(part.slots_of(indexes))
    if here.slots is not None or set(found) != {first.slot}:
        if here.slots is None:
            size = MIXED_MESSAGE_BYTES * here.total
            here.bytes_held += size
            outstanding.grew(size)
        here.slots = slots = list(here.slots or [first.slot] * here.total)
        for index, slot in zip(indexes, found, strict=True):
            slots[index] = slot
        other.slots, other.slot = slots, found[0]
    here.add(other)
    outstanding.grew(PART_BYTES)
    outstanding.spill.waits((other,))
    return other
