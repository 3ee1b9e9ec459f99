"""Writes backlogs of batches whose messages have many keys, by an official client's default batching."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.backlog import payloads, write
from integration.bench.drain import WORKERS
from integration.bench.frames_made import KEY_COUNT, random_keys

if TYPE_CHECKING:
    from integration.bench.stage import Stage

MESSAGES_PER_BATCH: Final = 100
DELAY_MS_MAX: Final = 60_000
"""So that a batch leaves because it is full."""
BATCH_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Backlog:
    """What is written, and how many drain it."""

    name: str
    messages: int
    per_batch: int = MESSAGES_PER_BATCH
    key_count: int = KEY_COUNT
    worker_count: int = WORKERS
    compression: pulsar.CompressionType = pulsar.CompressionType.NONE
    cpu_target_us: float | None = None

    @property
    def topic(self) -> str:
        """One for each, so that each is written once."""
        return f"persistent://public/default/mixed-{self.name.replace(' ', '-').replace(',', '') or 'plain'}"

    @property
    def batches(self) -> int:
        """How many entries it has."""
        return -(-self.messages // self.per_batch)


def fill(stage: Stage, backlog: Backlog) -> None:
    """Write it directly to the broker."""
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
    write(stage, backlog.topic, zip(keys, payloads(backlog.messages), strict=True), settings)
