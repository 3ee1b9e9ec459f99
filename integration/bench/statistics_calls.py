"""Whether asking for statistics delays messages: the latency of one subscription while those of another are read.

The other has so many draining hashes that telling them takes a while: a worker holds a message of every key, then
others join. The calls come `CALLS_PER_S` times a second, as from several open consoles, in every second second; what
they add is told from neighbouring seconds.
"""

from __future__ import annotations

import statistics
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import httpx
import pulsar

from integration.bench.latency import (
    END_S_MAX,
    RATE,
    START_S_MAX,
    WARM_UP_BLOCKS,
    blocks_of,
    produce_block,
    start_workers,
)
from integration.bench.machine import note
from integration.bench.raw_worker import RawWorker
from integration.bench.report import Row, Spread, differences
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.bench.stage import Stage

CALLS_PER_S: Final = 5
ADDED_TARGET_MS: Final = 2.0
TOPIC: Final = "persistent://public/default/statistics-latency"
BUSY_TOPIC: Final = "persistent://public/default/statistics-draining"
SUBSCRIPTION: Final = "draining"
SETTLE_S: Final = 2.0
KEYS_PER_DRAINING_HASH: Final = 1.6
"""Three of four keys move when three workers join, and some keys share a hash."""


def measure(stage: Stage) -> list[Row]:
    """Seconds with and without calls, in turns.

    Raises:
        IntegrationError: too few hashes drain, or messages were lost.
    """
    blocks = WARM_UP_BLOCKS + 2 * max(1, int(stage.sizes.latency_s))
    with ExitStack() as ends:
        draining = ends.enter_context(_draining(stage))
        workers = start_workers(stage, "gateway", TOPIC, blocks * RATE)
        ends.callback(workers.process.kill)
        workers.wait(workers.result.with_suffix(".ready"), START_S_MAX)
        stage.wait_until_quiet()
        calls = _produce(stage, blocks)
        workers.wait(workers.result, END_S_MAX)
    done = blocks_of(workers.result)
    quiet, called = done[0::2], done[1::2]
    note(f"  statistics: {draining:,} draining hashes, a call takes {statistics.median(calls) * 1e3:.0f} ms")
    rows = []
    for name in ("p50", "p99"):
        without, beside = ([getattr(block, f"{name}_ms") for block in part] for part in (quiet, called))
        row = Row(
            "statistics",
            f"{name} of a second, send to listener, {CALLS_PER_S} calls a second",
            "ms",
            gateway=Spread.of(beside),
            repetitions=[{"quiet_ms": without, "called_ms": beside, "calls_s": calls}],
        )
        rows.append(row.with_added(differences(without, beside), ADDED_TARGET_MS if name == "p99" else None))
    return rows


@contextmanager
def _draining(stage: Stage) -> Iterator[int]:
    """A subscription of which at least as many hashes drain as wanted; how many."""
    keys = int(stage.sizes.draining_hashes * KEYS_PER_DRAINING_HASH)
    client = pulsar.Client(stage.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    with ExitStack() as ends:
        ends.callback(client.close)
        producer = client.create_producer(BUSY_TOPIC, batching_enabled=False, block_if_queue_full=True)
        holder = RawWorker(stage.gateway.service_url, BUSY_TOPIC, SUBSCRIPTION, "holder", 2 * keys)
        ends.enter_context(holder)
        for number in range(keys):
            producer.send_async(b"x", lambda _result, _message_id: None, partition_key=f"key-{number}")
        producer.flush()
        while holder.take(SETTLE_S):
            pass
        for number in range(3):
            name = f"joined-{number}"
            ends.enter_context(RawWorker(stage.gateway.service_url, BUSY_TOPIC, SUBSCRIPTION, name, 1))
        with httpx.Client(trust_env=False) as http:
            shown = http.get(_url(stage)).raise_for_status().json()
        draining = int(shown["dispatcher"]["draining_hashes_count"])
        if draining < stage.sizes.draining_hashes:
            raise IntegrationError(f"only {draining:,} hashes drain, {stage.sizes.draining_hashes:,} were wanted")
        yield draining


def _url(stage: Stage) -> str:
    path = BUSY_TOPIC.removeprefix("persistent://")
    return f"{stage.gateway.admin_url}/api/v1/subscriptions/{path}/{SUBSCRIPTION}"


def _produce(stage: Stage, blocks: int) -> list[float]:
    """Send second by second, with calls beside every second one after the warm-up; how long the calls took."""
    took: list[float] = []
    calling = threading.Event()
    over = threading.Event()
    caller = threading.Thread(target=_call, args=(_url(stage), calling, over, took))
    caller.start()
    client = pulsar.Client(stage.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(TOPIC, batching_enabled=False, block_if_queue_full=True)
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


def _call(url: str, calling: threading.Event, over: threading.Event, took: list[float]) -> None:
    with httpx.Client(trust_env=False) as http:
        while calling.wait() and not over.is_set():
            began = time.monotonic()
            http.get(url).raise_for_status()
            took.append(time.monotonic() - began)
            time.sleep(max(0.0, 1 / CALLS_PER_S - took[-1]))
