"""Measures what nacking and slow workers cost the gateway with default batching: the CPU of each message.

One backlog is drained in turns by four workers of the official Python client that acknowledge everything, by four that
negatively acknowledge one message in twenty, and by four of which one is slow. The client asks for the whole batch it
got again, as all clients do unless told otherwise, so most slices of a batch come twice where one message in twenty is
refused. A slow worker gets all messages of its keys in order, so the backlog lasts as long as it does; the others run
ahead as far as the gateway reads ahead.
"""

from __future__ import annotations

import sys
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from integration.bench.drain import Drain, StartWorkers, described, drain_once, passed_cpu_us
from integration.bench.machine import note
from integration.bench.mixed_backlog import Backlog, fill
from integration.bench.report import Row, Spread
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from pathlib import Path

    from integration.bench.stage import Stage

TIMES_TARGET: Final = 2.0
"""Most that trouble may multiply the CPU of a message by."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """What the workers do, as `mixed_worker` takes it."""

    name: str
    nacked_every: int = 0
    slow_us: int = 0


NONE: Final = Trouble("official Python workers")
TROUBLES: Final = (
    Trouble("5 % negatively acknowledged", nacked_every=20),
    Trouble("one worker of four slow", slow_us=500),
)


def measure(stage: Stage, section: str) -> list[Row]:
    """All of them, repetition by repetition."""
    backlog = Backlog("trouble", stage.sizes.mixed_trouble_messages)
    fill(stage, backlog)
    sizes = stage.sizes
    drains: dict[Trouble, list[Drain]] = {trouble: [] for trouble in (NONE, *TROUBLES)}
    for number in range(sizes.warm_ups + sizes.repetitions):
        for place, trouble in enumerate(drains):
            start = _workers(backlog.topic, trouble)
            done = drain_once(stage, backlog.topic, f"trouble-{place}-{number}", "gateway", backlog.messages, start)
            counts = number >= sizes.warm_ups
            note(f"  {section}, {trouble.name} {number}{'' if counts else ' (warm-up)'}: {described(done)}")
            if counts:
                drains[trouble].append(done)
    return rows_of(section, drains)


def _workers(topic: str, trouble: Trouble) -> StartWorkers:
    def start(service_url: str, subscription: str, log: Path) -> OwnedProcess:
        told = (service_url, topic, subscription, str(trouble.nacked_every), str(trouble.slow_us))
        return OwnedProcess([sys.executable, "-m", "integration.bench.mixed_worker", *told], log)

    return start


def rows_of(section: str, drains: dict[Trouble, list[Drain]]) -> list[Row]:
    """The CPU of each, and how many times that of none, repetition by repetition."""
    rows = [
        Row(
            section,
            f"gateway CPU per message, {trouble.name}",
            "us",
            gateway=Spread.of(passed_cpu_us(done)),
            repetitions=[asdict(drain) for drain in done],
        )
        for trouble, done in drains.items()
    ]
    without = passed_cpu_us(drains[NONE])
    for trouble in TROUBLES:
        times = [own / other for own, other in zip(passed_cpu_us(drains[trouble]), without, strict=True)]
        row = Row(section, f"CPU of a message, {trouble.name} : none", "", gateway=Spread.of(times))
        rows.append(row.with_limit(TIMES_TARGET))
    return rows
