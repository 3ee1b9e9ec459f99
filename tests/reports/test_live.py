"""Reports while the journal grows: windows are judged once, whatever is killed meanwhile, and late rows are told."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from integration.journals.make import make
from integration.journals.plan import FAULTS, Plan
from spark_reports.command import EXIT_VIOLATIONS
from spark_reports.holdings import parties_of
from spark_reports.live import Live, Pace
from spark_reports.ordering_audit import judge, violations
from spark_reports.place import JournalError
from spark_reports.reading import open_journal
from tests.integration.conditions import eventually

PLAN = Plan(messages=60_000, keys=100, workers=4, rate_per_s=100, faults=2, file_messages=6_000)
"""Ten minutes, in ten files."""
DELAY_S = 90
FIRST_S_MAX = 900
"""Spark's start, and its first windows, where other programs have the cores."""
JUDGED_S = 480
"""Windows of a minute that are over when the last row, at 600 s and some ms, is so much later."""


def results(out: Path, name: str) -> list[dict[str, Any]]:
    """Of all batches, as windows went."""
    found = [
        row for file in sorted((out / "live" / name).rglob("*.parquet")) for row in pq.read_table(file).to_pylist()
    ]
    return sorted(found, key=lambda row: tuple(str(value) for value in row.values()))


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """As gateways leave it."""
    make(PLAN, tmp_path / "journal")
    return tmp_path / "journal"


def wait_for_output(running: subprocess.Popen[Any], place: Path) -> None:
    """Return when there is some; a command that has ended writes none."""

    def has_output_or_ended() -> bool:
        return any(place.rglob("*.parquet")) or running.poll() is not None

    eventually(has_output_or_ended, "its first output", FIRST_S_MAX)
    assert running.poll() is None, "it has ended"


def follow(spark: SparkSession, journal: Path, out: Path, pace: Pace) -> int:
    """Take all that is there, and return how many rows were late."""
    live = Live(spark, str(journal), out, pace)
    try:
        live.run(until_idle=True)
        return live.late_rows()
    finally:
        live.stop()


def test_a_killed_run_goes_on_and_writes_everything_once(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    """The command is killed in the midst of its first output; files come meanwhile; nothing is missing or twice."""
    files = sorted(journal.glob("deliveries/*/*/*/*.parquet"))
    later = [(file, tmp_path / file.name) for file in files[5:]]
    for file, aside in later:
        file.rename(aside)
    out, whole = tmp_path / "killed", tmp_path / "whole"
    command = [sys.executable, "-m", "spark_reports.submit", str(journal), "--live"]
    arguments = ["--out", str(out), "--delay", str(DELAY_S)]
    with subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
        try:
            wait_for_output(running, out / "live")
        finally:
            running.kill()
    for file, aside in later:
        aside.rename(file)
    pace = Pace(delay_s=DELAY_S, every_s=0.1)
    assert follow(spark, journal, out, pace) == 0
    assert follow(spark, journal, whole, pace) == 0
    for name in ("audit", "violations", "drains"):
        assert results(out, name) == results(whole, name), name
    audit = results(whole, "audit")
    assert [row["window_start_ns"] - audit[0]["window_start_ns"] for row in audit] == [
        number * 60_000_000_000 for number in range(JUDGED_S // 60)
    ]
    rows = open_journal(str(journal)).read(spark, "deliveries")
    judged = rows.where(rows["wall_ns"] < (PLAN.begin_s + JUDGED_S) * 1_000_000_000)
    assert sum(row["acked"] for row in audit) == judged.where("event = 'acked'").count()
    told = [row.asDict() for row in open_journal(str(journal)).read(spark, "events").collect()]
    expected = [row.asDict() for row in violations(judge(judged, parties_of(judged), told)).collect()]
    assert {row["violation"] for row in expected} == set(FAULTS)
    found = results(whole, "violations")
    assert sorted((row["violation"], row["message"]) for row in found) == sorted(
        (row["violation"], row["message"]) for row in expected
    )


def test_who_is_told_to_end_does_so_without_a_word(journal: Path, tmp_path: Path) -> None:
    """What was judged stays, and its violations are the exit code; nobody's stack is shown."""
    out = tmp_path / "out"
    command = [sys.executable, "-m", "spark_reports.submit", str(journal), "--live", "--out", str(out)]
    with subprocess.Popen(
        [*command, "--delay", str(DELAY_S)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            wait_for_output(running, out / "live" / "audit")
            running.send_signal(signal.SIGINT)
            said, complained = running.communicate(timeout=180)
        finally:
            running.kill()
    assert running.returncode == EXIT_VIOLATIONS, complained
    assert len(said.splitlines()) <= JUDGED_S // 60
    assert "Traceback" not in complained


def test_late_rows_are_counted(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    """A gateway published its file when others' rows had closed the window."""
    pace = Pace(delay_s=1, every_s=0.1)
    first = min(journal.glob("deliveries/*/*/*/*.parquet"))
    late_rows = pq.read_metadata(first).num_rows
    first.rename(tmp_path / first.name)
    live = Live(spark, str(journal), tmp_path / "out", pace)
    try:
        live.run(until_idle=True)
        (tmp_path / first.name).rename(first)
        live.run(until_idle=True)
        assert 0 < live.late_rows() <= late_rows
    finally:
        live.stop()


def test_a_file_that_cannot_be_read_is_named(spark: SparkSession, journal: Path, tmp_path: Path) -> None:
    """It ends the run: judging without it would be saying what nobody knows."""
    broken = min(journal.glob("deliveries/*/*/*/*.parquet")).with_name("broken.parquet")
    broken.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(JournalError, match=r"broken\.parquet"):
        Live(spark, str(journal), tmp_path / "out", Pace(every_s=0.1)).run(until_idle=True)


@pytest.mark.parametrize("name", ["window_s", "delay_s", "every_s", "files_max"])
def test_a_pace_that_cannot_be_is_refused(name: str) -> None:
    """By name."""
    with pytest.raises(ValueError, match=f"{name} is 0, and should be above 0"):
        Pace(**{name: 0})
