"""Whether the subscription's cursor still stands where we know it, after the broker had closed our consumer.

Problem: a broker closes it when it unloads the topic and when somebody moves the cursor, and says the same both times.
After a move it sends again what somebody wants again. After an unload it may send again what it had confirmed, which
no worker may get (G4): the first ack after a topic was loaded makes it begin a ledger for the cursor, and if the topic
is unloaded before that is there, the cursor goes back to where it stood when the topic was loaded, and what had been
acknowledged one by one above that is lost (4.0.7 and 4.2.4: "Failed to update cursor metadata" in their logs). Rule
kept: where the cursor stands when we are back tells which it was, and no message is asked for before.

Not told apart: an unload, and within `LEDGER_MADE_S` of the first ack after it a move back, by less than was
acknowledged since. Then what was acknowledged meanwhile does not come again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core import reposition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.core.outstanding import Outstanding

LEDGER_MADE_S: Final = 1.0
"""So long after it confirmed the first ack a broker has its cursor's ledger: 10 to 150 ms were seen."""


class CursorWatch:
    """What a subscription knows of its cursor at the broker."""

    __slots__ = (
        "_acknowledged",
        "_again",
        "_confirmed_at",
        "_least",
        "_loaded_at",
        "_now",
        "_outstanding",
        "_unmade",
        "in_doubt",
    )

    def __init__(self, outstanding: Outstanding, now: Callable[[], float]) -> None:
        """Nothing known yet. `now` in seconds."""
        self._outstanding = outstanding
        self._now = now
        self._again = False
        """Whether we had a consumer before this one."""
        self._acknowledged = False
        """Whether this one sent an ack."""
        self._confirmed_at: float | None = None
        """When the broker answered its first one."""
        self._least: int | None = None
        """Where the cursor stood at least when this one attached, if that is asked."""
        self._loaded_at: int | None = None
        """Mark-delete position when one attached last and it was where we knew it: the broker goes back no further."""
        self._unmade = False
        """Whether one was closed too early after its first ack, and what that cost has not come again yet."""
        self.in_doubt = False
        """Whether the broker closed one by itself, and has not told since where the cursor stands."""

    def attached(self, *, again: bool) -> None:
        """There is a consumer at the broker, for the first time or again."""
        self._again = again
        if self.in_doubt:
            self._least = reposition.least_mark_delete(self._outstanding)
        self._acknowledged = False
        self._confirmed_at = None

    def acknowledged(self) -> None:
        """The broker was sent an ack."""
        self._acknowledged = True

    def confirmed(self, positions: Iterable[int]) -> None:
        """The broker confirmed these acks."""
        self._outstanding.confirmed(positions)
        if self._confirmed_at is None:
            self._confirmed_at = self._now()

    def closed(self) -> None:
        """The broker closed our consumer by itself."""
        since = self._confirmed_at
        early = since is None or self._now() - since < LEDGER_MADE_S
        if self._acknowledged and early:
            # Nobody who moves the cursor of a new subscription at once is to miss anything for this.
            self._unmade |= self._again
        elif self._acknowledged and not self.in_doubt:
            self._unmade = False
        self.in_doubt = True

    def sought(self) -> None:
        """The cursor was moved, or may have been: what the broker sends from now on, it means."""
        self._outstanding.forget_confirmed()
        self._loaded_at = None
        self.in_doubt = self._unmade = False

    def told(self, mark_delete: int | None, *, since_closed: bool) -> None:
        """Everything up to here is acknowledged; None if the broker does not tell.

        `since_closed`: it was asked by a consumer that attached when there was doubt. Of the consumers of several
        streams one may have asked before another one was closed.
        """
        if not self.in_doubt:
            self._loaded_at = mark_delete
        elif since_closed:
            self._judge(mark_delete)

    def _judge(self, mark_delete: int | None) -> None:
        if mark_delete is None or self._was_moved(mark_delete):
            self.sought()
        else:
            self._loaded_at = mark_delete
            self.in_doubt = False

    def _was_moved(self, mark_delete: int) -> bool:
        least = self._least
        if self._unmade and least is not None and self._loaded_at is not None:
            least = min(least, self._loaded_at)
        return reposition.was_moved(self._outstanding, mark_delete, least)
