"""Measures what one process of a host and two carry behind one address, with partitions and several clients.

Always the same workers drain the same eight partitions, by turns through a gateway of one process and through one of
two. Broker, workers and gateway share the cores: where these are few and busy, the rate says little, and the CPU time
of all processes of a gateway for a message is what counts.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import asdict, replace
from typing import Final

import psutil

from integration.bench.backlog import fill, subscribe_all
from integration.bench.drain import perf_workers
from integration.bench.machine import note
from integration.bench.owners_stage import OwnersDrain, drain_beside
from integration.bench.report import Row, Spread
from integration.bench.stage import Stage, admin_path
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway
from integration.processes import OwnedProcess
from proxy.cli.admin_client import AdminClient

SECTION: Final = "processes"
TOPIC: Final = "persistent://public/default/processes"
PARTITIONS: Final = 8
COUNTS: Final = (1, 2)
CLIENTS: Final = 4
"""Client processes, each with connections of its own, so that the kernel has something to divide."""
CPU_TARGET: Final = 1.15
SETTLE_S_MAX: Final = 60.0
PROBE_S: Final = 0.1


def measure(stage: Stage) -> list[Row]:
    """With one process and two by turns, so often."""
    sizes = stage.sizes
    stage.admin("PUT", f"{admin_path(TOPIC)}/partitions", str(PARTITIONS))
    fill(stage, TOPIC, sizes.owner_messages, key_batched=False)
    drains: dict[int, list[OwnersDrain]] = {count: [] for count in COUNTS}
    with ExitStack() as ends:
        hosts = {count: ends.enter_context(_host(stage, count)) for count in COUNTS}
        _wait_settled(hosts[COUNTS[-1]])
        for number in range(sizes.warm_ups + sizes.repetitions):
            for count, gateway in hosts.items():
                done = _drained(stage, gateway, f"processes-{count}-{number}")
                each = ", ".join(f"{seconds:.2f}" for seconds in done.cpu_s)
                note(
                    f"  {count} of host {number}: {done.rate:,.0f}/s, {done.cpu_us():.1f} us of all ({each} s of each)"
                )
                if number >= sizes.warm_ups:
                    drains[count].append(done)
    return [row for count in COUNTS for row in _rows(count, drains[count], drains[1])]


def _host(stage: Stage, count: int) -> KeylineGateway:
    settings = {"processes": str(count), "replica_name": f"host-of-{count}"}
    directory = stage.directory / f"host-of-{count}"
    return KeylineGateway(stage.broker.service_url, stage.broker.admin_url, directory, settings=settings)


def _wait_settled(gateway: KeylineGateway) -> None:
    """Until each process owns a part.

    Raises:
        IntegrationError: that takes longer than a minute.
    """
    deadline = time.monotonic() + SETTLE_S_MAX
    asked = AdminClient(gateway.admin_url)
    while [row["bundles"] > 0 for row in asked.ask("GET", "/deployment")["replicas"]] != COUNTS[-1] * [True]:
        if time.monotonic() > deadline:
            raise IntegrationError(f"the processes do not own everything after {SETTLE_S_MAX:.0f} s")
        time.sleep(PROBE_S)


def _drained(stage: Stage, gateway: KeylineGateway, subscription: str) -> OwnersDrain:
    """The supervisor's process is the first."""
    subscribe_all(stage, TOPIC, [subscription])
    supervisor = psutil.Process(gateway.pid)
    start = perf_workers(TOPIC, 1)

    def start_all() -> list[OwnedProcess]:
        return [
            start(gateway.service_url, subscription, stage.directory / f"{subscription}-{number}.log")
            for number in range(CLIENTS)
        ]

    statistics = f"{admin_path(TOPIC)}/partitioned-stats"
    processes = [supervisor, *supervisor.children()]
    return drain_beside(stage, statistics, subscription, stage.sizes.owner_messages, processes, start_all)


def _rows(count: int, drains: list[OwnersDrain], alone: list[OwnersDrain]) -> list[Row]:
    name = f"{count} process{'es' if count > 1 else ''}, {PARTITIONS} partitions"
    rates = Spread.of(each.rate / base.rate for each, base in zip(drains, alone, strict=True))
    costs = Spread.of(each.cpu_us() / base.cpu_us() for each, base in zip(drains, alone, strict=True))
    rate = Row(
        SECTION,
        f"{name}: rate, everything on {psutil.cpu_count()} cores",
        "1/s",
        gateway=Spread.of(each.rate for each in drains),
        compared="" if count == 1 else f"of 1 process: {rates}",
        repetitions=[asdict(each) for each in drains],
    )
    cost = Row(
        SECTION, f"{name}: CPU of all processes per message", "us", gateway=Spread.of(each.cpu_us() for each in drains)
    )
    if count == 1:
        return [rate, cost]
    met = costs.median <= CPU_TARGET
    return [rate, replace(cost, compared=f"of 1 process: {costs}", target=f"<= {CPU_TARGET} of it", met=met)]
