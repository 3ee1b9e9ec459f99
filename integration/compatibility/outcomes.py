"""What came of a feature, and the word for it in the table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class Word(StrEnum):
    """What a cell says."""

    YES = "yes"
    REFUSED = "refused"
    OWN_LIMIT = "own limit"
    ONLY_HERE = "only here"
    NOT_OFFERED = "–"  # noqa: RUF001 - a dash as tables have it


class Served(StrEnum):
    """Who serves a feature, by what the gateway tells of the feature's topics."""

    DISPATCHED = "dispatched"
    QUEUED = "queued"
    PASSES = "passes"


EVENTS: Final = {"worker_joined": Served.DISPATCHED, "producer_queued": Served.QUEUED}
"""The gateway's events that show that it serves something itself."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one feature, tried once."""

    ok: bool | None
    """None: this client does not offer it."""
    detail: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One feature of one client on one version of the broker, both ways."""

    direct: Outcome
    through: Outcome
    served: Served

    @property
    def word(self) -> Word:
        """What fails at the broker too is no matter of the gateway."""
        if self.through.ok is None:
            return Word.NOT_OFFERED
        if self.through.ok:
            return Word.YES if self.direct.ok else Word.ONLY_HERE
        return Word.REFUSED if self.direct.ok else Word.OWN_LIMIT


Trials = dict[str, Trial]
"""By feature."""


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything about one client on one version of the broker."""

    library: str
    """As the program names it."""
    calls_itself: str
    """As the broker has heard it."""
    trials: Trials
