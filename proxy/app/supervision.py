"""What a supervisor and the processes that it started tell each other, over a socket between them.

Both tell their whole state, again each second, so that a message which does not fit into a full socket loses nothing.
A process that stands still tells nothing. When the supervisor has ended in any way, the socket is at its end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

TELL_S: Final = 1.0
MESSAGE_BYTES_MAX: Final = 64 * 1024
"""Of a socket that keeps messages apart; reasons are cut to fit."""
REASON_CHARACTERS_MAX: Final = 1_000


@dataclass(frozen=True, slots=True)
class Report:
    """By a process."""

    replica: str
    """Its name among all replicas; no process before it had it."""
    address: str
    """Where it answers other replicas."""
    started: bool
    """Whether it listens at all its addresses."""
    not_ready_because: tuple[str, ...]
    reloads: int
    """How often an operator has ordered it to read the configuration again."""


@dataclass(frozen=True, slots=True)
class ProcessState:
    """One place, as the supervisor sees it."""

    index: int
    replica: str
    """Empty while no process has reported."""
    address: str
    ready: bool
    restarts_total: int


@dataclass(frozen=True, slots=True)
class Told:
    """By the supervisor, to all."""

    all_started: bool
    """Whether every place has had a process that listened."""
    stopping: bool = False
    hurrying: bool = False
    """Whether to stop without waiting for acknowledgements."""
    reloads: int = 0
    """How often the configuration was to be read again."""
    processes: tuple[ProcessState, ...] = ()


REPORT: Final = TypeAdapter(Report)
TOLD: Final = TypeAdapter(Told)
