"""What UNSUBSCRIBE owes: it deletes no subscription under other workers, unless by force, and what it deleted stays so.

A subscription that was deleted is made again by the next consumer at the broker, and then has all messages from the
first one on. So no gateway may come back to it on its own, only because a worker subscribes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.seats import Violation

if TYPE_CHECKING:
    from tests.sim.checkers import Model
    from tests.sim.seats import Seat


class Deletion:
    """Of one topic's subscription."""

    def __init__(self, topic: str, model: Model) -> None:
        """No worker has asked for it."""
        self._topic = topic
        self._model = model
        self._subscribes = 0
        """SUBSCRIBEs that have come to any replica."""
        self._told: int | None = None
        """How many that were when a worker was told that it is deleted and no other was there; until then None."""
        self.done = 0
        """How often a worker was told so."""

    def subscribes(self) -> None:
        """A worker does."""
        self._subscribes += 1

    def is_told(self, asker: Seat, others: list[Seat], *, force: bool) -> None:
        """A worker hears that it is done; `others` were there when it asked."""
        if others and not force:
            raise Violation(f"unsubscribe: {asker.name} has deleted it under {[other.name for other in others]}")
        self.done += 1
        self._told = None if any(self._model.seats()) else self._subscribes

    def made_again(self) -> None:
        """A gateway has come to what was deleted."""
        if self._told == self._subscribes:
            raise Violation(f"unsubscribe: a gateway has come back to {self._topic} for no worker")
