"""Measures whether statistics delay messages: one subscription's latency while another's statistics are read.

The other has so many draining hashes that telling them takes a while: a worker holds a message of every key, then
others join. The calls come several times a second, as from several open consoles.
"""

from __future__ import annotations

import statistics
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

import httpx
import pulsar

from integration.bench.beside import Calls, measure_beside
from integration.bench.machine import note
from integration.bench.raw_worker import RawWorker
from integration.bench.report import Row
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
"""Three of four keys move when three workers join, and some keys share a slot."""


def measure(stage: Stage) -> list[Row]:
    """Seconds with and without calls, in turns.

    Raises:
        IntegrationError: too few slots drain, or messages were lost.
    """
    with _draining(stage) as draining:
        rows, took = measure_beside(
            stage, Calls("statistics", TOPIC, _url(stage), CALLS_PER_S, added_target_ms=ADDED_TARGET_MS)
        )
    note(f"  statistics: {draining:,} draining hashes, a call takes {statistics.median(took) * 1e3:.0f} ms")
    return rows


@contextmanager
def _draining(stage: Stage) -> Iterator[int]:
    """A subscription of which at least as many slots drain as wanted; how many."""
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
            raise IntegrationError(f"only {draining:,} slots drain, {stage.sizes.draining_hashes:,} were wanted")
        yield draining


def _url(stage: Stage) -> str:
    path = BUSY_TOPIC.removeprefix("persistent://")
    return f"{stage.gateway.admin_url}/api/v1/subscriptions/{path}/{SUBSCRIPTION}"
