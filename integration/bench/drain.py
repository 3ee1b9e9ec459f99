"""Drains a backlog once: how fast workers do it on a side, and the CPU of each process meanwhile.

The workers are one `pulsar-perf consume` with so many Key_Shared consumers: an independent, official client. One
virtual machine for all, since on a small machine several would spend the drain on compiling the same code.
A drain lasts from the first delivery to a backlog of zero in the broker's statistics, so acknowledgements are in it
and the worker's start is not. Asking for statistics costs the broker 10 ms, so it is asked ever more often only as
the end comes near.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeAlias

from integration.bench.backlog import subscribe_all
from integration.bench.machine import Meter, Usage, peak_mib, reset_peak
from integration.bench.passage import Passage, PassageMeter
from integration.bench.stage import Side, Stage, admin_path
from integration.errors import IntegrationError
from integration.processes import OwnedProcess
from integration.tools import pulsar_perf

WORKERS: Final = 4
STALL_S_MAX: Final = 60.0
"""Longest wait for the backlog to become smaller."""
POLL_S_MIN: Final = 0.05
POLL_S_MAX: Final = 1.0
POLL_FRACTION: Final = 0.4
"""Of the time that seems to be left."""

TAKE_PART: Final[dict[Side, tuple[str, ...]]] = {
    "direct": ("broker", "workers"),
    "proxy": ("broker", "proxy", "workers"),
    "gateway": ("broker", "gateway", "workers"),
}
"""Processes that a drain needs, by its side."""

StartWorkers: TypeAlias = Callable[[str, str, Path], OwnedProcess]
"""Starts workers for a service URL and a subscription, with a file for their log. They are killed in the end."""


@dataclass(frozen=True, slots=True)
class Drain:
    """One repetition."""

    side: Side
    messages: int
    seconds: float
    usage: Usage
    gateway_peak_mib: float
    passage: Passage | None
    """What went through the gateway; None if the drain was direct."""

    def cpu_us(self, *names: str) -> float:
        """CPU microseconds of these processes for each message; of all that take part, if none is named."""
        return sum(self.usage.cpu_s[name] for name in names or TAKE_PART[self.side]) / self.messages * 1e6


def perf_workers(topic: str, count: int = WORKERS, subscriptions: int = 1, options: Sequence[str] = ()) -> StartWorkers:
    """So many Key_Shared consumers of each subscription in one `pulsar-perf`, with further options of it.

    Of several subscriptions each has its number behind the name.
    """

    def start(service_url: str, subscription: str, log: Path) -> OwnedProcess:
        named = ("-ss", subscription, "-ns", str(subscriptions), "-n", str(count), *options)
        arguments = ("-st", "Key_Shared", "-sp", "Earliest", *named, topic)
        return pulsar_perf("consume", *arguments, service_url=service_url, log=log)

    return start


def drain_once(
    stage: Stage, topic: str, subscription: str, side: Side, count: int, start: StartWorkers | None = None
) -> Drain:
    """Drain the whole topic through a new subscription; by `perf_workers` unless `start` starts others.

    Raises:
        IntegrationError: nothing was acknowledged for a minute.
    """
    subscribe_all(stage, topic, [subscription])
    stage.wait_until_quiet()
    reset_peak(stage.gateway.pid)
    log = stage.directory / f"{subscription}.log"
    passage = PassageMeter(stage) if side == "gateway" else None
    workers = (start or perf_workers(topic))(stage.url(side), subscription, log)
    try:
        statistics = f"{admin_path(topic)}/stats"
        seconds, usage = watch(stage, statistics, subscription, [workers], lambda: stage.meter(workers=workers.pid))
        passed = passage.read(topic, subscription) if passage is not None else None
        return Drain(side, count, seconds, usage, peak_mib(stage.gateway.pid), passed)
    finally:
        workers.kill()
        stage.admin("DELETE", f"{admin_path(topic)}/subscription/{subscription}?force=true")


def watch(
    stage: Stage, statistics: str, subscription: str, workers: Sequence[OwnedProcess], begin: Callable[[], Meter]
) -> tuple[float, Usage]:
    """Wait for the end; how long it took from the first delivery, and what was used.

    `statistics` is the path of the topic's at the broker; `begin` is called at the first delivery.

    Raises:
        IntegrationError: workers ended, or nothing was acknowledged for a minute.
    """

    def ask() -> tuple[int, int]:
        found = stage.admin("GET", statistics)["subscriptions"][subscription]
        return found["msgOutCounter"], found["msgBacklog"]

    deadline = time.monotonic() + STALL_S_MAX
    while not ask()[0]:
        _check(workers, deadline)
        time.sleep(POLL_S_MIN)
    meter = begin()
    began = time.monotonic()
    left_before, entries = 0, ask()[1]
    while left := ask()[1]:
        if left != left_before:
            left_before, deadline = left, time.monotonic() + STALL_S_MAX
        _check(workers, deadline)
        done = max(1, entries - left)
        remaining_s = (time.monotonic() - began) * left / done
        time.sleep(min(POLL_S_MAX, max(POLL_S_MIN, remaining_s * POLL_FRACTION)))
    return time.monotonic() - began, meter.read()


def _check(workers: Sequence[OwnedProcess], deadline: float) -> None:
    for process in workers:
        if not process.running:
            raise IntegrationError(f"workers ended by themselves; see the log:\n{process.log.read_text()[-2_000:]}")
    if time.monotonic() > deadline:
        raise IntegrationError(f"the backlog did not become smaller for {STALL_S_MAX:.0f} s")


def passed_cpu_us(drains: Sequence[Drain]) -> list[float]:
    """The gateway's CPU microseconds for each message, from before its workers came; of those that it had."""
    return [drain.passage.cpu_s / drain.messages * 1e6 for drain in drains if drain.passage is not None]


def described(drain: Drain) -> str:
    """One repetition in a line, for who waits."""
    each = ", ".join(f"{name} {drain.cpu_us(name):.1f}" for name in TAKE_PART[drain.side])
    return (
        f"{drain.seconds:.1f} s, {drain.messages / drain.seconds:,.0f}/s; CPU us per message: {each}; "
        f"others {drain.usage.others_share:.0%}, reference {drain.usage.reference_ns:.0f} ns"
    )
