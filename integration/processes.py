"""A child process that always ends: on request, when the block is left, and when this process dies.

Problem: a broker that outlives a killed test run holds a gigabyte and its ports. Rule kept: the child has a session of
its own, all of which is killed, and a guard watches us over a pipe. The kernel closes the pipe however we die,
SIGKILL included, and the guard then kills the child's session. Why not PR_SET_PDEATHSIG: it fires when the thread
that started the child ends, so a fixture that starts two brokers in a thread pool would lose both.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

from integration.errors import StartError
from integration.logs import tail

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

LOOK_S = 0.3
STOP_S_MAX = 20.0
KILL_WAIT_S_MAX = 30.0
"""A killed process is gone in milliseconds, unless it hangs in the kernel."""


class OwnedProcess:
    """One running child in its own session, its output in a file."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Start it; its output is appended to `log`.

        Args:
            command: program and arguments.
            log: file for its standard output and error.
            cwd: where it runs.
            environment: added to this process's environment.
        """
        self.log = log
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                cwd=cwd,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard: subprocess.Popen[bytes] | None = _guard(self.process.pid)

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its session and group."""
        return self.process.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended."""
        return self.process.poll() is None

    def wait_until(self, there: Callable[[], bool], what: str, timeout_s: float) -> None:
        """Return as soon as `there()`.

        Raises:
            StartError: it ended before, or that took longer; the text has `what` was done, and the end of its log.
        """
        deadline = time.monotonic() + timeout_s
        while not self.running or not there():
            if not self.running:
                raise StartError(f"{what}: it ended meanwhile; end of {self.log}:\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise StartError(f"{what}: not in {timeout_s:.0f} s; end of {self.log}:\n{tail(self.log)}")
            time.sleep(LOOK_S)

    def signal(self, number: int) -> None:
        """Send a signal to the whole group; nothing happens if the process has ended."""
        if self.running:
            os.killpg(self.pid, number)

    def stop(self, timeout_s: float = STOP_S_MAX) -> None:
        """Ask it to end with SIGTERM, wait, and kill it when it takes longer than `timeout_s`."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        try:
            self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
        self._reap()

    def kill(self) -> None:
        """End it at once with SIGKILL, paused or not."""
        self.signal(signal.SIGKILL)
        self._reap()

    def release(self) -> None:
        """Let it run on by itself; afterwards nothing here ends it."""
        self._dismiss_guard()
        # Popen warns about a child that it thinks running when it is collected; here that is what we want.
        self.process.returncode = 0

    def __enter__(self) -> Self:
        """Nothing more to do: it was started when it was made."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop it."""
        self.stop()

    def _reap(self) -> None:
        # The guard first: once the process is waited for, its id may be another process's.
        self._dismiss_guard()
        self.process.wait(KILL_WAIT_S_MAX)

    def _dismiss_guard(self) -> None:
        if self._guard is not None:
            self._guard.kill()
            self._guard.communicate()
            self._guard = None


def _guard(pid: int) -> subprocess.Popen[bytes]:
    """Start a shell that kills the session `pid` when our end of its standard input closes."""
    shell = shutil.which("sh") or "/bin/sh"
    return subprocess.Popen(
        [shell, "-c", f"read -r _; kill -s KILL -- -{pid}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
