"""The judge of one subscription's keys, beside the workers that it watches.

All workers of a subscription are in one process and on one event loop, so what they got and acknowledged has one order,
and no clock is needed. Three rules, from the clients' side alone:

- first deliveries of a key follow its sequence without a gap;
- a key's unacknowledged messages are at one worker;
- what a lost worker held comes again before any later message of its key.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Final, NamedTuple

EXAMPLES_MAX: Final = 5

Key = tuple[int, int]
"""Topic and key."""


class Held(NamedTuple):
    """A message that a worker got."""

    key: Key
    sequence: int


class KeyAudit:
    """Owner of what is known of every key."""

    def __init__(self) -> None:
        """Nothing was delivered."""
        self.next: dict[Key, int] = defaultdict(int)
        """First sequence that was not delivered yet."""
        self.duplicates = 0
        self.violations = 0
        self.examples: list[str] = []
        self._holders: dict[Key, tuple[str, int]] = {}
        self._held: dict[str, set[Held]] = defaultdict(set)
        self._lost: dict[Key, set[int]] = defaultdict(set)

    def received(self, worker: str, message: Held) -> None:
        """A worker got a message."""
        key, sequence = message
        holder, count = self._holders.get(key, (worker, 0))
        if holder != worker:
            self._accuse(f"{key}: {sequence} came to {worker} while {holder} holds {count} messages")
        self._holders[key] = (worker, count + 1 if holder == worker else 1)
        self._held[worker].add(message)
        expected = self.next[key]
        if sequence == expected:
            self.next[key] = expected + 1
        elif sequence > expected:
            self._accuse(f"{key}: {sequence} came before {expected}")
            self.next[key] = sequence + 1
        else:
            self.duplicates += 1
        lost = self._lost.get(key)
        if lost:
            lost.discard(sequence)
            if lost and min(lost) < sequence:
                self._accuse(f"{key}: {sequence} overtook {min(lost)}, whose worker was lost")

    def acknowledged(self, worker: str, message: Held) -> None:
        """A worker is done with a message."""
        held = self._held[worker]
        if message in held:
            held.discard(message)
            self._release(worker, message.key)

    def gone(self, worker: str) -> None:
        """A worker has left, with what it held."""
        for key, sequence in self._held.pop(worker, set()):
            self._lost[key].add(sequence)
            self._release(worker, key)

    @property
    def delivered(self) -> int:
        """Different messages so far."""
        return sum(self.next.values())

    def _release(self, worker: str, key: Key) -> None:
        holder, count = self._holders.get(key, ("", 0))
        if holder != worker:
            return
        if count > 1:
            self._holders[key] = (holder, count - 1)
        else:
            del self._holders[key]

    def _accuse(self, what: str) -> None:
        self.violations += 1
        if len(self.examples) < EXAMPLES_MAX:
            self.examples.append(what)
