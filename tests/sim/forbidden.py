"""What operators forbade, against what the gateway writes: nothing new while paused, or to a drained worker.

What the gateway had decided before the order, and a full socket kept from its worker, may follow: it is counted when
the order is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.sim.seats import Seat


class Forbidden:
    """The orders of one gateway's life that stand."""

    def __init__(self) -> None:
        """None yet."""
        self._paused = False
        self._drained: set[str] = set()
        self._excluded: set[str] = set()
        self._decided: dict[Seat, int] = {}
        """Deliveries that a worker may still get, decided before the order."""

    def pause(self, decided: Mapping[Seat, int]) -> None:
        """Nobody gets anything but the deliveries that were decided on before."""
        self._paused = True
        self._decided.update(decided)

    def resume(self) -> None:
        """They do again."""
        self._paused = False

    def drain(self, name: str, decided: Mapping[Seat, int]) -> None:
        """Workers of the name get nothing but that."""
        self._drained.add(name)
        self._decided.update(decided)

    def allow(self, name: str) -> None:
        """They do again."""
        self._drained.discard(name)

    def exclude(self, name: str) -> None:
        """Workers of the name get nothing at all."""
        self._excluded.add(name)

    def readmit(self, name: str) -> None:
        """They do again."""
        self._excluded.discard(name)

    def clear(self) -> None:
        """Everybody does."""
        self._paused = False
        self._drained.clear()
        self._excluded.clear()

    def forbids(self, seat: Seat, *, continues: bool) -> str:
        """The order that one more delivery breaks, empty if none; a begun chunked message's rest `continues` it."""
        if seat.name in self._excluded:
            return "the worker is excluded"
        if not self._paused and seat.name not in self._drained:
            return ""
        if self._decided.get(seat):
            self._decided[seat] -= 1
            return ""
        if self._paused:
            return "the subscription is paused"
        return "" if continues else "the worker is drained"
