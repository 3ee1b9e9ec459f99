"""Backlogs for drains, written once, and the subscriptions that each drain one of them.

Every subscription stands at the topic's first message, so that each repetition drains the same bytes from the same
ledger. Key-batched means entries that hold several messages of one key, as a producer with KeyBased batching makes
them when it sends faster than its batches fill: pulsar-perf's own producer mixes keys in a batch and cannot be used.
"""

from __future__ import annotations

import random
import time
from itertools import cycle, islice, repeat
from typing import TYPE_CHECKING, Final

import pulsar

from integration.bench.frames_made import KEY_COUNT, PAYLOAD_BYTES, SEED
from integration.bench.machine import note
from integration.bench.stage import Stage, admin_path
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MESSAGES_PER_BATCH: Final = 50
PAYLOADS: Final = 1_000
"""Different ones, in turn."""
PENDING_MAX: Final = 5_000
PENDING_BYTES_MAX: Final = 32 << 20
"""Of messages sent and not yet confirmed, as far as this is fewer messages than `PENDING_MAX`."""


def fill(
    stage: Stage,
    topic: str,
    count: int,
    payload_bytes: int = PAYLOAD_BYTES,
    *,
    key_batched: bool,
    compression: pulsar.CompressionType = pulsar.CompressionType.NONE,
) -> None:
    """Write `count` messages of so many bytes directly to the broker, keys in turn; zeros, if not compressed."""
    key_count = KEY_COUNT if count >= KEY_COUNT * MESSAGES_PER_BATCH else max(1, count // MESSAGES_PER_BATCH)
    plain = compression == pulsar.CompressionType.NONE
    contents = repeat(bytes(payload_bytes), count) if plain else payloads(count)
    settings = _batching(key_count) if key_batched else no_batching(payload_bytes)
    messages = zip(keys_in_turn(count, key_count), contents, strict=True)
    write(stage, topic, messages, {**settings, "compression_type": compression})


def payloads(count: int) -> Iterator[bytes]:
    """Yield the payload of each of `count` messages, the same in every run: hexadecimal digits.

    They compress to about half as text does: compressed zeros would show nothing.
    """
    chance = random.Random(SEED)  # noqa: S311 - repeatable filling, no secret
    texts = [chance.randbytes(PAYLOAD_BYTES // 2).hex().encode() for _ in range(PAYLOADS)]
    return islice(cycle(texts), count)


def write(stage: Stage, topic: str, messages: Iterable[tuple[str, bytes]], settings: Mapping[str, object]) -> None:
    """Write messages, each a key and a payload, directly to the broker by a producer with these settings.

    Raises:
        IntegrationError: the broker refused some.
    """
    began = time.monotonic()
    client = pulsar.Client(stage.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(topic, **settings)
        count, refused = send_all(producer, messages)
        producer.close()
    finally:
        client.close()
    if refused:
        raise IntegrationError(f"the broker refused {len(refused)} messages, the first with {refused[0]}")
    note(f"wrote {count:,} messages to {topic} in {time.monotonic() - began:.0f} s")


def keys_in_turn(count: int, key_count: int = KEY_COUNT) -> Iterator[str]:
    """Yield the key of each of `count` messages."""
    return islice(cycle([f"key-{number}" for number in range(key_count)]), count)


def send(producer: pulsar.Producer, count: int) -> list[pulsar.Result]:
    """Send so many, keys in turn, without waiting for each, then for all; the results that were not Ok."""
    payload = bytes(PAYLOAD_BYTES)
    return send_all(producer, ((key, payload) for key in keys_in_turn(count)))[1]


def send_all(producer: pulsar.Producer, messages: Iterable[tuple[str, bytes]]) -> tuple[int, list[pulsar.Result]]:
    """Send without waiting for each, then for all; how many, and the results that were not Ok."""
    refused: list[pulsar.Result] = []

    def sent(result: pulsar.Result, _message_id: object) -> None:
        if result != pulsar.Result.Ok:
            refused.append(result)

    count = 0
    for count, (key, payload) in enumerate(messages, 1):  # noqa: B007 - the last number is wanted
        producer.send_async(payload, sent, partition_key=key)
    producer.flush()
    return count, refused


def subscribe_all(stage: Stage, topic: str, names: Iterable[str]) -> None:
    """Create durable subscriptions at the first message."""
    for name in names:
        stage.admin("PUT", f"{admin_path(topic)}/subscription/{name}", '"earliest"')


def no_batching(payload_bytes: int = PAYLOAD_BYTES) -> dict[str, object]:
    """Settings of a producer of single messages; what is not confirmed is bounded by its bytes, too."""
    pending = min(PENDING_MAX, PENDING_BYTES_MAX // payload_bytes)
    return {"batching_enabled": False, "block_if_queue_full": True, "max_pending_messages": pending}


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
