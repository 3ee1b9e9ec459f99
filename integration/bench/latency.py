"""End-to-end latency at 1,000 messages a second: from the producer's call to the worker's listener.

The producer sends directly to the broker on both sides, so that the difference is the way to the workers alone. Each
message carries the moment of its sending by the monotonic clock, which all processes of a machine share. On either
side four Key_Shared workers run in one process with the official Python client (`latency_worker`), unmodified but for
the URL. The sides take turns second by second, since a shared machine is slow for seconds at a time; what the gateway
adds is told from neighbouring seconds.
"""

from __future__ import annotations

import itertools
import json
import statistics
import struct
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.frames_made import KEY_COUNT, PAYLOAD_BYTES
from integration.bench.latency_worker import SENT_AT
from integration.bench.machine import note
from integration.bench.report import Row, Spread, differences
from integration.bench.stage import SIDES, Side, Stage
from integration.errors import IntegrationError
from integration.logs import tail
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RATE: Final = 1_000
"""Messages a second, one side at a time."""
WARM_UP_BLOCKS: Final = 3
"""Seconds of each side that are sent first and do not count."""
START_S_MAX: Final = 60.0
END_S_MAX: Final = 60.0
POLL_S: Final = 0.05
ADDED_TARGET_MS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Block:
    """What one second of one side showed, in milliseconds."""

    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True)
class Workers:
    """The process of one side's workers and the files they write."""

    process: OwnedProcess
    log: Path
    result: Path

    def wait(self, file: Path, timeout_s: float) -> None:
        """Return when the file is there.

        Raises:
            IntegrationError: the process ended without it, or it took too long.
        """
        deadline = time.monotonic() + timeout_s
        while not file.exists():
            if not self.process.running or time.monotonic() > deadline:
                raise IntegrationError(f"the latency workers did not write {file.name}:\n{tail(self.log)}")
            time.sleep(POLL_S)


def measure(stage: Stage) -> list[Row]:
    """Both sides, second by second.

    Raises:
        IntegrationError: workers did not start, or did not get everything.
    """
    blocks = WARM_UP_BLOCKS + max(1, int(stage.sizes.latency_s))
    topics = {side: f"persistent://public/default/latency-{side}" for side in SIDES}
    with ExitStack() as ends:
        workers = {side: start_workers(stage, side, topics[side], blocks * RATE) for side in SIDES}
        for each in workers.values():
            ends.callback(each.process.kill)
            each.wait(each.result.with_suffix(".ready"), START_S_MAX)
        stage.wait_until_quiet()
        meter = stage.meter(**{f"{side}_workers": each.process.pid for side, each in workers.items()})
        _produce_in_turns(stage.broker.service_url, topics, blocks)
        for each in workers.values():
            each.wait(each.result, END_S_MAX)
        usage = meter.read()
    done = {side: blocks_of(workers[side].result) for side in SIDES}
    for side, blocks_done in done.items():
        note(f"  latency {side}: p50 {statistics.median(block.p50_ms for block in blocks_done):.2f} ms")
    note(f"  others {usage.others_share:.0%}, reference {usage.reference_ns:.0f} ns")
    return _rows(done)


def start_workers(stage: Stage, side: Side, topic: str, count: int) -> Workers:
    """Four workers in a process of their own, until they have `count` messages."""
    log, result = (stage.directory / f"latency-{side}.{suffix}" for suffix in ("log", "json"))
    arguments = ["-m", "integration.bench.latency_worker", stage.url(side), topic, str(count), str(result)]
    return Workers(OwnedProcess([sys.executable, *arguments], log), log, result)


def _produce_in_turns(service_url: str, topics: dict[Side, str], blocks: int) -> None:
    """Send at `RATE`: a second to one side, the next to the other. A message that is late is sent at once."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producers = [
            client.create_producer(topic, batching_enabled=False, block_if_queue_full=True) for topic in topics.values()
        ]
        due = time.monotonic()
        for producer in producers * blocks:
            produce_block(producer, due)
            due = max(due + 1, time.monotonic())
        for producer in producers:
            producer.flush()
    finally:
        client.close()


def produce_block(producer: pulsar.Producer, due: float) -> None:
    """Send a second's messages at `RATE`, the first at `due`; one that is late is sent at once."""
    filling = bytes(PAYLOAD_BYTES - struct.calcsize(SENT_AT))
    for number, key in zip(range(RATE), _keys(), strict=False):
        early_s = due + number / RATE - time.monotonic()
        if early_s > 0:
            time.sleep(early_s)
        payload = struct.pack(SENT_AT, time.monotonic_ns()) + filling
        producer.send_async(payload, _ignore, partition_key=key)


def _keys() -> Iterator[str]:
    return itertools.cycle([f"key-{number}" for number in range(KEY_COUNT)])


def _ignore(_result: pulsar.Result, _message_id: object) -> None:
    """A message that was not stored is missed by the workers."""


def blocks_of(result: Path) -> list[Block]:
    """Cut what the workers wrote into the seconds it was sent in."""
    ages = [age / 1e6 for _, age in sorted(json.loads(result.read_text()))]
    blocks = []
    for start in range(WARM_UP_BLOCKS * RATE, len(ages), RATE):
        cuts = statistics.quantiles(ages[start : start + RATE], n=100)
        blocks.append(Block(cuts[49], cuts[98]))
    return blocks


def _rows(done: dict[Side, list[Block]]) -> list[Row]:
    rows = []
    for name in ("p50", "p99"):
        direct, gateway = ([getattr(block, f"{name}_ms") for block in done[side]] for side in SIDES)
        row = Row(
            f"latency at {RATE:,}/s",
            f"{name} of a second, send to listener",
            "ms",
            direct=Spread.of(direct),
            gateway=Spread.of(gateway),
            repetitions=[{"direct_ms": direct, "gateway_ms": gateway}],
        )
        rows.append(row.with_added(differences(direct, gateway), ADDED_TARGET_MS if name == "p50" else None))
    return rows
