"""Entries that only the broker has the bytes of, and what is asked back of them.

Problem: what waits for a worker that hangs, or for a key that is stuck, fills the look-ahead and the bytes that a
subscription may hold, and then nothing is read for the keys that could move. Rule: an entry may be held without its
bytes. It keeps its place in its queue, its slots and its counts, so order, draining and policies are as ever; its
`tail` is empty, and it counts in no look-ahead. When it is next to leave, the broker is asked to send it again, and it
goes nowhere before that has come. Which entries lose their bytes is decided in `spilling`.

Why not give them up and read them later by another consumer or a reader: the broker counts them as delivered to this
consumer, sends no other the same, and a reader would not know which batches are acknowledged in part. Asking for a
redelivery is the only request that a subscription's own consumer has. It raises the broker's redelivery count, from
which what was asked here is subtracted.

What is asked for at a time is bounded, because it comes whether there is room for it or not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.entry import Part

ASKED_MESSAGES_MAX: Final = 1_000
"""Messages that are asked for and have not come; one entry always may be."""
ASKED_BYTES_MAX: Final = 4 << 20
"""Bytes of the same."""


SPILLED_BYTES: Final = 1_300
"""What a message without its bytes costs at most: a part, its places in a batch, and a blocked slot of its own."""


class _Asked(NamedTuple):
    messages: int
    size: int


class Spill:
    """The table of one subscription."""

    __slots__ = (
        "_asked_bytes",
        "asked",
        "asked_messages",
        "fetched_entries",
        "messages",
        "quiet_below",
        "quiet_below_bytes",
        "refused",
        "sizes",
        "spared",
        "times",
        "wants",
    )

    def __init__(self) -> None:
        """All bytes are here."""
        self.sizes: dict[int, int] = {}
        """Position to the size of the bytes that are not here."""
        self.messages = 0
        """Messages that wait without them; kept by those who keep what waits."""
        self.asked: dict[int, _Asked] = {}
        """Those of them that the broker is asked for, in that order."""
        self.asked_messages = 0
        """What it debits for these."""
        self._asked_bytes = 0
        self.wants: list[int] = []
        """The latest of them, for the caller to ask for."""
        self.refused = False
        """Whether something was not asked for because too much was: it is to be looked at again."""
        self.quiet_below = 0
        """Waiting messages with bytes below which `spilling` need not look again, and...."""
        self.quiet_below_bytes = 0
        """... what the subscription holds."""
        self.spared = False
        """Whether `spilling` found workers that moved, and left their slots more than it would to others'."""
        self.times: dict[int, int] = {}
        """How often the broker was asked for an entry that is held and has lost its bytes, or had lost them."""
        self.fetched_entries = 0
        """Entries that lost their bytes and got them back, since the subscription began."""

    def dropped(self, position: int, size: int) -> None:
        """The entry has no bytes here any more."""
        self.sizes[position] = size
        self.times.setdefault(position, 0)

    def lacks(self, part: Part) -> bool:
        """Whether only the broker has the part's bytes."""
        return not part.tail and part.position in self.sizes

    def waits(self, parts: Iterable[Part]) -> None:
        """These wait now, perhaps without bytes."""
        if self.sizes:
            self.messages += sum(part.count for part in parts if part.position in self.sizes)

    def waits_no_more(self, parts: Iterable[Part]) -> None:
        """These were taken out of what waits, and are not delivered."""
        if self.sizes:
            self.messages -= sum(part.count for part in parts if part.position in self.sizes)

    def ask(self, position: int, messages: int) -> bool:
        """Want an entry's bytes again, which counts as `messages` at the broker; False if there is no room for them."""
        if position in self.asked:
            return True
        size = self.sizes[position]
        if self.asked and (
            self.asked_messages + messages > ASKED_MESSAGES_MAX or self._asked_bytes + size > ASKED_BYTES_MAX
        ):
            self.refused = True
            return False
        self.asked[position] = _Asked(messages, size)
        self.asked_messages += messages
        self._asked_bytes += size
        self.wants.append(position)
        self.times[position] += 1
        return True

    def came(self, position: int) -> bool:
        """The broker sent an entry again; whether its bytes were asked for, and are here now."""
        if position not in self.asked:
            return False
        self._forget(position)
        self.fetched_entries += 1
        return True

    def gone(self, position: int) -> None:
        """The entry is held no more."""
        if self.times.pop(position, None) is not None and position in self.sizes:
            self._forget(position)

    def caused(self, position: int) -> int:
        """Redeliveries of the broker's that were asked for here and not by a worker."""
        return self.times.get(position, 0)

    @property
    def has_room(self) -> bool:
        """Whether what was refused may be asked for: not for each entry that comes, but for many at once."""
        is_low = self.asked_messages * 2 <= ASKED_MESSAGES_MAX and self._asked_bytes * 2 <= ASKED_BYTES_MAX
        return self.refused and is_low

    def look_again(self) -> None:
        """Time has passed: workers that moved may not do so any more."""
        self.spared = False
        self.quiet_below = self.quiet_below_bytes = 0

    def clear(self) -> None:
        """Nothing is held any more."""
        self.sizes.clear()
        self.asked.clear()
        self.wants.clear()
        self.times.clear()
        self.messages = self.asked_messages = self._asked_bytes = 0
        self.look_again()
        self.refused = False

    def _forget(self, position: int) -> None:
        del self.sizes[position]
        asked = self.asked.pop(position, None)
        if asked is not None:
            self.asked_messages -= asked.messages
            self._asked_bytes -= asked.size
