"""Measures end-to-end latency at a steady rate: from the producer's call to the worker's listener.

The producer sends directly to the broker on all sides, so that the difference is the way to the workers alone. Each
message carries the moment of its sending by the monotonic clock, which all processes of a machine share. On either side
run four Key_Shared workers with the official Python client (`latency_workers`), unmodified but for the URL. The sides
take turns second by second, since a shared machine is slow for seconds at a time; what the gateway adds is told from
neighbouring seconds.
"""

from __future__ import annotations

import statistics
import struct
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.batch_producer import BatchProducer
from integration.bench.frames_made import KEY_COUNT, PAYLOAD_BYTES
from integration.bench.latency_worker import SENT_AT
from integration.bench.latency_workers import LatencyWorkers
from integration.bench.machine import note
from integration.bench.report import Row, Spread, differences
from integration.bench.stage import ALL_SIDES, Side, Stage, with_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

RATE: Final = 1_000
"""Messages a second, one side at a time, unless a load says otherwise."""
WARM_UP_BLOCKS: Final = 3
"""Seconds of each side that are sent first and do not count."""
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
    batch_ms: int = 0
    """After how long a producer sends a batch; 0 for none, message by message."""
    added_ms_max: Mapping[str, float] = field(default_factory=dict)
    """By the name of a quantile."""
    kind: str = ""
    """What sets its rows apart from those of the same section."""

    def topic(self, side: Side) -> str:
        """One for each side."""
        return f"persistent://public/default/{self.name}-{side}"


@dataclass(frozen=True, slots=True)
class Block:
    """What one second of one side showed, in milliseconds."""

    p50_ms: float
    p99_ms: float


def measure(stage: Stage) -> list[Row]:
    """Messages one by one, as producers without batching send them.

    Raises:
        IntegrationError: as `measure_load`.
    """
    return measure_load(stage, Load("latency", "latency", added_ms_max={"p50": 0.2, "p99": 1.0}))


def measure_load(stage: Stage, load: Load) -> list[Row]:
    """All sides, second by second.

    Raises:
        IntegrationError: workers did not start, or did not get everything, or the broker did not store it.
    """
    blocks = WARM_UP_BLOCKS + max(1, int(stage.sizes.latency_s))
    with ExitStack() as ends:
        stage = ends.enter_context(with_proxy(stage))
        sides = {side: ends.enter_context(LatencyWorkers(stage, side, load.topic(side))) for side in ALL_SIDES}
        stage.wait_until_quiet()
        meter = stage.meter(**{name: pid for each in sides.values() for name, pid in each.processes.items()})
        produce = _batches_in_turns if load.batch_ms else _produce_in_turns
        produce(stage.broker.service_url, load, blocks)
        done = {side: blocks_of(each.ages_ms(blocks * load.rate), load.rate) for side, each in sides.items()}
        usage = meter.read()
    for side, blocks_done in done.items():
        note(f"  {load.name} {side}: p50 {statistics.median(block.p50_ms for block in blocks_done):.2f} ms")
    note(f"  others {usage.others_share:.0%}, reference {usage.reference_ns:.0f} ns")
    return _rows(load, done)


def _produce_in_turns(service_url: str, load: Load, blocks: int) -> None:
    """Send a second to each side in turn. A message that is late is sent at once."""
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producers = [client.create_producer(load.topic(side), **UNBATCHED) for side in ALL_SIDES]
        _send_in_turns([partial(produce_block, each, rate=load.rate, keys=load.keys) for each in producers], blocks)
        for producer in producers:
            producer.flush()
    finally:
        client.close()


def _batches_in_turns(service_url: str, load: Load, blocks: int) -> None:
    """As `_produce_in_turns`, of batches."""
    keys = list(islice(cycle(load.keys), load.rate))
    with ExitStack() as ends:
        topics = [load.topic(side) for side in ALL_SIDES]
        producers = [ends.enter_context(BatchProducer(service_url, topic, load.batch_ms)) for topic in topics]
        _send_in_turns([partial(each.produce_block, keys=keys) for each in producers], blocks)
        for producer in producers:
            producer.flush()


def _send_in_turns(senders: Sequence[Callable[[float], None]], blocks: int) -> None:
    """Call each with the moment at which its second is due, so many rounds."""
    due = time.monotonic()
    for _ in range(blocks):
        for send in senders:
            send(due)
            due = max(due + 1, time.monotonic())


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


def blocks_of(ages_ms: Sequence[float], rate: int = RATE) -> list[Block]:
    """Cut the ages of messages, in the order of sending, into the seconds they were sent in, without the warm-up."""
    blocks = []
    for start in range(WARM_UP_BLOCKS * rate, len(ages_ms), rate):
        cuts = statistics.quantiles(ages_ms[start : start + rate], n=100)
        blocks.append(Block(cuts[49], cuts[98]))
    return blocks


def _rows(load: Load, done: dict[Side, list[Block]]) -> list[Row]:
    rows = []
    for name in ("p50", "p99"):
        direct, proxy, gateway = ([getattr(block, f"{name}_ms") for block in done[side]] for side in ALL_SIDES)
        row = Row(
            load.section,
            f"{name} of a second at {load.rate:,}/s{load.kind}, send to listener",
            "ms",
            direct=Spread.of(direct),
            proxy=Spread.of(proxy),
            gateway=Spread.of(gateway),
            repetitions=[{"direct_ms": direct, "proxy_ms": proxy, "gateway_ms": gateway}],
        )
        rows.append(row.with_added(differences(direct, gateway), load.added_ms_max.get(name)))
    return rows
