"""Handles of worker processes: start, stop, kill, freeze, and read what they wrote so far."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final

from integration.errors import IntegrationError
from integration.load.lives import WorkerLife
from integration.load.records import Event, RecordReader
from integration.logs import tail
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from pathlib import Path

    from integration.load.options import WorkerOptions

JOIN_S_MAX: Final = 90.0
STOP_S_MAX: Final = 90.0
"""A worker that waits for a gateway which restarts is in no hurry."""
POLL_S: Final = 0.02
TRACE_S: Final = 0.5
"""For a worker that hangs to write down where."""


class WorkerFailedError(IntegrationError):
    """A worker ended by itself or did not do what it was told: the text has the end of its log."""


class WorkerProcess:
    """One life of one worker."""

    def __init__(self, options: WorkerOptions, directory: Path, life: int) -> None:
        """Start it; `life` is unique within the directory and part of its files' names."""
        self.options = options
        self.name = options.name
        stem = f"{life:03d}-{options.name}"
        self.records = directory / f"{stem}.records"
        self.log = directory / f"{stem}.log"
        self._killed_at_ns: int | None = None
        self._still_since_ns: int | None = None
        self._asked_to_stop = False
        self._reader = RecordReader(self.records)
        module = "socket_worker" if options.websocket else "worker"
        self._process = OwnedProcess(
            [sys.executable, "-m", f"integration.load.{module}", options.to_json(), str(self.records)], self.log
        )

    @property
    def running(self) -> bool:
        """Whether the process lives, frozen or not."""
        return self._process.running

    def wait_joined(self, timeout_s: float = JOIN_S_MAX) -> None:
        """Return when its subscription stands.

        Raises:
            WorkerFailedError: it ended, or did not get there in time.
        """
        deadline = time.monotonic() + timeout_s
        while all(record.event != Event.JOINED for record in self._reader.new()):
            if not self.running or time.monotonic() > deadline:
                raise self._failure("did not join")
            time.sleep(POLL_S)

    def request_stop(self) -> None:
        """Ask it to end in peace and return at once; asking twice is asking once."""
        if not self._asked_to_stop:
            self._asked_to_stop = True
            self._process.signal(signal.SIGTERM)

    def stop(self, timeout_s: float = STOP_S_MAX) -> None:
        """End it in peace: it acknowledges what it is done with and closes its consumer.

        Raises:
            WorkerFailedError: it had failed before, or had to be killed.
        """
        self.request_stop()
        try:
            code = self._process.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.signal(signal.SIGUSR1)
            time.sleep(TRACE_S)
            self.kill()
            raise self._failure("did not stop") from None
        self._process.kill()
        if code != 0 and self._killed_at_ns is None:
            raise self._failure(f"ended with code {code}")

    def kill(self) -> None:
        """End it with SIGKILL. Harmless when it has ended."""
        if self.running and self._killed_at_ns is None:
            # Before the signal: what it held is given up from now on at the earliest.
            self._killed_at_ns = time.monotonic_ns()
        self._process.kill()

    def pause(self) -> None:
        """Freeze it: connected, holding what it holds, doing nothing."""
        # Before the signal, as with `kill`.
        self._still_since_ns = time.monotonic_ns()
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.signal(signal.SIGCONT)
        self._still_since_ns = None

    def change_pace(self) -> None:
        """Let it take longer for each message from now on, or as long as before again; on a WebSocket it cannot."""
        self._process.signal(signal.SIGUSR2)

    def life(self) -> WorkerLife:
        """Return what it wrote, for the audit.

        Raises:
            WorkerFailedError: it ended by itself.
        """
        code = self._process.process.poll()
        if code not in (None, 0) and self._killed_at_ns is None:
            raise self._failure(f"ended with code {code}")
        return WorkerLife(self.name, RecordReader.all(self.records), self._killed_at_ns, self._still_since_ns)

    def _failure(self, what: str) -> WorkerFailedError:
        return WorkerFailedError(f"worker {self.name} {what}; end of {self.log}:\n{tail(self.log)}")
