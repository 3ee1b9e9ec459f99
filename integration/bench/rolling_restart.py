"""Measures how long a key has no worker while three replicas are restarted one after another.

Six workers with the official client share a subscription over three replicas, in owner mode and by streams, messages
come at a steady rate, and each replica is stopped as an operator stops it and started again. A key's pause shows as the
longest time that one of its messages was on its way, so it is measured as finely as messages of a key follow each
other. The same load without a restart stands beside it.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from integration.bench.machine import note
from integration.bench.report import Row, Spread, quantile
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway, service_url_of
from integration.load.run import LoadRun
from integration.replicas import Replicas

if TYPE_CHECKING:
    from integration.bench.stage import Stage

REPLICAS: Final = 3
WORKERS: Final = 2 * REPLICAS
RATE_PER_S: Final = 600.0
KEYS: Final = 120
"""A message of each every 200 ms."""
QUEUE: Final = 20
SETTLE_S: Final = 5.0
TARGET_MS: Final = 1_000.0


def measure(stage: Stage) -> list[Row]:
    """In both modes without a restart and with one of each replica, so often in turn."""
    rows: list[Row] = []
    for mode, start in (("owner", _with_owners), ("streams", _with_streams)):
        undisturbed, restarted = [], []
        with ExitStack() as ends:
            gateways = start(stage, ends)
            for number in range(stage.sizes.repetitions):
                stage.wait_until_quiet()
                undisturbed.append(measure_once(stage, gateways, f"{mode}-undisturbed-{number}", restart=False))
                restarted.append(measure_once(stage, gateways, f"{mode}-restarted-{number}", restart=True))
        rows += _rows(mode, undisturbed, restarted)
    return rows


def measure_once(stage: Stage, gateways: list[KeylineGateway], name: str, *, restart: bool) -> list[float]:
    """Run the load; the longest wait of each key, in milliseconds.

    Raises:
        IntegrationError: a guarantee was broken, or a message came twice.
    """
    topic = f"persistent://public/default/rolling-{name}"
    producer_url = stage.broker.service_url
    with LoadRun(stage.directory / name, service_url_of(gateways), topic, producer_url=producer_url) as run:
        for number in range(WORKERS):
            url = service_url_of(gateways, number % REPLICAS)
            run.start_worker(f"w{number}", service_url=url, receiver_queue_size=QUEUE)
        for worker in run.workers.values():
            worker.wait_joined()
        time.sleep(SETTLE_S)
        producer = run.produce(keys=KEYS, rate_per_s=RATE_PER_S)
        time.sleep(stage.sizes.between_restarts_s)  # a broker is slow at first
        since_ns = time.monotonic_ns()
        for gateway in gateways:
            if restart:
                gateway.restart()
            time.sleep(stage.sizes.between_restarts_s)
        producer.stop()
        result = run.finish()
        waits = [wait / 1e6 for wait in run.longest_waits(since_ns).values()]
    if not result.ok or result.duplicates:
        raise IntegrationError(f"{result.violations} violations, {len(result.duplicates)} duplicates")
    p50, p99 = quantile(waits, 0.5), quantile(waits, 0.99)
    note(f"  {name}: {result.delivered:,} messages, p50 {p50:.0f} ms, p99 {p99:.0f} ms")
    return waits


def _with_owners(stage: Stage, ends: ExitStack) -> list[KeylineGateway]:
    directory = stage.directory / "rolling-owners"
    directory.mkdir()
    replicas = Replicas(ends, stage.broker, directory)
    replicas.start(REPLICAS)
    return replicas.gateways


def _with_streams(stage: Stage, ends: ExitStack) -> list[KeylineGateway]:
    gateways = []
    for number in range(REPLICAS):
        settings = {"groups_enabled": "true", "groups_mode": "streams", "replica_name": f"replica-{number}"}
        directory = stage.directory / f"replica-{number}"
        gateway = KeylineGateway(stage.broker.service_url, stage.broker.admin_url, directory, settings=settings)
        ends.callback(gateway.close)
        gateways.append(gateway.start())
    return gateways


def _rows(mode: str, undisturbed: list[list[float]], restarted: list[list[float]]) -> list[Row]:
    rows = []
    for name, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        without = Spread.of(quantile(waits, share) for waits in undisturbed)
        values = Spread.of(quantile(waits, share) for waits in restarted)
        what = f"{mode}: {name} of keys, longest wait"
        rows.append(Row("rolling-restart", f"{what}, no restart", "ms", gateway=without))
        row = Row("rolling-restart", f"{what}, 3 of 3 replicas restarted", "ms", gateway=values)
        rows.append(row.with_limit(TARGET_MS) if name == "p99" else row)
    return rows
