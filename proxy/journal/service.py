"""The journal service: buffers rows, writes files on a thread, and shuts down cleanly."""

from __future__ import annotations

import os
import stat
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from proxy.journal.digest import KeyDigests
from proxy.journal.journal import HAND_IN_S, Journal
from proxy.journal.partition import quoted
from proxy.journal.schema import OPEN_DIRECTORY
from proxy.journal.spool import Spool
from proxy.journal.store import LocalStore, store_at
from proxy.journal.summary import LOST_AT_FIRST, JournalSummary
from proxy.journal.writer import Writer, WriterSettings

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock, Timer

END_S_MAX: Final = 10.0
"""Time that a stopping gateway waits for its last files, of the 20 s that the chart leaves for the end of a pod.

The next run publishes the rest, which a pod that is scaled away does not have.
"""


@dataclass(frozen=True, slots=True)
class JournalSettings:
    """As configured."""

    journal: str | None
    journal_spool_directory: Path | None
    journal_deliveries: bool
    journal_key_sample: float
    journal_key_secret: bytes | None
    journal_plain_keys: bool
    journal_snapshot_s: float
    journal_roll_s: float
    journal_roll_bytes: int
    journal_memory_bytes: int


class JournalService:
    """Creates, starts and stops the journal's parts."""

    def __init__(
        self,
        settings: JournalSettings,
        gateway: str,
        gateway_version: str,
        clock: Clock,
        wall_ns: Callable[[], int],
    ) -> None:
        """Raises ValueError if there is no such place; the text says why."""
        assert settings.journal is not None
        store = store_at(settings.journal)
        directory = settings.journal_spool_directory
        if directory is None:
            directory = (store.root / OPEN_DIRECTORY) if isinstance(store, LocalStore) else _temporary()
        self.run_id = uuid.uuid4().hex
        self._clock = clock
        self._timer: Timer | None = None
        self._spool = Spool(settings.journal_memory_bytes)
        facts = {"gateway": gateway, "life": self.run_id, "gateway_version": gateway_version}
        self._writer = Writer(
            WriterSettings(
                gateway,
                self.run_id,
                directory / quoted(gateway),
                settings.journal_roll_s,
                settings.journal_roll_bytes,
                facts,
            ),
            self._spool,
            store,
        )
        digests = None
        if settings.journal_deliveries:
            secret = settings.journal_key_secret or uuid.uuid4().bytes
            digests = KeyDigests(secret, settings.journal_key_sample, plain=settings.journal_plain_keys)
        self.journal = Journal(self.run_id, self._spool, wall_ns, clock.now, digests)

    def start(self) -> None:
        """Begin to write."""
        self._writer.start()
        self._again()

    def close(self) -> bool:
        """Write what there is and end; False if the writer takes too long: see `END_S_MAX`."""
        if self._timer is not None:
            self._timer.cancel()
        self.journal.hand_in()
        self._spool.close()
        return self._writer.join(END_S_MAX)

    def summary(self) -> JournalSummary:
        """How it fares now."""
        counters = self._writer.counters
        return JournalSummary(
            rows_written=counters.rows_written,
            rows_dropped={**LOST_AT_FIRST, **self._spool.dropped},
            messages_unlisted=self.journal.unlisted,
            rows_recovered=counters.rows_recovered,
            files_published=counters.files_published,
            held_bytes=self._spool.held_bytes,
            failures=counters.failures,
            problem=counters.problem,
        )

    def _again(self) -> None:
        self.journal.hand_in()
        self._timer = self._clock.call_later(HAND_IN_S, self._again)


def _temporary() -> Path:
    """Where open files of a journal in an object store lie: they outlive the process as long as this directory does."""
    return own_directory(Path(tempfile.gettempdir()) / f"keyline-journal-{os.getuid()}")


def own_directory(path: Path, owner: int | None = None) -> Path:
    """Create a directory with a predictable name, or check that the existing one is private to this user.

    What lies there is published with the gateway's credentials. `owner` is the process's user unless given.

    Raises:
        ValueError: it belongs to another user, or others may write to it.
    """
    owner = os.geteuid() if owner is None else owner
    wanted = "it should be a private directory of the gateway's own user; set `journal_spool_directory`"
    try:
        path.mkdir(mode=0o700, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise ValueError(f"{path}: {error.strerror or error}; {wanted}") from error
    if not stat.S_ISDIR(found.st_mode):
        raise ValueError(f"{path} is no directory; {wanted}")
    if found.st_uid != owner:
        raise ValueError(f"{path} belongs to user {found.st_uid}; {wanted}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise ValueError(f"others may write to {path}; {wanted}")
    return path
