"""The part `compiled` counts the tests that it has run, and fails where none was."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compiled import FOLDERS, CompiledCopy
from tests.part_results import Totals

PART = """
def pytest_addoption(parser):
    parser.addoption("--part")
"""
STRICT = """
[tool.pytest.ini_options]
addopts = ["--strict-config"]
markers = ["broker"]
"""


@pytest.fixture
def copy(tmp_path: Path) -> CompiledCopy:
    """Of a checkout without tests."""
    for name in FOLDERS:
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "conftest.py").write_text(PART)
    (tmp_path / "pyproject.toml").write_text(STRICT)
    return CompiledCopy(tmp_path)


def test_options_that_a_runner_has_for_the_checkout_are_not_the_copys(
    copy: CompiledCopy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as `.ci/run` sets: without a cache there is no option for its folder, and pytest runs nothing."""
    (copy.folder / FOLDERS[0] / "test_it.py").write_text("def test_a(): pass\ndef test_b(): pass\n")
    monkeypatch.setenv("PYTEST_ADDOPTS", "-o cache_dir=anywhere")
    assert copy.pytest() == Totals(passed=2)


def test_a_run_without_a_test_has_failed(copy: CompiledCopy) -> None:
    """Nothing was shown of what is compiled."""
    assert copy.pytest().failed
