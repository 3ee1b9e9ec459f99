"""The background of a simulated process: work takes a while, and pieces of it may end in any order."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from tests.sim.machine import Event, Process

T = TypeVar("T")

TAKES_S: Final = (0.0, 0.001, 0.05, 0.4)
"""What a piece of work may take; the last as long as 64 MiB take a real one."""


class Background:
    """Implements `ports.Background`; dies with its process."""

    def __init__(self, process: Process, dice: random.Random) -> None:
        """For one life of a process."""
        self._process = process
        self._dice = dice

    def run(self, work: Callable[[], T], done: Callable[[T | Exception], None]) -> Event:
        """As the port says."""

        def carry_out() -> None:
            result: T | Exception
            try:
                result = work()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                result = error
            done(result)

        return self._process.call_later(self._dice.choice(TAKES_S), carry_out)
