"""The end of a turn of the loop: everything is written, then a busy loop pauses; time is stepped."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import cast

import pytest

from proxy.aio.transport import AioTransport
from proxy.aio.turns import BURST_TURNS, LoopTurns
from proxy.limits import Limits
from tests.net.test_aio import NotingReceiver

PER_S = 5_000
INTERVAL_S = 1 / PER_S


class SteppedLoop:
    """Makes calls when it is told to, and sleeps by moving its time."""

    def __init__(self) -> None:
        self.at_s = 50.0
        self.slept: list[float] = []
        self._calls: list[Callable[[], object]] = []

    def call_soon(self, callback: Callable[..., object], *_arguments: object, **_more: object) -> asyncio.Handle:
        """As asyncio's."""
        self._calls.append(callback)
        return asyncio.Handle(callback, [], self.as_loop)

    @property
    def as_loop(self) -> asyncio.AbstractEventLoop:
        """For whom only these calls are made."""
        return cast("asyncio.AbstractEventLoop", self)

    def get_debug(self) -> bool:
        """As asyncio's."""
        return False

    def now(self) -> float:
        """Seconds."""
        return self.at_s

    def sleep(self, seconds: float) -> None:
        """Take so long."""
        self.slept.append(seconds)
        self.at_s += seconds

    def settle(self) -> int:
        """Make the calls of a turn; how many there were."""
        calls, self._calls = self._calls, []
        for call in calls:
            call()
        return len(calls)


class Paced:
    """Turns of such a loop, and what they flushed."""

    def __init__(self, per_s_max: int = PER_S) -> None:
        self.loop = SteppedLoop()
        self.turns = LoopTurns(self.loop.as_loop, per_s_max, now=self.loop.now, sleep=self.loop.sleep)
        self.flushed: list[float] = []

    def pass_turn(self, waited_s: float = 0.0, work_s: float = 0.0) -> None:
        """Wait for data so long, work so long, and write."""
        self.loop.at_s += waited_s + work_s
        self.turns.at_end(lambda: self.flushed.append(self.loop.at_s))
        self.loop.settle()

    def exhaust_burst(self) -> None:
        """Take the turns that follow each other at once."""
        for _ in range(BURST_TURNS):
            self.pass_turn()


@pytest.fixture
def paced() -> Paced:
    """At the default rate."""
    return Paced()


def test_below_the_rate_no_turn_pauses(paced: Paced) -> None:
    """Latency is what it would be without a bound."""
    for _ in range(10 * BURST_TURNS):
        paced.pass_turn(waited_s=1.01 * INTERVAL_S)
    assert not paced.loop.slept


def test_a_burst_after_a_quiet_time_does_not_pause(paced: Paced) -> None:
    """And a quiet time does not save up for more than one."""
    for _ in range(3):
        paced.loop.at_s += 1000 * BURST_TURNS * INTERVAL_S
        paced.exhaust_burst()
        assert not paced.loop.slept
    paced.pass_turn()
    assert paced.loop.slept == [pytest.approx(INTERVAL_S)]


def test_beyond_the_burst_turns_keep_the_rate(paced: Paced) -> None:
    """Data that keeps coming, with gaps, waits for one interval at most."""
    paced.exhaust_burst()
    began_at = paced.loop.at_s
    for _ in range(PER_S):
        paced.pass_turn(waited_s=INTERVAL_S / 2)
    assert paced.loop.at_s - began_at == pytest.approx(1.0, rel=0.01)
    assert max(paced.loop.slept) <= INTERVAL_S * 1.01


def test_turns_that_take_longer_than_the_interval_do_not_pause(paced: Paced) -> None:
    """A loop with more work than time loses none of it."""
    for _ in range(10 * BURST_TURNS):
        paced.pass_turn(work_s=INTERVAL_S * 1.01)
    assert not paced.loop.slept


def test_peers_that_wait_for_each_answer_have_the_whole_rate(paced: Paced) -> None:
    """Their next message is always there, because it is the pause that they wait for."""
    paced.exhaust_burst()
    for _ in range(100 * BURST_TURNS):
        paced.pass_turn()
    assert max(paced.loop.slept) <= INTERVAL_S * 1.01


def test_without_a_bound_no_turn_pauses() -> None:
    """`turns_per_s_max` 0."""
    paced = Paced(0)
    for _ in range(10 * BURST_TURNS):
        paced.pass_turn()
    assert not paced.loop.slept
    assert len(paced.flushed) == 10 * BURST_TURNS


def test_a_flush_that_fails_costs_no_other_connection_its_write(paced: Paced) -> None:
    """Those behind it are made in the next turn."""
    done: list[str] = []

    def fail() -> None:
        message = "bug"
        raise RuntimeError(message)

    paced.turns.at_end(fail)
    paced.turns.at_end(lambda: done.append("behind"))
    with pytest.raises(RuntimeError):
        paced.loop.settle()
    assert paced.loop.settle() == 1
    assert done == ["behind"]
    assert paced.loop.settle() == 0


def test_what_a_flush_asks_for_is_the_next_turn_s(paced: Paced) -> None:
    """One end of a turn each, however it was asked for."""
    done: list[int] = []

    def ask() -> None:
        paced.turns.at_end(lambda: done.append(1))

    paced.turns.at_end(ask)
    assert paced.loop.settle() == 1
    assert done == []
    paced.turns.at_end(lambda: done.append(2))
    assert paced.loop.settle() == 1
    assert done == [1, 2]
    assert paced.loop.settle() == 0


def test_all_connections_write_before_the_loop_pauses(paced: Paced) -> None:
    """A pause delays only what arrives during it."""
    written: list[bytes] = []

    class LoopEnd(asyncio.Transport):
        """Stands in for the loop's end of a connection."""

        def write(self, data: bytes | bytearray | memoryview) -> None:
            """As asyncio's."""
            assert not paced.loop.slept
            written.append(bytes(data))

        def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
            """As asyncio's."""

        def get_extra_info(self, _name: str, default: object = None) -> object:
            """As asyncio's."""
            return default

    paced.exhaust_burst()
    transports = [AioTransport(lambda _: NotingReceiver(), paced.loop.as_loop, Limits(), paced.turns) for _ in range(3)]
    for number, transport in enumerate(transports):
        transport.connection_made(LoopEnd())
        transport.data_received(b"x")
        transport.write(b"%d" % number)
    assert written == []
    paced.loop.settle()
    assert written == [b"0", b"1", b"2"]
    assert len(paced.loop.slept) == 1
