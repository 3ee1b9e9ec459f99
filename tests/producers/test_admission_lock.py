"""The admission lock: a fencing change runs alone, all others together, and none is overtaken or forgotten."""

from __future__ import annotations

import sys
from functools import partial

from hypothesis import given
from hypothesis import strategies as st

from proxy.producers.admission_lock import AdmissionLock


@given(st.lists(st.tuples(st.sampled_from(["alone", "together", "join", "take over"]), st.integers(0, 9))))
def test_whoever_is_alone_meets_nobody(steps: list[tuple[str, int]]) -> None:
    """Whatever comes, joins and ends in whatever order; what came passes in that order, and meets only who joins."""
    admission_lock = AdmissionLock(lambda _change: None)
    came: list[tuple[int, bool]] = []
    begun: list[int] = []
    passing: dict[int, bool] = {}

    def come(number: int, *, alone: bool) -> None:
        def begin() -> None:
            assert not passing or not (alone or any(passing.values())), "they met"
            assert not admission_lock.idle
            passing[number] = alone
            begun.append(number)

        came.append((number, alone))
        admission_lock.begin(number, begin, alone=alone)

    def end(number: int) -> None:
        del passing[number]
        admission_lock.end(number)

    for number, (how, which) in enumerate(steps):
        if which and passing:
            end(sorted(passing)[which % len(passing)])
        elif how == "join":
            admission_lock.join(number)
            passing[number] = False
        elif how == "take over":
            former = min(passing, default=-1)
            may = former in passing and not any(alone for other, alone in passing.items() if other != former)
            assert admission_lock.take_over(number, former) == may
            if may:
                passing[number] = passing.pop(former)
        else:
            come(number, alone=how == "alone")
    while passing:
        end(min(passing))
    assert begun == [number for number, _ in came]
    assert admission_lock.idle


def test_what_is_given_up_before_it_began_never_begins() -> None:
    """And those behind it go on."""
    admission_lock = AdmissionLock(lambda _change: None)
    begun: list[str] = []
    admission_lock.begin("fencer", lambda: begun.append("fencer"), alone=True)
    admission_lock.begin("close", lambda: begun.append("close"), alone=False)
    admission_lock.begin("ask", lambda: begun.append("ask"), alone=False)
    admission_lock.end("close")
    admission_lock.end("never came")
    assert begun == ["fencer"]
    admission_lock.end("fencer")
    assert begun == ["fencer", "ask"]


def test_one_that_ends_while_it_begins() -> None:
    """A request that is refused at once."""
    admission_lock = AdmissionLock(lambda _change: None)
    begun: list[str] = []

    def refused(name: str) -> None:
        begun.append(name)
        admission_lock.end(name)

    for name in ("a", "b", "c"):
        admission_lock.begin(name, lambda name=name: refused(name), alone=True)  # type: ignore[misc]
    assert begun == ["a", "b", "c"]
    assert admission_lock.idle


def test_thousands_that_end_while_they_begin() -> None:
    """Refused requests of a client that has room for none of them; they do not call each other."""
    admission_lock = AdmissionLock(lambda _change: None)
    admission_lock.begin("fencer", lambda: None, alone=True)
    begun: list[int] = []

    def refused(number: int) -> None:
        begun.append(number)
        admission_lock.end(number)

    for number in range(10 * sys.getrecursionlimit()):
        admission_lock.begin(number, partial(refused, number), alone=True)
    admission_lock.end("fencer")
    assert begun == list(range(10 * sys.getrecursionlimit()))
    assert admission_lock.idle


def test_giving_up_thousands_looks_at_each_of_them_once() -> None:
    """A client with all of them disconnects; else the gateway would stand still for minutes."""
    admission_lock = AdmissionLock(lambda _change: None)
    admission_lock.begin("fencer", lambda: None, alone=True)
    tokens = [object() for _ in range(2_000)]
    for token in tokens:
        admission_lock.begin(token, lambda: None, alone=True)
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        for token in tokens:
            admission_lock.end(token)
    finally:
        sys.setprofile(before)
    assert calls < 10 * len(tokens)
    admission_lock.end("fencer")
    assert admission_lock.idle
