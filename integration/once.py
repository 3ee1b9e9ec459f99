"""Creates a cache entry exactly once, atomically."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from integration.locks import exclusive_lock

if TYPE_CHECKING:
    from collections.abc import Callable


def made_once(target: Path, lock: Path, when_held: str, make: Callable[[Path], Path]) -> Path:
    """Return `target`, a file or a directory, made first if it is not there.

    Args:
        target: its final name, which only something whole gets.
        lock: one process at a time makes entries with this lock.
        when_held: said to a person while another does.
        make: gets an empty directory beside `target` and returns what it made: something in it, or the directory
            itself. What it raises is passed on, and nothing half is kept.
    """
    if target.exists():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(lock, when_held):
        if not target.exists():
            work = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
            try:
                make(work).rename(target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
    return target
