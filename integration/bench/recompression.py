"""Measures whether slices of a compressed batch should be compressed again: bytes saved, and CPU spent.

A batch of default batching is cut for four workers, as it is, and with each slice compressed again as clients do. A
worker's decompression is timed too, by the same libraries in C that clients use.
"""

from __future__ import annotations

import random
import time
from functools import partial
from typing import TYPE_CHECKING, Final

from integration.bench import frames_made
from integration.bench.backlog import payloads
from integration.bench.mixed_backlog import MESSAGES_PER_BATCH
from integration.bench.report import Row, Spread
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress, decompress

if TYPE_CHECKING:
    from collections.abc import Callable

WORKERS: Final = 4
TRIES: Final = 5
CALLS: Final = 500
KINDS: Final = {"lz4": pb.LZ4, "zstd": pb.ZSTD}


def measure() -> list[Row]:
    """Both codecs: bytes and microseconds for each message."""
    slices = _slices()
    plain = sum(map(len, slices))
    rows = [_row("uncompressed slices", "bytes", plain / MESSAGES_PER_BATCH)]
    for name, kind in KINDS.items():
        packed = _compressed(kind, slices)
        pairs = [(each, len(whole)) for each, whole in zip(packed, slices, strict=True)]
        whole = compress(kind, b"".join(slices))
        anew_us = _cpu_us(partial(_compressed, kind, slices))
        opened_us = _cpu_us(partial(_decompressed, kind, pairs))
        rows += [
            _row(f"{name}, a batch that leaves whole", "bytes", len(whole) / MESSAGES_PER_BATCH),
            _row(f"{name} anew, slices", "bytes", sum(map(len, packed)) / MESSAGES_PER_BATCH),
            _row(f"{name} anew, the gateway's CPU for it", "us", anew_us),
            _row(f"{name} anew, a worker's CPU for it", "us", opened_us),
        ]
    return rows


def _row(measured: str, unit: str, value: float) -> Row:
    return Row("inside", f"{measured}, a message", unit, gateway=Spread.of([value]))


def _slices() -> list[bytes]:
    """The messages of one batch, by worker."""
    chance = random.Random(frames_made.SEED)  # noqa: S311 - repeatable, no secret
    slices = [b""] * WORKERS
    keys = frames_made.random_keys(MESSAGES_PER_BATCH)
    for number, (key, payload) in enumerate(zip(keys, payloads(MESSAGES_PER_BATCH), strict=True)):
        slices[chance.randrange(WORKERS)] += frames_made.batched_message(key, payload, number)
    return slices


def _compressed(kind: int, slices: list[bytes]) -> list[bytes]:
    return [compress(kind, each) for each in slices]


def _decompressed(kind: int, pairs: list[tuple[bytes, int]]) -> list[bytes]:
    return [decompress(kind, each, size, size) for each, size in pairs]


def _cpu_us(work: Callable[[], object]) -> float:
    """Of the best try, for each message."""
    best = float("inf")
    for _ in range(TRIES):
        began = time.process_time_ns()
        for _ in range(CALLS):
            work()
        best = min(best, (time.process_time_ns() - began) / CALLS / MESSAGES_PER_BATCH / 1e3)
    return best
