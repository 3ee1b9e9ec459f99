"""What is compared: brokers, how the producer batches, how many messages, and how fast the workers roll."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from integration.artifacts import DEFAULT_VERSION
from integration.load.options import Batching

OLDER_VERSION: Final = "3.0.7"
"""Of the line before 4.0: its dispatcher has no draining hashes (PIP-379)."""


@dataclass(frozen=True, slots=True)
class Load:
    """The load of one side; both sides get the same."""

    messages: int
    batching: Batching
    keys: int = 300
    skew: float = 0.8
    """Exponent of Zipf's law: keys come by chance, some of them more often than others."""
    rate_per_s: float = 2_000.0
    workers: int = 4
    work_ms: float = 1.0
    """A worker's time for each message, one after another."""
    ack_delay_ms: float = 50.0
    """How much later it acknowledges the message."""
    changes: int = 28
    """How often the set of workers changes, spread evenly over the messages."""


@dataclass(frozen=True, slots=True)
class Case:
    """One broker and its load."""

    version: str
    load: Load

    def __str__(self) -> str:
        """Name it, on the screen and in files and topics."""
        return f"pulsar-{self.version}-batching-{self.load.batching.value}"


CASES: Final = (
    Case(DEFAULT_VERSION, Load(60_000, Batching.DEFAULT)),
    # What such a broker can promise: nothing is out of order where every producer batches by key. It also shows that
    # the audit accuses no broker wrongly.
    Case(DEFAULT_VERSION, Load(30_000, Batching.KEY_BASED)),
    Case(OLDER_VERSION, Load(30_000, Batching.KEY_BASED)),
)
QUICK_MESSAGES: Final = 3_000
QUICK_CHANGES: Final = 4


def cases(versions: list[str] | None, *, messages: int | None, changes: int | None) -> list[Case]:
    """Return the cases of these versions, all by default, with other sizes where they are given."""
    chosen = [case for case in CASES if versions is None or case.version in versions]
    return [Case(case.version, _resized(case.load, messages, changes)) for case in chosen]


def _resized(load: Load, messages: int | None, changes: int | None) -> Load:
    return replace(load, messages=messages or load.messages, changes=changes or load.changes)
