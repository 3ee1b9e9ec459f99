"""Work that could go on for ever is done a slice at a time, and everybody gets a turn."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.net.frames_in_slices import FEW, FramesInSlices
from proxy.net.ports import Step
from proxy.net.slices import Slices
from tests.net.fakes import FakeClock

PIECE_S = 0.001
PIECES_A_SLICE = 2


class Rig:
    """Slices of two pieces, on a clock that moves while work is done."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.slices = Slices(self.clock, PIECES_A_SLICE * PIECE_S)
        self.done: list[str] = []

    def piece(self, name: str) -> None:
        """Do a piece of work."""
        self.done.append(name)
        self.clock.oversleep(PIECE_S)

    def work(self, name: str, pieces: int) -> Step:
        """A step of so much work."""
        left = pieces

        def step(end: float) -> bool:
            nonlocal left
            while left:
                left -= 1
                self.piece(name)
                if self.clock.now() >= end:
                    break
            return bool(left)

        return step

    def turns_until(self, over: Callable[[], bool]) -> list[str]:
        """Let the loop turn, with a socket that is served once a turn, until something is so."""
        for _ in range(100):
            if over():
                return self.done
            self.done.append("|")
            due = list(self.clock._soon)
            self.clock._soon.clear()
            for timer in due:
                timer.fire()
        raise AssertionError("it never ended")


def test_what_is_short_is_done_at_once() -> None:
    """Nobody waits a turn for a single join."""
    rig = Rig()
    rig.slices.do(rig.work("a", 1))
    assert rig.done == ["a"]
    assert not rig.slices._waiting


def test_a_turn_has_one_slice_whoever_uses_it() -> None:
    """What begins when it is used up waits, and in each later turn others are served first."""
    rig = Rig()
    rig.slices.do(rig.work("a", 5))
    rig.slices.do(rig.work("b", 1))
    assert "".join(rig.turns_until(lambda: not rig.slices._waiting)) == "aa|aa|ba"
    assert rig.slices.cut_total == 1


def test_those_that_wait_take_turns() -> None:
    """A flood holds up another's join by a slice, and not until the flood is over."""
    rig = Rig()
    rig.slices.add(rig.work("flood", 100))
    rig.slices.add(rig.work("join", 1))
    done = rig.turns_until(lambda: "join" in rig.done)
    assert done.count("flood") <= 2 * PIECES_A_SLICE


def test_each_is_done_in_order() -> None:
    """Also when it takes many turns."""
    rig = Rig()
    rig.slices.each("abcdefg", rig.piece)
    done = rig.turns_until(lambda: not rig.slices._waiting)
    assert [name for name in done if name != "|"] == list("abcdefg")
    assert done.count("|") == 3
    assert all(len(part) <= PIECES_A_SLICE for part in "".join(done).split("|"))


def test_a_step_that_fails_costs_its_own_piece_and_no_more() -> None:
    """A bug is told by the loop; what else there is to do goes on."""
    rig = Rig()

    def handle(name: str) -> None:
        rig.piece(name)
        if name == "b":
            raise RuntimeError(name)

    rig.slices.add(lambda _end: False)
    rig.slices.each("abc", handle)
    rig.slices.add(rig.work("other", 1))
    with pytest.raises(RuntimeError, match="b"):
        rig.turns_until(lambda: not rig.slices._waiting)
    rig.turns_until(lambda: not rig.slices._waiting)
    assert [name for name in rig.done if name != "|"] == ["a", "b", "other", "c"]


class Connection:
    """Frames of one connection, and whether it is read from."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.taken: list[bytes] = []
        self.reading = True
        self.broken = False
        self.fails_at: bytes | None = None
        self.frames = FramesInSlices(rig.slices, self._sort, self._changed, self._break)

    def _sort(self, incoming: list[bytes], end: float) -> int:
        for number, frame in enumerate(incoming, 1):
            if frame == self.fails_at:
                raise RuntimeError("a bug")
            self.taken.append(frame)
            self.rig.piece("frame")
            if self.rig.clock.now() >= end:
                return number
        return len(incoming)

    def _changed(self) -> None:
        self.reading = not self.frames.held

    def _break(self) -> None:
        self.broken = True


def many(count: int) -> list[bytes]:
    """So many frames, numbered."""
    return [b"%d" % number for number in range(count)]


def test_a_read_of_few_frames_is_taken_at_once_whoever_waits() -> None:
    """Who asks for little is not held up by a flood."""
    rig = Rig()
    rig.slices.add(rig.work("flood", 1_000))
    connection = Connection(rig)
    connection.frames.take(many(FEW))
    assert connection.taken == many(FEW)
    assert connection.reading


def test_a_read_of_many_frames_is_taken_in_slices_and_in_order() -> None:
    """Nothing more is read from that connection meanwhile; what still comes is taken after it."""
    rig = Rig()
    connection = Connection(rig)
    incoming = many(3 * FEW)
    connection.frames.take(incoming[:-1])
    assert len(connection.taken) == PIECES_A_SLICE
    assert not connection.reading
    connection.frames.take(incoming[-1:])
    done = rig.turns_until(lambda: connection.reading)
    assert connection.taken == incoming
    assert all(part.count("frame") <= PIECES_A_SLICE for part in "".join(done).split("|"))


def test_frames_of_a_connection_that_has_ended_are_not_looked_at() -> None:
    """Whatever it sent before."""
    rig = Rig()
    connection = Connection(rig)
    connection.frames.take(many(100))
    connection.frames.end()
    rig.clock.settle()
    assert len(connection.taken) == PIECES_A_SLICE
    assert not rig.slices._waiting


def test_a_bug_in_a_later_turn_costs_the_connection() -> None:
    """As one does that comes up while it is read from; nothing of it is looked at again."""
    rig = Rig()
    connection = Connection(rig)
    connection.fails_at = b"20"
    connection.frames.take(many(100))
    with pytest.raises(RuntimeError, match="a bug"):
        rig.clock.settle()
    rig.clock.settle()
    assert connection.broken
    assert connection.taken == many(20)
    assert not rig.slices._waiting
