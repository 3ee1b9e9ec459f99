"""Attempts that messages had in an earlier life of their subscription, which ended with its last worker.

Problem: a message that kills a lone worker ends the subscription with it, and so would have its attempts anew each
time, for ever. Rule kept: what came back is known by its position for as long as the gateway lives, until it comes
again (`recall`). Positions are never used twice, so what is known cannot be of another message.

Bounded in messages, subscriptions and time, since clients choose the names of subscriptions and need not come again.
What is forgotten has all its attempts once more.

Not here: what another replica counted.

Pure, with `now` in monotonic seconds.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

MESSAGES_MAX: Final = 100
"""Deliveries of one subscription. Each costs some 300 bytes, and an eighth of one for each message of its batch."""
SUBSCRIPTIONS_MAX: Final = 1_000
"""Of all of them; the first to end are forgotten first."""
KEPT_S: Final = 3_600.0
"""A worker that comes later finds nothing."""
ALL: Final = -1
"""As bits."""


class Earlier(NamedTuple):
    """What is known of messages of an entry that were delivered together."""

    bits: int
    """One for each of them, by its index; `ALL` for a whole entry."""
    attempts: int
    redeliveries: int
    spared: int
    given_up: bool
    """Whether they were on their way to another topic."""
    last: int
    """Of a chunk on its way with all others of its message, the position of the last of them, which comes again; -1 of
    what is none."""


ByPosition: TypeAlias = "dict[int, list[Earlier]]"


class EarlierAttempts:
    """Of all subscriptions that have ended, by topic and name."""

    def __init__(self) -> None:
        """None has."""
        self._kept: dict[tuple[str, str], tuple[float, ByPosition]] = {}
        """With the time of its end; the last to end stands last."""

    def __len__(self) -> int:
        """Subscriptions of which something is known."""
        return len(self._kept)

    def keep(self, key: tuple[str, str], found: ByPosition, now: float) -> None:
        """The subscription ends, with this."""
        self._kept.pop(key, None)
        if found:
            self._kept[key] = now, found
        while self._kept:
            first = next(iter(self._kept))
            if len(self._kept) <= SUBSCRIPTIONS_MAX and now < self._kept[first][0] + KEPT_S:
                break
            del self._kept[first]

    def take(self, key: tuple[str, str], now: float) -> ByPosition:
        """The subscription begins anew: it knows this, and nothing of it is kept here."""
        ended_at, found = self._kept.pop(key, (now, {}))
        return found if now < ended_at + KEPT_S else {}
