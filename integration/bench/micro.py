"""Measures CPU per message of each step inside the gateway, without broker or sockets, to locate a slow-down.

Each station is run a number of times over the same input and its best time counts: what is slower was the machine.
`path` runs all stations together. Memory and time of a worker's join are measured here as well, at the sizes that
PIP-379 is worried about.
"""

from __future__ import annotations

import gc
import time
import tracemalloc
from collections.abc import Callable, Iterable
from functools import partial
from typing import Final

from integration.bench import frames_made
from integration.bench.backlog import MESSAGES_PER_BATCH
from integration.bench.path import GatewayPath
from integration.bench.report import Row, Spread
from integration.bench.stage import Sizes
from proxy.core import acknowledgement, membership
from proxy.core.dispatcher import Dispatcher
from proxy.core.draining_hashes import Change
from proxy.core.selectors.consistent_hashing import ConsistentHashing
from proxy.core.sticky_key import murmur31
from proxy.core.worker import Worker
from proxy.wire import commands
from proxy.wire.frames import FrameSplitter, parse_command
from proxy.wire.messages import NO_EXTRAS, message_start, parse_message
from proxy.wire.metadata import peek_key

TRIES: Final = 25
"""Many short tries: on a shared machine some of them meet a quiet moment."""
JOIN_TRIES: Final = 7
CONSUMER_ID: Final = 1
WORKERS: Final = 4
SLOTS: Final = 65_535
FRAME_BYTES_MAX: Final = 8 << 20
ACKS_TOGETHER: Final = 100
KEEPING_UP: Final = 100
"""Entries that arrive before the workers acknowledge: about what a broker writes at once."""
BEHIND: Final = 6_000
"""So many that the workers' permits (4,000) are spent and the rest waits, as in a drain by slow workers."""
MIXED_MESSAGES: Final = 100
"""To a batch of many keys."""
FEW_MESSAGES: Final = 10
FEW_KEYS: Final = 10
MANY_WORKERS: Final = 40
MIXED_KEEPING_UP: Final = 5
"""Batches of them at a time, 500 messages: fewer than a worker's permits, so none waits for FLOW."""
UNBATCHED_TARGET_US: Final = 2.0
KEY_BATCH_TARGET_US: Final = 0.3
MIXED_TARGET_US: Final = 1.5
JOIN_TARGET_MS: Final = 10.0
DRAINING_TARGET_MB: Final = 1.0
"""A fifth of the 80 bytes that PIP-379 counts for a draining hash."""

Timed = Callable[[], None]


def measure(sizes: Sizes) -> list[Row]:
    """Every station, then the whole, then a join."""
    count = sizes.micro_messages
    tails = frames_made.single_tails(count)
    stations = {
        "cut and read MESSAGE frames": lambda: _read_frames(tails),
        "key, hash and slot of a message": lambda: _find_slots(tails),
        "dispatcher: receive, delivered at once": lambda: _receive(tails, waits=False),
        "dispatcher: receive, wait, deliver on FLOW": lambda: _receive(tails, waits=True),
        "dispatcher: ack": lambda: _acknowledge(tails),
        "write MESSAGE frames": lambda: _write_frames(tails),
        "read and write ACK commands": lambda: _carry_acks(count),
    }
    rows = [Row("inside", name, "us", gateway=_best(station, count)) for name, station in stations.items()]
    batches = frames_made.batch_tails(max(1, count // 10), MESSAGES_PER_BATCH)
    rows += [
        Row("inside", "whole path, unbatched, workers keep up", "us", gateway=_path(tails)).with_limit(
            UNBATCHED_TARGET_US
        ),
        Row("inside", "whole path, unbatched, most messages wait", "us", gateway=_path(tails * 2, BEHIND)),
        Row(
            "inside",
            f"whole path, {MESSAGES_PER_BATCH} to a batch, workers keep up",
            "us",
            gateway=_path(batches),
        ).with_limit(KEY_BATCH_TARGET_US),
        *_mixed_rows(count),
    ]
    return [*rows, *_join_rows(sizes)]


def _best(station: Callable[[], Timed], count: int) -> Spread:
    """Microseconds a message; `station` prepares, what it returns is timed. The median shown is the best time."""
    times = []
    for _ in range(TRIES):
        run = station()
        gc.collect()
        began = time.process_time_ns()
        run()
        times.append((time.process_time_ns() - began) / count / 1e3)
    return Spread(min(times), min(times), max(times), TRIES)


def _read_frames(tails: list[bytes]) -> Timed:
    data = frames_made.messages(CONSUMER_ID, 0, tails)

    def run() -> None:
        for frame in FrameSplitter(FRAME_BYTES_MAX).feed(data):
            parse_message(frame)

    return run


def _find_slots(tails: list[bytes]) -> Timed:
    slot_of = ConsistentHashing[Worker]().slot

    def run() -> None:
        for tail in tails:
            slot_of(murmur31(peek_key(tail)[1]))

    return run


def _write_frames(tails: list[bytes]) -> Timed:
    def run() -> None:
        for entry, tail in enumerate(tails):
            message_start(CONSUMER_ID, frames_made.LEDGER, entry, 0, NO_EXTRAS).of(entry, len(tail))

    return run


def _carry_acks(count: int) -> Timed:
    places = [(frames_made.LEDGER, entry) for entry in range(ACKS_TOGETHER)]
    frame = commands.ack(CONSUMER_ID, places)

    def run() -> None:
        for _ in range(max(1, count // ACKS_TOGETHER)):
            ids = parse_command(frame).ack.message_id
            commands.ack(CONSUMER_ID, [(place.ledgerId, place.entryId) for place in ids], 1)

    return run


def _dispatcher(permits: int, workers: int = WORKERS) -> tuple[Dispatcher, list[Worker]]:
    dispatcher = Dispatcher(ConsistentHashing[Worker]())
    joined = [Worker(f"worker-{number}") for number in range(workers)]
    for worker in joined:
        membership.join(dispatcher, worker, 0.0)
        if permits:
            dispatcher.flow(worker, permits, 0.0)
    return dispatcher, joined


def _receive(tails: list[bytes], *, waits: bool) -> Timed:
    dispatcher, workers = _dispatcher(0 if waits else len(tails))
    slots = _slots(tails)

    def run() -> None:
        receive = dispatcher.receive
        for position, (slot, tail) in enumerate(zip(slots, tails, strict=True)):
            receive(position, slot, 1, tail, 0, 1.0)
        if waits:
            for worker in workers:
                dispatcher.flow(worker, len(tails), 2.0)

    return run


def _acknowledge(tails: list[bytes]) -> Timed:
    dispatcher, workers = _dispatcher(len(tails))
    for position, (slot, tail) in enumerate(zip(_slots(tails), tails, strict=True)):
        dispatcher.receive(position, slot, 1, tail, 0, 1.0)
    held = [(worker, key) for worker in workers for key in worker.pending]

    def run() -> None:
        for worker, key in held:
            acknowledgement.ack(dispatcher, worker, key, 2.0)

    return run


def _slots(tails: list[bytes]) -> list[int]:
    slot_of = ConsistentHashing[Worker]().slot
    return [slot_of(murmur31(peek_key(tail)[1])) for tail in tails]


def _mixed_rows(count: int) -> list[Row]:
    """Batches as default batching makes them, which leave in slices."""
    tails = frames_made.mixed_tails(2 * count // MIXED_MESSAGES, MIXED_MESSAGES)
    whole = f"whole path, {MIXED_MESSAGES} mixed keys to a batch"
    small = frames_made.mixed_tails(2 * count // FEW_MESSAGES, FEW_MESSAGES)
    few_keys = frames_made.mixed_tails(2 * count // MIXED_MESSAGES, MIXED_MESSAGES, FEW_KEYS)
    at_once = MIXED_KEEPING_UP * MIXED_MESSAGES // FEW_MESSAGES
    usual = Row("inside", f"{whole}, workers keep up", "us", gateway=_path(tails, MIXED_KEEPING_UP))
    paths = {
        f"{whole}, most messages wait": _path(tails, BEHIND // MIXED_MESSAGES),
        f"whole path, {FEW_MESSAGES} mixed keys to a batch, workers keep up": _path(small, at_once),
        f"{whole}, {FEW_KEYS} keys in all": _path(few_keys, MIXED_KEEPING_UP),
        f"{whole}, {MANY_WORKERS} workers": _path(tails, MIXED_KEEPING_UP, MANY_WORKERS),
    }
    others = [Row("inside", name, "us", gateway=spread) for name, spread in paths.items()]
    return [usual.with_limit(MIXED_TARGET_US), *others]


def _path(tails: list[bytes], entries_at_a_time: int = KEEPING_UP, workers: int = WORKERS) -> Spread:
    """The best of some runs, as in `_best`; what one run leaves behind (rings, layouts) the next finds."""
    path = GatewayPath(workers)
    times = []
    for _ in range(TRIES):
        gc.collect()
        before = path.spent_s
        delivered = path.pump(tails, entries_at_a_time)
        times.append((path.spent_s - before) / delivered * 1e6)
    return Spread(min(times), min(times), max(times), TRIES)


def _join_rows(sizes: Sizes) -> list[Row]:
    """Joins and leaves among many workers; the process does nothing else meanwhile, so they delay all deliveries."""
    tracked, waiting = sizes.tracked_slots, sizes.waiting_messages
    dispatcher, workers = _crowded(tracked, waiting, sizes.joined_workers)
    crowd = f"{len(workers):,} workers, {tracked:,} tracked slots, {waiting:,} messages waiting"
    joins = [partial(membership.join, dispatcher, Worker(f"late-{number}"), 1.0) for number in range(JOIN_TRIES)]
    leaves = [partial(membership.leave, dispatcher, worker, 2.0) for worker in workers[:JOIN_TRIES]]
    megabytes = _draining_bytes(tracked) / 1e6
    return [
        Row("inside", f"join with {crowd}", "ms", gateway=_each_ms(joins)).with_limit(JOIN_TARGET_MS),
        Row("inside", f"leave with {crowd}", "ms", gateway=_each_ms(leaves)).with_limit(JOIN_TARGET_MS),
        Row(
            "inside",
            f"memory of {tracked:,} draining hashes, holders and counts included",
            "MB",
            gateway=Spread.of([megabytes]),
        ).with_limit(DRAINING_TARGET_MB),
    ]


def _each_ms(changes: Iterable[Callable[[], object]]) -> Spread:
    """CPU milliseconds of each."""
    times = []
    for change in changes:
        gc.collect()
        began = time.process_time()
        change()
        times.append((time.process_time() - began) * 1e3)
    return Spread.of(times)


def _crowded(tracked: int, waiting: int, count: int = 1) -> tuple[Dispatcher, list[Worker]]:
    """So many workers that hold a message of each of `tracked` slots and have no permit for `waiting` more."""
    dispatcher, workers = _dispatcher(0, count)
    for position in range(tracked):
        dispatcher.receive(position, position % SLOTS + 1, 1, b"", 0, 0.0)
    for worker in workers:
        dispatcher.flow(worker, len(worker.ready), 0.0)
    for position in range(tracked, tracked + waiting):
        dispatcher.receive(position, position % SLOTS % tracked + 1, 1, b"", 0, 0.0)
    return dispatcher, workers


def _draining_bytes(tracked: int) -> int:
    """Bytes when all slots drain: what the drain adds, and what holders and counts take anyway.

    All drain when their holder owns nothing any more, which here is made so by a new holder of every range.
    """
    dispatcher, _ = _crowded(tracked, 0)
    gc.collect()
    tracemalloc.start()
    try:
        change = dispatcher.draining.new_change(Change(1.0, "w", joined=True))
        dispatcher.draining.begin(range(1, tracked + 1), change)
        gc.collect()
        added, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return added + dispatcher.slots.memory_bytes()
