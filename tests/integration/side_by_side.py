"""Cases that mostly wait, run beside each other in threads, each with a deployment of its own on one broker.

Problem: what has to wait for 120 s a case would take an hour one after the other, and nearly no CPU. Rule kept: each
case has a test of its own, which fails if its case did and with what its case raised; and none begins before all are
prepared, for programs that start take the CPU from those whose times are measured.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest

PARAMETER: Final = "case"
"""Of a test of one case: its name."""
Case: TypeAlias = Callable[[ExitStack], Callable[[], str]]
"""Prepares a scene, which ends with the stack, and returns what happens then; that says what it found."""
CaseOf: TypeAlias = Callable[[str, Path], Case]
"""Describes a case by its name; it has a folder of its own, which it makes."""
Outcomes: TypeAlias = dict[str, Future[str]]
"""What becomes of cases, by their names."""


@contextmanager
def side_by_side(request: pytest.FixtureRequest, case_of: CaseOf, directory: Path) -> Iterator[Outcomes]:
    """Begin all cases that this run has tests of in the fixture's module; at the block's end all are over."""
    cases = {name: case_of(name, directory / name) for name in _asked_for(request)}
    ready = threading.Barrier(len(cases))

    def run(prepare: Case) -> str:
        with ExitStack() as stack:
            try:
                act = prepare(stack)
            finally:
                ready.wait()  # one that cannot be prepared lets the others begin
            return act()

    with ThreadPoolExecutor(len(cases)) as pool:
        yield {name: pool.submit(run, prepare) for name, prepare in cases.items()}


def _asked_for(request: pytest.FixtureRequest) -> list[str]:
    """Names of the cases that tests of the fixture's module have, of those that this run runs."""
    parameters = [item.callspec.params for item in request.session.items if _in(item, request.path)]  # type: ignore[attr-defined]
    return list(dict.fromkeys(str(each[PARAMETER]) for each in parameters if PARAMETER in each))


def _in(item: pytest.Item, module: object) -> bool:
    return item.path == module and hasattr(item, "callspec")
