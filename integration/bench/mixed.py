"""Measures batches whose messages have many keys, as clients with default batching make them.

Direct, the broker gives such a batch whole to the worker of its first key, so order of keys is lost; the gateway cuts
it. One backlog is drained by turns direct and through the gateway, as in `drain`. What batches of other sizes, fewer
keys and more workers cost is told by the gateway's CPU alone, on backlogs as large: in a small one, what joins cost
outweighs the messages. A compressed backlog is drained in turns with the same one uncompressed. Workers that make
trouble are in `mixed_trouble`. What the gateway adds to the latency of messages that are not late is a section of its
own, measured as `latency`, by a producer that batches as clients do.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench import mixed_trouble
from integration.bench.drain import Drain, described, drain_once, passed_cpu_us, perf_workers
from integration.bench.frames_made import PAYLOAD_BYTES, random_keys
from integration.bench.latency import Load, measure_load
from integration.bench.machine import note
from integration.bench.mixed_backlog import Backlog, fill
from integration.bench.report import Row, Spread
from integration.bench.stage import ALL_SIDES, Side, Stage, open_stage, with_proxy

if TYPE_CHECKING:
    from integration.bench.passage import Passage

SECTION: Final = "mixed"
LATENCY: Final = "mixed-latency"
RATIO_TARGET: Final = 0.7
CPU_TARGET_US: Final = 1.5
LARGE_BATCHES_TARGET_US: Final = 4.0
SLICES_TARGET: Final = 1.2
BYTES_TARGET: Final = 1.15
COMPRESSED_TARGET_PERCENT: Final = 15.0
LATENCY_RATE: Final = 10_000
"""Messages a second."""
BATCHING_MS: Final = (10, 1)
"""After how long clients send a batch by default: C++, Go, and Python by C++, of 100 messages here; and Java, of 10."""
AT_ONCE: Final = {"managedLedgerNewEntriesCheckDelayInMillis": "0"}
ADDED_MS_MAX: Final = {"p50": 0.5, "p99": 3.0}


def measure(stage: Stage) -> list[Row]:
    """The backlog of the targets on both sides, then its variants through the gateway."""
    count = stage.sizes.mixed_messages
    plain = Backlog("", count, cpu_target_us=CPU_TARGET_US)
    variants = [
        Backlog("batches of 10", count, per_batch=10, cpu_target_us=8.0),
        Backlog("batches of 1,000", count, per_batch=1_000, cpu_target_us=LARGE_BATCHES_TARGET_US),
        Backlog("10 keys", count, key_count=10, cpu_target_us=3.0),
        Backlog("40 workers", count, worker_count=40, cpu_target_us=6.0),
    ]
    with with_proxy(stage) as stage_of_all:
        rows = _plain_rows(plain, _drained(stage_of_all, [plain], ALL_SIDES))
    for variant in variants:
        rows.append(_cpu_row(variant, _drained(stage, [variant], ("gateway",))))
    rows += _compression_rows(stage, stage.sizes.mixed_compressed_messages)
    rows += mixed_trouble.measure(stage, SECTION)
    return rows


def _drained(stage: Stage, backlogs: Sequence[Backlog], sides: Sequence[Side]) -> list[Drain]:
    """Write each backlog, then drain all of them on all sides, repetition by repetition; what counts, in that order."""
    for backlog in backlogs:
        fill(stage, backlog)
    sizes = stage.sizes
    # Warm-ups are for the broker's and the workers' virtual machines, so a backlog drained on one side needs none.
    warm_ups = sizes.warm_ups if len(sides) > 1 else 0
    drains = []
    for number in range(warm_ups + sizes.repetitions):
        for backlog in backlogs:
            for side in sides:
                name = f"{side}-{number}"
                start = perf_workers(backlog.topic, backlog.worker_count)
                done = drain_once(stage, backlog.topic, name, side, backlog.messages, start)
                note(f"  mixed {backlog.name} {name}{'' if number >= warm_ups else ' (warm-up)'}: {described(done)}")
                if number >= warm_ups:
                    drains.append(done)
    return drains


def _plain_rows(backlog: Backlog, drains: Sequence[Drain]) -> list[Row]:
    direct, proxy, gateway = ([drain for drain in drains if drain.side == side] for side in ALL_SIDES)
    size = f"backlog of {backlog.messages:,} x {PAYLOAD_BYTES} B"
    times = Row(
        SECTION,
        f"{size}, {backlog.per_batch} to a batch over {backlog.key_count:,} keys",
        "s",
        direct=Spread.of(drain.seconds for drain in direct),
        proxy=Spread.of(drain.seconds for drain in proxy),
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
        gateway=Spread.of(passed_cpu_us(gateway)),
        repetitions=[asdict(drain) for drain in gateway] if name else [],
    )
    return row if backlog.cpu_target_us is None else row.with_limit(backlog.cpu_target_us)


def _compression_rows(stage: Stage, count: int) -> list[Row]:
    kinds = [
        Backlog("uncompressed", count),
        Backlog("lz4", count, compression=pulsar.CompressionType.LZ4),
        Backlog("zstd", count, compression=pulsar.CompressionType.ZSTD),
    ]
    drains = _drained(stage, kinds, ("gateway",))
    each = {kind.name: drains[place :: len(kinds)] for place, kind in enumerate(kinds)}
    rows = [_cpu_row(kind, each[kind.name]) for kind in kinds]
    plain = passed_cpu_us(each[kinds[0].name])
    for kind in kinds[1:]:
        more = [(own / other - 1) * 100 for own, other in zip(passed_cpu_us(each[kind.name]), plain, strict=True)]
        row = Row(SECTION, f"gateway CPU of {kind.name} above uncompressed", "%", gateway=Spread.of(more))
        rows.append(row.with_limit(COMPRESSED_TARGET_PERCENT))
    return rows


def measure_latency(stage: Stage) -> list[Row]:
    """By a producer that batches as clients do by default.

    A broker that has delivered all looks for new entries 10 ms later, and batches come every 10 ms: how long each waits
    for that look drifts from 0 to 10 ms, on either side by itself. A broker of its own looks at once, so that what is
    compared is the way.
    """
    with open_stage(stage.sizes, stage.quiet_wait_s, stage.broker.version, **AT_ONCE) as prompt:
        return [row for batch_ms in BATCHING_MS for row in measure_load(prompt, _batched(batch_ms))]


def _batched(batch_ms: int) -> Load:
    keys, name = random_keys(LATENCY_RATE), f"{LATENCY}-{batch_ms}"
    return Load(LATENCY, name, LATENCY_RATE, keys, batch_ms, ADDED_MS_MAX, f" in batches of {batch_ms} ms")


def _passages(gateway: Sequence[Drain]) -> list[Passage]:
    return [drain.passage for drain in gateway if drain.passage is not None]
