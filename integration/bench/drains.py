"""Measures how fast workers drain a backlog: direct, through Pulsar's own proxy and through the gateway, in turn.

Each kind of backlog is a section of its own. In each round every side drains the same backlog, so that a slow minute of
the machine falls on all of them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.backlog import MESSAGES_PER_BATCH, fill
from integration.bench.drain import WORKERS, Drain, described, drain_once, perf_workers
from integration.bench.frames_made import PAYLOAD_BYTES
from integration.bench.machine import note
from integration.bench.report import Row, Spread
from integration.bench.stage import ALL_SIDES, Stage, with_proxy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

LARGE_BYTES: Final = 200_000


@dataclass(frozen=True, slots=True)
class Kind:
    """What a backlog holds, who drains it, and what is to be reached."""

    name: str
    sized_by: str
    """The field of `Sizes` that says how many messages."""
    ratio_target: float
    """Of the direct drain's time to the gateway's."""
    cpu_target_us: float | None = None
    """Of the gateway for each message."""
    share_target: float | None = None
    """Of all processes' CPU for each message, gateway : direct."""
    payload_bytes: int = PAYLOAD_BYTES
    key_batched: bool = False
    compression: pulsar.CompressionType = pulsar.CompressionType.NONE
    workers: int = WORKERS

    def messages(self, stage: Stage) -> int:
        """How many its backlog has."""
        count: int = getattr(stage.sizes, self.sized_by)
        return count


UNBATCHED: Final = Kind("unbatched", "unbatched_messages", 1.3, 5.0, 0.95)
KEY_BATCHED: Final = Kind("key-batched", "batched_messages", 1.25, 0.3, key_batched=True)
KINDS: Final = (
    UNBATCHED,
    Kind("40-workers", "unbatched_messages", 1.25, workers=40),
    Kind("200-workers", "unbatched_messages", 1.25, workers=200),
    KEY_BATCHED,
    Kind("zstd", "batched_messages", 1.0, key_batched=True, compression=pulsar.CompressionType.ZSTD),
    Kind("large", "large_messages", 0.95, 120.0, payload_bytes=LARGE_BYTES),
)


def measure(kind: Kind, stage: Stage) -> list[Row]:
    """All sides in turn, so often."""
    topic, count = f"persistent://public/default/drain-{kind.name}", kind.messages(stage)
    fill(stage, topic, count, kind.payload_bytes, key_batched=kind.key_batched, compression=kind.compression)
    sizes, drains = stage.sizes, list[Drain]()
    with with_proxy(stage) as stage_of_all:
        for number in range(sizes.warm_ups + sizes.repetitions):
            counts = number >= sizes.warm_ups
            for side in ALL_SIDES:
                start = perf_workers(topic, kind.workers)
                done = drain_once(stage_of_all, topic, f"{side}-{number}", side, count, start)
                note(f"  {kind.name} {side} {number}{'' if counts else ' (warm-up)'}: {described(done)}")
                drains += [done] if counts else []
    return rows_of(kind, drains)


SECTIONS: Final[dict[str, Callable[[Stage], list[Row]]]] = {
    f"drain-{kind.name}": partial(measure, kind) for kind in KINDS
}


def rows_of(kind: Kind, drains: Sequence[Drain]) -> list[Row]:
    """Times beside each other, and what a message costs each process and all together."""
    section = f"drain {kind.name}"
    direct, proxy, gateway = ([drain for drain in drains if drain.side == side] for side in ALL_SIDES)
    backlog = f"backlog of {drains[0].messages:,} x {kind.payload_bytes:,} B, {kind.workers} workers"
    batches = f", {MESSAGES_PER_BATCH} to a batch" if kind.key_batched else ""

    def beside(measured: str, unit: str, value: Callable[[Drain], float]) -> Row:
        of_direct, of_proxy, of_gateway = (Spread.of(map(value, done)) for done in (direct, proxy, gateway))
        return Row(section, measured, unit, direct=of_direct, proxy=of_proxy, gateway=of_gateway)

    times = beside(f"{backlog}{batches}", "s", lambda drain: drain.seconds)
    own = Row(
        section,
        "CPU of gateway or proxy per message, ack included",
        "us",
        proxy=Spread.of(drain.cpu_us("proxy") for drain in proxy),
        gateway=Spread.of(drain.cpu_us("gateway") for drain in gateway),
    )
    every = beside("CPU of all processes per message", "us", Drain.cpu_us)
    peak = Spread.of(drain.gateway_peak_mib for drain in gateway)
    return [
        replace(times, repetitions=[asdict(drain) for drain in drains]).with_ratio(
            [drain.seconds for drain in direct], [drain.seconds for drain in gateway], kind.ratio_target
        ),
        own if kind.cpu_target_us is None else own.with_limit(kind.cpu_target_us),
        beside("CPU of the broker per message", "us", lambda drain: drain.cpu_us("broker")),
        beside("CPU of the workers per message", "us", lambda drain: drain.cpu_us("workers")),
        every.with_share(
            [drain.cpu_us() for drain in direct], [drain.cpu_us() for drain in gateway], kind.share_target
        ),
        Row(section, "gateway memory, peak resident", "MiB", gateway=peak),
    ]
