"""Messages that another topic refuses, with those of their hash slots behind them: tried again, one at a time.

Problem: a topic may take all messages but one, for ever: it is too large for a limit of the topic, or cannot be read.
Rules kept: what is refused waits, and what is behind it of its slot waits with it, so that the order there is kept;
other slots go on. The first of one slot is tried at a time, and each slot gets its turn. When the topic takes one, all
are published: the cause may be over for all. So nothing is sent again because of another message.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

from proxy.core.diversions import place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.entry import Part


class Refused:
    """Of one subscription."""

    def __init__(self) -> None:
        """None."""
        self._slots: dict[int, list[Part]] = {}
        """Parts in topic order, the first of which was refused; the slot whose turn is next stands first."""
        self._reasons: dict[int, str] = {}

    def __bool__(self) -> bool:
        """Whether one is refused."""
        return bool(self._slots)

    @property
    def reason(self) -> str:
        """Why one of them was; empty without any."""
        return next(reversed(self._reasons.values()), "")

    def refuse(self, part: Part, reason: str) -> None:
        """The topic did not take it."""
        self.wait(part)
        self._reasons.pop(part.slot, None)
        self._reasons[part.slot] = reason

    def wait(self, part: Part) -> None:
        """It is of a slot of which another one was refused."""
        parts = self._slots.setdefault(part.slot, [])
        if not any(each is part for each in parts[:1]):
            insort(parts, part, key=place_of)

    def first(self, slot: int) -> Part | None:
        """What was refused of a slot."""
        parts = self._slots.get(slot)
        return parts[0] if parts else None

    def is_first(self, part: Part) -> bool:
        """Whether it is what was refused of its slot."""
        return self.first(part.slot) is part

    def pop(self, slot: int) -> list[Part]:
        """The slot's, which are refused no more."""
        self._reasons.pop(slot, None)
        return self._slots.pop(slot, [])

    def next(self, is_wanted: Callable[[Part], bool]) -> Part | None:
        """What is to be tried: of the slot that has waited longest for its turn. What is not wanted is forgotten."""
        for slot in list(self._slots):
            parts = [part for part in self._slots.pop(slot) if is_wanted(part)]
            if parts:
                self._slots[slot] = parts
                return parts[0]
            self._reasons.pop(slot, None)
        return None

    def take_others(self, part: Part) -> list[Part]:
        """The topic has taken one that was refused: all others, in each slot's order. None is refused any more."""
        others = [each for parts in self._slots.values() for each in parts if each is not part]
        self._slots.clear()
        self._reasons.clear()
        return others
