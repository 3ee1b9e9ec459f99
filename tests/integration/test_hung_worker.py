"""A hung worker with a real broker and the official client: the others go on, and it gets the rest in order."""

from __future__ import annotations

import time
from collections.abc import Callable

import pulsar
import pytest

from integration.gateway import KeylineGateway
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.integration.clients import available, by_key

KEYS = [f"k{number}" for number in range(100)]
MESSAGES = 30_000
"""Three times the look-ahead of two workers, of which one takes nothing."""
PATIENCE_S = 90.0
"""With a worker that gets nothing more."""
NewTopic = Callable[[str], str]


@pytest.mark.slow
@pytest.mark.broker
def test_a_hung_worker_does_not_stop_the_others(
    gateway: KeylineGateway, client: pulsar.Client, new_topic: NewTopic
) -> None:
    """The other worker gets all of its keys; the hung one, when it works again, all of its own, in order and once."""
    topic = new_topic("hung")
    kind = pulsar.ConsumerType.KeyShared
    share = {"keyline.key-share-percent": "1"}
    hung, other = (
        client.subscribe(topic, "s", consumer_type=kind, consumer_name=name, properties=share, receiver_queue_size=100)
        for name in ("hung", "other")
    )
    producer = client.create_producer(topic, max_pending_messages=5_000, block_if_queue_full=True)
    for number in range(MESSAGES):
        producer.send_async(b"%d" % number, None, partition_key=KEYS[number % len(KEYS)])
    producer.flush()
    api = AdminClient(gateway.admin_url)

    def numbers() -> dict[str, int]:
        found: dict[str, int] = api.ask("GET", subscription_path(topic, "s"))["dispatcher"]
        return found

    got = _all_of(other, lambda count: count + numbers()["waiting_messages"] >= MESSAGES - 200)
    seen = numbers()
    assert seen["spilled_messages"] > 1_000
    rest = _all_of(hung, lambda count: count + len(got) >= MESSAGES)
    assert numbers()["fetched_entries"] > 1_000
    both = by_key([*got, *rest])
    assert {key: len(values) for key, values in both.items()} == dict.fromkeys(KEYS, MESSAGES // len(KEYS))
    for values in both.values():
        assert list(values) == sorted(values, key=int)
    assert {message.redelivery_count() for message in rest} == {0}


def _all_of(consumer: pulsar.Consumer, enough: Callable[[int], bool]) -> list[pulsar.Message]:
    """Receive and acknowledge until there is enough."""
    got: list[pulsar.Message] = []
    ends_at = time.monotonic() + PATIENCE_S
    while not enough(len(got)):
        assert time.monotonic() < ends_at, f"{len(got)} came"
        for message in available(consumer):
            consumer.acknowledge(message)
            got.append(message)
            ends_at = time.monotonic() + PATIENCE_S
    return got
