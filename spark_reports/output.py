"""Where a report's results go: files that replace those of before, all of them or none."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PART: Final = ".part"


@contextmanager
def replacing(out: Path) -> Iterator[Path]:
    """Give a directory to write to; when all went well, what is in it takes the place of what has its name in `out`."""
    part = out / PART
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    yield part
    for new in sorted(part.iterdir()):
        old = out / new.name
        if old.is_dir():
            shutil.rmtree(old)
        new.replace(old)
    part.rmdir()
