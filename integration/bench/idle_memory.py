"""Measures what idle workers and idle subscriptions take of the gateway's memory.

Each crowd has a gateway of its own: a process keeps what it once had, and the next crowd would seem to cost less. One
worker has come and is settled before the first look, so that what is loaded once counts for none. Nothing is kept
alive: `keep_alive_s` is longer than the measurement.
"""

from __future__ import annotations

import resource
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from integration.bench import frames_made
from integration.bench.machine import note, resident_bytes
from integration.bench.raw_worker import RawWorker
from integration.bench.report import Row, Spread
from integration.gateway import KeylineGateway

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.bench.stage import Stage

SECTION: Final = "memory-idle"
TOPIC: Final = "persistent://public/default/idle-memory"
SETTINGS: Final = {"keep_alive_s": "3600"}
PERMITS: Final = 1_000
"""Granted by each worker, as official clients do."""
SHARED: Final = 1_000
"""Workers of a subscription."""
ALONE: Final = 10
"""So many times fewer workers have a connection each: it takes the gateway a second one, to the broker, and 10,000 of
each are more than most machines' limit of open files."""
PER_TOPIC: Final = 100
"""Subscriptions of a topic."""
SETTLE_S: Final = 3.0
WORKER_TARGET_KB: Final = 12.0
SUBSCRIPTION_TARGET_KB: Final = 25.0


def measure(stage: Stage) -> list[Row]:
    """Workers on one connection and on one each, then subscriptions with a worker each on one connection."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    alone = stage.sizes.idle_workers // ALONE
    workers, subscriptions = stage.sizes.idle_workers, stage.sizes.idle_worker_subscriptions
    return [
        _row(stage, f"{workers:,} idle workers, on one connection", workers, _workers, WORKER_TARGET_KB),
        _row(stage, f"{alone:,} idle workers, a connection each", alone, _connections),
        _row(
            stage,
            f"{subscriptions:,} idle subscriptions, with a worker each",
            subscriptions,
            _subscriptions,
            SUBSCRIPTION_TARGET_KB,
        ),
    ]


def _row(
    stage: Stage,
    crowd: str,
    count: int,
    come: Callable[[str, int, ExitStack], None],
    target_kb: float | None = None,
) -> Row:
    """What each of `count` takes, after they have come and settled."""
    broker, directory = stage.broker, stage.directory / come.__name__
    with ExitStack() as ends:
        gateway = KeylineGateway(broker.service_url, broker.admin_url, directory, settings=SETTINGS)
        ends.enter_context(gateway)
        ends.enter_context(RawWorker(gateway.service_url, TOPIC, "first", "first", PERMITS))
        time.sleep(SETTLE_S)
        before = resident_bytes(gateway.pid)
        come(gateway.service_url, count, ends)
        time.sleep(SETTLE_S)
        added = resident_bytes(gateway.pid) - before
    note(f"  {crowd}: {added / 1e6:.1f} MB on top of {before / 1e6:.1f} MB")
    row = Row(SECTION, f"memory of each of {crowd}", "KB", gateway=Spread.of([added / count / 1e3]))
    return row if target_kb is None else row.with_limit(target_kb)


def _workers(service_url: str, count: int, ends: ExitStack) -> None:
    """All on one connection, so many to a subscription."""
    crowd = ends.enter_context(RawWorker(service_url, TOPIC, "s-0", "w-1", PERMITS))
    numbers = range(2, count + 1)
    crowd.request_each(
        frames_made.subscribe(number, f"w-{number}", TOPIC, f"s-{number // SHARED}") for number in numbers
    )
    crowd.tell(frames_made.flow(number, PERMITS) for number in numbers)


def _connections(service_url: str, count: int, ends: ExitStack) -> None:
    """Each on a connection of its own."""
    for number in range(count):
        ends.enter_context(RawWorker(service_url, TOPIC, f"s-{number // SHARED}", f"w-{number}", PERMITS))


def _subscriptions(service_url: str, count: int, ends: ExitStack) -> None:
    """A worker of each, all on one connection."""
    crowd = ends.enter_context(RawWorker(service_url, f"{TOPIC}-0", "s-1", "w", PERMITS))
    numbers = range(2, count + 1)
    crowd.request_each(
        frames_made.subscribe(number, "w", f"{TOPIC}-{number // PER_TOPIC}", f"s-{number}") for number in numbers
    )
    crowd.tell(frames_made.flow(number, PERMITS) for number in numbers)
