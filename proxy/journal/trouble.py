"""What is wrong with a part of the journal: said once when it begins and once when it is over, and counted."""

from __future__ import annotations

import pyarrow as pa
import structlog

log = structlog.get_logger("keyline.journal")


class Trouble:
    """Of one thread, which changes it; anybody may read."""

    def __init__(self) -> None:
        """None yet."""
        self.failures = 0
        self.problem: str | None = None
        """What is wrong now."""

    def failed(self, what: str, error: Exception) -> None:
        """Something went wrong."""
        self.failures += 1
        problem = f"{what}: {str(error) or type(error).__name__}"
        if self.problem is None:
            known = isinstance(error, (OSError, pa.ArrowException))
            log.error("journal write failed", problem=problem, exc_info=None if known else error)
        self.problem = problem

    def over(self) -> None:
        """Nothing is wrong any more."""
        if self.problem is not None:
            log.info("journal recovered", was=self.problem)
            self.problem = None
