"""Every test has one home, a place in the table of parts has tests, and what starts a broker is marked so."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from integration.standalone import PulsarStandalone
from tests.conftest import COLLECTED
from tests.part import Place
from tests.parts import FAST, HOMES, NAMES, PARTS, home_of, runs

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py"))
DRAWS = re.compile(r"^from tests\.(?:lives|thorough) import ", re.MULTILINE)
A_FILE = "tests/core/test_model.py"


@pytest.fixture(scope="module")
def collected(request: pytest.FixtureRequest) -> list[str]:
    """Ids of all tests there are: as this run has found them, or found anew when it looked at some files only."""
    config = request.config
    if config.args == [str(ROOT / "tests")] or config.args == ["tests"]:
        return config.stash[COLLECTED]
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "", "tests"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [line for line in found.splitlines() if "::" in line]


def places(part_places: tuple[str, ...]) -> list[Place]:
    """Read them."""
    return [Place.of(place) for place in part_places]


def test_every_test_is_in_the_fast_tier_or_in_one_part(collected: list[str]) -> None:
    """Nothing is lost between them, nothing is run by two, and no part is empty."""
    homes = {name: [test for test in collected if home_of(test) == name] for name in NAMES}
    assert sum(map(len, homes.values())) == len(collected) > 6_000
    assert [part.name for part in HOMES if not part.command and not part.repeats and not homes[part.name]] == []
    assert not any(homes[part.name] for part in HOMES if part.command)
    for part in PARTS:
        again = [test for test in collected if runs(test, part.name) and home_of(test) != part.name]
        assert bool(again) == bool(part.repeats)
        assert all(home_of(test) == FAST.name for test in again)


def test_every_place_has_tests(collected: list[str]) -> None:
    """A file that was renamed, or a place that a stronger one has emptied, does not stay in the table."""
    tests = [(Place.of(test), home_of(test)) for test in collected]
    for part in HOMES:
        for written, place in zip(part.tests, places(part.tests), strict=True):
            assert any(place.has(test) for test, home in tests if home == part.name), f"{part.name}: {written}"
        for written, place in zip(part.repeats, places(part.repeats), strict=True):
            assert any(place.has(test) for test, home in tests if home == FAST.name), f"{part.name}: {written}"


def test_no_place_is_written_twice() -> None:
    """Of two parts, the one that stands first would have it, and nobody would see that."""
    written = [place for part in HOMES for place in part.tests]
    assert len(written) == len(set(written))
    assert len(NAMES) == len(HOMES)


def test_the_programs_of_parts_exist() -> None:
    """A part without tests of pytest names a module to be run."""
    for part in HOMES:
        if part.command:
            assert part.command[:2] == ("PYTHON", "-m")
            assert find_spec(part.command[2]) is not None


def test_what_draws_little_in_the_fast_tier_is_drawn_whole_in_a_part() -> None:
    """Each file whose seeds or examples are fewer in the fast tier stands in a part that repeats it."""
    drawing = {file for file in FILES if DRAWS.search((ROOT / file).read_text())} - {"tests/test_thorough.py"}
    repeated = {place.path for part in PARTS for place in places(part.repeats)}
    assert drawing == repeated
    assert A_FILE in drawing


def test_the_whole_story_is_told_with_both_brokers_in_the_fast_tier(collected: list[str]) -> None:
    """Of processes; of containers in a part. And one audit under kills, and one of a real journal."""
    fast = [test for test in collected if home_of(test) == FAST.name]
    story = [Place.of(test) for test in fast if test.startswith("tests/integration/test_story.py::")]
    assert {test.words for test in story} == {"processes-4.2.4", "processes-4.0.7"}
    for promise in ("test_kills", "test_journal", "test_console", "test_dashboards", "test_group_replay"):
        assert [test for test in fast if test.startswith(f"tests/integration/{promise}.py::")], promise


@pytest.mark.parametrize(
    ("test", "home"),
    [
        ("tests/nowhere/test_new.py::test_new", FAST.name),
        ("tests/nowhere/test_new.py::test_new[4.2.4]", FAST.name),
        ("tests/nowhere/test_new.py::test_new[4.0.7]", "older-broker"),
        ("tests/integration/faults/test_new.py::test_new[4.0.7]", "faults"),
        ("tests/integration/test_story.py::test_new[processes-4.0.7]", FAST.name),
        ("tests/integration/test_story.py::test_new[containers-4.2.4]", "image"),
        ("tests/integration/test_kills.py::test_new", "restarts"),
    ],
)
def test_the_stronger_place_decides(test: str, home: str) -> None:
    """A file is within its folder, a test within its file, parameters narrow each; what is new is in the fast tier."""
    assert home_of(test) == home


def test_a_folders_name_is_not_the_beginning_of_anothers() -> None:
    """A place ends where a name ends."""
    place = Place.of("tests/helm")
    assert place.has(Place.of("tests/helm/test_notes.py::test_it"))
    assert not place.has(Place.of("tests/helmet/test_notes.py::test_it"))
    assert not Place.of("tests/a.py::test_it").has(Place.of("tests/a.py::test_it_all"))


def test_what_is_not_marked_cannot_start_a_broker() -> None:
    """So `-m "not broker"` starts none, in whatever way a test or a fixture of it may try."""
    with pytest.raises(pytest.fail.Exception, match="is not marked broker"), PulsarStandalone():
        pass


def test_a_test_whose_fixture_makes_a_broker_is_marked() -> None:
    """Shared or its own: `tests/integration/test_group_replay.py` has both, and nothing that runs without one."""
    asked = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "not broker"]
    file = "tests/integration/test_group_replay.py"
    found = subprocess.run([*asked, file], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == pytest.ExitCode.NO_TESTS_COLLECTED, found.stdout + found.stderr
    assert "10 deselected" in found.stdout
