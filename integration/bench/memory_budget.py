"""Measures the gateway's memory while a backlog many times its budget passes, and the workers are the slower side.

Their queues are short, and after the first messages they stand still, so that the gateway reads ahead as far as its
budget lets it: `gateway_memory_bytes` bounds the messages that it holds, and the process has its own memory besides.
What it holds is asked for meanwhile: a budget that is never used up would show nothing.
"""

from __future__ import annotations

import shutil
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from integration.bench.backlog import fill
from integration.bench.drain import drain_once, perf_workers
from integration.bench.machine import note
from integration.bench.report import Row, Spread
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway
from integration.threads import beside
from proxy.cli.admin_client import AdminClient

if TYPE_CHECKING:
    import threading
    from pathlib import Path

    from integration.bench.stage import Stage
    from integration.processes import OwnedProcess

SECTION: Final = "memory-budget"
TOPIC: Final = "persistent://public/default/memory-budget"
PAYLOAD_BYTES: Final = 100_000
BUDGET_BYTES: Final = 256_000_000
RESIDENT_TARGET_MB: Final = 400.0
QUEUE: Final = 10
"""Messages that a worker has in its queue."""
STANDSTILL_S_MAX: Final = 20.0
"""Of the workers, until the budget is used up: shorter than `keep_alive_s`, after which the gateway misses them."""
USED_UP: Final = 0.9
LOOK_S: Final = 0.5
DISK_FACTOR: Final = 2.2
"""The broker writes everything to its journal, too."""


def measure(stage: Stage) -> list[Row]:
    """Drain it once.

    Raises:
        IntegrationError: the disk has no room for it, or nothing was acknowledged for a minute.
    """
    size = stage.sizes.budget_backlog_bytes
    count = max(1, size // PAYLOAD_BYTES)
    _check_room(stage, size)
    fill(stage, TOPIC, count, PAYLOAD_BYTES, key_batched=False)
    budget = {"gateway_memory_bytes": str(BUDGET_BYTES), "subscription_memory_bytes": str(BUDGET_BYTES)}
    broker, directory, held = stage.broker, stage.directory / SECTION, [0]
    with KeylineGateway(broker.service_url, broker.admin_url, directory, settings=budget) as gateway:
        admin = AdminClient(gateway.admin_url)

        started: list[OwnedProcess] = []

        def start(service_url: str, subscription: str, log: Path) -> OwnedProcess:
            started.append(perf_workers(TOPIC, options=("-q", str(QUEUE)))(service_url, subscription, log))
            return started[0]

        def look(over: threading.Event) -> None:
            """Let the workers stand still from the first message until the budget is used up."""
            stopped_at = 0.0
            while not over.wait(LOOK_S):
                held.append(admin.ask("GET", "/subscriptions", query={"limit": 1})["held_bytes"])
                if held[-1] and not stopped_at:
                    stopped_at = time.monotonic()
                    started[0].signal(signal.SIGSTOP)
                elif stopped_at and (held[-1] > USED_UP * BUDGET_BYTES or _is_long_ago(stopped_at)):
                    started[0].signal(signal.SIGCONT)

        began = time.monotonic()
        with beside(look):
            done = drain_once(replace(stage, gateway=gateway), TOPIC, SECTION, "gateway", count, start)
    note(f"  {size / 1e9:.2f} GB in {time.monotonic() - began:.0f} s; {done.gateway_peak_mib:.0f} MiB at most")
    what = f"{size / 1e9:g} GB through a budget of {BUDGET_BYTES / 1e6:.0f} MB"
    resident = Spread.of([done.gateway_peak_mib * (1 << 20) / 1e6])
    return [
        Row(SECTION, f"{what}: peak resident", "MB", gateway=resident).with_limit(RESIDENT_TARGET_MB),
        Row(SECTION, f"{what}: messages held, at most", "MB", gateway=Spread.of([max(held) / 1e6])),
        Row(SECTION, f"{what}: gateway CPU per message", "us", gateway=Spread.of([done.cpu_us("gateway")])),
    ]


def _is_long_ago(stopped_at: float) -> bool:
    return time.monotonic() - stopped_at > STANDSTILL_S_MAX


def _check_room(stage: Stage, size: int) -> None:
    free = shutil.disk_usage(stage.directory).free
    if free < size * DISK_FACTOR:
        wanted, there = size * DISK_FACTOR / 1e9, free / 1e9
        raise IntegrationError(
            f"{stage.directory} has {there:.0f} GB free, {wanted:.0f} GB are needed: --gigabytes asks for less"
        )
