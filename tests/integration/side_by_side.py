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
from typing import TypeAlias

import pytest

Case: TypeAlias = Callable[[ExitStack], Callable[[], str]]
"""Prepares a scene, which ends with the stack, and returns what happens then; that says what it found."""


@contextmanager
def side_by_side(
    request: pytest.FixtureRequest, parameter: str, case_of: Callable[[str], Case]
) -> Iterator[dict[str, Future[str]]]:
    """Begin all that this run's tests have as values of a parameter; at the block's end all are over."""
    cases = {name: case_of(name) for name in _asked_for(request, parameter)}
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


def _asked_for(request: pytest.FixtureRequest, parameter: str) -> list[str]:
    """Values of a parameter that tests of the fixture's module have, of those that this run runs."""
    parameters = [item.callspec.params for item in request.session.items if _in(item, request.path)]  # type: ignore[attr-defined]
    return list(dict.fromkeys(str(each[parameter]) for each in parameters if parameter in each))


def _in(item: pytest.Item, module: object) -> bool:
    return item.path == module and hasattr(item, "callspec")
