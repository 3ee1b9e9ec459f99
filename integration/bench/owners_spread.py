"""Measures what one, two and three replicas carry together, with partitions and workers on each.

Always the same six workers in three processes drain eight partitions; they connect to as many replicas as take part.
The others are drained by an operator's order, so that they own nothing. Where all processes share two cores, more
replicas cannot carry more: the rate tells what the legs take from it, and the CPU time is what counts.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import psutil

from integration.bench.backlog import fill, subscribe_all
from integration.bench.drain import perf_workers
from integration.bench.machine import note
from integration.bench.owners_stage import REPLICAS, SECTION, OwnersDrain, Replicas
from integration.bench.report import Row, Spread
from integration.bench.stage import admin_path

if TYPE_CHECKING:
    from integration.processes import OwnedProcess

TOPIC: Final = "persistent://public/default/owners-spread"
PARTITIONS: Final = 8
PROCESSES: Final = 3
WORKERS_EACH: Final = 2
COUNTS: Final = range(1, REPLICAS + 1)


def measure(replicas: Replicas) -> list[Row]:
    """With each count of replicas in turn, so often."""
    stage = replicas.stage
    sizes = stage.sizes
    stage.admin("PUT", f"{admin_path(TOPIC)}/partitions", str(PARTITIONS))
    fill(stage, TOPIC, sizes.owner_messages, key_batched=False)
    drains: dict[int, list[OwnersDrain]] = {count: [] for count in COUNTS}
    for number in range(sizes.warm_ups + sizes.repetitions):
        for count in COUNTS:
            replicas.own(count)
            done = _drained(replicas, count, f"spread-{count}-{number}")
            note(f"  {count} replicas {number}: {done.rate:,.0f}/s, {done.cpu_us():.1f} us of all replicas")
            if number >= sizes.warm_ups:
                drains[count].append(done)
    replicas.own(REPLICAS)
    return [row for count in COUNTS for row in _rows(count, drains[count], drains[1])]


def _drained(replicas: Replicas, count: int, subscription: str) -> OwnersDrain:
    stage = replicas.stage
    subscribe_all(stage, TOPIC, [subscription])
    start = perf_workers(TOPIC, WORKERS_EACH)

    def start_all() -> list[OwnedProcess]:
        return [
            start(
                replicas.gateways[number % count].service_url,
                subscription,
                stage.directory / f"{subscription}-{number}.log",
            )
            for number in range(PROCESSES)
        ]

    return replicas.drain("partitioned-stats", TOPIC, subscription, stage.sizes.owner_messages, start_all)


def _rows(count: int, drains: list[OwnersDrain], alone: list[OwnersDrain]) -> list[Row]:
    name = f"{count} replica{'s' if count > 1 else ''}, {PARTITIONS} partitions"
    rates = [each.rate for each in drains]
    share = Spread.of(rate / base.rate for rate, base in zip(rates, alone, strict=True))
    return [
        Row(
            SECTION,
            f"{name}: rate, everything on {psutil.cpu_count()} cores",
            "1/s",
            gateway=Spread.of(rates),
            compared="" if count == 1 else f"of 1 replica: {share}",
            repetitions=[asdict(each) for each in drains],
        ),
        Row(
            SECTION,
            f"{name}: all replicas' CPU per message",
            "us",
            gateway=Spread.of(each.cpu_us() for each in drains),
        ),
    ]
