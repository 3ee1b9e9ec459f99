"""Spark's classes as Java maps them into memory: the first report of a machine leaves them behind for all later ones.

Else Java reads some 20,000 classes from jars and checks each, in every report, while Spark starts and whenever
something is done for the first time. When Java ends it writes an archive of what it has loaded; that takes some ten
seconds, and the report does not wait for it. Java takes an archive of the same Java and the same jars only, and begins
without it otherwise.

Source: Java's "Class Data Sharing", JEP 350.
"""

from __future__ import annotations

import os
import re
import shutil
import time
import zlib
from pathlib import Path
from typing import Final

import pyspark

KEPT_MAX: Final = 4
"""Archives, of 190 MB each: one of small journals and one of others, of the latest versions."""
UNFINISHED_S: Final = 3600
"""Java that was killed while it wrote leaves something that is no archive."""
QUIET: Final = "-Xshare:auto -Xlog:disable"
"""An archive that does not fit is no error."""
_PLAIN: Final = re.compile(r"[\w./+@-]+")
"""A path that Java's options can have in them."""


def options(kind: str) -> str:
    """Options of Java that use the archive of this kind of report, or make it; empty where there can be none."""
    try:
        archive = _archive(kind)
        if archive is None:
            return ""
        _adopt(archive)
        if archive.exists():
            os.utime(archive)
            return f" {QUIET} -XX:SharedArchiveFile={archive}"
    except (OSError, RuntimeError):  # no home, one that cannot be written, or another report tidies up
        return ""
    return f" {QUIET} -XX:ArchiveClassesAtExit={archive}.{os.getpid()}"


def _archive(kind: str) -> Path | None:
    """Where it is, named by what Java will compare; its directory exists."""
    home, java = Path(os.environ.get("SPARK_HOME") or pyspark.__path__[0]), _java()
    conf = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf")
    if java is None or (conf.is_dir() and any(conf.iterdir())):  # Java archives nothing with such a directory
        return None
    jars = sorted(f"{jar.name} {jar.stat().st_mtime_ns}" for jar in (home / "jars").glob("*.jar"))
    version = zlib.crc32(f"{home} {jars} {java} {java.stat().st_mtime_ns}".encode())
    directory = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "keyline"
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    archive = directory / f"spark-{kind}-{version:08x}.jsa"
    return archive if _PLAIN.fullmatch(str(archive)) and os.access(directory, os.W_OK) else None


def _java() -> Path | None:
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    return Path(found).resolve() if found and Path(found).is_file() else None


def _adopt(archive: Path) -> None:
    """Take what a report that has ended left behind; remove what is old, or was never finished."""
    for left in archive.parent.glob("spark-*.jsa.*"):
        writer = left.suffix[1:]
        if not writer.isdigit() or _runs(int(writer)):
            continue
        if _is_whole(left):
            left.replace(left.with_suffix(""))
        elif left.stat().st_mtime < time.time() - UNFINISHED_S:
            left.unlink()
    kept = sorted(archive.parent.glob("spark-*.jsa"), key=lambda each: each.stat().st_mtime, reverse=True)
    for old in kept[KEPT_MAX:]:
        old.unlink(missing_ok=True)


def _runs(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _is_whole(archive: Path) -> bool:
    """Java writes the first bytes last."""
    with archive.open("rb") as file:
        return any(file.read(4))
