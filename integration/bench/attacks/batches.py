"""Sends 60 batches of 65 kB that open to 64 MiB each; a worker takes them, never acknowledges, and reconnects."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

import pulsar

from integration.bench.attacks import when_told
from integration.bench.raw_worker import RawWorker
from integration.errors import IntegrationError

BATCHES: Final = 60
MESSAGES: Final = 16
"""In each, of several keys: whether they share one is what a batch is opened for."""
MESSAGE_BYTES: Final = (4 << 20) - 1_000
"""Of them, a batch opens to a little less than `batch_peek_max_bytes`: a larger one would not be opened at all."""
PERMITS: Final = 10_000
TAKE_S: Final = 60.0


def publish(broker_url: str, topic: str, batches: int = BATCHES) -> None:
    """Have the broker store them, as an ordinary client makes them."""
    client = pulsar.Client(broker_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    try:
        producer = client.create_producer(
            topic,
            compression_type=pulsar.CompressionType.ZLib,
            batching_enabled=True,
            batching_max_messages=MESSAGES,
            batching_max_allowed_size_in_bytes=2 * MESSAGES * MESSAGE_BYTES,
            batching_max_publish_delay_ms=60_000,
            block_if_queue_full=True,
        )
        payload = bytes(MESSAGE_BYTES)
        for _ in range(batches):
            for number in range(MESSAGES):
                producer.send_async(payload, None, partition_key=f"key-{number}")
            producer.flush()
    finally:
        client.close()


def main(gateway_url: str, broker_url: str, topic: str, ready: Path) -> None:
    """Attack until killed."""
    publish(broker_url, topic)
    when_told(ready)
    while True:
        try:
            with RawWorker(gateway_url, topic, "bombs", "taker", PERMITS) as worker:
                taken = 0
                while taken < BATCHES and (came := len(worker.take(TAKE_S))):
                    taken += came
        except (OSError, IntegrationError):  # it was thrown out: it comes again
            continue


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
