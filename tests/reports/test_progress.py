"""How far a report is, as a person sees it: the command runs on a terminal of its own, and into a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from integration.journals.make import make
from integration.journals.plan import Plan
from spark_reports.command import EXIT_NOTHING_JUDGED
from spark_reports.jobs import all_jobs

PLAN: Final = Plan(messages=2_000, keys=20, workers=2, gateways=1, rate_per_s=10)
CONTROLS: Final = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
WHOLE_S_MAX: Final = 300.0


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """A small one."""
    make(PLAN, tmp_path / "journal")
    return tmp_path / "journal"


def command(journal: Path) -> list[str]:
    """A whole report, beside the journal."""
    return [sys.executable, "-m", "proxy.cli", "report", str(journal), "--out", str(journal.parent / "report")]


def shown(arguments: list[str]) -> tuple[int, str]:
    """Exit code, and everything that was drawn on a terminal, without its colours and moves."""
    terminal, inside = pty.openpty()
    environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": "120"}
    with subprocess.Popen(
        arguments, stdin=inside, stdout=inside, stderr=inside, env=environment, start_new_session=True
    ) as running:
        os.close(inside)
        drawn = b""
        with suppress(OSError):  # how a terminal says that nothing has it open any more
            while some := os.read(terminal, 65_536):
                drawn += some
        os.close(terminal)
        return running.wait(WHOLE_S_MAX), CONTROLS.sub("", drawn.decode()).replace("\r", "\n")


@pytest.mark.slow
def test_a_terminal_shows_jobs_and_spark_s_stages(journal: Path) -> None:
    """Each in a line of its own; both are gone when the verdict is told."""
    code, drawn = shown(command(journal))
    assert code == 0, drawn
    assert "Spark starts" in drawn
    count = len(all_jobs()) + 1
    steps = set(re.findall(rf"^(\w+) +\S+ +\d+/{count} ", drawn, re.MULTILINE))
    assert steps <= {"audit", *(job.name for job in all_jobs())}
    assert steps >= {"audit", all_jobs()[-1].name}  # those between may be over before they are drawn
    assert re.search(r"^  stage \d+(, \d+)*, tasks +\S+ +\d+/\d+ ", drawn, re.MULTILINE), drawn
    last = [line for line in drawn.splitlines() if line.strip()][-1]
    assert last == f"report: {journal.parent / 'report' / 'index.html'}"


@pytest.mark.slow
def test_a_file_has_the_verdict_alone(journal: Path) -> None:
    """No bar, and nothing that moves; a wrong path is told before Spark starts, on a terminal, too."""
    done = subprocess.run(command(journal), capture_output=True, text=True, check=False, timeout=WHOLE_S_MAX)
    assert done.returncode == 0, done.stderr
    assert [line.partition(":")[0] for line in done.stdout.splitlines()][1:] == ["judged", "audit", "report"]
    assert not CONTROLS.search(done.stdout + done.stderr)
    assert "stage" not in done.stderr
    code, drawn = shown(command(journal.parent / "nowhere"))
    assert code == EXIT_NOTHING_JUDGED
    assert "nowhere: no such directory" in drawn
    assert "Spark starts" not in drawn
