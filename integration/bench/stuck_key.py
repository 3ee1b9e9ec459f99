"""Measures what a key that is stuck for ten minutes' worth of traffic takes from all others: throughput and memory.

One backlog has a hot key whose first message is never acknowledged, the other is the same without that key. Two
gateways drain them at the same time, each with four workers of the official client, so that whatever else the machine
does falls on both; compared is what each has drained when the first is done. Half way both are killed and started
again. How long messages then take to flow again is told apart: the broker reads all again that lies behind the first
message that is not acknowledged, which takes seconds for each hundred thousand, whether there is a gateway or not. The
traffic is a backlog, so that the run takes less than ten minutes.
"""

from __future__ import annotations

import sys
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from typing import TYPE_CHECKING, Final

import psutil

from integration.bench.backlog import PENDING_MAX, subscribe_all, write
from integration.bench.drain import STALL_S_MAX, WORKERS
from integration.bench.frames_made import PAYLOAD_BYTES
from integration.bench.machine import cpu_s, note, peak_mib
from integration.bench.report import Row, Spread, differences
from integration.bench.stage import admin_path
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway
from integration.processes import OwnedProcess
from proxy.cli.admin_client import AdminClient, subscription_path

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from integration.bench.stage import Stage

STUCK: Final = "stuck"
OTHER_KEYS: Final = 999
STUCK_EVERY: Final = 50
"""One message of so many has the stuck key: twenty times as many as of another."""
SETTINGS: Final = {"key_window": "1", "key_share_percent": "1", "look_ahead_messages_per_worker": "1000"}
"""The stuck key's messages alone are more than the look-ahead, in which they would end all if they stayed there."""
POLL_S: Final = 0.5
START_S_MAX: Final = 180.0
RATIO_TARGET: Final = 0.95
ADDED_MIB_MAX: Final = 16.0


@dataclass(frozen=True, slots=True)
class Drained:
    """By one of both, in the time that counts."""

    messages: int
    seconds: float
    cpu_us: float
    """The gateway's for each message, by the gateway after the kill."""
    peak_mib: float
    """Of the gateway, the larger of before and after its kill."""
    pause_s: float
    """From the moment in which both have their workers again until the broker counts messages as acknowledged."""
    spilled_messages: int
    """That the gateway held without their bytes in the end."""


class Side:
    """One backlog with its gateway and its workers."""

    def __init__(self, stage: Stage, topic: str, subscription: str, others: int, stuck: int) -> None:
        """Nothing is started; the backlog has so many messages of other keys, and of the stuck one."""
        self.others, self.stuck = others, stuck
        self.peak_mib = 0.0
        self._stage = stage
        self._topic, self._subscription = topic, subscription
        self._directory = stage.directory / subscription
        broker = stage.broker
        self.gateway = KeylineGateway(broker.service_url, broker.admin_url, self._directory, settings=SETTINGS)
        self._workers: OwnedProcess | None = None

    def start(self, ends: ExitStack) -> None:
        """Start the gateway and its workers; they end with the block."""
        subscribe_all(self._stage, self._topic, [self._subscription])
        path = f"{admin_path(self._topic)}/subscription/{self._subscription}?force=true"
        ends.callback(self._stage.admin, "DELETE", path)
        ends.callback(self.gateway.close)
        self.gateway.start(START_S_MAX)
        told = (self.gateway.service_url, self._topic, self._subscription, STUCK)
        command = [sys.executable, "-m", "integration.bench.stuck_worker", *told]
        self._workers = OwnedProcess(command, self._directory / "workers.log")
        ends.callback(self._workers.kill)

    def kill(self) -> None:
        """Kill the gateway."""
        self.look()
        self.gateway.kill()

    def look(self) -> None:
        """Note what the gateway's memory has come to."""
        self.peak_mib = max(self.peak_mib, peak_mib(self.gateway.pid))

    @property
    def cpu_s(self) -> float:
        """Seconds that the gateway's process has used."""
        return cpu_s(psutil.Process(self.gateway.pid))

    @property
    def has_workers(self) -> bool:
        """Whether all are there."""
        return len(self.gateway.workers(self._topic, self._subscription)) == WORKERS

    @property
    def drained(self) -> int:
        """Messages of other keys that the broker counts as acknowledged."""
        assert self._workers is not None
        if not self._workers.running:
            raise IntegrationError(f"workers ended: {self._workers.log.read_text()[-2_000:]}")
        found = self._stage.admin("GET", f"{admin_path(self._topic)}/stats")["subscriptions"][self._subscription]
        return self.others + self.stuck - int(found["msgBacklog"])

    @property
    def spilled_messages(self) -> int:
        """Messages that this gateway holds without their bytes."""
        path = subscription_path(self._topic, self._subscription)
        return int(AdminClient(self.gateway.admin_url).ask("GET", path)["dispatcher"]["spilled_messages"])


def measure(stage: Stage) -> list[Row]:
    """Both at once, so often.

    Raises:
        IntegrationError: one stood still, or did not come to its end.
    """
    stuck = stage.sizes.stuck_key_messages // STUCK_EVERY
    others = stage.sizes.stuck_key_messages - stuck
    topics = [f"persistent://public/default/stuck-key-{name}" for name in ("none", "one")]
    for topic, with_it in zip(topics, (False, True), strict=True):
        settings = {"batching_enabled": False, "block_if_queue_full": True, "max_pending_messages": PENDING_MAX}
        write(stage, topic, ((key, bytes(PAYLOAD_BYTES)) for key in keys(others, stuck=with_it)), settings)
    runs = []
    for number in range(stage.sizes.warm_ups + stage.sizes.repetitions):
        stage.wait_until_quiet()
        sides = [
            Side(stage, topic, f"stuck-key-{count}-{number}", others, count)
            for topic, count in zip(topics, (0, stuck), strict=True)
        ]
        done = drain_both(sides)
        warm_up = number < stage.sizes.warm_ups
        note(f"  {number}{' (warm-up)' if warm_up else ''}: {', beside '.join(map(str, done))}")
        if not warm_up:
            runs.append(done)
    return _rows([run[0] for run in runs], [run[1] for run in runs], stuck)


def keys(others: int, *, stuck: bool) -> Iterator[str]:
    """The key of each message: the others' in turn, and the stuck one's among them if there is one."""
    names = islice(cycle([f"key-{number}" for number in range(OTHER_KEYS)]), others)
    for number, name in enumerate(names):
        if stuck and not number % (STUCK_EVERY - 1):
            yield STUCK
        yield name


def drain_both(sides: list[Side]) -> list[Drained]:
    """Drain both with a kill half way; what each has drained when the first is done."""
    with ExitStack() as ends:
        for side in sides:
            side.start(ends)
        _wait(sides, lambda drained: min(drained) > 0)
        half = sides[0].others // 2
        first = _drain_until(sides, lambda drained: max(drained) >= half)
        pauses_s = _restart(sides)
        spent = [side.cpu_s for side in sides]
        second = _drain_until(sides, lambda drained: max(drained) >= sides[0].others)
        spent = [side.cpu_s - before for side, before in zip(sides, spent, strict=True)]
        _wait(sides, lambda drained: min(drained) >= sides[0].others)
        for side in sides:
            side.look()
        seconds = first[1] + second[1]
        return [
            # A small backlog may be drained by the time that is measured.
            Drained(
                max(before + after, 1),
                seconds,
                cpu / max(after, 1) * 1e6,
                side.peak_mib,
                pause_s,
                side.spilled_messages,
            )
            for side, before, after, cpu, pause_s in zip(sides, first[0], second[0], spent, pauses_s, strict=True)
        ]


def _restart(sides: list[Side]) -> list[float]:
    """Kill both gateways and start them; how long each then takes until messages are acknowledged again."""
    for side in sides:
        side.kill()
    for side in sides:
        side.gateway.start(START_S_MAX)
    deadline = time.monotonic() + START_S_MAX
    while not all(side.has_workers for side in sides):
        if time.monotonic() > deadline:
            raise IntegrationError(f"not all workers came back within {START_S_MAX:.0f} s")
        time.sleep(POLL_S)
    began, before = time.monotonic(), [side.drained for side in sides]
    pauses_s = [0.0] * len(sides)

    def flow_again(drained: list[int]) -> bool:
        for place, count in enumerate(drained):
            if not pauses_s[place] and (count > before[place] or count >= sides[place].others):
                pauses_s[place] = time.monotonic() - began
        return all(pauses_s)

    _wait(sides, flow_again)
    return pauses_s


def _drain_until(sides: list[Side], enough: Callable[[list[int]], bool]) -> tuple[list[int], float]:
    """What each drains until then, and how long that takes."""
    before, began = [side.drained for side in sides], time.monotonic()
    after = _wait(sides, enough)
    return [late - early for early, late in zip(before, after, strict=True)], time.monotonic() - began


def _wait(sides: list[Side], enough: Callable[[list[int]], bool]) -> list[int]:
    """What each has drained when that is enough.

    Raises:
        IntegrationError: one of them, not done, drained nothing for a minute.
    """
    most, since = [-1] * len(sides), [time.monotonic()] * len(sides)
    while True:
        drained = [side.drained for side in sides]
        if enough(drained):
            return drained
        for place, side in enumerate(sides):
            if drained[place] > most[place] or drained[place] >= side.others:
                most[place], since[place] = drained[place], time.monotonic()
            elif time.monotonic() - since[place] > STALL_S_MAX:
                raise IntegrationError(f"{drained} messages are drained, and no more for {STALL_S_MAX:.0f} s")
        time.sleep(POLL_S)


def _rows(without: list[Drained], beside: list[Drained], stuck: int) -> list[Row]:
    section = "stuck-key"
    speeds = [Spread.of(run.messages / run.seconds for run in runs) for runs in (without, beside)]
    cpus = [Spread.of(run.cpu_us for run in runs) for runs in (without, beside)]
    peaks = [[run.peak_mib for run in runs] for runs in (without, beside)]
    ratios = Spread.of(own.messages / other.messages for other, own in zip(without, beside, strict=True))
    return [
        Row(section, f"{OTHER_KEYS} keys", "1/s", gateway=speeds[0]),
        Row(
            section,
            f"{OTHER_KEYS} keys beside one that is stuck with {stuck:,} messages",
            "1/s",
            gateway=speeds[1],
            compared=f"ratio {ratios}",
            target=f"ratio >= {RATIO_TARGET}",
            met=ratios.median >= RATIO_TARGET,
            repetitions=[{"without": asdict(a), "beside": asdict(b)} for a, b in zip(without, beside, strict=True)],
        ),
        Row(section, "gateway CPU per message", "us", gateway=cpus[0]),
        Row(section, "gateway CPU per message beside it", "us", gateway=cpus[1]),
        Row(section, "gateway memory, peak resident", "MiB", gateway=Spread.of(peaks[0])),
        Row(section, "gateway memory, peak resident, beside it", "MiB", gateway=Spread.of(peaks[1])).with_added(
            differences(*peaks), ADDED_MIB_MAX
        ),
        *(
            Row(section, f"messages flow again after the restart{where}", "s", gateway=Spread.of(times))
            for where, times in (
                ("", [run.pause_s for run in without]),
                (", beside it", [run.pause_s for run in beside]),
            )
        ),
    ]
