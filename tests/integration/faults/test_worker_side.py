"""A bad network between workers and gateway: who loses a connection loses its messages, in order, and nobody else.

A worker whose connection broke gets again, or sees others get, what it had not acknowledged. All workers are behind
the same network, so each fault is announced to the audit first: until a worker's client notices, the worker holds
messages that the gateway has given away rightly.
"""

from __future__ import annotations

import itertools
from collections import Counter
from pathlib import Path

import pytest

from integration.faults.conditions import Conditions, Direction
from integration.faults.proxy import FaultProxy
from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.records import Event, RecordReader
from integration.load.run import LoadRun
from tests.integration.faults.line import (
    KEYS,
    MESSAGES,
    OF_A_CUT,
    RATE_PER_S,
    RECEIVER_QUEUE_SIZE,
    WORKERS,
    Line,
    every_version,
    reach,
    repeat_through,
    strike,
    until,
)

pytestmark = [pytest.mark.slow, pytest.mark.broker]
both_ways = pytest.mark.parametrize("batching", [Batching.NONE, Batching.DEFAULT], ids=lambda batching: batching.value)

CUTS = 4
SILENT = "silent"

NARROW_KEYS = 60
NARROW_PER_KEY = 50
NARROW_PAYLOAD_BYTES = 8_000
NARROW_QUEUE_SIZE = 1_000
NARROW_BYTES_PER_S = 100_000.0
"""The narrow worker grants more than its network holds, and gets a twentieth of its share of the load."""


@both_ways
@every_version
def test_the_worker_side_is_cut_again_and_again(batching: Batching, line: Line) -> None:
    """Workers come back by themselves; what they held is delivered again before anything newer of its keys."""
    with line.load(batching) as run:

        def cut() -> int:
            run.interruption(Cause.CONNECTION_LOST)
            return line.worker_side.cut()

        repeat_through(run, CUTS, lambda: strike(line.worker_side, cut, len(WORKERS)))
        line.check(run.finish(), OF_A_CUT, workers_cut=True)


def test_the_worker_side_is_half_closed(line: Line) -> None:
    """A FIN from either side ends a worker's connection for both: none is kept that can only listen or only speak."""
    ways = itertools.cycle(Direction)
    with line.load() as run:

        def half_close() -> int:
            run.interruption(Cause.CONNECTION_LOST)
            return line.worker_side.half_close(next(ways))

        repeat_through(run, CUTS, lambda: strike(line.worker_side, half_close, len(WORKERS)))
        line.check(run.finish(), OF_A_CUT, workers_cut=True)


def test_the_worker_side_ends_inside_frames(line: Line) -> None:
    """Half a message is received by nobody, and half an acknowledgement acknowledges nothing."""
    ways = itertools.cycle(Direction)
    with line.load() as run:

        def truncate() -> int:
            run.interruption(Cause.CONNECTION_LOST)
            return line.worker_side.truncate(next(ways), after_bytes=200)

        repeat_through(run, CUTS, lambda: strike(line.worker_side, truncate, len(WORKERS)))
        line.check(run.finish(), OF_A_CUT, workers_cut=True)


def test_a_worker_that_falls_silent_is_given_up_and_comes_back(line: Line) -> None:
    """Its messages go to the others, who finish everything without it and notice nothing; then it takes its share."""
    with FaultProxy(line.gateway.port) as network, line.load() as run:
        run.start_workers(SILENT, service_url=network.service_url, receiver_queue_size=RECEIVER_QUEUE_SIZE)
        reach(run, 0.3)
        run.interruption(Cause.CONNECTION_LOST, workers=[SILENT])
        network.stall()
        until(line.gateway.log, "worker left")
        run.wait_acknowledged(MESSAGES)
        network.heal()
        lived = run.workers[SILENT].records
        run.wait_until(lambda: count_of(lived, Event.CONNECTED) > 1, "the silent worker to come back")
        received = count_of(lived, Event.RECEIVED)
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S)
        others = [run.workers[name].records for name in WORKERS]
        line.check(run.finish(), OF_A_CUT, workers_cut=True, messages=2 * MESSAGES)
        assert count_of(lived, Event.RECEIVED) > received, "it got nothing after it had come back"
        assert [count_of(records, Event.CONNECTION_LOST) for records in others] == [0, 0, 0]


def count_of(records: Path, event: Event) -> int:
    """How many such lines a worker has written so far."""
    return sum(record.event == event for record in RecordReader.all(records))


def test_a_worker_with_a_narrow_network_delays_its_own_keys_only(line: Line) -> None:
    """The others are through with everything else while it is far behind; with a better network it catches up."""
    messages = NARROW_KEYS * NARROW_PER_KEY
    with (
        FaultProxy(line.gateway.port) as network,
        LoadRun(line.directory, line.gateway.service_url, line.topic, producer_url=line.broker.service_url) as run,
    ):
        run.start_workers("w1", "w2", receiver_queue_size=RECEIVER_QUEUE_SIZE)
        run.start_workers("narrow", service_url=network.service_url, receiver_queue_size=NARROW_QUEUE_SIZE)
        network.impair(Conditions(bytes_per_s=NARROW_BYTES_PER_S), Direction.TO_CLIENT)
        run.produce(count=messages, keys=NARROW_KEYS, rate_per_s=RATE_PER_S, payload_bytes=NARROW_PAYLOAD_BYTES)
        run.wait_until(lambda: others_are_through(run), "all keys that the narrow worker does not own")
        behind = sum(acknowledged_by_key(run, "narrow").values())
        assert behind < len(keys_received(run, "narrow")) * NARROW_PER_KEY, "its network was not narrow at all"
        network.heal()
        line.check(run.finish(), set(), messages=messages)


def keys_received(run: LoadRun, name: str) -> set[int]:
    """Keys of which a worker got a message so far."""
    records = RecordReader.all(run.workers[name].records)
    return {record.key for record in records if record.event == Event.RECEIVED}


def acknowledged_by_key(run: LoadRun, name: str) -> Counter[int]:
    """How many messages of each key a worker has acknowledged so far."""
    records = RecordReader.all(run.workers[name].records)
    return Counter(record.key for record in records if record.event == Event.ACKED)


def others_are_through(run: LoadRun) -> bool:
    """Whether every key belongs either to the narrow worker, or to others who have acknowledged all of it."""
    through = acknowledged_by_key(run, "w1") + acknowledged_by_key(run, "w2")
    narrow = keys_received(run, "narrow")
    return all(key in narrow or through[key] == NARROW_PER_KEY for key in range(NARROW_KEYS))
