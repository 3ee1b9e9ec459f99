"""Every target on what is known, and briefly on what is not.

Known inputs are the official clients' frames in every target's form, and all that once broke a promise. They need no
engine. The guided search is a program of its own; the same seed makes it take the same way every time.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import pytest

from proxy.wire.pulsar_pb2 import NONE
from tests.fuzz import codecs_target
from tests.fuzz.engine import RESIDENT_MB_MAX
from tests.fuzz.search import search
from tests.fuzz.target import REGRESSIONS, BrokenPromiseError, Choices, Target, promise, sized
from tests.fuzz.targets import TARGETS

EXECUTIONS = 1_000
"""Of the search in a test run, beyond the seeds: a second or two for each target. `make fuzz` takes its time."""
MUTATIONS = 200
pytestmark = pytest.mark.usefixtures("quiet_log")
EVERY = pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)


def mutated(data: bytes, chance: random.Random) -> bytes:
    """The input with something put in, taken out or changed."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4))):
        at = chance.randrange(len(changed) + 1)
        match chance.randrange(3):
            case 0:
                changed[at : at + 1] = chance.randbytes(1)
            case 1:
                del changed[at : at + chance.randrange(1, 8)]
            case _:
                changed[at:at] = chance.randbytes(chance.randrange(1, 5))
    return bytes(changed)


@EVERY
def test_known_inputs_keep_every_promise(target: Target) -> None:
    """Whatever official clients sent, the same damaged in ways that never change, and everything that once failed."""
    inputs = [*target.seeds(), *(path.read_bytes() for path in target.regressions())]
    chance = random.Random(target.name)  # noqa: S311 - noise, no secret
    for data in inputs + [mutated(chance.choice(inputs), chance) for _ in range(MUTATIONS)]:
        try:
            target.run(data)
        except Exception as error:
            error.add_note(f"input of target {target.name}: {data.hex()}")
            raise


@EVERY
def test_a_guided_search_finds_nothing(target: Target, tmp_path: Path) -> None:
    """Nothing raises that may not, hangs, or takes more memory than it may, in a fixed number of executions."""
    pytest.importorskip("atheris", reason="no wheel for this platform")
    runs = sum(1 for _ in target.seeds()) + EXECUTIONS
    result = search(target.name, tmp_path, f"-runs={runs}", "-seed=1")
    assert result.clean, result.output[-3_000:]
    assert result.executions >= EXECUTIONS
    assert result.features > 0, "the code under test was instrumented"


def test_every_regression_belongs_to_a_target() -> None:
    """A folder that no target reads would be replayed by nobody."""
    assert {path.name for path in REGRESSIONS.iterdir()} <= set(TARGETS)


def test_a_search_reports_a_failure_with_its_input(tmp_path: Path) -> None:
    """The engine's own check: a target that fails is not taken for a clean one."""
    pytest.importorskip("atheris", reason="no wheel for this platform")
    result = search("no such target", tmp_path)
    assert not result.clean
    assert result.exit_code


def test_the_memory_of_who_starts_a_search_is_not_taken_for_its_own(tmp_path: Path) -> None:
    """A test run may have had more than a target may have; the engine looks once a second."""
    pytest.importorskip("atheris", reason="no wheel for this platform")
    program = """if True:
        import sys
        from pathlib import Path
        from tests.fuzz.search import search
        bytearray(b"x") * (int(sys.argv[1]) << 20)
        result = search("frames", Path(sys.argv[2]), "-max_total_time=3", "-seed=1", seconds=3)
        sys.exit(0 if result.clean else result.output[-3_000:])
    """
    command = [sys.executable, "-c", program, str(RESIDENT_MB_MAX + 50), str(tmp_path)]
    run = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=False)
    assert run.returncode == 0, run.stderr


def test_memory_that_a_payload_costs_shows_in_a_process_that_once_had_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """As every long test run had."""
    bytearray(b"x") * (8 * codecs_target.GROWTH_BYTES_MAX)

    def greedy(*_: object) -> bytes:
        return bytes(bytearray(b"x") * (2 * codecs_target.GROWTH_BYTES_MAX))[:1]

    monkeypatch.setattr(codecs_target, "decompress", greedy)
    with pytest.raises(BrokenPromiseError, match="cost no more"):
        codecs_target.opened(NONE, b"x", 1)


def test_decisions_go_on_where_an_input_has_ended() -> None:
    """A prefix of an input means the same up to its end, and then nothing."""
    choices = Choices(sized(b"abc") + b"\x81\x01")
    assert choices.sized() == b"abc"
    assert choices.varint() == 129
    assert not choices
    assert (choices.number(7), choices.flag(), choices.sized(), choices.varint()) == (0, False, b"", 0)
    with pytest.raises(BrokenPromiseError, match="said"):
        promise(kept=False, what="said")
