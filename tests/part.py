"""A part of the tests, and the places of tests that it is made of; all there are: `tests.parts`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

PLACE: Final = re.compile(r"(?P<path>[^:\[]+)(?:::(?P<test>[^\[]+))?(?:\[(?P<words>.*)\])?", re.DOTALL)


@dataclass(frozen=True)
class Place:
    """Where tests stand."""

    path: str
    test: str
    words: str

    @staticmethod
    def of(written: str) -> Place:
        """Read a place, or the id of a test."""
        found = PLACE.fullmatch(written)
        if found is None:
            raise ValueError(f"not a place of tests: {written!r}")
        return Place(found["path"], found["test"] or "", found["words"] or "")

    @property
    def strength(self) -> tuple[int, bool, bool]:
        """A longer path is within a shorter one; a test is within its file; words narrow either."""
        return len(self.path), bool(self.test), bool(self.words)

    def around(self, path: str) -> bool:
        """Whether a file is this place's, or within its folder."""
        return path == self.path or path.startswith(f"{self.path}/")

    def has(self, test: Place) -> bool:
        """Whether a test stands here."""
        return (
            self.around(test.path)
            and (not self.test or test.test == self.test or test.test.startswith(f"{self.test}::"))
            and self.words in test.words
        )


@dataclass(frozen=True)
class Part:
    """Tests that are run together, in one process of pytest, or another program that tests."""

    name: str
    proves: str
    minutes: float
    """About what it takes beside another part, on two cores that nothing else uses, with everything fetched before.

    A run that is limited leaves a part out by it; the table at the end of a run has what it took beside it.
    """
    tests: tuple[str, ...] = ()
    """Places of the tests whose home this is."""
    repeats: tuple[str, ...] = ()
    """Places of tests of the fast tier that run here at full size (`tests.thorough`)."""
    command: tuple[str, ...] = ()
    """Instead of pytest: a program that fails with its exit code, and may end with a plain closing line.

    `PYTHON` in it is the interpreter, `LOGS` a folder for what it keeps.
    """

    @property
    def paths(self) -> list[str]:
        """Files and folders that pytest has to look into."""
        return sorted({Place.of(place).path for place in self.tests + self.repeats})
