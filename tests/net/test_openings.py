"""The budget of a turn, the line of those who wait, and payloads in the background."""

from __future__ import annotations

import pytest

from proxy.net.subscription.openings import OpeningLimits, Openings
from tests.net.fakes import FakeBackground, FakeClock

LIMITS = OpeningLimits(share_cost=10, turn_cost=25, at_once=2, kept_bytes=100)


class Opener:
    """Opens what costs `cost`, `count` times."""

    def __init__(self, openings: Openings, name: str, count: int, cost: int, log: list[str]) -> None:
        self.turn = self.spent = 0
        self.in_line = False
        self._openings = openings
        self._name = name
        self._left = count
        self._cost = cost
        self._log = log

    def advance(self) -> None:
        """As the protocol says."""
        while self._left and self._openings.spend(self, self._cost):
            self._left -= 1
            self._log.append(self._name)
        if self._left:
            self._openings.wait(self)


def scene() -> tuple[FakeClock, FakeBackground, Openings, list[str]]:
    """Openings on a stepped clock."""
    clock = FakeClock()
    background = FakeBackground(clock)
    background.held = True
    return clock, background, Openings(clock, background, LIMITS), []


def test_a_turn_is_divided_among_those_who_wait() -> None:
    """However much one has to open, the others' turn comes with the next turn of the loop at the latest."""
    clock, _, openings, log = scene()
    for name, count in (("a", 100), ("b", 6), ("c", 3), ("d", 1)):
        openings.wait(Opener(openings, name, count, 5, log))
    turns = []
    while clock.turn():
        turns.append("".join(log))
        log.clear()
    assert turns[:3] == ["aabbc", "daabb", "ccaab"]
    assert sum(turn.count("a") for turn in turns) == 100
    assert all(turn.count(name) <= 2 for turn in turns for name in "abcd")
    assert all(len(turn) <= 5 for turn in turns)


def test_what_may_be_opened_at_once_counts_for_the_turn() -> None:
    """A share for each, and no more than the turn has for all; an entry may begin as long as anything is left."""
    clock, _, openings, log = scene()
    openers = [Opener(openings, name, 9, 1, log) for name in "abc"]
    granted = [[openings.spend(opener, 8) for _ in range(3)] for opener in openers]
    assert granted == [[True, True, False], [True, True, False], [False, False, False]]
    clock.settle()
    assert openings.spend(openers[2], 8)


def test_a_turn_that_nobody_needs_is_not_asked_for() -> None:
    """An idle gateway stays idle."""
    clock, _, openings, log = scene()
    opener = Opener(openings, "a", 1, 1, log)
    assert openings.spend(opener, 1)
    assert clock.turn()
    assert not clock.turn()


def test_payloads_in_the_background_are_bounded_and_counted() -> None:
    """Two at most are here, until whoever wanted them has done with them."""
    _, background, openings, _ = scene()
    held: list[int] = []
    openings.account = held.append
    done: list[object] = []
    wishes = [openings.open_in_background(size, lambda: b"", done.append) for size in (1, 10, 100, 1_000)]
    assert held == [1, 10]
    assert [wish._errand is not None for wish in wishes] == [True, True, False, False]
    background.carry_out(1)
    assert done == [b""]
    assert held == [1, 10]
    wishes[1].release()
    assert held == [1, 10, -10, 100]
    wishes[3].release()
    wishes[0].release()
    background.carry_out(0)
    assert done == [b""]
    wishes[2].release()
    assert sum(held) == 0
    assert [wish._errand is not None for wish in wishes] == [True, True, True, False]


def test_what_waits_for_its_client_gives_its_place_to_others() -> None:
    """Its bytes count on; of all that wait so the oldest go when they are too many."""
    _, _, openings, _ = scene()
    held: list[int] = []
    openings.account = held.append
    dropped: list[int] = []
    wishes = [openings.open_in_background(size, lambda: b"", lambda _: None) for size in (40, 30, 50, 60)]

    def keep(number: int) -> None:
        def drop() -> None:
            dropped.append(number)
            wishes[number].release()

        wishes[number].keep(drop)

    for number in (0, 1):
        keep(number)
        keep(number)
    assert (dropped, sum(held)) == ([], 180)
    assert all(wish._errand is not None for wish in wishes)
    keep(2)
    assert (dropped, sum(held)) == ([0], 140)
    keep(3)
    assert (dropped, sum(held)) == ([0, 1, 2], 60)
    wishes[3].release()
    assert (openings._kept, openings._kept_bytes, sum(held)) == ({}, 0, 0)


def test_work_that_fails_is_told_as_a_result() -> None:
    """Whoever wanted it decides what that means."""
    _, background, openings, _ = scene()
    done: list[object] = []
    openings.open_in_background(1, lambda: int("no number"), done.append)
    background.carry_out()
    assert isinstance(done[0], ValueError)


def test_one_that_raises_strands_nobody_behind_it() -> None:
    """A bug of one subscription's is not to stop the others."""
    clock, _, openings, log = scene()

    class Broken(Opener):
        def advance(self) -> None:
            raise RuntimeError("a bug")

    openings.wait(Broken(openings, "a", 1, 1, log))
    openings.wait(Opener(openings, "b", 1, 1, log))
    with pytest.raises(RuntimeError, match="a bug"):
        clock.turn()
    while clock.turn():
        pass
    assert log == ["b"]
