"""The hosts' processes as the scenario handles them: start, second wave, failure, and what they report."""

from __future__ import annotations

import json
import signal
import sys
from typing import TYPE_CHECKING

from integration.errors import IntegrationError
from integration.logs import tail
from integration.processes import OwnedProcess
from integration.uptime.host import Wish, plan_json

if TYPE_CHECKING:
    from pathlib import Path


class HostEndedError(IntegrationError):
    """A host ended by itself: the text has the end of its log."""


class HostProcess:
    """One running host."""

    def __init__(self, name: str, service_url: str, waves: tuple[list[Wish], list[Wish]], directory: Path) -> None:
        """Start it with its first wave of endpoints."""
        self.name = name
        self._report = directory / f"{name}.report"
        self._log = directory / f"{name}.log"
        plan = plan_json(name, service_url, waves)
        command = [sys.executable, "-m", "integration.uptime.host", plan, str(self._report)]
        self._process = OwnedProcess(command, self._log)
        self._failed = False

    @property
    def living(self) -> bool:
        """Whether it has not been made to fail."""
        return not self._failed

    def start_second_wave(self) -> None:
        """Let it want the rest of its endpoints."""
        self._process.signal(signal.SIGUSR1)

    def fail(self) -> None:
        """End it with SIGKILL: the kernel closes its connections without a goodbye."""
        self._failed = True
        self._process.kill()

    def promoted(self) -> set[int]:
        """Return the endpoints it has been promoted for so far.

        Raises:
            HostEndedError: it ended, and not because it was made to fail.
        """
        if self.living and not self._process.running:
            raise HostEndedError(f"{self.name} ended by itself; end of {self._log}:\n{tail(self._log)}")
        if not self._report.exists():
            return set()
        lines = self._report.read_text().splitlines(keepends=True)
        # The last line may be half written, now or when the host was killed.
        return {int(json.loads(line)["promoted"]) for line in lines if line.endswith("\n")}
