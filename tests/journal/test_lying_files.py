"""Files that are not what they seem, where a journal's are looked for: left alone and told, and nobody's trouble."""

from __future__ import annotations

import os
import shutil
import stat
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from proxy.journal.arrow import arrow_schema, with_facts
from proxy.journal.partition import is_place, place_of
from proxy.journal.recovery import LOCK_NAME, abandoned, recover, recover_directory
from proxy.journal.schema import REDELIVERIES
from proxy.journal.segment import PLACE_KEY
from proxy.journal.service import own_directory
from proxy.journal.store import LocalStore
from tests.journal.rig import LIFE, JournalRig, rows
from tests.journal.test_writer import killed

PLACE = "redeliveries/date=2027-01-15/hour=08/gateway=gw/x.parquet"
BAD_PLACES = [
    "../x.parquet",
    "/tmp/x.parquet",  # noqa: S108 - never written
    "redeliveries/../../x.parquet",
    "redeliveries/date=2027-01-15/hour=08/gateway=gw/../../../../../x.parquet",
    "redeliveries/date=2027-01-15/hour=08/gateway=gw/..",
    "redeliveries/date=2027-01-15/hour=08/gateway=gw/x.parquet/../../../../../../y.parquet",
    "deliveries/date=2027-01-15/hour=08/gateway=gw/x.parquet",
    "redeliveries/date=2027-01-15/hour=08/gateway=gw/a\x00b.parquet",
    "redeliveries/date=2027-01-15/hour=08/gateway=g/w/x.parquet",
    "redeliveries/date=2027-01-15/hour=08/gateway=gw/x.parquet\n",
    "",
]
TOPICS = [
    "..",
    "a/../../b",
    "a\0b",
    "line\nbreak",
    "%2e%2e%2f",
    "x" * 10_000,
    "\u202e\u0430\uff0f..",
    "/etc/x",
    "~",
]


def log_of(path: Path, schema: pa.Schema, place: str | bytes = PLACE) -> Path:
    """A log that says that its file belongs there, with no rows."""
    metadata = {**(schema.metadata or {}), PLACE_KEY: place}
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, schema.with_metadata(metadata)):
        pass
    return path


def everything(root: Path) -> set[str]:
    """Paths of all there is, links not followed."""
    return {str(Path(base, name).relative_to(root)) for base, dirs, files in os.walk(root) for name in [*dirs, *files]}


def test_the_place_that_a_file_is_given_is_one_for_a_recovered_one() -> None:
    """Whatever the gateway's name is: what is refused is nothing that a gateway writes."""
    for name in ("gw", "..", ".x", "~", "a/b", "\u00fc = x", "-" * 200):
        assert is_place(REDELIVERIES, place_of(REDELIVERIES, datetime.now(UTC), name, f"{LIFE}-000001-redeliveries"))


@pytest.mark.parametrize("place", BAD_PLACES)
def test_a_log_cannot_send_its_file_out_of_the_journal(tmp_path: Path, place: str) -> None:
    """Its own word says where it belongs, and is taken only for a place that the table's files have."""
    log = log_of(tmp_path / "x.arrows", with_facts(REDELIVERIES, {}), place)
    before = everything(tmp_path)
    recovered = recover(log, LocalStore(tmp_path / "journal"))
    assert recovered.problem is not None
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "schema",
    [
        with_facts(REDELIVERIES, {}).append(pa.field("more", pa.string())),
        with_facts(REDELIVERIES, {}).remove(0),
        with_facts(REDELIVERIES, {}).set(0, pa.field(REDELIVERIES.names[0], pa.binary())),
        arrow_schema(REDELIVERIES).with_metadata({b"keyline.table": b"\xff\xfe"}),
        arrow_schema(REDELIVERIES).with_metadata({b"keyline.table": b"no such table"}),
        arrow_schema(REDELIVERIES),
    ],
    ids=["a column more", "a column less", "another type", "no text", "another table", "no table"],
)
def test_a_log_with_other_columns_is_left_alone(tmp_path: Path, schema: pa.Schema) -> None:
    """It would make the table a lie; what it is stays for a person to look at."""
    log = log_of(tmp_path / "x.arrows", schema)
    assert recover(log, LocalStore(tmp_path / "journal")).problem is not None
    assert log.exists()
    assert not (tmp_path / "journal").exists()


def test_links_and_what_is_no_file_are_left_alone(tmp_path: Path) -> None:
    """A log that is a link to another's file, a pipe that nobody writes to, a directory; told, one by one."""
    honest = killed(tmp_path / "first", tmp_path / "copy")
    life = tmp_path / "open" / "b"
    life.mkdir(parents=True)
    (life / "link.arrows").symlink_to(honest)
    os.mkfifo(life / "pipe.arrows")
    (life / "directory.arrows").mkdir()
    with (life / "huge.arrows").open("wb") as huge:
        huge.truncate(1 << 42)
    (found,) = abandoned(tmp_path / "open")
    recovered = {one.log.name: one.problem for one in recover_directory(found, LocalStore(tmp_path / "journal"))}
    found.close()
    assert {name for name, problem in recovered.items() if problem} == {
        "link.arrows",
        "pipe.arrows",
        "directory.arrows",
    }
    assert honest.exists()
    assert not (tmp_path / "journal").exists()


def test_a_link_in_place_of_an_unfinished_file_does_not_lead_to_what_it_names(tmp_path: Path) -> None:
    """What was made of a log is made anew, beside whatever a link points at."""
    log = killed(tmp_path / "first", tmp_path / "copy")
    precious = tmp_path / "precious"
    precious.write_text("mine")
    log.with_suffix(".parquet").unlink(missing_ok=True)
    log.with_suffix(".parquet").symlink_to(precious)
    assert recover(log, LocalStore(tmp_path / "journal")).rows == 30
    assert precious.read_text() == "mine"
    assert len(rows(tmp_path / "journal", "redeliveries")) == 30


def test_a_link_to_a_directory_is_not_followed(tmp_path: Path) -> None:
    """Nothing is locked, published or deleted there: it may be the journal itself."""
    log = killed(tmp_path / "first", tmp_path / "copy")
    outside = tmp_path / "outside"
    shutil.copytree(log.parent, outside)
    (outside / "finished.parquet").write_text("somebody's")
    (outside / LOCK_NAME).unlink(missing_ok=True)
    (tmp_path / "open").mkdir()
    (tmp_path / "open" / "life").symlink_to(outside)
    before = everything(outside)
    assert list(abandoned(tmp_path / "open")) == []
    assert everything(outside) == before


def test_a_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    """The directory is passed over, and others have their turn."""
    precious = tmp_path / "precious"
    (tmp_path / "open" / "a").mkdir(parents=True)
    (tmp_path / "open" / "a" / LOCK_NAME).symlink_to(precious)
    (tmp_path / "open" / "b").mkdir()
    (found,) = abandoned(tmp_path / "open")
    assert found.path.name == "b"
    found.close()
    assert not precious.exists()


def test_the_journal_goes_on_whatever_it_finds_at_its_start(tmp_path: Path) -> None:
    """Honest files are recovered after those that lie, new rows are written, and what is wrong is told."""
    log = killed(tmp_path / "first", tmp_path / "copy")
    root = tmp_path / "journal"
    directory = root / "_open" / "gw"
    lies = directory / "0"
    lies.mkdir(parents=True)
    log_of(lies / "a.arrows", with_facts(REDELIVERIES, {}), "../../x.parquet")
    log_of(lies / "b.arrows", arrow_schema(REDELIVERIES).with_metadata({b"keyline.table": b"\xff"}))
    (directory / "1").symlink_to(tmp_path / "first")
    (directory / "2").symlink_to(directory / "2")
    shutil.copytree(log.parent, directory / LIFE)
    rig = JournalRig(root, run_id="b" * 32)
    rig.until(lambda: rig.writer.counters.rows_recovered == 30)
    assert rig.writer.counters.failures >= 2
    rig.journal.came_back(("t", "s"), "w1", 9)
    rig.end()
    assert len(rows(root, "redeliveries")) == 31


def test_no_name_of_a_topic_becomes_one_of_a_file(tmp_path: Path) -> None:
    """Topics, subscriptions and workers are in rows alone; the paths are the tables', hours' and the gateway's."""
    root = tmp_path / "deep" / "journal"
    rig = JournalRig(root)
    for topic in TOPICS:
        rig.journal.came_back((topic, topic), topic, 1)
    rig.end()
    assert sorted(row["topic"] for row in rows(root, "redeliveries")) == sorted(TOPICS)
    published = [path for path in everything(tmp_path) if path.endswith(".parquet")]
    assert len(published) == 1
    assert is_place(REDELIVERIES, published[0].removeprefix("deep/journal/"))
    assert {Path(path).parts[0] for path in everything(tmp_path)} == {"deep"}


def test_a_directory_for_open_files_that_is_anothers_is_refused(tmp_path: Path) -> None:
    """Its name in the system's temporary directory can be foreseen, and logs in it would be published as our own."""
    made = own_directory(tmp_path / "spool")
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    assert own_directory(made) == made
    made.chmod(0o777)
    with pytest.raises(ValueError, match="others may write"):
        own_directory(made)
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="no directory"):
        own_directory(tmp_path / "link")
    with pytest.raises(ValueError, match="belongs to user"):
        own_directory(tmp_path / "spool", owner=os.geteuid() + 1)
