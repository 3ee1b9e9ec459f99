"""When a process of several is started again, or killed because it stands still: decisions alone, with the time given.

Rules kept. A process that ends is started again at once; if it did not serve well for a minute, after a pause that
doubles. One that says nothing for `SILENCE_S_MAX` is to be killed: its lease in owner mode ended before, so it delivers
nothing, and the kernel still gives it its share of new connections. Silence does not count while the supervisor itself
stood still, for it heard nothing then.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.app.supervision import ProcessState

if TYPE_CHECKING:
    from proxy.app.supervision import Report

SILENCE_S_MAX: Final = 10.0
START_S_MAX: Final = 60.0
"""From the start to the first report: creating the parts, on a machine that is busy."""
PAUSE_S: Final = 1.0
PAUSE_S_MAX: Final = 60.0
WELL_S: Final = 60.0
"""A process that was ready for so long has not failed."""


class ProcessLife:
    """One place among the processes, and the process in it, if there is one."""

    def __init__(self, index: int) -> None:
        """No process yet; one is wanted at once."""
        self.index = index
        self.restarts_total = 0
        self.report: Report | None = None
        self.has_started = False
        """Whether any process here has ever listened."""
        self.running = False
        self._failures = 0
        self._wanted_at: float | None = 0.0
        self._heard_at = 0.0
        self._ready_since: float | None = None

    def begun(self, now: float) -> None:
        """A process was started."""
        self.running = True
        self.report = None
        self._wanted_at = None
        self._heard_at = now
        self._ready_since = None

    def heard(self, report: Report, now: float) -> None:
        """It reported."""
        self.report = report
        self._heard_at = now
        self.has_started |= report.started
        if not report.started or report.not_ready_because:
            self._ready_since = None
        elif self._ready_since is None:
            self._ready_since = now

    def ended(self, now: float) -> float:
        """It ended; returns the pause before the next one is wanted, in seconds."""
        well = self._ready_since is not None and now - self._ready_since >= WELL_S
        pause_s = 0.0 if well else min(PAUSE_S * 2**self._failures, PAUSE_S_MAX)
        self._failures = 0 if well else min(self._failures + 1, 16)
        self.running = False
        self.report = None
        self._ready_since = None
        self._wanted_at = now + pause_s
        self.restarts_total += 1
        return pause_s

    def forgive(self, now: float) -> None:
        """Nothing could be heard until now."""
        self._heard_at = now

    def wanted(self, now: float) -> bool:
        """Whether to start a process."""
        return self._wanted_at is not None and now >= self._wanted_at

    def silent(self, now: float) -> bool:
        """Whether the process stands still, and is to be killed."""
        allowed_s = START_S_MAX if self.report is None else SILENCE_S_MAX
        return self.running and now - self._heard_at > allowed_s

    def state(self) -> ProcessState:
        """For the other processes."""
        if self.report is None:
            return ProcessState(self.index, "", "", ready=False, restarts_total=self.restarts_total)
        report = self.report
        ready = report.started and not report.not_ready_because
        return ProcessState(self.index, report.replica, report.address, ready, self.restarts_total)
