"""What a report reads, what it leaves out, and what it says of that: never a stack trace, never in silence."""

from __future__ import annotations

import io
import json
import os
import shutil
from contextlib import redirect_stdout
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from integration.journals.make import make
from integration.journals.plan import Plan
from proxy.cli.main import app
from spark_reports import reading, run
from spark_reports.command import EXIT_NOTHING_JUDGED
from spark_reports.place import JournalError
from spark_reports.reading import open_journal
from spark_reports.run import report
from spark_reports.span import Span
from tests.journal.rig import KEY, NOON_NS, JournalRig

NOON = datetime.fromtimestamp(NOON_NS // 1_000_000_000, UTC)


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Two hours, a row in each, as the gateway writes them."""
    rig = JournalRig(tmp_path / "journal")
    rig.journal.came_back(KEY, "w1", 1)
    rig.pass_time(3600)
    rig.journal.came_back(KEY, "w2", 2)
    rig.end()
    return tmp_path / "journal"


def test_rows_of_a_time_are_read_from_its_partitions_only(spark: SparkSession, journal: Path) -> None:
    """The plan names the partitions' filters: other files are not opened."""
    opened = open_journal(str(journal))
    later = Span(NOON + timedelta(minutes=30)).cut(opened.read(spark, "redeliveries"))
    assert [row["messages"] for row in later.collect()] == [2]
    plan = io.StringIO()
    with redirect_stdout(plan):
        later.explain()
    assert "PartitionFilters: [isnotnull(date" in plan.getvalue()
    earlier = Span(None, NOON + timedelta(minutes=30)).cut(opened.read(spark, "redeliveries"))
    assert [row["messages"] for row in earlier.collect()] == [1]
    assert Span(NOON, NOON + timedelta(hours=2)).cut(opened.read(spark, "redeliveries")).count() == 2
    assert opened.read(spark, "deliveries").count() == 0, "a table without files has no rows"


def test_few_rows_are_together(spark: SparkSession, journal: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that no query has to bring them together; many stay as they are read."""
    found = open_journal(str(journal))

    def is_shuffled() -> bool:
        plan = found.read(spark, "redeliveries").groupBy("topic").count()._jdf.queryExecution().executedPlan()
        return "Exchange" in plan.toString()

    assert not is_shuffled()
    monkeypatch.setattr(reading, "SMALL_BYTES", 0)
    assert is_shuffled()


def test_java_looks_first_where_most_of_sparks_classes_are() -> None:
    """Each name is that of one jar of the Spark that is installed; with another Spark there may be none."""
    first = run._class_path()["spark.driver.extraClassPath"].split(os.pathsep)
    assert len(first) == len(run.SEARCHED_FIRST)
    for path, name in zip(map(Path, first), run.SEARCHED_FIRST, strict=True):
        assert path.is_file()
        assert path.name.startswith(name)


def test_files_that_lie_are_left_out_and_named(spark: SparkSession, journal: Path) -> None:
    """A column of another kind, metadata that are no text or say half: each would have ended the whole report."""
    whole = pq.read_table(next((journal / "redeliveries").rglob("*.parquet")))
    place = next((journal / "redeliveries").rglob("*.parquet")).parent
    said = dict(whole.schema.metadata)
    number = whole.schema.get_field_index("messages")
    lies = {
        "text.parquet": whole.set_column(number, "messages", pa.array(["many"] * len(whole))),
        "bytes.parquet": whole.replace_schema_metadata({**said, b"keyline.table": b"\xff\xfe"}),
        "homeless.parquet": whole.replace_schema_metadata({b"keyline.table": b"redeliveries"}),
        "killed.parquet": whole.replace_schema_metadata({**said, b"keyline.killed": b"true", b"keyline.life": b"\xff"}),
    }
    for name, lie in lies.items():
        pq.write_table(lie, place / name)
    opened = open_journal(str(journal))
    reasons = {Path(skipped.file).name: skipped.reason for skipped in opened.skipped}
    assert set(reasons) == {"text.parquet", "bytes.parquet", "homeless.parquet"}
    assert reasons["text.parquet"] == "other values than the table's are in its columns messages"
    assert opened.killed == {"\ufffd"}
    assert opened.read(spark, "redeliveries").count() == 3


def test_links_in_a_journal_do_not_lead_round_in_circles(journal: Path) -> None:
    """A directory that is in itself, and a link to nothing."""
    place = next((journal / "redeliveries").rglob("*.parquet")).parent
    (place / "again").symlink_to(journal / "redeliveries")
    (place / "nothing.parquet").symlink_to(journal / "nothing")
    opened = open_journal(str(journal))
    assert len(opened.files["redeliveries"]) == 2


def test_files_that_cannot_be_read_are_left_out_and_named(spark: SparkSession, journal: Path) -> None:
    """Cut off, no Parquet at all, another program's, another table's; what is being written is not looked at."""
    whole = sorted((journal / "redeliveries").rglob("*.parquet"))
    cut = whole[0].with_name("cut.parquet")
    cut.write_bytes(whole[0].read_bytes()[:-20])
    (whole[0].parent / "notes.parquet").write_text("hello")
    pq.write_table(pa.table({"a": [1]}), whole[0].with_name("foreign.parquet"))
    (journal / "drains").mkdir()
    shutil.copy(whole[0], journal / "drains" / "wrong.parquet")
    (journal / "redeliveries" / "_open").mkdir()
    (journal / "redeliveries" / "_open" / "half.parquet").write_text("x")
    opened = open_journal(str(journal))
    assert opened.read(spark, "redeliveries").count() == 2
    reasons = {Path(skipped.file).name: skipped.reason for skipped in opened.skipped}
    assert set(reasons) == {"cut.parquet", "notes.parquet", "foreign.parquet", "wrong.parquet"}
    assert "no whole Parquet file" in reasons["cut.parquet"]
    assert reasons["foreign.parquet"] == "it is no file of a journal: its metadata name no table"
    assert reasons["wrong.parquet"] == "it is of the table redeliveries and lies below drains"
    said = report(spark, str(journal), None).caveats
    assert len(said) == len(reasons)
    assert all(line.startswith("not in the report: ") for line in said)


def test_a_place_without_a_journal_is_an_error_in_words(tmp_path: Path) -> None:
    """Missing, empty, or of something else; the command line says it too, and exits with 2."""
    with pytest.raises(
        JournalError, match=r"no such directory; it should be what the gateway's setting `journal` names"
    ):
        open_journal(str(tmp_path / "nowhere"))
    with pytest.raises(JournalError, match="no file of a journal; there should be some below events, drains"):
        open_journal(str(tmp_path))
    (tmp_path / "events").mkdir()
    (tmp_path / "events" / "x.parquet").write_text("x")
    with pytest.raises(JournalError, match="1 cannot be read, the first: "):
        open_journal(str(tmp_path))
    with pytest.raises(JournalError, match="it should be a path or a URL"):
        open_journal("nonsense://x")


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    """In one line, with the exit code that the help names, and before Spark starts."""
    nowhere, file = tmp_path / "nowhere", tmp_path / "file"
    file.touch()
    for options in ([], ["--out", str(tmp_path), "--live"], ["--out", str(tmp_path), "--daily"]):
        result = CliRunner().invoke(app, ["report", str(nowhere), *options])
        assert result.exit_code == EXIT_NOTHING_JUDGED
        assert result.output.startswith(f"keyline: {nowhere}: no such directory")
        assert len(result.output.splitlines()) == 1
        assert not nowhere.exists()
    code, words = said_of(tmp_path, "--out", str(file))
    assert (code, "is a file" in words) == (EXIT_NOTHING_JUDGED, True)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--daily"], "needs --out, below which each day's report is kept"),
        (["--live"], "needs --out, below which what was judged is kept"),
        (["--live", "--out", "x", "--from", "2027-01-15"], "judges what comes, and takes no other time"),
        (["--live", "--out", "x", "--daily"], "judges what comes, and takes no other time"),
        (["--engine", "duckdb", "--out", "x"], "duckdb gives the audit alone; the other options need spark"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], words: str) -> None:
    """With what would be right, before Spark is started."""
    result = CliRunner().invoke(app, ["report", "somewhere", *options])
    assert result.exit_code == 2
    assert words in " ".join(result.output.replace("│", " ").split())


def test_a_journal_without_a_record_of_messages_is_not_judged(
    spark: SparkSession, journal: Path, tmp_path: Path
) -> None:
    """That is what terminal, page and JSON say, with what would be right; the rest of the report is there."""
    _ = spark
    out = tmp_path / "out"
    result = CliRunner().invoke(app, ["report", str(journal), "--from", "2027-01-15T08:00", "--out", str(out)])
    assert result.exit_code == EXIT_NOTHING_JUDGED, result.output
    why = "audit: nothing was judged: the journal has no record of messages; the gateways' setting journal_deliveries"
    assert why in result.output
    assert "0 violations" not in result.output
    assert result.output.rstrip().endswith(f"report: {out / 'index.html'}")
    said = json.loads((out / "audit.json").read_text())
    assert (said["line"].startswith(why), said["coverage"]["time_share"]) == (True, 0.0)
    assert pq.read_table(out / "tables" / "drains.parquet").num_rows == 0
    page = (out / "index.html").read_text()
    assert "Nothing of this in the journal." in page
    assert 'class="verdict unjudged">audit: nothing was judged' in page


@pytest.fixture
def judged(tmp_path: Path) -> Path:
    """A message each second from 08:20 to 10:10 of a day, in three files."""
    begin = datetime(2027, 1, 15, 8, 20, tzinfo=UTC)
    plan = Plan(messages=6_600, keys=10, workers=2, rate_per_s=1, begin_s=int(begin.timestamp()))
    make(plan, tmp_path / "made")
    return tmp_path / "made"


def said_of(journal: Path, *options: str) -> tuple[int, str]:
    """Exit code and words of a command, in one line."""
    result = CliRunner().invoke(app, ["report", str(journal), *options])
    return result.exit_code, " ".join(result.output.replace("\u2502", " ").split())


def test_a_time_without_data_is_not_judged(spark: SparkSession, judged: Path) -> None:
    """With the time that has some; whether there is no file of it, or none of its rows."""
    _ = spark
    code, words = said_of(judged, "--from", "2027-01-16", "--to", "2027-01-17")
    there = "there are files of 2027-01-15T08:00Z to 2027-01-15T10:59Z, so --from and --to should be in there"
    assert (code, words) == (
        EXIT_NOTHING_JUDGED,
        f"keyline: {judged}: nothing was judged: no file is of that time; {there}",
    )
    code, words = said_of(judged, "--to", "2027-01-15T08:10:00Z")
    assert code == EXIT_NOTHING_JUDGED
    assert f"audit: nothing was judged: no message was delivered in that time; {there}" in words


@pytest.mark.parametrize(
    "times",
    [
        ("--from", "2027-01-15T08:10", "--to", "2027-01-15T08:30"),
        ("--from", "2027-01-15T08:10:00Z", "--to", "2027-01-15T08:30:00.000Z"),
        ("--from", "2027-01-15T09:10+01:00", "--to", "2027-01-15T00:30:00-08:00"),
    ],
    ids=["plain", "as the API writes them", "with offsets"],
)
def test_times_are_taken_as_they_are_written_elsewhere(
    spark: SparkSession, judged: Path, times: tuple[str, ...]
) -> None:
    """In UTC, with Z or an offset; and the verdict says which time and how much of it was judged."""
    _ = spark
    code, words = said_of(judged, *times)
    assert code == 0, words
    # From 08:20 to the last row before 08:30, of 20 minutes.
    assert "judged: 49.9% of the time from 2027-01-15 08:10 to 2027-01-15 08:30 UTC" in words


def test_times_the_wrong_way_round_or_none_are_refused(judged: Path) -> None:
    """Before Spark starts, with what would be right."""
    code, words = said_of(judged, "--from", "2027-01-16T00:00Z", "--to", "2027-01-15T23:00-01:00")
    assert code == EXIT_NOTHING_JUDGED
    assert "2027-01-16T00:00:00Z is not before --to 2027-01-16T00:00:00Z: nothing was judged" in words
    code, words = said_of(judged, "--from", "yesterday")
    assert code == EXIT_NOTHING_JUDGED
    assert "'yesterday' is no time; it should be as 2026-11-24" in words


def test_a_file_that_cannot_be_read_is_not_taken_for_a_quiet_hour(spark: SparkSession, judged: Path) -> None:
    """Of one broken hour the rest is judged, and its share told; with only broken ones nothing is."""
    _ = spark
    files = sorted(judged.glob("deliveries/*/*/*/*.parquet"))
    (middle,) = judged.glob("deliveries/*/hour=09/*/*.parquet")
    middle.write_bytes(b"PAR1")
    code, words = said_of(judged, "--from", "2027-01-15T08:00Z", "--to", "2027-01-15T11:00Z")
    assert code == 0, words
    # 110 minutes of which 60 cannot be read, of 180.
    assert "judged: 27.7% of the time" in words, words
    for file in files:
        file.write_bytes(b"PAR1")
    code, words = said_of(judged)
    assert code == EXIT_NOTHING_JUDGED
    assert (
        f"nothing was judged: none of the {len(files)} files of deliveries can be read, the first: {files[0]}" in words
    )
    assert "they should be as the gateways wrote them" in words
