"""Measures how fast 4 workers drain a backlog, direct and through the gateway, and the CPU of each process.

The workers are one `pulsar-perf consume` with 4 Key_Shared consumers: an independent, official client. One virtual
machine and not four, since on a small machine four would spend the drain on compiling the same code four times.
A drain lasts from the first delivery to a backlog of zero in the broker's statistics, so acknowledgements are in it
and the worker's start is not. Asking for statistics costs the broker 10 ms, so it is asked ever more often only as
the end comes near.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, TypeAlias

from integration.bench.backlog import MESSAGES_PER_BATCH, fill, subscribe_all
from integration.bench.frames_made import PAYLOAD_BYTES
from integration.bench.machine import Meter, Usage, note, peak_mib, reset_peak
from integration.bench.passage import Passage, PassageMeter
from integration.bench.report import Row, Spread
from integration.bench.stage import SIDES, Side, Stage, admin_path
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

PROCESSES: Final = ("broker", "workers", "gateway")

StartWorkers: TypeAlias = Callable[[str, str, Path], OwnedProcess]
"""Starts workers for a service URL and a subscription, with a file for their log. They are killed in the end."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a backlog holds, and what is to be reached."""

    name: str
    ratio_target: float
    cpu_target_us: float | None = None
    payload_bytes: int = PAYLOAD_BYTES
    key_batched: bool = False


UNBATCHED: Final = Kind("unbatched", 0.9, 20.0)
KEY_BATCHED: Final = Kind("key-batched", 1.0, key_batched=True)
LARGE: Final = Kind("large", 0.95, 120.0, payload_bytes=200_000)


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
        """CPU microseconds of these processes for each message."""
        return sum(self.usage.cpu_s[name] for name in names) / self.messages * 1e6


def measure(stage: Stage) -> list[Row]:
    """Each kind of backlog."""
    sizes = stage.sizes
    return [
        *_measure_kind(stage, UNBATCHED, sizes.unbatched_messages),
        *_measure_kind(stage, KEY_BATCHED, sizes.batched_messages),
        *_measure_kind(stage, LARGE, sizes.large_messages),
    ]


def _measure_kind(stage: Stage, kind: Kind, count: int) -> list[Row]:
    topic = f"persistent://public/default/drain-{kind.name}"
    fill(stage, topic, count, kind.payload_bytes, key_batched=kind.key_batched)
    sizes = stage.sizes
    drains: list[Drain] = []
    for number in range(sizes.warm_ups + sizes.repetitions):
        counts = number >= sizes.warm_ups
        for side in SIDES:
            done = drain_once(stage, topic, f"{side}-{number}", side, count)
            note(f"  {kind.name} {side} {number}{'' if counts else ' (warm-up)'}: {described(done)}")
            if counts:
                drains.append(done)
    return _rows(kind, drains)


def perf_workers(topic: str, count: int = WORKERS) -> StartWorkers:
    """So many Key_Shared consumers of a topic in one `pulsar-perf`."""

    def start(service_url: str, subscription: str, log: Path) -> OwnedProcess:
        arguments = ("-st", "Key_Shared", "-ss", subscription, "-n", str(count), "-sp", "Earliest", topic)
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
    each = ", ".join(f"{name} {drain.cpu_us(name):.1f}" for name in PROCESSES)
    return (
        f"{drain.seconds:.1f} s, {drain.messages / drain.seconds:,.0f}/s; CPU us per message: {each}; "
        f"others {drain.usage.others_share:.0%}, reference {drain.usage.reference_ns:.0f} ns"
    )


def _rows(kind: Kind, drains: Sequence[Drain]) -> list[Row]:
    section = f"drain {kind.name}"
    direct = [drain for drain in drains if drain.side == "direct"]
    gateway = [drain for drain in drains if drain.side == "gateway"]
    times = Row(
        section,
        f"backlog of {drains[0].messages:,} x {kind.payload_bytes:,} B"
        + (f", {MESSAGES_PER_BATCH} to a batch" if kind.key_batched else ""),
        "s",
        direct=Spread.of(drain.seconds for drain in direct),
        gateway=Spread.of(drain.seconds for drain in gateway),
        repetitions=[asdict(drain) for drain in drains],
    ).with_ratio([drain.seconds for drain in direct], [drain.seconds for drain in gateway], kind.ratio_target)
    everyone = [drain.cpu_us(*PROCESSES) for drain in direct], [drain.cpu_us(*PROCESSES) for drain in gateway]
    cpu = Row(
        section,
        "CPU of broker, workers and gateway per message",
        "us",
        direct=Spread.of(everyone[0]),
        gateway=Spread.of(everyone[1]),
    ).with_ratio(*everyone)
    own = Row(
        section,
        "gateway CPU per message, ack included",
        "us",
        gateway=Spread.of(drain.cpu_us("gateway") for drain in gateway),
    )
    peak = Spread.of(drain.gateway_peak_mib for drain in gateway)
    return [
        times,
        own.with_limit(kind.cpu_target_us) if kind.cpu_target_us is not None else own,
        cpu,
        Row(section, "gateway memory, peak resident", "MiB", gateway=peak),
    ]
