"""Batches whose messages have many keys, as every client makes them unless told otherwise.

Direct, the broker gives such a batch whole to the worker of its first key, so order of keys is lost; the gateway cuts
it. One backlog is drained by turns direct and through the gateway, as in `drain`. What batches of other sizes, fewer
keys, more workers and compression cost is told by the gateway's CPU alone, on smaller backlogs; a compressed backlog
is drained in turns with the same one uncompressed. Payloads are hexadecimal digits, which compress to about half as
text does: compressed zeros would show nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.backlog import write
from integration.bench.drain import WORKERS, Drain, described, drain_once
from integration.bench.frames_made import KEY_COUNT, PAYLOAD_BYTES, SEED, random_keys
from integration.bench.machine import note
from integration.bench.report import Row, Spread
from integration.bench.stage import SIDES, Side, Stage

if TYPE_CHECKING:
    from integration.bench.passage import Passage

SECTION: Final = "mixed"
MESSAGES_PER_BATCH: Final = 100
DELAY_MS_MAX: Final = 60_000
"""So that a batch leaves because it is full."""
BATCH_BYTES_MAX: Final = 1 << 20
PAYLOADS: Final = 1_000
"""Different ones, in turn."""

RATIO_TARGET: Final = 0.5
CPU_TARGET_US: Final = 4.0
SLICES_TARGET: Final = 1.2
BYTES_TARGET: Final = 1.15
COMPRESSED_TARGET_PERCENT: Final = 15.0


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is written, and how many drain it."""

    name: str
    messages: int
    per_batch: int = MESSAGES_PER_BATCH
    key_count: int = KEY_COUNT
    worker_count: int = WORKERS
    compression: pulsar.CompressionType = pulsar.CompressionType.NONE
    cpu_target_us: float | None = CPU_TARGET_US

    @property
    def topic(self) -> str:
        """One for each, so that each is written once."""
        return f"persistent://public/default/mixed-{self.name.replace(' ', '-').replace(',', '') or 'plain'}"

    @property
    def batches(self) -> int:
        """How many entries it has."""
        return -(-self.messages // self.per_batch)


def measure(stage: Stage) -> list[Row]:
    """The backlog of the targets on both sides, then its variants through the gateway."""
    plain = Backlog("", stage.sizes.mixed_messages)
    small = stage.sizes.mixed_variant_messages
    variants = [
        Backlog("batches of 10", small, per_batch=10, cpu_target_us=8.0),
        Backlog("batches of 1,000", small, per_batch=1_000),
        Backlog("10 keys", small, key_count=10, cpu_target_us=3.0),
        Backlog("40 workers", small, worker_count=40, cpu_target_us=6.0),
    ]
    rows = _plain_rows(plain, _drained(stage, [plain], SIDES))
    for variant in variants:
        rows.append(_cpu_row(variant, _drained(stage, [variant], ("gateway",))))
    return [*rows, *_compression_rows(stage, small)]


def _drained(stage: Stage, backlogs: Sequence[Backlog], sides: Sequence[Side]) -> list[Drain]:
    """Write each backlog, then drain all of them on all sides, repetition by repetition; what counts, in that order."""
    for backlog in backlogs:
        _fill(stage, backlog)
    sizes = stage.sizes
    # Warm-ups are for the broker's and the workers' virtual machines, so a backlog drained on one side needs none.
    warm_ups = sizes.warm_ups if len(sides) > 1 else 0
    drains = []
    for number in range(warm_ups + sizes.repetitions):
        for backlog in backlogs:
            for side in sides:
                name = f"{side}-{number}"
                done = drain_once(stage, backlog.topic, name, side, backlog.messages, backlog.worker_count)
                note(f"  mixed {backlog.name} {name}{'' if number >= warm_ups else ' (warm-up)'}: {described(done)}")
                if number >= warm_ups:
                    drains.append(done)
    return drains


def _fill(stage: Stage, backlog: Backlog) -> None:
    settings = {
        "batching_enabled": True,
        "batching_type": pulsar.BatchingType.Default,
        "batching_max_messages": backlog.per_batch,
        "batching_max_allowed_size_in_bytes": BATCH_BYTES_MAX,
        "batching_max_publish_delay_ms": DELAY_MS_MAX,
        "compression_type": backlog.compression,
        "block_if_queue_full": True,
        "max_pending_messages": 100 * backlog.per_batch,
    }
    keys = random_keys(backlog.messages, backlog.key_count)
    write(stage, backlog.topic, zip(keys, _payloads(backlog.messages), strict=True), settings)


def _payloads(count: int) -> Iterator[bytes]:
    chance = random.Random(SEED)  # noqa: S311 - repeatable filling, no secret
    texts = [chance.randbytes(PAYLOAD_BYTES // 2).hex().encode() for _ in range(PAYLOADS)]
    for number in range(count):
        yield texts[number % PAYLOADS]


def _plain_rows(backlog: Backlog, drains: Sequence[Drain]) -> list[Row]:
    direct = [drain for drain in drains if drain.side == "direct"]
    gateway = [drain for drain in drains if drain.side == "gateway"]
    size = f"backlog of {backlog.messages:,} x {PAYLOAD_BYTES} B"
    times = Row(
        SECTION,
        f"{size}, {backlog.per_batch} to a batch over {backlog.key_count:,} keys",
        "s",
        direct=Spread.of(drain.seconds for drain in direct),
        gateway=Spread.of(drain.seconds for drain in gateway),
        repetitions=[asdict(drain) for drain in drains],
    ).with_ratio([drain.seconds for drain in direct], [drain.seconds for drain in gateway], RATIO_TARGET)
    passages = _passages(gateway)
    parts = backlog.batches * backlog.worker_count
    slices = Spread.of(each.sliced_deliveries / parts for each in passages)
    rows = [
        times,
        _cpu_row(backlog, gateway),
        Row(SECTION, "slices of a batch, to each worker", "", gateway=slices).with_limit(SLICES_TARGET),
        Row(SECTION, "gateway memory, peak resident", "MiB", gateway=Spread.of(d.gateway_peak_mib for d in gateway)),
    ]
    carried = [each.bytes_to_workers / each.bytes_from_broker for each in passages if each.bytes_from_broker]
    if not carried:
        note("  mixed: bytes are not compared, since the machine has no `ss` (package iproute2)")
        return rows
    return [
        *rows[:3],
        Row(SECTION, "bytes to workers for each from the broker", "", gateway=Spread.of(carried)).with_limit(
            BYTES_TARGET
        ),
        *rows[3:],
    ]


def _cpu_row(backlog: Backlog, gateway: Sequence[Drain]) -> Row:
    """The whole drain's CPU by all its messages: in a short one, much is done before the first look at the backlog."""
    name = f", {backlog.name}" if backlog.name else ""
    row = Row(
        SECTION,
        f"gateway CPU per message, ack included{name}",
        "us",
        gateway=Spread.of(_cpu_us(gateway)),
        repetitions=[asdict(drain) for drain in gateway] if name else [],
    )
    return row if backlog.cpu_target_us is None else row.with_limit(backlog.cpu_target_us)


def _compression_rows(stage: Stage, count: int) -> list[Row]:
    kinds = [
        Backlog("uncompressed", count, cpu_target_us=None),
        Backlog("lz4", count, compression=pulsar.CompressionType.LZ4, cpu_target_us=None),
        Backlog("zstd", count, compression=pulsar.CompressionType.ZSTD, cpu_target_us=None),
    ]
    drains = _drained(stage, kinds, ("gateway",))
    each = {kind.name: drains[place :: len(kinds)] for place, kind in enumerate(kinds)}
    rows = [_cpu_row(kind, each[kind.name]) for kind in kinds]
    plain = _cpu_us(each[kinds[0].name])
    for kind in kinds[1:]:
        more = [(own / other - 1) * 100 for own, other in zip(_cpu_us(each[kind.name]), plain, strict=True)]
        row = Row(SECTION, f"gateway CPU of {kind.name} above uncompressed", "%", gateway=Spread.of(more))
        rows.append(row.with_limit(COMPRESSED_TARGET_PERCENT))
    return rows


def _cpu_us(gateway: Sequence[Drain]) -> list[float]:
    passages = _passages(gateway)
    return [passage.cpu_s / drain.messages * 1e6 for passage, drain in zip(passages, gateway, strict=True)]


def _passages(gateway: Sequence[Drain]) -> list[Passage]:
    return [drain.passage for drain in gateway if drain.passage is not None]
