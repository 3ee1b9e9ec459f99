"""The turnstile: who fences passes alone, all others together, nobody is overtaken or forgotten."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from proxy.producers.turnstile import Turnstile


@given(st.lists(st.tuples(st.sampled_from(["alone", "together", "join", "take over"]), st.integers(0, 9))))
def test_whoever_is_alone_meets_nobody(steps: list[tuple[str, int]]) -> None:
    """Whatever comes, joins and ends in whatever order; what came passes in that order, and meets only who joins."""
    turnstile = Turnstile()
    came: list[tuple[int, bool]] = []
    begun: list[int] = []
    passing: dict[int, bool] = {}

    def come(number: int, *, alone: bool) -> None:
        def begin() -> None:
            assert not passing or not (alone or any(passing.values())), "they met"
            assert not turnstile.idle
            passing[number] = alone
            begun.append(number)

        came.append((number, alone))
        turnstile.begin(number, begin, alone=alone)

    def end(number: int) -> None:
        del passing[number]
        turnstile.end(number)

    for number, (how, which) in enumerate(steps):
        if which and passing:
            end(sorted(passing)[which % len(passing)])
        elif how == "join":
            turnstile.join(number)
            passing[number] = False
        elif how == "take over":
            former = min(passing, default=-1)
            may = former in passing and not any(alone for other, alone in passing.items() if other != former)
            assert turnstile.take_over(number, former) == may
            if may:
                passing[number] = passing.pop(former)
        else:
            come(number, alone=how == "alone")
    while passing:
        end(min(passing))
    assert begun == [number for number, _ in came]
    assert turnstile.idle


def test_what_is_given_up_before_it_began_never_begins() -> None:
    """And those behind it go on."""
    turnstile = Turnstile()
    begun: list[str] = []
    turnstile.begin("fencer", lambda: begun.append("fencer"), alone=True)
    turnstile.begin("close", lambda: begun.append("close"), alone=False)
    turnstile.begin("ask", lambda: begun.append("ask"), alone=False)
    turnstile.end("close")
    turnstile.end("never came")
    assert begun == ["fencer"]
    turnstile.end("fencer")
    assert begun == ["fencer", "ask"]


def test_one_that_ends_while_it_begins() -> None:
    """A request that is refused at once."""
    turnstile = Turnstile()
    begun: list[str] = []

    def refused(name: str) -> None:
        begun.append(name)
        turnstile.end(name)

    for name in ("a", "b", "c"):
        turnstile.begin(name, lambda name=name: refused(name), alone=True)  # type: ignore[misc]
    assert begun == ["a", "b", "c"]
    assert turnstile.idle
