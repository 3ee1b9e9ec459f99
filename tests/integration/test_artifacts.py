"""The cache of artifacts: whole or absent, whatever Maven does. Maven itself is a script here."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from integration import artifacts
from integration.errors import DownloadError, ToolMissingError

COPIES_ONE_JAR = """
for argument; do case $argument in -DoutputDirectory=*) out=${argument#*=};; esac; done
echo run >> "$KEYLINE_CACHE/runs"
echo "[INFO] Downloaded from central: https://central.example/a/a.jar (1.5 MB at 3 MB/s)"
mkdir -p "$out" && echo jar > "$out/a.jar"
"""
FAILS_HALF_WAY = COPIES_ONE_JAR + 'echo "[ERROR] no such artifact"; exit 1\n'


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache of the test's own."""
    monkeypatch.setenv("KEYLINE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def pretend_maven(directory: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a program named `mvn` first on the path."""
    programs = directory.parent / "programs"
    programs.mkdir(exist_ok=True)
    program = programs / "mvn"
    program.write_text(f"#!/bin/sh\n{script}")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(programs), prepend=":")


def test_what_is_fetched_once_is_taken_from_the_cache(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Maven runs once, and the directory holds its jars and nothing else."""
    pretend_maven(cache, monkeypatch, COPIES_ONE_JAR)
    bundle = artifacts.broker("9.9.9")
    assert artifacts.ensure(bundle) == artifacts.ensure(bundle) == cache / "pulsar-9.9.9"
    assert [path.name for path in (cache / "pulsar-9.9.9").iterdir()] == ["a.jar"]
    assert (cache / "runs").read_text() == "run\n"


def test_a_failed_download_leaves_nothing_and_shows_mavens_error(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is tried twice; what it left half-way is not taken for a whole set of jars later."""
    pretend_maven(cache, monkeypatch, FAILS_HALF_WAY)
    with pytest.raises(DownloadError, match="no such artifact"):
        artifacts.ensure(artifacts.broker("9.9.9"))
    assert (cache / "runs").read_text() == "run\nrun\n"
    assert sorted(path.name for path in cache.iterdir()) == ["download.lock", "pulsar-9.9.9.log", "runs"]


def test_two_at_once_fetch_once(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second waits for the first and then finds the work done."""
    pretend_maven(cache, monkeypatch, COPIES_ONE_JAR)
    threads = [threading.Thread(target=artifacts.ensure, args=(artifacts.broker("9.9.9"),)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert (cache / "runs").read_text() == "run\n"


def test_a_machine_without_maven_is_told_what_to_install(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message is a command to copy."""
    monkeypatch.setattr("integration.maven.java", lambda: Path("java"))
    monkeypatch.setenv("PATH", str(cache))
    with pytest.raises(ToolMissingError, match=r"Maven .*`apt-get install .* maven`"):
        artifacts.ensure(artifacts.broker("9.9.9"))


def test_progress_is_shown_while_maven_runs(
    cache: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A download of minutes says how far it is: seconds, jars, megabytes."""
    pretend_maven(cache, monkeypatch, COPIES_ONE_JAR)
    artifacts.ensure(artifacts.broker("9.9.9"))
    assert capsys.readouterr().err.rstrip().endswith("0 POMs, 1 of at most 380 jars, 2 MB")


def test_the_pins_come_before_the_import_they_correct() -> None:
    """Maven takes the first entry it finds for an artifact."""
    pom = artifacts.TOOLS.pom()
    assert pom.index("pulsar-opentelemetry") < pom.index("<scope>import</scope>")
    assert "<version>4.0.7</version>" in pom


def test_an_error_is_told_in_a_sentence_by_the_command(cache: Path) -> None:
    """`make test` ends with what to install, not with a stack trace."""
    (cache / "bin").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "integration.artifacts", "9.9.9"],
        env={"PATH": str(cache / "bin"), "KEYLINE_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: Java 17 or newer is needed")
    assert "Traceback" not in done.stderr
