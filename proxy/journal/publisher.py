"""The thread that publishes finished files to the store, separate from the thread that writes rows.

A store may hang for minutes (an object store's client retries by itself). It delays only its own files: they wait on
the local disk, and are retried. Unfinished files of an earlier run are published too.
"""

from __future__ import annotations

import queue
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import structlog

from proxy.journal.fault import Fault
from proxy.journal.recovery import abandoned, recover, recover_directory

if TYPE_CHECKING:
    from proxy.journal.recovery import Recovered, RunDirectory
    from proxy.journal.segment import Finished
    from proxy.journal.store import Store

LOOK_S: Final = 0.5
AGAIN_S: Final = 10.0
"""Interval of retries of files that could not be published."""
STALLED_S: Final = 5.0
"""Time for one file after which the store is reported as a fault."""

log = structlog.get_logger("keyline.journal")


class Publisher:
    """Runs from `start` until it is closed and has tried everything."""

    def __init__(self, directory: Path, run_id: str, store: Store) -> None:
        """`directory` has all unfinished files of gateways with this name; each run has a directory in it."""
        self.files_published = 0
        self.rows_recovered = 0
        self.fault = Fault()
        self._directory = directory
        self._run_id = run_id
        self._store = store
        self._finished: queue.SimpleQueue[Finished | Path | None] = queue.SimpleQueue()
        self._left: list[Path] = []
        """Logs of this run whose files could not be published yet."""
        self._again_at = 0.0
        self._busy_since: float | None = None
        self._last: RunDirectory | None = None
        self._thread = threading.Thread(target=self._run, name="journal-files", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def publish(self, finished: Finished) -> None:
        """Queue a file."""
        self._finished.put(finished)

    def recover(self, unfinished: Path) -> None:
        """Turn a log that the writer had to abandon into a file."""
        self._finished.put(unfinished)

    def close(self, run: RunDirectory | None) -> None:
        """No more files follow; try the remaining ones, and release this run's directory."""
        self._last = run
        self._finished.put(None)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end; False if it takes longer."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    @property
    def problem(self) -> str | None:
        """The current fault."""
        since = self._busy_since
        if self.fault.problem is None and since is not None and time.monotonic() > since + STALLED_S:
            return f"the store has not taken a file for {time.monotonic() - since:.0f} s"
        return self.fault.problem

    # ---- the thread

    def _run(self) -> None:
        self._recover_others()
        while True:
            try:
                found = self._finished.get(timeout=LOOK_S)
            except queue.Empty:
                self._try_again(time.monotonic())
                continue
            if found is None:
                break
            self._bring(found)
            self._try_again(time.monotonic())
        self._try_again(None)
        if self._last is not None:
            self._last.close()

    def _bring(self, found: Finished | Path) -> None:
        if isinstance(found, Path):
            self._left.append(found)
            return
        self._busy_since = time.monotonic()
        try:
            found.publish(self._store)
        except (OSError, pa.ArrowException) as error:
            self.fault.failed("a file cannot be published", error)
            self._again_at = time.monotonic() + AGAIN_S
            self._left.append(found.abandon())
        else:
            self.files_published += 1
            self._well()
        finally:
            self._busy_since = None

    def _try_again(self, now: float | None) -> None:
        """Retry the remaining files when they are due, and always at the end."""
        if not self._left or (now is not None and now < self._again_at):
            return
        self._again_at = time.monotonic() + AGAIN_S
        left, self._left = self._left, []
        for path in left:
            self._tell(self._recovered(path))
        self._well()

    def _recovered(self, path: Path) -> Recovered:
        self._busy_since = time.monotonic()
        try:
            return recover(path, self._store)
        finally:
            self._busy_since = None

    def _well(self) -> None:
        if not self._left:
            self.fault.over()

    # ---- files of earlier runs

    def _recover_others(self) -> None:
        """From killed runs of this gateway."""
        self._busy_since = time.monotonic()
        try:
            for run in abandoned(self._directory, self._directory / self._run_id):
                for recovered in recover_directory(run, self._store):
                    self._tell(recovered)
                    self._busy_since = time.monotonic()
                run.close()
        except OSError as error:
            self.fault.failed("files of an earlier run cannot be read", error)
        finally:
            self._busy_since = None

    def _tell(self, recovered: Recovered) -> None:
        own = recovered.log.parent.name == self._run_id
        if recovered.problem is not None:
            self.fault.failed("an unfinished file cannot be recovered", OSError(recovered.problem))
            if own:
                self._left.append(recovered.log)
            return
        if own:
            self.files_published += 1
            return
        self.rows_recovered += recovered.rows
        log.info(
            "journal file recovered",
            file=recovered.log.name,
            rows=recovered.rows,
            torn_bytes=recovered.torn_bytes,
        )
