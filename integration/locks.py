"""Lets one process at a time do a piece of work, by a file lock that the kernel releases when its holder dies."""

from __future__ import annotations

import fcntl
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def exclusive_lock(path: Path, when_held: str) -> Iterator[None]:
    """Hold `path` locked; if another process holds it, say `when_held` on standard error and wait.

    The file stays: removing a lock file lets a third process lock a new one while the second waits on the old.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(when_held, file=sys.stderr, flush=True)
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
