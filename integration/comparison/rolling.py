"""Workers that roll: they join, leave and crash in turn, at fixed shares of the messages.

Changes are tied to what was acknowledged and not to the clock: a slow machine makes the run longer, not other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count, cycle
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from integration.comparison.plan import Load
    from integration.load.run import LoadRun


class RollingWorkers:
    """The workers of one run."""

    def __init__(self, run: LoadRun, load: Load) -> None:
        """Start none yet."""
        self._run = run
        self._load = load
        self._numbers = count()

    def start(self) -> None:
        """Let the first workers join."""
        self._run.start_workers(*(self._name() for _ in range(self._load.workers)), **self._options)

    def roll(self) -> None:
        """Change the set of workers while messages flow; returns when the last change is done."""
        changes: cycle[Callable[[], None]] = cycle((self._join, self._leave, self._crash, self._join))
        for number in range(1, self._load.changes + 1):
            self._run.wait_acknowledged(number * self._load.messages // (self._load.changes + 1))
            next(changes)()

    @property
    def _options(self) -> dict[str, float]:
        return {"work_ms": self._load.work_ms, "ack_delay_ms": self._load.ack_delay_ms}

    def _name(self) -> str:
        return f"worker-{next(self._numbers)}"

    def _join(self) -> None:
        self._run.start_workers(self._name(), **self._options)

    def _leave(self) -> None:
        self._run.release_worker(self._oldest())

    def _crash(self) -> None:
        self._run.kill_worker(self._oldest())

    def _oldest(self) -> str:
        return next(iter(self._run.workers))
