"""Acknowledgements that the broker may have lost when it closed the gateway's consumer.

Problem: a broker closes it when it unloads the topic and when an operator moves the cursor, with the same command.
Messages after that are wanted again, or were never acknowledged, because a broker stores its cursor at an unload. But
the first ack after a topic was loaded creates a ledger for the cursor, and if the topic is unloaded before it exists,
the cursor goes back to its position at the load, and all later acknowledgements are lost, confirmed or not (4.0.7 and
4.2.4: "Failed to update cursor metadata" in their logs). No worker may get those messages again (G4). Rule: messages
after a close are deliveries, except after an early close with a cursor that may have gone back: it stands no lower than
at the load, and over nothing that a worker holds. Then confirmed acknowledgements are still known. It need not be back
where it stood at the load, for commits of transactions are not lost with it. To get the cursor's position before the
gateway changes it, no permits are granted and nothing is acknowledged before.

Not distinguished: such a loss, and an operator's move of the cursor within `LEDGER_MADE_S` of the gateway's first ack
on a consumer that is not the subscription's first, back to its position at the subscribe or later. Acknowledged
messages are not redelivered then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core import reposition

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from proxy.core.outstanding import Outstanding

LEDGER_MADE_S: Final = 1.0
"""So long after it confirmed the first ack a broker has its cursor's ledger: 10 to 150 ms were seen."""

IDLE_S: Final = 5.0
"""What a broker lost it sends again within so long after we attached, or there was nothing."""


class CursorWatch:
    """What a subscription knows of its cursor at the broker."""

    __slots__ = (
        "_acknowledged",
        "_again",
        "_attached_at",
        "_confirmed_at",
        "_least",
        "_loaded_at",
        "_lost",
        "_now",
        "_outstanding",
        "_unsettled",
        "in_doubt",
        "unknown",
    )

    def __init__(self, outstanding: Outstanding, now: Callable[[], float]) -> None:
        """Nothing known yet. `now` in seconds."""
        self._outstanding = outstanding
        self._now = now
        self._again = False
        """Whether we had a consumer before this one."""
        self._attached_at = 0.0
        self._acknowledged = False
        """Whether this one sent an ack, or the one before, whose connection was lost too early after it."""
        self._unsettled = False
        """Whether that was so when this one attached."""
        self._confirmed_at: float | None = None
        """When the broker answered its first one."""
        self._least: int | None = None
        """Lower bound of the mark-delete position when one was closed, if nothing below belongs to another consumer."""
        self._loaded_at: int | None = None
        """The broker's last mark-delete position; None if an operator may have moved it."""
        self._lost = False
        """Whether the broker lost what it had confirmed, and may not have sent it again yet."""
        self.unknown = False
        """Whether the broker closed one by itself, and has not told since where the cursor stands."""
        self.in_doubt = False
        """Whether it may have lost something then: where the cursor stands decides what it means by what it sends."""

    def attached(self, *, again: bool) -> None:
        """There is a consumer at the broker, for the first time or again."""
        self._again = again
        self._attached_at = self._now()
        # Where only the connection was lost, the topic may be loaded since the one before, or anew.
        self._acknowledged = self._unsettled = self._acknowledged and not self._stored
        self._confirmed_at = None
        if self._unsettled:
            # Unloaded while we were away, it went back to there and sends again what was acknowledged before.
            self._outstanding.unshelve_confirmed()

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
        outstanding = self._outstanding
        least = reposition.least_mark_delete(outstanding)
        if self._lost and not self._stored:
            least = outstanding.last_confirmed_below(outstanding.highest + 1)
        self._least = least or (self._least if self.in_doubt else None)
        # The first one's counts as a move, so that a seek on a new subscription takes effect.
        early = self._again and self._acknowledged
        if (early or self._lost) and not self._stored:
            self.in_doubt = True
        elif not self.in_doubt:
            self._believe()
        self.unknown = True
        self._acknowledged, self._confirmed_at = False, None

    def moved(self) -> None:
        """The cursor was moved, or may have been: the broker's messages from now on are deliveries, not repetitions."""
        self._outstanding.forget_confirmed()
        self._least = self._loaded_at = None
        self.in_doubt = self.unknown = self._lost = False

    def told(self, mark_delete: int | None, *, since_closed: bool) -> None:
        """Everything up to here is acknowledged; None if the broker does not tell.

        `since_closed`: it was asked by a consumer that attached when there was doubt. Of the consumers of several
        streams one may have asked before another one was closed.
        """
        if self.in_doubt:
            if since_closed:
                self._judge(mark_delete)
        elif self.unknown:
            self._place(mark_delete)
        elif mark_delete is not None:
            self._remember(mark_delete)

    @property
    def _stored(self) -> bool:
        """Whether what was acknowledged since one attached is stored, or there was long nothing to store."""
        since = self._confirmed_at
        return self._now() >= (self._attached_at + IDLE_S if since is None else since + LEDGER_MADE_S)

    def _judge(self, mark_delete: int | None) -> None:
        self.in_doubt = self.unknown = False
        if mark_delete is not None and self._went_back(mark_delete):
            self._lost = True
            self._loaded_at = mark_delete
            self._outstanding.unshelve_confirmed()
        else:
            self._believe()
            self._place(mark_delete)

    def _went_back(self, mark_delete: int) -> bool:
        """Whether the cursor may have gone back to where it stood at the load, or to a commit behind that."""
        if self._loaded_at is None or mark_delete < self._loaded_at:
            return False
        return not reposition.was_moved(self._outstanding, mark_delete, None)

    def _believe(self) -> None:
        self._lost = False
        self._outstanding.shelve_confirmed()

    def _place(self, mark_delete: int | None) -> None:
        """Remember where the cursor stands, if it is where we knew it."""
        self.unknown = False
        if mark_delete is None or reposition.was_moved(self._outstanding, mark_delete, self._least or self._loaded_at):
            self._least = self._loaded_at = None
            self._outstanding.forget_shelved()
        else:
            self._remember(mark_delete)

    def _remember(self, mark_delete: int) -> None:
        """Unless perhaps only the connection was lost, and the topic not loaded: then it stood lower at the load."""
        if not self._unsettled or self._loaded_at is None:
            self._loaded_at = mark_delete
