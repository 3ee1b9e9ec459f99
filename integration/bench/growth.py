"""Measures whether a message costs the gateway more where there are more workers, keys or subscriptions.

Workers come first and wait; then messages are written, and the gateway's CPU is taken from then until the broker counts
all of them as acknowledged. So what it costs to join is not in it, as it is in a drain, where 400 workers join while
the first of them work. The few and the many take turns, each round on new topics.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import psutil

from integration.bench.backlog import keys_in_turn, no_batching, write
from integration.bench.drain import STALL_S_MAX, WORKERS, perf_workers
from integration.bench.frames_made import KEY_COUNT, PAYLOAD_BYTES
from integration.bench.machine import cpu_s, note
from integration.bench.report import Row, Spread
from integration.bench.stage import admin_path
from integration.errors import IntegrationError
from integration.processes import OwnedProcess
from proxy.cli.admin_client import AdminClient

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from integration.bench.stage import Stage

TIMES_TARGET: Final = 1.2
POLL_S: Final = 0.3
TICK_S: Final = 0.01
"""The least that the kernel tells of CPU time."""
JOIN_S_MAX: Final = 180.0


@dataclass(frozen=True, slots=True)
class Load:
    """Who waits, and what comes."""

    name: str
    deliveries: int
    workers: int = WORKERS
    """Of each subscription."""
    keys: int = KEY_COUNT
    subscriptions: int = 1

    @property
    def messages(self) -> int:
        """How many are written: each goes to all subscriptions."""
        return max(1, self.deliveries // self.subscriptions)


def _by_workers(stage: Stage) -> tuple[Load, Load]:
    few, many = stage.sizes.growing_workers
    count = stage.sizes.unbatched_messages
    return Load(f"{few} workers", count, few), Load(f"{many} workers", count, many)


def _by_keys(stage: Stage) -> tuple[Load, Load]:
    """Every key has a message."""
    few, many = stage.sizes.growing_keys
    return Load(f"{few:,} keys", many, keys=few), Load(f"{many:,} keys", many, keys=many)


def _by_subscriptions(stage: Stage) -> tuple[Load, Load]:
    """A worker each: with one more than that, subscriptions are told apart by workers, too."""
    few, many = stage.sizes.growing_subscriptions
    count = stage.sizes.unbatched_messages
    names = [f"{each:,} subscription{'s' * (each > 1)}" for each in (few, many)]
    return Load(names[0], count, 1, subscriptions=few), Load(names[1], count, 1, subscriptions=many)


def measure(loads: Callable[[Stage], tuple[Load, Load]], stage: Stage) -> list[Row]:
    """Few and many in turn."""
    few, many = loads(stage)
    spent: dict[Load, list[float]] = {few: [], many: []}
    sizes = stage.sizes
    for number in range(sizes.warm_ups + sizes.repetitions):
        for load, kept in spent.items():
            stage.wait_until_quiet()
            cpu_us = deliver(stage, load, number)
            note(f"  {load.name} {number}: gateway {cpu_us:.1f} us per message")
            kept.extend([cpu_us] if number >= sizes.warm_ups else [])
    return rows_of(few, many, spent[few], spent[many])


SECTIONS: Final[dict[str, Callable[[Stage], list[Row]]]] = {
    "growth-workers": partial(measure, _by_workers),
    "growth-keys": partial(measure, _by_keys),
    "growth-subscriptions": partial(measure, _by_subscriptions),
}


def rows_of(few: Load, many: Load, spent: Sequence[float], spent_by_many: Sequence[float]) -> list[Row]:
    """The many beside the few of the same round, in the column of the direct side."""
    what = f"gateway CPU per message, {few.name} and {many.name}"
    row = Row("growth", what, "us", direct=Spread.of(spent), gateway=Spread.of(spent_by_many))
    times = Spread.of(late / early for early, late in zip(spent, spent_by_many, strict=True))
    return [row.with_times(f"{many.name} : {few.name}", times, TIMES_TARGET)]


def deliver(stage: Stage, load: Load, number: int) -> float:
    """Microseconds of the gateway's CPU for each delivery with its acknowledgement.

    Raises:
        IntegrationError: workers did not come, or nothing was acknowledged for a minute.
    """
    topic = f"persistent://public/default/growth-{load.name.replace(' ', '-').replace(',', '')}-{number}"
    gateway, log = psutil.Process(stage.gateway.pid), stage.directory / f"{topic.rpartition('/')[2]}.log"
    workers = perf_workers(topic, load.workers, load.subscriptions)(stage.gateway.service_url, "growth", log)
    try:
        _wait_for_workers(stage, load.workers * load.subscriptions, workers)
        before = cpu_s(gateway)
        payload = bytes(PAYLOAD_BYTES)
        write(stage, topic, ((key, payload) for key in keys_in_turn(load.messages, load.keys)), no_batching())
        _wait_until_acknowledged(stage, topic, load.messages, workers)
        spent_s = max(cpu_s(gateway) - before, TICK_S)
        return spent_s / (load.messages * load.subscriptions) * 1e6
    finally:
        workers.kill()
        stage.admin("DELETE", f"{admin_path(topic)}?force=true")


def _wait_for_workers(stage: Stage, count: int, process: OwnedProcess) -> None:
    """Until so many are at the gateway, and those of the round before have gone."""
    admin, deadline = AdminClient(stage.gateway.admin_url), time.monotonic() + JOIN_S_MAX
    while (found := admin.ask("GET", "/subscriptions", query={"limit": 1})["workers"]) != count:
        if time.monotonic() > deadline or not process.running:
            end = process.log.read_text()[-2_000:]
            raise IntegrationError(f"{found} of {count} workers came within {JOIN_S_MAX:.0f} s:\n{end}")
        time.sleep(POLL_S)


def _wait_until_acknowledged(stage: Stage, topic: str, messages: int, process: OwnedProcess) -> None:
    """Until the broker has `messages` of the topic and no subscription has one left."""
    left_before, deadline = -1, time.monotonic() + STALL_S_MAX
    while True:
        found = stage.admin("GET", f"{admin_path(topic)}/stats")
        left = sum(each["msgBacklog"] for each in found["subscriptions"].values())
        if not left and found["msgInCounter"] >= messages:
            return
        if left != left_before:
            left_before, deadline = left, time.monotonic() + STALL_S_MAX
        if time.monotonic() > deadline or not process.running:
            raise IntegrationError(f"{left:,} messages are left:\n{process.log.read_text()[-2_000:]}")
        time.sleep(POLL_S)
