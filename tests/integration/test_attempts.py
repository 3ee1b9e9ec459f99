"""Attempts with a real broker and official clients: workers that die at a message, and workers that are shut down."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from textwrap import dedent

import pulsar
import pytest

from integration.standalone import PulsarStandalone
from tests.integration.clients import RECEIVE_MS, Workers, nothing_comes
from tests.integration.conftest import StartGateway

ATTEMPTS = 3
WORKERS = 8
KEYS = 50
MESSAGES = 200
KILLED = -9
WITHIN_S = 60.0

WORKER = dedent("""
    import os, signal, sys
    import pulsar

    url, topic, end = sys.argv[1:]
    client = pulsar.Client(url)
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.KeyShared, initial_position=pulsar.InitialPosition.Earliest
    )
    try:
        while True:
            message = consumer.receive()
            if message.data() == b"poison":
                if end == "killed":
                    os.kill(os.getpid(), signal.SIGKILL)
                raise ValueError(message.data())
            consumer.acknowledge(message)
    finally:
        client.close()
""")
"""A process that ends at a poisoned message."""
NewTopic = Callable[[str], str]


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize(("end", "code", "deliveries"), [("killed", KILLED, ATTEMPTS), ("closes", 1, ATTEMPTS + 1)])
@pytest.mark.parametrize("batching", [False, True], ids=["single", "batch"])
def test_a_message_at_which_the_only_worker_ends_goes_to_the_dead_letters(
    start_gateway: StartGateway,
    broker: PulsarStandalone,
    new_topic: NewTopic,
    end: str,
    code: int,
    deliveries: int,
    *,
    batching: bool,
) -> None:
    """It is killed, or closes its client at an exception. The next one does not get it, and its key goes on."""
    gateway = start_gateway(broker, dead_letter_after=str(ATTEMPTS))
    topic = new_topic("lone")
    direct = pulsar.Client(broker.service_url)
    letters = direct.subscribe(f"{topic}-s-DLQ", "look", initial_position=pulsar.InitialPosition.Earliest)
    kind = pulsar.ConsumerType.KeyShared
    direct.subscribe(topic, "s", consumer_type=kind, initial_position=pulsar.InitialPosition.Earliest).close()
    producer = direct.create_producer(topic, batching_enabled=batching, batching_max_publish_delay_ms=50)
    for payload in ("poison", "1", "2"):
        producer.send_async(payload.encode(), None, partition_key="k")
    producer.flush()
    for _ in range(deliveries):
        arguments = [sys.executable, "-c", WORKER, gateway.service_url, topic, end]
        worker = subprocess.run(arguments, check=False, capture_output=True, timeout=WITHIN_S)
        assert worker.returncode == code, worker.stderr
    client = pulsar.Client(gateway.service_url)
    consumer = client.subscribe(topic, "s", consumer_type=kind)
    seen = []
    for _ in range(2):
        message = consumer.receive(RECEIVE_MS)
        seen.append(message.data())
        consumer.acknowledge(message)
    assert seen == [b"1", b"2"]
    assert letters.receive(RECEIVE_MS).data() == b"poison"
    assert nothing_comes(consumer, letters)
    client.close()
    direct.close()


@pytest.mark.slow
@pytest.mark.broker
def test_workers_that_close_in_a_row_leave_nothing_for_the_dead_letters(
    start_gateway: StartGateway, broker: PulsarStandalone, new_topic: NewTopic
) -> None:
    """What lies in their queues wanders to those that remain; the last one gets all of it."""
    gateway = start_gateway(broker, dead_letter_after="2")
    topic = new_topic("rolling")
    direct = pulsar.Client(broker.service_url)
    letters = direct.subscribe(f"{topic}-s-DLQ", "look", initial_position=pulsar.InitialPosition.Earliest)
    clients = [pulsar.Client(gateway.service_url) for _ in range(WORKERS)]
    kind = pulsar.ConsumerType.KeyShared
    consumers = [client.subscribe(topic, "s", consumer_type=kind) for client in clients]
    producer = direct.create_producer(topic, batching_enabled=False)
    for number in range(MESSAGES):
        producer.send_async(b"%d" % number, None, partition_key=f"k{number % KEYS}")
    producer.flush()
    for consumer, client in zip(consumers[:-1], clients[:-1], strict=True):
        consumer.receive(RECEIVE_MS)
        client.close()
    last = Workers({"last": consumers[-1]})
    assert len({message.data() for message in last.receive(MESSAGES)}) == MESSAGES
    assert nothing_comes(letters)
    clients[-1].close()
    direct.close()
