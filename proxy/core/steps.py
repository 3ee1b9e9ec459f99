"""Long answers in short steps.

Problem: telling everything about a subscription with hundreds of workers or ten thousand draining hashes takes tens of
milliseconds, on the loop that carries its messages, and no thread helps, for the state belongs to the loop. So a long
answer is a generator that pauses after every few hundred items, and the caller decides how long the pauses are. State
may change during a pause: each row is true at its own moment, and what is gone by then is left out.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

T = TypeVar("T")

Steps: TypeAlias = Generator[None, None, T]
"""Pauses, then returns the answer."""

STEP_ITEMS = 200
"""Items between two pauses: at a microsecond or two each, a fraction of a millisecond."""


def finished(steps: Steps[T]) -> T:
    """The answer, without pausing."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            answer: T = stop.value
            return answer


def in_steps(items: Iterable[T]) -> Iterator[Sequence[T]]:
    """The items in runs of `STEP_ITEMS`. What they come from must bear being changed between the runs."""
    rest = iter(items)
    while run := list(islice(rest, STEP_ITEMS)):
        yield run
