"""Measures end-to-end latency at a steady rate: from the producer's call to the worker's listener.

The producer sends directly to the broker on all sides, so that the difference is the way to the workers alone. Each
message carries the moment of its sending by the monotonic clock, which all processes of a machine share. On either
side four Key_Shared workers run in one process with the official Python client (`latency_worker`), unmodified but for
the URL. The sides take turns second by second, since a shared machine is slow for seconds at a time; what the gateway
adds is told from neighbouring seconds.
"""

from __future__ import annotations

import json
import statistics
import struct
import sys
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import TYPE_CHECKING, Any, Final

import pulsar

from integration.bench.frames_made import KEY_COUNT, PAYLOAD_BYTES
from integration.bench.latency_worker import SENT_AT
from integration.bench.machine import note
from integration.bench.report import Row, Spread, differences
from integration.bench.stage import ALL_SIDES, Side, Stage, with_proxy
from integration.errors import IntegrationError
from integration.logs import tail
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

RATE: Final = 1_000
"""Messages a second, one side at a time, unless a load says otherwise."""
WARM_UP_BLOCKS: Final = 3
"""Seconds of each side that are sent first and do not count."""
START_S_MAX: Final = 60.0
END_S_MAX: Final = 60.0
POLL_S: Final = 0.05
UNBATCHED: Final = {"batching_enabled": False, "block_if_queue_full": True}
KEYS: Final = tuple(f"key-{number}" for number in range(KEY_COUNT))


@dataclass(frozen=True, slots=True)
class Load:
    """What is sent to each side in its seconds, and what the gateway may add."""

    section: str
    name: str
    """Of its topics and files."""
    rate: int = RATE
    keys: Sequence[str] = KEYS
    """Of the messages of a second, in turn."""
    producer: Mapping[str, Any] = field(default_factory=lambda: UNBATCHED)
    """The producer's settings."""
    added_ms_max: Mapping[str, float] = field(default_factory=dict)
    """By the name of a quantile."""

    def topic(self, side: Side) -> str:
        """One for each side."""
        return f"persistent://public/default/{self.name}-{side}"


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
    """Messages one by one, as producers without batching send them.

    Raises:
        IntegrationError: as `measure_load`.
    """
    return measure_load(stage, Load("latency", "latency", added_ms_max={"p50": 0.2, "p99": 1.0}))


def measure_load(stage: Stage, load: Load) -> list[Row]:
    """All sides, second by second.

    Raises:
        IntegrationError: workers did not start, or did not get everything.
    """
    blocks = WARM_UP_BLOCKS + max(1, int(stage.sizes.latency_s))
    with ExitStack() as ends:
        stage = ends.enter_context(with_proxy(stage))
        workers = {side: start_workers(stage, side, load.topic(side), blocks * load.rate) for side in ALL_SIDES}
        for each in workers.values():
            ends.callback(each.process.kill)
            each.wait(each.result.with_suffix(".ready"), START_S_MAX)
        stage.wait_until_quiet()
        meter = stage.meter(**{f"{side}_workers": each.process.pid for side, each in workers.items()})
        _produce_in_turns(stage.broker.service_url, load, blocks)
        for each in workers.values():
            each.wait(each.result, END_S_MAX)
        usage = meter.read()
    done = {side: blocks_of(workers[side].result, load.rate) for side in ALL_SIDES}
    for side, blocks_done in done.items():
        note(f"  {load.name} {side}: p50 {statistics.median(block.p50_ms for block in blocks_done):.2f} ms")
    note(f"  others {usage.others_share:.0%}, reference {usage.reference_ns:.0f} ns")
    return _rows(load, done)


def start_workers(stage: Stage, side: Side, topic: str, count: int) -> Workers:
    """Four workers in a process of their own, until they have `count` messages."""
    log, result = (stage.directory / f"{topic.rsplit('/', 1)[1]}-workers.{suffix}" for suffix in ("log", "json"))
    arguments = ["-m", "integration.bench.latency_worker", stage.url(side), topic, str(count), str(result)]
    return Workers(OwnedProcess([sys.executable, *arguments], log), log, result)


def _produce_in_turns(service_url: str, load: Load, blocks: int) -> None:
    """Send a second to each side in turn. A message that is late is sent at once."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producers = [client.create_producer(load.topic(side), **load.producer) for side in ALL_SIDES]
        due = time.monotonic()
        for producer in producers * blocks:
            produce_block(producer, due, load.rate, load.keys)
            due = max(due + 1, time.monotonic())
        for producer in producers:
            producer.flush()
    finally:
        client.close()


def produce_block(producer: pulsar.Producer, due: float, rate: int = RATE, keys: Sequence[str] = KEYS) -> None:
    """Send a second's messages, evenly, the first at `due`; one that is late is sent at once."""
    filling = bytes(PAYLOAD_BYTES - struct.calcsize(SENT_AT))
    for number, key in enumerate(islice(cycle(keys), rate)):
        early_s = due + number / rate - time.monotonic()
        if early_s > 0:
            time.sleep(early_s)
        payload = struct.pack(SENT_AT, time.monotonic_ns()) + filling
        producer.send_async(payload, _ignore, partition_key=key)


def _ignore(_result: pulsar.Result, _message_id: object) -> None:
    """A message that was not stored is missed by the workers."""


def blocks_of(result: Path, rate: int = RATE) -> list[Block]:
    """Cut what the workers wrote into the seconds it was sent in."""
    ages = [age / 1e6 for _, age in sorted(json.loads(result.read_text()))]
    blocks = []
    for start in range(WARM_UP_BLOCKS * rate, len(ages), rate):
        cuts = statistics.quantiles(ages[start : start + rate], n=100)
        blocks.append(Block(cuts[49], cuts[98]))
    return blocks


def _rows(load: Load, done: dict[Side, list[Block]]) -> list[Row]:
    rows = []
    for name in ("p50", "p99"):
        direct, proxy, gateway = ([getattr(block, f"{name}_ms") for block in done[side]] for side in ALL_SIDES)
        row = Row(
            load.section,
            f"{name} of a second at {load.rate:,}/s, send to listener",
            "ms",
            direct=Spread.of(direct),
            proxy=Spread.of(proxy),
            gateway=Spread.of(gateway),
            repetitions=[{"direct_ms": direct, "proxy_ms": proxy, "gateway_ms": gateway}],
        )
        rows.append(row.with_added(differences(direct, gateway), load.added_ms_max.get(name)))
    return rows
