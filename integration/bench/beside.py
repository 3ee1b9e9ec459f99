"""Measures how repeated questions to the gateway delay messages that pass meanwhile.

Their latency is measured second by second, with calls beside every second one: what the calls add is told from
neighbouring seconds.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import httpx
import pulsar

from integration.bench.latency import RATE, WARM_UP_BLOCKS, blocks_of, produce_block
from integration.bench.latency_workers import LatencyWorkers
from integration.bench.report import Row, Spread, differences

if TYPE_CHECKING:
    from integration.bench.stage import Stage


@dataclass(frozen=True, slots=True)
class Calls:
    """What is asked, and how often."""

    section: str
    topic: str
    """For the messages beside."""
    url: str
    per_s: int
    added_target_ms: float | None = None
    """Most that may be added at p99."""


def measure_beside(stage: Stage, calls: Calls) -> tuple[list[Row], list[float]]:
    """Seconds with and without calls, in turns: rows of the messages' latency, and how long the calls took."""
    blocks = WARM_UP_BLOCKS + 2 * max(1, int(stage.sizes.latency_s))
    with LatencyWorkers(stage, "gateway", calls.topic) as workers:
        stage.wait_until_quiet()
        took = _produce(stage, calls, blocks)
        done = blocks_of(workers.ages_ms(blocks * RATE))
    quiet, called = done[0::2], done[1::2]
    rows = []
    for name in ("p50", "p99"):
        without, beside = ([getattr(block, f"{name}_ms") for block in part] for part in (quiet, called))
        row = Row(
            calls.section,
            f"{name} of a second, send to listener, {calls.per_s} call{'s' * (calls.per_s > 1)} a second",
            "ms",
            gateway=Spread.of(beside),
            repetitions=[{"quiet_ms": without, "called_ms": beside, "calls_s": took}],
        )
        rows.append(row.with_added(differences(without, beside), calls.added_target_ms if name == "p99" else None))
    return rows, took


def _produce(stage: Stage, calls: Calls, blocks: int) -> list[float]:
    """Send second by second, with calls beside every second one after the warm-up; how long the calls took."""
    took: list[float] = []
    calling = threading.Event()
    over = threading.Event()
    caller = threading.Thread(target=_call, args=(calls, calling, over, took))
    caller.start()
    client = pulsar.Client(stage.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(calls.topic, batching_enabled=False, block_if_queue_full=True)
        due = time.monotonic()
        for number in range(blocks):
            if number >= WARM_UP_BLOCKS and (number - WARM_UP_BLOCKS) % 2:
                calling.set()
            else:
                calling.clear()
            produce_block(producer, due)
            due = max(due + 1, time.monotonic())
        producer.flush()
    finally:
        over.set()
        calling.set()
        caller.join()
        client.close()
    return took


def _call(calls: Calls, calling: threading.Event, over: threading.Event, took: list[float]) -> None:
    with httpx.Client(trust_env=False) as http:
        while calling.wait() and not over.is_set():
            began = time.monotonic()
            http.get(calls.url).raise_for_status()
            took.append(time.monotonic() - began)
            time.sleep(max(0.0, 1 / calls.per_s - took[-1]))
