"""A bad network between gateway and broker: workers wait, and notice nothing else (guarantee G4)."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from integration.faults.conditions import Conditions, Direction
from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.workers import WorkerProcess
from tests.integration.faults.line import (
    LONGER_THAN_KEEP_ALIVE_S,
    RECEIVER_QUEUE_SIZE,
    WORKERS,
    Line,
    every_version,
    last,
    reach,
    repeat_through,
    seen_or_not,
    strike,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.broker]

CUTS = 6


def test_delay_and_jitter_on_both_sides(line: Line) -> None:
    """A slow and uneven network costs time only, also for producers behind the gateway: nothing is sent twice."""
    for network in (line.broker_side, line.worker_side):
        network.impair(Conditions(delay_ms=10, jitter_ms=30))
    with line.load(producer_url=line.gateway.service_url) as run:
        line.check(run.finish(), set())
    assert line.broker_side.forwarded_bytes(Direction.TO_SERVER) > 0


@every_version
def test_a_broker_side_that_stalls_longer_than_keep_alive(line: Line) -> None:
    """The gateway gives the silent connection up, finds the broker again, and no worker gets anything twice."""
    with line.load() as run:
        reach(run, 0.3)
        line.broker_side.stall()
        until(line.gateway.log)
        line.broker_side.heal()
        line.check(run.finish(), set())


@pytest.mark.parametrize("direction", Direction, ids=lambda direction: direction.name.lower())
def test_a_broker_side_that_stalls_one_way(direction: Direction, line: Line) -> None:
    """Half a network is none: what one side cannot hear, both give up, and nothing is repeated or lost."""
    with line.load() as run:
        reach(run, 0.3)
        line.broker_side.stall(direction)
        last(LONGER_THAN_KEEP_ALIVE_S)
        line.broker_side.heal()
        line.check(run.finish(), set())


@every_version
def test_a_broker_side_that_is_forgotten(line: Line) -> None:
    """As by a firewall: neither end is told, both give it up in time, and no worker gets anything twice."""
    with line.load() as run:
        reach(run, 0.3)
        assert line.broker_side.forget(0) > 0
        until(line.gateway.log)
        line.check(run.finish(), set())


@pytest.mark.parametrize("batching", Batching)
@every_version
def test_a_broker_side_that_only_the_gateway_is_told_of(batching: Batching, line: Line) -> None:
    """The broker keeps the former consumer until its keep-alive ends: nothing is read beside that, or order is lost."""
    line.broker_side.impair(Conditions(delay_ms=50), Direction.TO_CLIENT)
    with line.load(batching) as run:
        repeat_through(run, 3, lambda: strike(line.broker_side, line.broker_side.tell_clients_only))
        line.check(run.finish(), set())


@every_version
def test_the_broker_side_is_cut_again_and_again(line: Line) -> None:
    """Each cut brings all that is unacknowledged once more to the gateway, which knows it and sends it to nobody."""
    with line.load() as run:
        repeat_through(run, CUTS, seen_or_not(line, lambda: strike(line.broker_side, line.broker_side.cut)))
        line.check(run.finish(), set())


def test_the_broker_side_is_cut_under_producers_too(line: Line) -> None:
    """Producers behind the gateway send again what was not confirmed: the only duplicates are those of the topic."""
    with line.load(Batching.NONE, producer_url=line.gateway.service_url) as run:
        repeat_through(run, CUTS, lambda: strike(line.broker_side, line.broker_side.cut))
        line.check(run.finish(), {Cause.SENT_TWICE})


def test_workers_are_replaced_while_the_broker_side_is_cut(line: Line) -> None:
    """Keys change hands while entries come twice from the broker: only what a dead worker held is delivered again."""
    names = itertools.cycle(WORKERS)
    latest: dict[str, WorkerProcess] = {}
    with line.load() as run:

        def replace_and_cut() -> None:
            name = next(names)
            run.kill_worker(name)
            strike(line.broker_side, line.broker_side.cut)
            latest[name] = run.start_worker(name, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)

        repeat_through(run, CUTS, replace_and_cut)
        for worker in latest.values():
            worker.wait_joined()
        line.check(run.finish(), {Cause.WORKER_KILLED, Cause.BATCH_UNFINISHED})


@every_version
def test_the_broker_side_ends_inside_frames(line: Line) -> None:
    """Half a message is none, and half an acknowledgement neither: both come again with the next connection."""
    network, ways = line.broker_side, itertools.cycle(Direction)
    with line.load() as run:

        def truncate() -> None:
            strike(network, lambda: network.truncate(next(ways), after_bytes=200))

        repeat_through(run, CUTS, seen_or_not(line, truncate))
        line.check(run.finish(), set())


def test_the_broker_side_is_half_closed(line: Line) -> None:
    """Whichever side is told first, both end the connection, and the gateway comes back."""
    network, ways = line.broker_side, itertools.cycle(Direction)
    with line.load() as run:

        def half_close() -> None:
            strike(network, lambda: network.half_close(next(ways)))

        repeat_through(run, CUTS, seen_or_not(line, half_close))
        line.check(run.finish(), set())


def test_a_broker_that_refuses_connections_for_a_while(line: Line) -> None:
    """Cut off and refused, the gateway keeps its workers, says so, tries again, and goes on where it was."""
    with line.load() as run:
        reach(run, 0.3)
        refuse(line)
        until(line.gateway.log, "brokers not reached")
        last(LONGER_THAN_KEEP_ALIVE_S)
        line.broker_side.accept()
        line.check(run.finish(), set())


def refuse(line: Line) -> None:
    """Cut the broker off at once."""
    line.broker_side.refuse()
    line.broker_side.cut()


def stall(line: Line) -> None:
    """Let the broker fall silent: the gateway finds out later."""
    line.broker_side.stall()


@pytest.mark.parametrize("fault", [refuse, stall], ids=["refuse", "stall"])
@every_version
def test_all_workers_leave_while_the_broker_is_away(fault: Callable[[Line], None], line: Line) -> None:
    """What they acknowledged meanwhile reaches the broker when it is back: those who come later do not get it again."""
    with line.load(Batching.NONE) as run:
        reach(run, 0.3)
        fault(line)
        for name in WORKERS:
            run.stop_worker(name)
        line.broker_side.heal()
        run.start_workers(*WORKERS, receiver_queue_size=RECEIVER_QUEUE_SIZE)
        line.check(run.finish(), set())
