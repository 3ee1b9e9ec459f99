"""What a part's output says when it is over: how many tests passed, failed and were skipped."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

OF_PYTEST = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+(?:, )?)+|no tests ran) in [\d.]+s\b")
PLAIN = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$")
COLOUR = re.compile(r"\x1b\[[\d;]*m")
COUNTED = {
    "passed": "passed",
    "xpassed": "failed",
    "failed": "failed",
    "error": "failed",
    "errors": "failed",
    "skipped": "skipped",
    "xfailed": "skipped",
}
"""Pytest's words. What it deselected or warned of is not counted."""


@dataclass(frozen=True)
class Totals:
    """Tests by outcome."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def __add__(self, other: Totals) -> Totals:
        """Of both."""
        return Totals(self.passed + other.passed, self.failed + other.failed, self.skipped + other.skipped)

    def __str__(self) -> str:
        """As the plain closing line."""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


NOTHING: Final = Totals()


def closing_totals(output: str) -> Totals | None:
    """Read the last closing line, of pytest or plain; None where there is none."""
    for line in reversed(COLOUR.sub("", output).splitlines()):
        if plain := PLAIN.match(line.strip()):
            return Totals(*map(int, plain.groups()))
        if closing := OF_PYTEST.match(line):
            return _of_pytest(closing.group(1))
    return None


def judged(output: str, code: int) -> Totals:
    """What a program that has ended counted, and a failure that it did not count where its exit code tells of one.

    So does a pytest that was told something wrong: its closing line has no test that failed, nor one that passed.
    """
    totals = closing_totals(output)
    if totals is None:
        return Totals(passed=int(code == 0), failed=int(code != 0))
    return replace(totals, failed=1) if code and not totals.failed else totals


def _of_pytest(counts: str) -> Totals:
    totals = Totals()
    for number, word in re.findall(r"(\d+) ([a-z]+)", counts):
        if word in COUNTED:
            totals += Totals(**{COUNTED[word]: int(number)})
    return totals


def failures(output: str, characters_max: int) -> str:
    """Return the part of pytest's output that tells what failed, or the end of another program's output."""
    starts = [found.start() for found in re.finditer(r"^=+ (?:ERRORS|FAILURES) =+$", output, re.MULTILINE)]
    told = output[starts[0] :] if starts else output
    return told if len(told) <= characters_max else f"[...]\n{told[-characters_max:]}"
