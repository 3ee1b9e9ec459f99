"""Entries received and not yet acknowledged upstream, and what of their acks the broker has confirmed.

Two guarantees meet here. G3: an entry's ack goes upstream only when its last message was acknowledged. G4: while the
gateway lives, a broker that lost its memory of us (reconnect, restart, kill) sends entries again that workers hold or
have finished; those must not reach a worker a second time. So a position is in exactly one of four places: unknown,
outstanding, acknowledged but unconfirmed, confirmed lately. Only the first is news.

An entry may come without some of its messages: see `kept_back`. It is acknowledged but for these, and so is never
confirmed as a whole.

Confirmed positions are remembered as ranges, because a broker that is killed forgets acks it had confirmed but not
yet stored (the cursor is flushed about once a second). They are shelved when the broker itself closes our consumer:
then it stored its cursor, or an operator moved the cursor on purpose and wants the messages again. They come back from
the shelf if it turns out that the broker lost what it had stored.

Not here: which worker holds what. That is the dispatcher's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.entry import PART_BYTES, Batch, Part
from proxy.core.position_ranges import PositionRanges
from proxy.core.spill import SPILLED_BYTES, Spill

if TYPE_CHECKING:
    from collections.abc import Iterable

CONFIRMED_FOLD_AT: Final = 1_024
"""Confirmed positions gathered before they are folded into ranges: sorted first, they cost a fifth each.

They are 64 KiB of a subscription's memory that no budget counts; eight times as many would be 770 KiB, for 0.1 to
0.4 microseconds less for each message.
"""

CONFIRMED_RANGES_MAX: Final = 50_000
"""Ranges of confirmed positions kept; the lowest are forgotten first. About 100 bytes each."""

CONFIRMED_PARTS_MAX: Final = 10_000
"""Entries kept of which the broker confirmed a part; the oldest are forgotten first. About 150 bytes each."""

ALL_KEPT_BACK: Final = -1
"""As bits: of an entry that the broker keeps back whole, whatever number of messages it claims to have."""


class Outstanding:
    """Every entry between its arrival and the broker's confirmation of its ack."""

    __slots__ = (
        "_confirmed_fresh",
        "_confirmed_parts",
        "_confirmed_ranges",
        "_left",
        "_shelved_parts",
        "_shelved_ranges",
        "acks",
        "acknowledged_to",
        "bytes_held",
        "entries",
        "highest",
        "index_acks",
        "kept_back",
        "repeated",
        "spill",
        "unconfirmed",
    )

    def __init__(self) -> None:
        """Nothing received yet."""
        self.entries: dict[int, Part | Batch] = {}
        self.bytes_held = 0
        """Entries with their parts, the queues of blocked slots, and opened batches."""
        self.highest = -1
        """Highest position ever received; everything above it is news without a look-up."""
        self.acknowledged_to = -1
        """Up to here all that does not come is acknowledged, as far as the broker told or showed; see `reached`."""
        self.acks: list[int] = []
        """Positions to acknowledge upstream, taken by the caller once a turn."""
        self.index_acks: dict[int, Batch] = {}
        """Batches of which some messages were acknowledged, by position, for brokers that store batch index acks."""
        self.unconfirmed: set[int] = set()
        self.kept_back: dict[int, int] = {}
        """Of entries that are outstanding or unconfirmed: a bit for each message that the broker has not sent."""
        self._confirmed_parts: dict[int, int] = {}
        """The same of those of which the broker confirmed that it has the ack of all the others; or `ALL_KEPT_BACK`."""
        self._shelved_parts: dict[int, int] = {}
        self._left: dict[int, list[tuple[float, int]]] = {}
        """Position to when messages of it were left to the broker alone, and which, as bits."""
        self._confirmed_fresh: set[int] = set()
        self._confirmed_ranges = PositionRanges(CONFIRMED_RANGES_MAX)
        self._shelved_ranges = PositionRanges(CONFIRMED_RANGES_MAX)
        self.spill = Spill()
        self.repeated = 0
        """Entries the broker sent again that went no further."""

    @property
    def reached(self) -> int:
        """All at or before this position that was not acknowledged when it began has come: brokers send in order."""
        return max(self.highest, self.acknowledged_to)

    @property
    def bytes_counted(self) -> int:
        """Of `bytes_held`, what counts against a bound: not what is left of entries that only the broker has.

        Those leave when they were read again, which a bound that they count against would prevent.
        """
        if self.spill.messages:
            return max(0, self.bytes_held - self.spill.messages * SPILLED_BYTES)
        return self.bytes_held

    def add(self, position: int, entry: Part | Batch, size: int) -> None:
        """A new entry; `size` bytes as `size_of` tells, which callers that know it need not ask."""
        self.entries[position] = entry
        self.bytes_held += size
        if position > self.highest:
            self.highest = position

    def is_repeat(self, position: int, redeliveries: int) -> bool:
        """Whether the broker sent this entry before; what is acknowledged of it already, acknowledge again.

        A part, too: where a transaction has the rest and is committed unseen, nothing else would.
        Not whether it sent all of it then: `bits_kept_back` tells.
        """
        known = self.entries.get(position)
        if known is not None:
            redeliveries -= self.spill.caused(position)
            for part in known.parts if isinstance(known, Batch) else (known,):
                part.redeliveries = max(part.redeliveries, redeliveries)
            if isinstance(known, Batch) and self.unacked_of(known) != (1 << known.total) - 1:
                self.index_acks[position] = known
        elif position in self.unconfirmed or self.was_confirmed(position):
            self.unconfirmed.add(position)
            self.acks.append(position)
        elif self._confirmed_parts.get(position, ALL_KEPT_BACK) != ALL_KEPT_BACK:
            self.acknowledge_but(position, self._confirmed_parts[position])
        else:
            return False
        self.repeated += 1
        return True

    def bits_kept_back(self, position: int) -> int:
        """Messages of an entry that was here that the broker has not sent, as bits; 0 for none."""
        return self.kept_back.get(position) or self._confirmed_parts.get(position, 0)

    def keep_back(self, position: int, bits: int) -> None:
        """These are kept back of an entry that is outstanding, or is about to be."""
        if bits:
            self.kept_back[position] = bits
        else:
            self.kept_back.pop(position, None)

    def acknowledge_but(self, position: int, kept_back: int) -> None:
        """Acknowledge an entry that is not outstanding, but for these messages."""
        self.highest = max(self.highest, position)
        self._confirmed_parts.pop(position, None)
        self.keep_back(position, kept_back)
        self.unconfirmed.add(position)
        self.acks.append(position)

    def reopen(self, position: int) -> None:
        """More messages come of an entry that was acknowledged as far as it had been sent."""
        self._confirmed_parts.pop(position, None)
        if position in self.unconfirmed:
            self.unconfirmed.discard(position)
            self.acks = [each for each in self.acks if each != position]

    def unacked_of(self, batch: Batch) -> int:
        """The messages of an outstanding entry that are not to be acknowledged, as bits."""
        kept = self.kept_back.get(batch.position)
        return batch.unacked | kept if kept else batch.unacked

    def replace(self, position: int, batch: Batch) -> None:
        """An entry that was one part got a batch: it was cut, or acknowledged in part."""
        before = self.entries[position]
        self.entries[position] = batch
        if before is not batch:
            self.bytes_held += batch.bytes_held - size_of(before)

    def grew(self, size: int) -> None:
        """An entry was cut or opened and costs `size` bytes more, or less if negative."""
        self.bytes_held += size

    def part_done(self, batch: Batch) -> None:
        """One of several parts of an entry is here no more; `acknowledgement` does it in place where that is hot."""
        batch.bytes_held -= PART_BYTES
        self.bytes_held -= PART_BYTES

    def complete(self, position: int, size: int) -> None:
        """Every message of the entry that came was acknowledged: acknowledge it upstream."""
        self._forget(position, size)
        self.acks.append(position)
        self.unconfirmed.add(position)

    def left_whole(self, position: int, size: int) -> None:
        """The broker keeps back all messages of the entry: there is nothing to acknowledge."""
        self.discard(position, size)
        self._remember_part(position, ALL_KEPT_BACK)

    def left_alone(self, position: int, bits: int, now: float) -> None:
        """From now on only the broker has these messages of an entry; `ALL_KEPT_BACK` if it goes whole."""
        left = self._left.setdefault(position, [])
        if left and left[-1][0] == now:
            bits |= left.pop()[1]
        left.append((now, bits))
        if len(self._left) > CONFIRMED_PARTS_MAX:
            del self._left[next(iter(self._left))]

    def left_since(self, position: int, arrived_at: float) -> int:
        """Messages, as bits, that were left to the broker alone after the entry had come, while it waited to be opened.

        It had been sent before their transaction was known to the broker: only what comes later tells of its end.
        """
        found = 0
        for at, bits in self._left.get(position, ()):
            if at > arrived_at:
                found |= bits
        return found

    def discard(self, position: int, size: int) -> None:
        """Hold the entry no more, and acknowledge nothing."""
        self._forget(position, size)
        self.kept_back.pop(position, None)

    def _forget(self, position: int, size: int) -> None:
        del self.entries[position]
        self.bytes_held -= size
        if self.index_acks:
            self.index_acks.pop(position, None)
        if self.spill.times:
            self.spill.gone(position)

    def confirmed(self, positions: Iterable[int]) -> None:
        """The broker confirmed these acks."""
        known = self.unconfirmed.intersection(positions)
        self.unconfirmed -= known
        if self.kept_back:
            known -= self._confirmed_in_part(known)
        fresh = self._confirmed_fresh
        fresh |= known
        if len(fresh) >= CONFIRMED_FOLD_AT:
            self._fold()

    def _confirmed_in_part(self, positions: set[int]) -> set[int]:
        """Those of them of which something is kept back: remembered apart, for the rest may come."""
        found = positions.intersection(self.kept_back)
        for position in sorted(found):
            self._remember_part(position, self.kept_back.pop(position))
        return found

    def _remember_part(self, position: int, bits: int) -> None:
        parts = self._confirmed_parts
        parts[position] = bits
        if len(parts) > CONFIRMED_PARTS_MAX:
            del parts[next(iter(parts))]

    @property
    def waits_for_rest(self) -> bool:
        """Whether there are entries that are not here, of which the broker keeps some back, as far as is known."""
        return bool(self._confirmed_parts)

    @property
    def open_from(self) -> int:
        """The first position that the broker may not have as acknowledged whole."""
        held = min(self.entries, default=self.highest + 1)
        return min(min(self.unconfirmed, default=held), min(self._confirmed_parts, default=held), held)

    def acknowledged_up_to(self, position: int) -> None:
        """The broker has all entries up to here as acknowledged whole."""
        for each in [part for part in self._confirmed_parts if part <= position]:
            del self._confirmed_parts[each]
            self._left.pop(each, None)
            self._confirmed_fresh.add(each)

    def was_confirmed(self, position: int) -> bool:
        """Whether the broker confirmed the ack of this position not long ago."""
        return position in self._confirmed_fresh or position in self._confirmed_ranges

    def last_confirmed_below(self, position: int) -> int | None:
        """Return the highest position below this one whose ack was confirmed not long ago; None without any."""
        fresh = (confirmed for confirmed in self._confirmed_fresh if confirmed < position)
        last = max(fresh, default=None)
        folded = self._confirmed_ranges.last_below(position)
        return folded if last is None else last if folded is None else max(last, folded)

    def shelve_confirmed(self) -> None:
        """What the broker sends from now on, it means; but it may turn out that it lost what it had confirmed."""
        self._fold()
        self._shelved_ranges.update(self._confirmed_ranges)
        self._confirmed_ranges.clear()
        self._shelved_parts |= self._confirmed_parts
        self._confirmed_parts.clear()

    def unshelve_confirmed(self) -> None:
        """The broker lost what it had confirmed: what it sends from now on is no news."""
        self._confirmed_ranges.update(self._shelved_ranges)
        self._shelved_ranges.clear()
        for position, bits in self._shelved_parts.items():
            if position not in self.entries and position not in self.unconfirmed:
                self._confirmed_parts[position] = bits
        self._shelved_parts.clear()

    def forget_shelved(self) -> None:
        """Nothing of it was lost: a worker wants it again."""
        self._shelved_ranges.clear()
        self._shelved_parts.clear()

    def forget_confirmed(self) -> None:
        """The cursor was moved, or may have been: what the broker sends from now on, it means."""
        self._confirmed_fresh.clear()
        self._confirmed_ranges.clear()
        self._confirmed_parts.clear()
        self.forget_shelved()

    def _fold(self) -> None:
        self._confirmed_ranges.add_each(sorted(self._confirmed_fresh))
        self._confirmed_fresh.clear()

    def forget_acknowledged(self) -> None:
        """Nothing of the subscription is consumed here any more: what the broker sends when it is again, it means."""
        self.unconfirmed.clear()
        self.kept_back = {each: bits for each, bits in self.kept_back.items() if each in self.entries}
        self.forget_confirmed()

    def reset(self) -> None:
        """The subscription was moved elsewhere (seek): nothing of what was known holds any more."""
        self.entries.clear()
        self.spill.clear()
        self.bytes_held = 0
        self.highest = self.acknowledged_to = -1
        self.acks.clear()
        self.index_acks.clear()
        self.unconfirmed.clear()
        self.kept_back.clear()
        self._left.clear()
        self.forget_confirmed()


def size_of(entry: Part | Batch) -> int:
    """Bytes an entry costs until it is acknowledged."""
    return entry.bytes_held if isinstance(entry, Batch) else len(entry.tail) + PART_BYTES
