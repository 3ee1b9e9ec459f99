"""Compares a test's outcomes on both ways. Nothing here runs anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Self


class Way(StrEnum):
    """How a test reaches the broker."""

    DIRECT = "direct"
    THROUGH = "through"


class Result(StrEnum):
    """Of one run of a test."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"
    LATE = "timed out"


class Verdict(StrEnum):
    """Of all runs of a test."""

    SAME = "same"
    """Both ways ended alike, be it a failure."""
    UNSTEADY = "unsteady"
    """One way ended differently when it was repeated, so the difference is no proof."""
    ONLY_THROUGH = "only through"
    """It passes through the gateway and never directly."""
    KNOWN = "known"
    """It fails through the gateway only, and the reason is written down."""
    BROKEN = "broken"
    """It passes directly and fails through the gateway, each time."""


BAD: Final = frozenset({Result.FAILED, Result.LATE})


@dataclass(frozen=True, slots=True)
class Test:
    """One test: which, and how it is run."""

    __test__ = False  # pytest would collect it where it is imported

    name: str
    """The suite's name, a space and the test's own."""
    command: tuple[str, ...]
    directory: str
    """Where it is run."""

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read one that `dataclasses.asdict` wrote."""
        return cls(values["name"], tuple(values["command"]), values["directory"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """One run of one test."""

    name: str
    result: Result
    seconds: float

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read one that `dataclasses.asdict` wrote."""
        return cls(values["name"], Result(values["result"]), values["seconds"])


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs of one test, in their order."""

    name: str
    direct: tuple[Outcome, ...]
    through: tuple[Outcome, ...]

    @property
    def differs(self) -> bool:
        """Whether any two runs ended differently; a test that timed out failed."""
        return len({_kind(outcome.result) for outcome in (*self.direct, *self.through)}) > 1

    def verdict(self, known: Mapping[str, str]) -> Verdict:
        """What they say together, by what is known to differ."""
        if not self.differs:
            return Verdict.SAME
        if self.name in known and _all_bad(self.through):
            return Verdict.KNOWN
        if _steady(self.direct) and _steady(self.through):
            return Verdict.BROKEN if _all_bad(self.through) else Verdict.ONLY_THROUGH
        return Verdict.UNSTEADY


def passes_unexpectedly(comparison: Comparison, known: Mapping[str, str]) -> bool:
    """Whether it is listed as a difference and is none any more."""
    return comparison.name in known and all(outcome.result is Result.PASSED for outcome in comparison.through)


def _kind(result: Result) -> Result:
    return Result.FAILED if result in BAD else result


def _steady(outcomes: Sequence[Outcome]) -> bool:
    return len({_kind(outcome.result) for outcome in outcomes}) == 1


def _all_bad(outcomes: Sequence[Outcome]) -> bool:
    return all(outcome.result in BAD for outcome in outcomes)
