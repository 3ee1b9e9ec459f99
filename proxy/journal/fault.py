"""Reports a journal fault once when it starts and once when it ends, and counts it."""

from __future__ import annotations

import pyarrow as pa
import structlog

log = structlog.get_logger("keyline.journal")


class Fault:
    """The state of one thread, which changes it; any thread may read it."""

    def __init__(self) -> None:
        """No fault."""
        self.failures = 0
        self.problem: str | None = None
        """The current fault."""

    def failed(self, what: str, error: Exception) -> None:
        """A step failed."""
        self.failures += 1
        problem = f"{what}: {str(error) or type(error).__name__}"
        if self.problem is None:
            known = isinstance(error, (OSError, pa.ArrowException))
            log.error("journal write failed", problem=problem, exc_info=None if known else error)
        self.problem = problem

    def over(self) -> None:
        """The fault is over."""
        if self.problem is not None:
            log.info("journal recovered", was=self.problem)
            self.problem = None
