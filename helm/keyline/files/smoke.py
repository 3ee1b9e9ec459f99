"""Runs in the pod of `helm test`: produces and consumes through the gateway, and checks the order of each key.

It uses Pulsar's own client, because that is what the gateway promises to serve. Messages of earlier runs are
acknowledged and not counted. Exits with 1 and a sentence if something is missing or out of order.
"""
# ruff: noqa: INP001 - the folder is Helm's

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path

import pulsar

KEYS = 10


class Failure(Exception):
    """The gateway did not keep its promise; the text says which."""


def connect() -> pulsar.Client:
    """Make a client as the environment says; it connects when it is used."""
    token, authority = Path(os.environ["SMOKE_TOKEN_FILE"]), Path(os.environ["SMOKE_CA_FILE"])
    return pulsar.Client(
        os.environ["SMOKE_SERVICE_URL"],
        authentication=pulsar.AuthenticationToken(token.read_text().strip()) if token.is_file() else None,
        tls_trust_certs_file_path=str(authority) if authority.is_file() else None,
        tls_validate_hostname=True,
        operation_timeout_seconds=10,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn),  # or the one line that matters is lost among a hundred
    )


def produce(client: pulsar.Client, topic: str, run: str, count: int) -> None:
    """Send `count` messages, their keys in turn."""
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(count):
        producer.send(f"{run} {number}".encode(), partition_key=f"key-{number % KEYS}")


def consume(consumer: pulsar.Consumer, run: str, count: int, until: float) -> None:
    """Receive all that this run has sent.

    Raises:
        Failure: not all came in time, or one came before an older one of its key.
    """
    last: dict[str, int] = {}
    seen: set[int] = set()
    while len(seen) < count:
        left_ms = int((until - time.monotonic()) * 1000)
        if left_ms <= 0:
            raise Failure(f"{len(seen)} of {count} messages came in time")
        try:
            message = consumer.receive(left_ms)
        except pulsar.Timeout:
            continue
        of, number = message.data().decode().split()
        if of == run and int(number) not in seen:
            key = message.partition_key()
            if int(number) < last.get(key, -1):
                raise Failure(f"message {number} of {key} came after {last[key]}")
            last[key] = int(number)
            seen.add(int(number))
        consumer.acknowledge(message)


def main() -> None:
    """Run it."""
    topic, count = os.environ["SMOKE_TOPIC"], int(os.environ["SMOKE_MESSAGES"])
    until = time.monotonic() + float(os.environ["SMOKE_TIMEOUT_S"])
    run = uuid.uuid4().hex
    client = connect()
    try:
        consumer = client.subscribe(topic, "keyline-smoke", consumer_type=pulsar.ConsumerType.KeyShared)
        produce(client, topic, run, count)
        consume(consumer, run, count, until)
    except (Failure, pulsar.PulsarException) as error:
        sys.exit(f"failed: {error}")
    finally:
        client.close()
    through = os.environ["SMOKE_SERVICE_URL"]
    print(f"{count} messages with {KEYS} keys went through {through}, each key in order")  # noqa: T201 - for the log


if __name__ == "__main__":
    main()
