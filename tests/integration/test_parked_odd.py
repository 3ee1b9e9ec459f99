"""Parked keys where a producer wrote what no client writes, or the parking topic refused one message, at a real broker.

The gateway is killed in between: what the next one knows, it has from the two topics.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import peek
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.exclusive_rig import administer
from tests.integration.parked_rig import parked
from tests.integration.raw_client import TIMEOUT_S, Message, RawClient, T, frame

pytestmark = [pytest.mark.slow, pytest.mark.broker]

PARKS: Final = {"park_after": "1", "key_window": "1"}
ODD: Final[tuple[dict[str, Any], ...]] = (
    {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": 2},
    {"uuid": "u", "num_chunks_from_msg": 2, "chunk_id": -1},
    {"num_chunks_from_msg": 2, "chunk_id": 0},
    {"num_chunks_from_msg": -2, "chunk_id": -3, "total_chunk_msg_size": -1},
    {
        "uuid": "u",
        "num_chunks_from_msg": 2,
        "num_messages_in_batch": 3,
        "encryption_keys": [pb.EncryptionKeys(key="e", value=b"v")],
    },
)
SIZE_MAX: Final = 20_000
OTHERS: Final = 40
"""Messages of another key before those that are parked."""
SMALL: Final = {"look_ahead_messages_per_worker": "2", "look_ahead_messages_per_subscription": "2"}


def payload(message: Message) -> bytes:
    """What stands behind its metadata, the first of it."""
    return message.tail[peek(message.tail).payload_start :][:8]


def give_back(worker: RawClient, message: Message) -> None:
    """A negative acknowledgement."""
    body = pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1, message_ids=[message.place])
    worker.send(frame(T.REDELIVER_UNACKNOWLEDGED_MESSAGES, body))


def redrive(gateway: KeylineGateway, topic: str) -> None:
    """Of the key."""
    AdminClient(gateway.admin_url).ask("POST", subscription_path(topic, "s") + "/parked/redrive", query={"key": "k"})


def bound(broker: PulsarStandalone, topic: str) -> int:
    """The largest message that it takes, in bytes; 0 without a bound of its own."""
    return int(administer(broker, "GET", topic, "maxMessageSize?applied=true") or 0)


def outstanding(gateway: KeylineGateway, topic: str) -> int:
    """Entries that came and are not acknowledged."""
    told = AdminClient(gateway.admin_url).ask("GET", subscription_path(topic, "s"))
    return int(told["dispatcher"]["outstanding_entries"])


def slots(gateway: KeylineGateway, topic: str) -> list[Any]:
    """Those that are parked."""
    found: list[Any] = AdminClient(gateway.admin_url).ask("GET", subscription_path(topic, "s") + "/parked")["slots"]
    return found


def test_entries_that_no_client_can_have_written_are_parked_and_redriven(
    start_gateway: StartGateway, broker: PulsarStandalone, new_topic: Callable[[str], str]
) -> None:
    """The copy of a chunk that cannot be one was not believed: the key stood still, then the message was lost."""
    first, topic = start_gateway(broker, **PARKS), new_topic("odd")
    count = len(ODD) + 2
    with RawClient(broker.service_url) as producer, RawClient(first.service_url) as worker:
        producer.locate(topic).produce(topic, [("k", b"0")])
        for number, fields in enumerate(ODD, 1):
            producer.produce(topic, [("k", b"%d" % number)], **fields)
        producer.produce(topic, [("k", b"%d" % (count - 1))])
        worker.locate(topic).joined(topic).flow(100)
        (poisoned,) = worker.messages(1)
        give_back(worker, poisoned)
        eventually(lambda: len(parked(first, topic, "k")) == count, "all are parked")
        first.kill()
    second = start_gateway(broker, **PARKS)
    with RawClient(second.service_url) as worker:
        worker.locate(topic).joined(topic).flow(100)
        assert len(parked(second, topic, "k")) == count
        redrive(second, topic)
        seen = []
        for _ in range(count):
            (message,) = worker.messages(1)
            seen.append(message)
            worker.ack_confirmed([message.place])
        assert [payload(message) for message in seen] == [b"%d" % number for number in range(count)]
        chunks = [peek(message.tail).metadata.chunk_id for message in seen]
        assert chunks == [0, *(fields.get("chunk_id", 0) for fields in ODD), 0], "as they were written"
        eventually(lambda: not slots(second, topic), "nothing is parked")


def test_a_redrive_by_the_next_gateway_does_not_overtake_what_the_parking_topic_refused(
    start_gateway: StartGateway, broker: PulsarStandalone, new_topic: Callable[[str], str]
) -> None:
    """It is ordered before the refused message is read again, which a look-ahead full of another key holds up."""
    first, topic = start_gateway(broker, **PARKS), new_topic("gap")
    with RawClient(broker.service_url) as producer, RawClient(first.service_url) as worker:
        worker.locate(topic).joined(topic)
        told = AdminClient(first.admin_url).ask("GET", subscription_path(topic, "s") + "/parked")
        parking_topic = told["parking_topic"]
        administer(broker, "POST", parking_topic, "maxMessageSize", SIZE_MAX)
        eventually(lambda: bound(broker, parking_topic) == SIZE_MAX, "the parking topic has a bound")
        producer.locate(topic).produce(topic, [("j", b"j")] * OTHERS)
        producer.produce(topic, [("k", b"0"), ("k", b"1" * 2 * SIZE_MAX), ("k", b"2"), ("k", b"3")])
        worker.flow(1_000)
        poisoned = next(message for message in worker.messages(2) if payload(message) == b"0")
        eventually(lambda: outstanding(first, topic) == OTHERS + 4, "all have come")
        give_back(worker, poisoned)
        eventually(lambda: len(parked(first, topic, "k")) == 3, "all are parked but the large one")
        first.kill()
    administer(broker, "DELETE", parking_topic, "maxMessageSize")
    eventually(lambda: not bound(broker, parking_topic), "the parking topic takes all")
    second = start_gateway(broker, **PARKS, **SMALL)
    with RawClient(second.service_url) as worker:
        worker.locate(topic).joined(topic).flow(3)
        (other,) = worker.messages(1)
        redrive(second, topic)
        worker.socket.settimeout(3.0)
        with pytest.raises(TimeoutError):
            worker.messages(1)
        worker.socket.settimeout(TIMEOUT_S)
        worker.flow(1_000)
        seen = [other]
        worker.ack([other.place])
        while len(seen) < OTHERS + 4:
            (message,) = worker.messages(1)
            seen.append(message)
            worker.ack([message.place])
        assert [each for each in map(payload, seen) if each != b"j"] == [b"0", b"1" * 8, b"2", b"3"]
        eventually(lambda: not slots(second, topic), "nothing is parked")
