"""Parts run beside each other, are left out or ended for want of time, and end with one closing line of all."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.conditions import eventually
from tests.part import Part
from tests.part_results import Totals, closing_totals, failures, judged
from tests.parts import FAST, NAMES, PARTS
from tests.run_parts import END_S_MAX, Outcome, Run, Running, arguments, chosen, command_of, ran_before, table

ROOT = Path(__file__).resolve().parents[1]
WAITS = """
import signal
print("waits", flush=True)
try:
    signal.pause()
except KeyboardInterrupt:
    print({closing!r})
    raise SystemExit(2) from None
"""


def program(name: str, *lines: str, code: int = 0, minutes: float = 1.0) -> Part:
    """Make a part that says something and ends."""
    text = "".join(f"print({line!r});" for line in lines)
    return Part(name, "something", minutes, command=("PYTHON", "-c", f"{text}raise SystemExit({code})"))


def run(tmp_path: Path, *parts: Part, minutes: float | None = None, jobs: int = 2) -> tuple[list[Outcome], str]:
    """Run them; what became of each, and what was said."""
    said: list[str] = []
    ends_at = None if minutes is None else time.monotonic() + 60 * minutes + END_S_MAX
    one = Run(parts, jobs, ends_at, tmp_path, said.append)
    one.run()
    return one.outcomes, "\n".join(said)


@pytest.mark.parametrize(
    ("output", "totals"),
    [
        ("=== 3 passed in 0.10s ===\n", Totals(3, 0, 0)),
        ("3 passed, 2 warnings in 0.10s\n", Totals(3, 0, 0)),
        ("=== 1 failed, 2 passed, 4 skipped, 9 deselected, 3 errors in 71.10s (0:01:11) ===\n", Totals(2, 4, 4)),
        ("\x1b[32m=== \x1b[32m5 passed\x1b[0m, 1 xfailed in 1.00s ===\x1b[0m\n", Totals(5, 0, 1)),
        ("=== no tests ran in 0.01s ===\n", Totals()),
        ("1 passed in 0.10s\n7 passed, 1 failed, 2 skipped\n", Totals(7, 1, 2)),
        ("1 passed in 0.10s\nmake: *** [test] Error 1\n", Totals(1, 0, 0)),
    ],
)
def test_closing_lines_are_read(output: str, totals: Totals) -> None:
    """Pytest's, with and without colours, and plain ones; the last counts."""
    assert closing_totals(output) == totals


@pytest.mark.parametrize(
    ("output", "code", "totals"),
    [
        ("1 passed in 0.10s\n", 0, Totals(passed=1)),
        ("1 passed in 0.10s\n", 3, Totals(passed=1, failed=1)),
        ("1 failed, 1 passed in 0.10s\n", 1, Totals(passed=1, failed=1)),
        ("=== 32 deselected in 15.92s ===\nERROR: Unknown config option: cache_dir\n", 4, Totals(failed=1)),
        ("Segmentation fault\n", -11, Totals(failed=1)),
        ("done\n", 0, Totals(passed=1)),
    ],
)
def test_an_exit_code_counts_where_no_test_that_failed_does(output: str, code: int, totals: Totals) -> None:
    """A pytest that ends before its first test has a closing line without a failure."""
    assert judged(output, code) == totals


def test_output_without_a_closing_line_has_no_totals() -> None:
    """A program that died has counted nothing."""
    assert closing_totals("2 files reformatted\nSegmentation fault\n") is None


def test_what_pytest_really_says_is_read(tmp_path: Path) -> None:
    """Of a run of its own."""
    (tmp_path / "test_it.py").write_text(
        "import pytest\ndef test_a(): pass\ndef test_b(): assert 0, 'because'\n@pytest.mark.skip\ndef test_c(): pass\n"
    )
    asked = [sys.executable, "-m", "pytest", "-c", "/dev/null", "--rootdir", str(tmp_path), str(tmp_path)]
    said = subprocess.run(asked, capture_output=True, text=True, check=False, cwd=tmp_path).stdout
    assert closing_totals(said) == Totals(1, 1, 1)
    told = failures(said, 10_000)
    assert told.startswith("====")
    assert "because" in told
    assert len(failures(said, 100)) < 110


def test_all_parts_are_run_and_counted_together(tmp_path: Path) -> None:
    """One that fails is told with what it said; the others go on."""
    good = program("good", "3 passed, 0 failed, 1 skipped")
    bad = program("bad", "it broke", "2 passed, 1 failed, 0 skipped", code=1)
    mute = program("mute")
    outcomes, said = run(tmp_path, good, bad, mute)
    assert {outcome.part.name: outcome.word for outcome in outcomes} == {
        "good": "passed", "bad": "failed", "mute": "passed",
    }  # fmt: skip
    assert sum((outcome.totals for outcome in outcomes), Totals()) == Totals(6, 1, 1)
    assert "it broke" in said


@pytest.mark.parametrize("lines", [(), ("3 passed, 0 failed, 0 skipped",)])
def test_an_exit_code_fails_a_part_whatever_it_counted(tmp_path: Path, lines: tuple[str, ...]) -> None:
    """A session that breaks after its last test, or before its first."""
    (outcome,), _ = run(tmp_path, program("broken", *lines, code=3))
    assert (outcome.word, outcome.totals.failed) == ("failed", 1)


def test_what_does_not_fit_is_left_out_and_smaller_ones_are_not(tmp_path: Path) -> None:
    """It is named with its minutes, in the table too, and fails nothing."""
    long, short = program("long", minutes=20.0), program("short", minutes=2.0)
    outcomes, _ = run(tmp_path, long, short, minutes=10.0)
    assert {outcome.part.name: outcome.word for outcome in outcomes} == {"long": "left out", "short": "passed"}
    lines = table(outcomes)
    assert "left out: long" in lines
    assert any("its 20 minutes do not fit into 10" in line for line in lines)


@pytest.mark.parametrize(
    ("closing", "word"),
    [("4 passed, 0 failed, 0 skipped", "cut"), ("4 passed, 1 failed, 0 skipped", "failed"), ("nothing", "cut")],
)
def test_a_part_that_is_ended_has_failed_only_if_a_test_has(tmp_path: Path, closing: str, word: str) -> None:
    """It is told to end as Ctrl-C would, and what it counts then is what counts."""
    part = Part("slow", "something", 1.0, command=(sys.executable, "-c", WAITS.format(closing=closing)))
    running = Running(part, part.command, tmp_path / "slow.log", time.monotonic())
    eventually(lambda: "waits" in running.log.read_text(), "the program to wait")
    running.end()
    assert running.over
    outcome = running.outcome()
    assert outcome.word == word
    assert outcome.totals.failed == int(word == "failed")


def test_a_part_that_overruns_the_end_is_cut(tmp_path: Path) -> None:
    """Nobody waits for it longer than was allowed."""
    part = Part("endless", "something", 0.0, command=(sys.executable, "-c", WAITS.format(closing="1 passed in 1.00s")))
    (outcome,), said = run(tmp_path, part, minutes=0.05)
    assert outcome.word == "cut"
    assert "endless cut: took longer" in said
    assert table([outcome])[-1] == "cut: endless"


def test_so_many_run_beside_each_other(tmp_path: Path) -> None:
    """Two that wait for each other's file end only if they run at once."""
    meet = (
        "import pathlib, sys, time\n"
        "mine, other = map(pathlib.Path, sys.argv[1:])\n"
        "mine.touch()\n"
        "while not other.exists(): time.sleep(0.01)"
    )
    names = [str(tmp_path / "a"), str(tmp_path / "b")]
    parts = [
        Part(f"part-{number}", "both", 1.0, command=(sys.executable, "-c", meet, *order))
        for number, order in enumerate((names, names[::-1]))
    ]
    outcomes, _ = run(tmp_path, *parts, minutes=2.0)
    assert [outcome.word for outcome in outcomes] == ["passed", "passed"]


def test_make_test_was_run_before(tmp_path: Path) -> None:
    """Its closing line counts with the parts', and lint that fails counts although no test was run."""
    log = tmp_path / "log"
    log.write_text("ruff\n=== 5 passed, 1 skipped in 1.00s ===\n")
    assert ran_before(str(log), "0", "9") == Outcome(FAST, "passed", 9.0, Totals(5, 0, 1))
    assert ran_before(str(log), "2", "9").totals == Totals(5, 1, 1)
    log.write_text("tests/a.py:1:1: D100 Missing docstring\n")
    assert ran_before(str(log), "2", "1").totals == Totals(0, 1, 0)


def test_the_command_line_names_parts() -> None:
    """None are all; an unknown name is refused with those that there are."""
    assert chosen(arguments([]).parts, without_fast=False) == [FAST, *PARTS]
    assert chosen(arguments([]).parts, without_fast=True) == [*PARTS]
    assert chosen(arguments(["chart", "faults"]).parts, without_fast=False) == [NAMES["chart"], NAMES["faults"]]
    with pytest.raises(SystemExit):
        arguments(["no-such-part"])


def test_each_part_is_a_process_of_pytest_on_its_places(tmp_path: Path) -> None:
    """The fast tier alone has several."""
    faults = command_of(NAMES["faults"], 2, tmp_path)
    assert faults[:5] == [sys.executable, "-m", "pytest", "--part", "faults"]
    places = [
        "tests/integration/faults",
        "tests/integration/faults/test_owners_hung.py",
        "tests/integration/test_contract_monitor.py",
    ]
    assert faults[-3:] == places
    assert faults[-4] not in places
    assert command_of(FAST, 2, tmp_path)[-5:] == ["-n", "3", "--dist", "loadfile", "--no-loadscope-reorder"]
    assert command_of(FAST, 0, tmp_path)[-5:-3] == ["-n", "0"]


def test_another_program_is_told_where_its_logs_may_be(tmp_path: Path) -> None:
    """Beside those of the parts, outside the checkout."""
    part = Part("program", "something", 1.0, command=("PYTHON", "-m", "it", "--logs", "LOGS"))
    assert command_of(part, 2, tmp_path) == [sys.executable, "-m", "it", "--logs", str(tmp_path / "program")]


def test_the_last_line_is_a_plain_closing_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the whole program, with a part that exists."""
    monkeypatch.setenv("KEYLINE_CACHE", str(tmp_path))
    log = tmp_path / "log"
    log.write_text("=== 5 passed in 1.00s ===\n")
    asked = [sys.executable, "-m", "tests.run_parts", "--minutes", "0", "--after", str(log), "0", "9"]
    done = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "5 passed, 0 failed, 0 skipped"
    assert f"left out: {', '.join(part.name for part in PARTS)}" in lines
