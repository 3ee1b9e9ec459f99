"""A journal in a directory, with a clock that is stepped and a store that can be made to fail."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from proxy.journal.journal import Journal
from proxy.journal.spool import Spool
from proxy.journal.store import LocalStore
from proxy.journal.writer import Writer, WriterSettings

HOUR_NS = 3_600_000_000_000
NOON_NS = 1_800_000_000_000_000_000 // HOUR_NS * HOUR_NS
LIFE = "a" * 32
KEY = ("persistent://public/default/orders", "billing")
WAIT_S = 30.0


class StubbornStore(LocalStore):
    """Fails while `broken` says how, and holds everybody up while it is `stalled`."""

    def __init__(self, root: Path) -> None:
        """Works."""
        super().__init__(root)
        self.broken: OSError | None = None
        self.going = threading.Event()
        self.going.set()
        self.entered = threading.Event()

    def publish(self, file: Path, place: str) -> None:
        """As the protocol says."""
        self.entered.set()
        assert self.going.wait(WAIT_S)
        if self.broken is not None:
            raise self.broken
        super().publish(file, place)


class JournalRig:
    """One life of a gateway that keeps a journal."""

    def __init__(self, root: Path, *, run_id: str = LIFE, bytes_max: int = 1 << 20, **settings: Any) -> None:
        """Started. `settings` are the writer's."""
        self.root = root
        self.now = 100.0
        self.wall_ns = NOON_NS
        self.store = StubbornStore(root)
        self.spool = Spool(bytes_max)
        self.settings = WriterSettings(
            gateway="gw/1",
            run_id=run_id,
            directory=root / "_open" / "gw",
            roll_s=settings.pop("roll_s", 3600.0),
            roll_bytes=settings.pop("roll_bytes", 1 << 30),
            facts={"gateway": "gw/1", "life": run_id},
        )
        self.writer = Writer(self.settings, self.spool, self.store)
        self.journal = Journal(
            run_id, self.spool, lambda: self.wall_ns, lambda: self.now, settings.pop("digests", None)
        )
        assert not settings
        self.writer.start()

    def end(self) -> None:
        """The gateway stops in order."""
        self.journal.hand_in()
        self.spool.close()
        assert self.writer.join(WAIT_S)

    def pass_time(self, seconds: float) -> None:
        """On both clocks."""
        self.now += seconds
        self.wall_ns += int(seconds * 1e9)

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait for the thread."""
        until(condition)


def until(condition: Callable[[], bool]) -> None:
    """Wait for a thread."""
    ticks = threading.Event()
    for _ in range(int(WAIT_S / 0.01)):
        if condition():
            return
        ticks.wait(0.01)
    raise AssertionError("waited in vain")


def rows(root: Path, table: str) -> list[dict[str, Any]]:
    """Everything that is published of a table, with what the paths tell."""
    if not (root / table).is_dir():
        return []
    partitioning = ds.partitioning(flavor="hive")
    found: list[dict[str, Any]] = ds.dataset(root / table, partitioning=partitioning).to_table().to_pylist()
    return sorted(found, key=lambda row: row["at_ns"])
