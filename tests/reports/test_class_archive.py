"""Java's archive of Spark's classes: when there is one, who makes it, and that Java takes it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from spark_reports import class_archive
from tests.integration.conditions import eventually

STARTS = """
from pathlib import Path
from spark_reports.run import session
spark = session("local[1]", size_bytes=1)
java = spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid()
maps = Path(f"/proc/{java}/maps").read_text().splitlines()
print(*{line.split()[-1] for line in maps if line.endswith(".jsa")})
spark.stop()
"""
JAVA_WRITES_S = 120
DEAD = 2**22 + 1
"""No process has this number."""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where archives are."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    return tmp_path / "keyline"


def made_by(options: str) -> Path:
    """The file that Java is told to write."""
    return Path(options.rpartition("-XX:ArchiveClassesAtExit=")[2])


def test_the_first_report_makes_an_archive_and_the_next_one_takes_it(cache: Path) -> None:
    """One for small journals, and one for others; not while its writer lives."""
    made = made_by(class_archive.options("small"))
    assert made.parent == cache
    made.write_bytes(b"head")
    assert "ArchiveClassesAtExit" in class_archive.options("small"), "this process runs"
    left = made.rename(made.with_suffix(f".{DEAD}"))
    archive = left.with_suffix("")
    assert f"-XX:SharedArchiveFile={archive}" in class_archive.options("small")
    assert archive.read_bytes() == b"head"
    assert "ArchiveClassesAtExit" in class_archive.options("large")


def test_what_was_never_finished_is_no_archive(cache: Path) -> None:
    """Java writes the head last; what has none is removed when it is old."""
    made = made_by(class_archive.options("small"))
    left = made.with_suffix(f".{DEAD}")
    left.write_bytes(bytes(4) + b"classes")
    assert "ArchiveClassesAtExit" in class_archive.options("small")
    assert left.exists()
    long_ago = time.time() - class_archive.UNFINISHED_S - 1
    os.utime(left, (long_ago, long_ago))
    assert "ArchiveClassesAtExit" in class_archive.options("small")
    assert list(cache.iterdir()) == []


def test_few_archives_are_kept(cache: Path) -> None:
    """Those that were used last."""
    cache.mkdir()
    for age in range(class_archive.KEPT_MAX + 2):
        old = cache / f"spark-small-0000000{age}.jsa"
        old.touch()
        os.utime(old, (1_000_000 - age,) * 2)
    class_archive.options("small")
    assert sorted(each.name[-5] for each in cache.iterdir()) == [str(age) for age in range(class_archive.KEPT_MAX)]


def test_another_version_has_another_archive(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of Java or of Spark's jars: Java would take none of the other's."""
    assert cache.parent == tmp_path
    first = made_by(class_archive.options("small"))
    java = tmp_path / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.touch()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    assert made_by(class_archive.options("small")).name != first.name


@pytest.mark.parametrize("why", ["a directory that Java does not archive", "a path with a space", "no cache"])
def test_there_may_be_none(why: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Then Java begins as it always did."""
    assert cache.parent == tmp_path
    if why == "a directory that Java does not archive":
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf/spark-defaults.conf").touch()
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path / "conf"))
    elif why == "a path with a space":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    else:
        (tmp_path / "file").touch()
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert class_archive.options("small") == ""


def test_another_report_may_tidy_up_meanwhile(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache makes no report fail."""
    made = made_by(class_archive.options("small"))
    made.with_suffix("").write_bytes(b"head")
    assert cache / made.stem == made.with_suffix("")

    def gone(path: Path) -> None:
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "utime", gone)
    assert class_archive.options("small") == ""


@pytest.mark.slow
def test_java_takes_what_the_first_report_left(cache: Path) -> None:
    """Real ones: the second has the archive in its memory, and neither says anything of it."""
    first, said = started()
    assert first == ""
    assert "cds" not in said
    eventually(
        lambda: any(map(class_archive._is_whole, cache.glob("*.jsa.*"))),
        "an archive that Java has written",
        deadline_s=JAVA_WRITES_S,
    )
    second, said = started()
    assert Path(second).parent == cache
    assert "cds" not in said


def started() -> tuple[str, str]:
    """Archives in the memory of Java, but its own, and what was said."""
    done = subprocess.run([sys.executable, "-c", STARTS], capture_output=True, text=True, check=True)
    return " ".join(each for each in done.stdout.split() if "keyline" in each), done.stderr
