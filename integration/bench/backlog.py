"""The backlogs that are drained, written once, and the subscriptions that each drain one of them.

Every subscription stands at the topic's first message, so that each repetition drains the same bytes from the same
ledger. Key-batched means entries that hold several messages of one key, as a producer with KeyBased batching makes
them when it sends faster than its batches fill: pulsar-perf's own producer mixes keys in a batch and cannot be used.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.frames_made import KEY_COUNT, PAYLOAD_BYTES
from integration.bench.machine import note
from integration.bench.stage import Stage, admin_path
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from collections.abc import Iterable

MESSAGES_PER_BATCH: Final = 50
PENDING_MAX: Final = 5_000


def fill(stage: Stage, topic: str, count: int, *, key_batched: bool) -> None:
    """Write `count` messages directly to the broker, keys in turn."""
    began = time.monotonic()
    keys = KEY_COUNT if count >= KEY_COUNT * MESSAGES_PER_BATCH else max(1, count // MESSAGES_PER_BATCH)
    client = pulsar.Client(stage.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(topic, **(_batching(keys) if key_batched else _no_batching()))
        refused = send(producer, count, keys)
        producer.close()
    finally:
        client.close()
    if refused:
        raise IntegrationError(f"the broker refused {len(refused)} messages, the first with {refused[0]}")
    note(f"wrote {count:,} messages to {topic} in {time.monotonic() - began:.0f} s")


def send(producer: pulsar.Producer, count: int, keys: int = KEY_COUNT) -> list[pulsar.Result]:
    """Send without waiting for each, then for all; the results that were not Ok."""
    refused: list[pulsar.Result] = []

    def sent(result: pulsar.Result, _message_id: object) -> None:
        if result != pulsar.Result.Ok:
            refused.append(result)

    names = [f"key-{number}" for number in range(keys)]
    payload = bytes(PAYLOAD_BYTES)
    for number in range(count):
        producer.send_async(payload, sent, partition_key=names[number % keys])
    producer.flush()
    return refused


def subscribe_all(stage: Stage, topic: str, names: Iterable[str]) -> None:
    """Create durable subscriptions at the first message."""
    for name in names:
        stage.admin("PUT", f"{admin_path(topic)}/subscription/{name}", '"earliest"')


def _no_batching() -> dict[str, object]:
    return {"batching_enabled": False, "block_if_queue_full": True, "max_pending_messages": PENDING_MAX}


def _batching(keys: int) -> dict[str, object]:
    """All keys' batches fill evenly and are sent together when the last is full."""
    together = keys * MESSAGES_PER_BATCH
    return {
        "batching_enabled": True,
        "batching_type": pulsar.BatchingType.KeyBased,
        "batching_max_messages": together,
        "batching_max_allowed_size_in_bytes": 4 * together * PAYLOAD_BYTES,
        "batching_max_publish_delay_ms": 60_000,
        "block_if_queue_full": True,
        "max_pending_messages": together,
    }
