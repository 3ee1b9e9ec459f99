"""The same raw frames to the broker and to the gateway: the same answers, but for what we refuse on purpose.

What a client may rely on is the code, not the words. Each scenario is played on a topic of its own against both; the
expected answers stand here as well, so that the test says what they are and not only that they agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.wire import pulsar_pb2 as pb
from tests.integration.conditions import eventually
from tests.integration.raw_client import CUMULATIVE, EXCLUSIVE, ConnectionEndedError, RawClient, T, frame

SHARED = pb.CommandSubscribe.Shared
FAILOVER = pb.CommandSubscribe.Failover
NOWHERE = pb.MessageIdData(ledgerId=987_654, entryId=3)

STORED_S_MAX = 60.0

Scenario = Callable[[RawClient, str], list[str]]


def said(answer: pb.BaseCommand) -> str:
    """An answer as one word: its error's name, or its type's."""
    if answer.type == T.ERROR:
        return pb.ServerError.Name(answer.error.error)
    if answer.type == T.ACK_RESPONSE and answer.ackResponse.HasField("error"):
        return pb.ServerError.Name(answer.ackResponse.error)
    if answer.type == T.CONSUMER_STATS_RESPONSE and answer.consumerStatsResponse.HasField("error_code"):
        return pb.ServerError.Name(answer.consumerStatsResponse.error_code)
    return T.Type.Name(answer.type)


def sticky(*ranges: tuple[int, int]) -> pb.KeySharedMeta:
    """Sticky ranges, both ends inclusive."""
    meta = pb.KeySharedMeta(keySharedMode=pb.STICKY)
    for start, end in ranges:
        meta.hashRanges.add(start=start, end=end)
    return meta


def joins(*wishes: dict[str, Any]) -> Scenario:
    """Subscribe one consumer after the other on one connection."""

    def play(client: RawClient, topic: str) -> list[str]:
        return [said(client.subscribe(topic, "s", number, **wish)) for number, wish in enumerate(wishes)]

    return play


AUTO: dict[str, Any] = {}
UNORDERED: dict[str, Any] = {
    "keySharedMeta": pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=True)
}
JSON_ONE = pb.Schema(
    name="s", type=pb.Schema.Json, schema_data=b'{"type":"record","name":"A","fields":[{"name":"a","type":"int"}]}'
)
JSON_TWO = pb.Schema(
    name="s", type=pb.Schema.Json, schema_data=b'{"type":"record","name":"A","fields":[{"name":"b","type":"string"}]}'
)


def on(*ranges: tuple[int, int]) -> dict[str, Any]:
    """A wish for sticky ranges."""
    return {"keySharedMeta": sticky(*ranges)}


OK, BUSY, ASSIGN, NOT_ALLOWED, METADATA = (
    "SUCCESS",
    "ConsumerBusy",
    "ConsumerAssignError",
    "NotAllowedError",
    "MetadataError",
)

JOINS = {
    "two that want the same": (joins(AUTO, AUTO), [OK, OK]),
    "sticky ranges that overlap": (joins(on((0, 100)), on((100, 200)), on((101, 200))), [OK, ASSIGN, OK]),
    "sticky beside automatic": (joins(AUTO, on((0, 100))), [OK, BUSY]),
    "automatic beside sticky": (joins(on((0, 100)), AUTO), [OK, BUSY]),
    "unordered beside ordered": (joins(AUTO, UNORDERED), [OK, BUSY]),
    "ordered beside unordered": (joins(UNORDERED, AUTO), [OK, BUSY]),
    "sticky without ranges": (joins(on()), [ASSIGN]),
    "a range that ends before it begins": (joins(on((9, 2))), [ASSIGN]),
    "own ranges that overlap": (joins(on((0, 10), (10, 20))), [ASSIGN]),
    "several own ranges": (joins(on((0, 10), (20, 30)), on((11, 19), (31, 65_535))), [OK, OK]),
    "exclusive where workers are": (joins(AUTO, {"subType": EXCLUSIVE}), [OK, BUSY]),
    "shared where workers are": (joins(AUTO, {"subType": SHARED}), [OK, BUSY]),
    "failover where workers are": (joins(AUTO, {"subType": FAILOVER}), [OK, BUSY]),
    "a worker where an exclusive consumer is": (joins({"subType": EXCLUSIVE}, AUTO), [OK, BUSY]),
    "a worker where a shared consumer is": (joins({"subType": SHARED}, AUTO), [OK, BUSY]),
    "compacted, first": (joins({"read_compacted": True}), [NOT_ALLOWED]),
    "compacted, second": (joins(AUTO, {"read_compacted": True}), [OK, NOT_ALLOWED]),
    "volatile beside durable": (joins(AUTO, {"durable": False}), [OK, NOT_ALLOWED]),
    "durable beside volatile": (joins({"durable": False}, AUTO), [OK, NOT_ALLOWED]),
    "another schema": (joins({"schema": JSON_ONE}, {"schema": JSON_TWO}), [OK, "IncompatibleSchema"]),
    "no schema beside one": (joins({"schema": JSON_ONE}, AUTO), [OK, OK]),
}


@pytest.mark.parametrize("name", JOINS)
def test_who_may_join_whom_is_as_at_the_broker(
    name: str, broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """Every pair of wishes is granted or refused with the very code the broker uses."""
    play, expected = JOINS[name]
    for url in (broker.service_url, gateway.service_url):
        topic = new_topic("policies")
        with RawClient(url).locate(topic) as client:
            assert play(client, topic) == expected, url


def acks_and_requests(client: RawClient, topic: str) -> list[str]:
    """Requests of a worker for itself and for consumers that are not."""
    places = client.produce(topic, [("k", b"0"), ("k", b"1")])
    client.joined(topic)
    client.flow(10)
    client.messages(2)
    acks = [
        pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, message_id=[place])
        for place in (places[0], NOWHERE)
    ]
    heard = [said(client.ask(T.ACK, ack)) for ack in acks]
    heard.append(said(client.ask(T.CONSUMER_STATS, pb.CommandConsumerStats(consumer_id=1, request_id=0))))
    for consumer_id in (1, 77):
        last = pb.CommandGetLastMessageId(consumer_id=consumer_id, request_id=0)
        heard.append(said(client.ask(T.GET_LAST_MESSAGE_ID, last)))
    heard += [
        said(client.ask(T.SEEK, pb.CommandSeek(consumer_id=77, request_id=0, message_id=places[0]))),
        said(client.ask(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=77, request_id=0))),
        said(client.ask(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=77, request_id=0))),
    ]
    return heard


def commands_without_answer(client: RawClient, topic: str) -> list[str]:
    """FLOW, ACK and REDELIVER for a consumer that is none: ignored, and the connection goes on."""
    client.joined(topic)
    client.flow(10, consumer_id=77)
    client.ack([NOWHERE], consumer_id=77)
    client.send(frame(T.REDELIVER_UNACKNOWLEDGED_MESSAGES, pb.CommandRedeliverUnacknowledgedMessages(consumer_id=77)))
    client.ack([NOWHERE])
    client.ping()
    return [T.Type.Name(command.type) for command in client.pushed]


def unsubscribing(client: RawClient, topic: str) -> list[str]:
    """With another consumer connected, alone, and when it is gone."""
    client.joined(topic, "s", 1).joined(topic, "s", 2)
    heard = [said(client.ask(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=0)))]
    heard.append(said(client.ask(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=2, request_id=0))))
    heard.append(said(client.ask(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=0))))
    heard.append(said(client.ask(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=0))))
    client.joined(topic, "s", 3)
    return heard


def unsubscribing_by_force(client: RawClient, topic: str) -> list[str]:
    """The other consumer is disconnected."""
    client.joined(topic, "s", 1).joined(topic, "s", 2)
    heard = [said(client.ask(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=0, force=True)))]
    client.ping()
    return heard + [f"{T.Type.Name(item.type)} {item.close_consumer.consumer_id}" for item in client.pushed]


def seeking(client: RawClient, topic: str) -> list[str]:
    """Every consumer is disconnected, then the seek is answered; what was acknowledged comes again."""
    places = client.produce(topic, [("k", b"0"), ("k", b"1")])
    client.joined(topic, "s", 1).joined(topic, "s", 2)
    client.flow(10, 1)
    client.flow(10, 2)
    client.messages(2)
    for consumer_id in (1, 2):
        client.ack_confirmed(places, consumer_id)
    client.wait_stored()  # a seek that meets the storing of a cursor may be overwritten by it, at the broker too
    heard = [said(client.ask(T.SEEK, pb.CommandSeek(consumer_id=1, request_id=0, message_id=places[1])))]
    client.ping()
    closed = sorted(item.close_consumer.consumer_id for item in client.pushed if item.type == T.CLOSE_CONSUMER)
    client.joined(topic, "s", 3)
    client.flow(10, 3)
    (again,) = client.messages(1)
    return [*heard, f"closed {closed}", f"again {again.place.entryId}"]


def subscribing_twice(client: RawClient, topic: str) -> list[str]:
    """The same consumer id again on the same connection: a client that lost an answer hears it again."""
    return [said(client.subscribe(topic, "s", 5)) for _ in range(2)]


def closing_twice(client: RawClient, topic: str) -> list[str]:
    """A close of what is closed is a success."""
    client.joined(topic)
    close = pb.CommandCloseConsumer(consumer_id=1, request_id=0)
    return [said(client.ask(T.CLOSE_CONSUMER, close)) for _ in range(2)]


REQUESTS: dict[str, tuple[Scenario, list[str]]] = {
    "acks and requests": (
        acks_and_requests,
        [
            *("ACK_RESPONSE", "ACK_RESPONSE"),
            *("CONSUMER_STATS_RESPONSE", "GET_LAST_MESSAGE_ID_RESPONSE", METADATA),
            *(METADATA, METADATA, OK),
        ],
    ),
    "commands without an answer": (commands_without_answer, []),
    "unsubscribing": (unsubscribing, [METADATA, OK, OK, METADATA]),
    "unsubscribing by force": (unsubscribing_by_force, [OK, "CLOSE_CONSUMER 2"]),
    "seeking": (seeking, [OK, "closed [1, 2]", "again 1"]),
    "subscribing twice": (subscribing_twice, [OK, OK]),
    "closing twice": (closing_twice, [OK, OK]),
}


def wait_stored(broker: PulsarStandalone, topic: str) -> None:
    """Return when the broker has stored that everything was acknowledged."""

    def stored() -> bool:
        with broker.admin() as http:
            path = f"/admin/v2/{topic.replace('://', '/')}/internalStats"
            statistics = http.get(path).raise_for_status().json()
        cursor = statistics["cursors"]["s"]
        return bool(cursor["cursorLedger"] >= 0 and cursor["markDeletePosition"] == statistics["lastConfirmedEntry"])

    eventually(stored, "a stored cursor", STORED_S_MAX)


@pytest.mark.parametrize("name", REQUESTS)
def test_requests_are_answered_as_by_the_broker(
    name: str, broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """For the worker's own consumer, for others' and for none: same answers, same order."""
    play, expected = REQUESTS[name]
    for url in (broker.service_url, gateway.service_url):
        topic = new_topic("requests")
        with RawClient(url).locate(topic) as client:
            client.wait_stored = lambda topic=topic: wait_stored(broker, topic)  # type: ignore[misc]
            assert play(client, topic) == expected, url


def test_a_grant_of_no_permits_ends_the_connection(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """The broker takes it for a client that is broken, and so do we; we say why."""
    for url in (broker.service_url, gateway.service_url):
        topic = new_topic("no-permits")
        with RawClient(url).locate(topic).joined(topic) as client:
            client.flow(0)
            client.ended()
            with pytest.raises(ConnectionEndedError):
                client.read()


# ---- where we differ on purpose --------------------------------------------------------------------------------------


def test_a_cumulative_ack_is_refused_where_the_broker_ignores_it(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """It acknowledges nothing in either case. The broker's receipt lets the client believe it did; ours says no."""
    receipts = {}
    for url in (broker.service_url, gateway.service_url):
        topic = new_topic("cumulative")
        with RawClient(url).locate(topic) as client:
            places = client.produce(topic, [("k", b"0"), ("k", b"1")])
            client.joined(topic)
            client.flow(10)
            client.messages(2)
            receipts[url] = client.ack_confirmed(places[1:], kind=CUMULATIVE)
            client.send(
                frame(T.REDELIVER_UNACKNOWLEDGED_MESSAGES, pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1))
            )
            assert [message.place.entryId for message in client.messages(2)] == [0, 1], url
    assert not receipts[broker.service_url].HasField("error")
    assert receipts[gateway.service_url].error == pb.NotAllowedError


def test_sticky_ranges_outside_the_space_are_refused_where_the_broker_takes_them(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """No slot is there, so the worker would wait for ever; clients check the bounds, but not all of them."""
    for wish in (on((0, 65_536)), on((-5, 5))):
        assert _join_once(broker.service_url, new_topic("bounds"), wish) == OK
        assert _join_once(gateway.service_url, new_topic("bounds"), wish) == ASSIGN


def test_consumer_stats_of_nobody_cost_a_worker_nothing_where_the_broker_ends_the_connection(
    broker: PulsarStandalone, gateway: KeylineGateway, new_topic: Callable[[str], str]
) -> None:
    """The broker fails inside on an id it does not know and drops the client; our workers stay, the asker may retry."""
    stats = pb.CommandConsumerStats(consumer_id=77, request_id=0)
    topic = new_topic("stats")
    with RawClient(broker.service_url).locate(topic).joined(topic) as client, pytest.raises(ConnectionEndedError):
        client.ask(T.CONSUMER_STATS, stats)
    with RawClient(gateway.service_url).locate(topic).joined(topic) as client:
        assert said(client.ask(T.CONSUMER_STATS, stats)) == "ServiceNotReady"
        client.flow(10)
        with RawClient(gateway.service_url) as producer:
            producer.produce(topic, [("k", b"0")])
        assert len(client.messages(1)) == 1


def _join_once(url: str, topic: str, wish: dict[str, Any]) -> str:
    with RawClient(url).locate(topic) as client:
        return said(client.subscribe(topic, **wish))
