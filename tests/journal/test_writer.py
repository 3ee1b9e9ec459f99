"""Rows become files, whatever the disk, the store or the end of the process does."""

from __future__ import annotations

import errno
import shutil
import threading
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from proxy.core.dispatcher import HandOver
from proxy.core.draining_hashes import Change
from proxy.journal.partition import quoted
from proxy.journal.recovery import RunDirectory, abandoned, recover
from proxy.journal.schema import DRAINS, REDELIVERIES
from proxy.journal.segment import Segment
from proxy.journal.store import LocalStore
from tests.journal.rig import HOUR_NS, KEY, LIFE, NOON_NS, JournalRig, rows

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_rows_lie_in_the_hour_in_which_they_happened(tmp_path: Path) -> None:
    """By the wall's clock in UTC, also if they were handed in together; the gateway's name is in the path."""
    rig = JournalRig(tmp_path)
    rig.journal.came_back(KEY, "w1", 3)
    rig.pass_time(3600)
    rig.journal.came_back(KEY, "w2", 4)
    rig.end()
    first, second = rows(tmp_path, "redeliveries")
    assert (first["topic"], first["subscription"], first["consumer"], first["messages"]) == (*KEY, "w1", 3)
    assert (first["life"], first["at_ns"], first["wall_ns"]) == (LIFE, 100_000_000_000, NOON_NS)
    assert second["wall_ns"] == NOON_NS + HOUR_NS
    assert [path.parent.relative_to(tmp_path).as_posix() for path in sorted(tmp_path.rglob("*.parquet"))] == [
        "redeliveries/date=2027-01-15/hour=08/gateway=gw%2F1",
        "redeliveries/date=2027-01-15/hour=09/gateway=gw%2F1",
    ]
    assert not list((tmp_path / "_open" / "gw").iterdir()), "nothing is left of what was being written"


def test_a_file_says_what_it_is(tmp_path: Path) -> None:
    """Its table, the schema's version, whose it is, and each column's id."""
    rig = JournalRig(tmp_path)
    rig.journal.came_back(KEY, "w1", 3)
    rig.end()
    (file,) = tmp_path.rglob("*.parquet")
    schema = pq.read_schema(file)
    assert schema.metadata is not None
    assert schema.metadata[b"keyline.table"] == b"redeliveries"
    assert schema.metadata[b"keyline.schema_version"] == b"3"
    assert schema.metadata[b"keyline.gateway"] == b"gw/1"
    ids = {field.name: int((field.metadata or {})[b"PARQUET:field_id"]) for field in schema}
    assert ids == {field.name: field.id for field in REDELIVERIES.fields}


def test_a_file_is_finished_when_it_is_large_or_old_enough(tmp_path: Path) -> None:
    """And the next is begun; nothing is in two."""
    rig = JournalRig(tmp_path, roll_bytes=1)
    for number in range(3):
        rig.journal.came_back(KEY, "w1", number)
        rig.journal.hand_in()
        rig.until(lambda number=number: rig.writer.counters.files_published == number + 1)  # type: ignore[misc]
    rig.end()
    old = JournalRig(tmp_path, run_id="b" * 32, roll_s=0.05)
    old.journal.came_back(KEY, "w1", 3)
    old.journal.hand_in()
    old.until(lambda: old.writer.counters.files_published == 1)
    old.end()
    assert sorted(row["messages"] for row in rows(tmp_path, "redeliveries")) == [0, 1, 2, 3]


def test_a_store_that_stalls_costs_nothing_but_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files wait on the disk, more of them than fit into memory, and it is told."""
    monkeypatch.setattr("proxy.journal.publisher.STALLED_S", 0.05)
    rig = JournalRig(tmp_path, bytes_max=5_000, roll_bytes=1)
    rig.store.going.clear()
    rig.journal.came_back(KEY, "w1", 1)
    rig.journal.hand_in()
    assert rig.store.entered.wait(30)
    for number in range(100):
        rig.journal.came_back(KEY, "w1", number)
        rig.journal.hand_in()
        rig.until(lambda number=number: rig.writer.counters.rows_written == number + 2)  # type: ignore[misc]
    rig.until(lambda: "the store has not taken a file for" in str(rig.writer.counters.problem))
    assert rows(tmp_path, "redeliveries") == []
    rig.store.going.set()
    rig.end()
    assert len(rows(tmp_path, "redeliveries")) == 101
    assert (rig.spool.dropped, rig.spool.held_bytes, rig.writer.counters.problem) == ({}, 0, None)


def test_a_disk_that_stalls_costs_rows_and_nobody_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What does not fit into memory is counted by kind; what did is written when the disk goes on."""
    entered, going = threading.Event(), threading.Event()
    write = Segment.write

    def wait_and_write(segment: Segment, batch: pa.RecordBatch) -> None:
        entered.set()
        assert going.wait(30)
        write(segment, batch)

    monkeypatch.setattr(Segment, "write", wait_and_write)
    rig = JournalRig(tmp_path, bytes_max=5_000)
    rig.journal.came_back(KEY, "w1", 1)
    rig.journal.hand_in()
    assert entered.wait(30)
    for number in range(100):
        rig.journal.came_back(KEY, "w1", number)
        rig.journal.hand_in()
    lost = rig.spool.dropped["redeliveries"]
    assert 80 < lost < 100
    assert rig.spool.held_bytes <= 5_000
    going.set()
    rig.end()
    assert len(rows(tmp_path, "redeliveries")) == 101 - lost
    assert rig.spool.held_bytes == 0


def test_a_store_that_fails_gets_its_files_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is lost that was written; the trouble is told while it lasts."""
    monkeypatch.setattr("proxy.journal.publisher.AGAIN_S", 0.0)
    rig = JournalRig(tmp_path, roll_bytes=1)
    rig.store.broken = FULL
    rig.journal.came_back(KEY, "w1", 1)
    rig.journal.hand_in()
    rig.until(lambda: rig.writer.counters.problem is not None)
    assert rig.writer.counters.problem is not None
    assert "No space left" in rig.writer.counters.problem
    assert rows(tmp_path, "redeliveries") == []
    rig.store.broken = None
    rig.journal.came_back(KEY, "w1", 2)
    rig.journal.hand_in()
    rig.until(lambda: rig.writer.counters.problem is None)
    rig.end()
    assert sorted(row["messages"] for row in rows(tmp_path, "redeliveries")) == [1, 2]
    assert rig.writer.counters.failures >= 1
    assert not list((tmp_path / "_open" / "gw").iterdir())


def test_a_disk_that_takes_no_more_loses_rows_and_is_survived(tmp_path: Path) -> None:
    """Rows that cannot be written are counted; the next that can be are written."""
    rig = JournalRig(tmp_path)
    rig.settings.directory.mkdir(parents=True)
    (rig.settings.directory / LIFE).write_text("in the way")
    rig.journal.came_back(KEY, "w1", 1)
    rig.journal.hand_in()
    rig.until(lambda: rig.writer.counters.problem is not None)
    assert rig.spool.dropped == {"redeliveries": 1}
    (rig.settings.directory / LIFE).unlink()
    rig.journal.came_back(KEY, "w1", 2)
    rig.end()
    assert rig.writer.counters.problem is None
    assert [row["messages"] for row in rows(tmp_path, "redeliveries")] == [2]


def killed(root: Path, away: Path) -> Path:
    """What a life leaves that dies while it writes: the log of three batches of rows, copied from under it."""
    rig = JournalRig(root)
    for number in range(3):
        for _ in range(10):
            rig.journal.came_back(KEY, "w1", number)
        rig.journal.hand_in()
        rig.until(lambda number=number: rig.writer.counters.rows_written == 10 * (number + 1))  # type: ignore[misc]
    shutil.copytree(root / "_open" / "gw" / LIFE, away)
    rig.store.broken = FULL  # it is the copy that is looked at
    rig.spool.close()
    (log,) = away.glob("*.arrows")
    return log


def test_what_a_killed_gateway_wrote_its_next_life_publishes(tmp_path: Path) -> None:
    """Every row that was written, and nothing of the file that was not finished."""
    log = killed(tmp_path / "first", tmp_path / "copy")
    second = tmp_path / "second"
    shutil.copytree(log.parent, second / "_open" / "gw" / LIFE)
    rig = JournalRig(second, run_id="b" * 32)
    rig.until(lambda: rig.writer.counters.rows_recovered == 30)
    rig.journal.came_back(KEY, "w1", 9)
    rig.end()
    assert sorted(row["messages"] for row in rows(second, "redeliveries")) == [0] * 10 + [1] * 10 + [2] * 10 + [9]
    assert {row["life"] for row in rows(second, "redeliveries")} == {LIFE, "b" * 32}
    assert not list((second / "_open" / "gw").iterdir())


def test_a_log_is_whole_up_to_its_last_batch_wherever_it_ends(tmp_path: Path) -> None:
    """Cut at any byte: whole batches of rows, in their order, and what is torn is told."""
    log = killed(tmp_path / "first", tmp_path / "copy")
    whole = log.read_bytes()
    seen = set()
    for length in {*range(0, len(whole), 61), len(whole)}:
        rig_root = tmp_path / f"cut-{length}"
        store = LocalStore(rig_root)
        cut = tmp_path / log.name
        cut.write_bytes(whole[:length])
        recovered = recover(cut, store)
        assert recovered.problem is None
        assert recovered.rows in {0, 10, 20, 30}
        assert len(rows(rig_root, "redeliveries")) == recovered.rows
        assert recovered.torn_bytes <= length
        assert not cut.exists()
        seen.add(recovered.rows)
    assert seen == {0, 10, 20, 30}


def test_a_living_gateways_files_are_left_alone(tmp_path: Path) -> None:
    """Two of one name may run by mistake: each has its own."""
    alive = RunDirectory(tmp_path / "alive")
    dead = RunDirectory(tmp_path / "dead")
    (dead.path / "x.arrows").write_bytes(b"")
    dead.close()
    assert [found.path.name for found in abandoned(tmp_path)] == ["dead"]
    alive.close()
    assert not (tmp_path / "alive").exists()


def test_what_cannot_be_recovered_stays_and_is_told(tmp_path: Path) -> None:
    """A log that is no log of ours."""
    log = tmp_path / "x.arrows"
    with pa.OSFile(str(log), "wb") as file, pa.ipc.new_stream(file, pa.schema([("a", pa.int64())])) as stream:
        stream.write_batch(pa.record_batch([pa.array([1])], names=["a"]))
    recovered = recover(log, LocalStore(tmp_path / "root"))
    assert recovered.problem is not None
    assert log.exists()


def test_hand_overs_are_all_written(tmp_path: Path) -> None:
    """However many there were at once; with how long each took by the life's own clock, and what began it."""
    rig = JournalRig(tmp_path)
    came = Change(90.0, "new", joined=True)
    rig.journal.handed_over(KEY, [HandOver(slot, "old", "new", came, 90.5, slot) for slot in range(1, 1_001)])
    rig.end()
    found = rows(tmp_path, "drains")
    assert len(found) == 1_000
    assert {row["duration_ns"] for row in found} == {500_000_000}
    assert {row["wall_ns"] for row in found} == {NOON_NS - 9_500_000_000}
    assert {(row["cause"], row["cause_consumer"]) for row in found} == {("worker_joined", "new")}
    assert set(found[0]) == {*DRAINS.names, "date", "hour", "gateway"}


def test_a_fault_of_ours_in_a_row_does_not_end_the_journal(tmp_path: Path) -> None:
    """The chunk is lost and counted, it is said what happened, and the next is written."""
    rig = JournalRig(tmp_path)
    rig.journal.came_back(KEY, "\ud800", 1)  # half of a character, which no file can hold
    rig.journal.hand_in()
    rig.until(lambda: rig.writer.counters.problem is not None)
    rig.journal.came_back(KEY, "w1", 2)
    rig.end()
    assert rig.spool.dropped == {"redeliveries": 1}
    assert [row["messages"] for row in rows(tmp_path, "redeliveries")] == [2]


@pytest.mark.parametrize("name", ["..", ".", "a/b", "gw-1", "a=b c", "\u00fc"])
def test_a_gateways_name_is_one_directory_whatever_it_is(name: str, tmp_path: Path) -> None:
    """It leads nowhere else, and comes back from a path as it was."""
    assert (tmp_path / quoted(name)).resolve().parent == tmp_path.resolve()
    assert unquote(quoted(name)) == name
