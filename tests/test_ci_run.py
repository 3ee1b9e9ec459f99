"""What a runner calls, `.ci/run`, in a checkout whose programs only say what they were asked for."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAKEFILE = """
test:
	@echo '=== 4 passed in 1.00s ==='
	@echo "$${PYTHONDONTWRITEBYTECODE-modules are compiled once}"
	@exit $(TEST_CODE)
"""
PYTHON = """#!/bin/sh
echo "python $*"
echo '9 passed, 0 failed, 0 skipped'
exit $PARTS_CODE
"""


def run(
    tmp_path: Path, test_code: int, parts_code: int, python: str | None = PYTHON
) -> subprocess.CompletedProcess[str]:
    """Run a copy of it; `make test` and the parts end with these exit codes."""
    checkout, cache = tmp_path / "checkout", tmp_path / "cache"
    for name in (".ci", "integration"):
        (checkout / name).mkdir(parents=True)
    shutil.copy(ROOT / ".ci" / "run", checkout / ".ci" / "run")
    for program, text in (("integration/setup.sh", '#!/bin/sh\necho "setup $*"\n'), (".venv/bin/python", python)):
        if text is None:
            continue
        (checkout / program).parent.mkdir(parents=True, exist_ok=True)
        (checkout / program).write_text(text)
        (checkout / program).chmod(0o755)
    (checkout / "Makefile").write_text(MAKEFILE)
    environment = os.environ | {
        "KEYLINE_CACHE": str(cache),
        "TEST_CODE": str(test_code),
        "PARTS_CODE": str(parts_code),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    for name in ("MAKEFLAGS", "MAKELEVEL"):  # of a make that runs this test
        environment.pop(name, None)
    return subprocess.run([checkout / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)


def test_the_parts_follow_make_test_and_know_what_it_said(tmp_path: Path) -> None:
    """Its output is in a file outside the checkout, and what is left of the time is theirs."""
    done = run(tmp_path, 0, 0)
    assert done.returncode == 0, done.stderr
    log = tmp_path / "cache" / "checks" / "make-test.log"
    assert done.stdout.splitlines() == [
        "setup system --with-go",
        "=== 4 passed in 1.00s ===",
        "modules are compiled once",
        f"python -m tests.run_parts --minutes 60 --after {log} 0 0",
        "9 passed, 0 failed, 0 skipped",
    ]
    assert log.read_text() == "=== 4 passed in 1.00s ===\nmodules are compiled once\n"
    assert {path.name for path in (tmp_path / "checkout").iterdir()} == {".ci", ".venv", "integration", "Makefile"}


def test_what_fails_in_make_test_is_said_and_the_parts_still_run(tmp_path: Path) -> None:
    """They are told its exit code, which they count."""
    done = run(tmp_path, 1, 1)
    assert done.returncode != 0
    assert "make test failed with exit code 2" in done.stderr
    assert "make-test.log 2 0\n" in done.stdout


@pytest.mark.parametrize("parts_code", [1, 3])
def test_what_fails_in_a_part_fails_the_run(tmp_path: Path, parts_code: int) -> None:
    """Whatever `make test` said."""
    done = run(tmp_path, 0, parts_code)
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1] == "9 passed, 0 failed, 0 skipped"


def test_a_machine_that_could_not_be_made_ready_fails_with_a_closing_line(tmp_path: Path) -> None:
    """Without Python packages there is nothing that could run a part."""
    done = run(tmp_path, 2, 0, python=None)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "0 passed, 1 failed, 0 skipped"
