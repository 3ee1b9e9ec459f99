"""The relay: frames both ways, backpressure, and what happens when the broker goes."""

from __future__ import annotations

import pytest

from proxy.limits import Limits
from proxy.net.relay import requests
from proxy.wire import pulsar_pb2 as pb
from tests.net.session_rig import (
    BROKER,
    SessionRig,
    T,
    ack,
    connect,
    connected,
    encode,
    flow,
    lookup,
    message,
    parse,
    producer,
    producer_success,
    send,
    subscribe,
    success,
)

SHARED = pb.CommandSubscribe.Shared
CLOSE_CONSUMER = encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=6, request_id=7))
CLOSED_BY_BROKER = encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=6, request_id=1))
CLOSE_PRODUCER = encode(T.CLOSE_PRODUCER, pb.CommandCloseProducer(producer_id=5, request_id=8))


def with_worker() -> SessionRig:
    """A connection that must outlive its broker."""
    rig = SessionRig().connect()
    rig.worker()
    return rig


def kinds(commands: list[pb.BaseCommand]) -> list[int]:
    """The types alone."""
    return [command.type for command in commands]


# ---- forwarding


def test_frames_pass_unchanged_both_ways() -> None:
    """Also those whose insides we would not understand: messages, receipts, schemas, a broker's newer commands."""
    rig = SessionRig().connect()
    up = send(5, 1, bytes(1000)) + ack(6) + flow(6, 10)
    down = message(6, 1, bytes(1000)) + encode(T.SEND_RECEIPT, pb.CommandSendReceipt(producer_id=5, sequence_id=1))
    newer = bytes([0, 0, 0, 8, 0, 0, 0, 4, 8, 100, 0x18, 0x01])
    rig.client.deliver(up)
    rig.broker.deliver(down + newer)
    assert rig.broker.take() == up
    assert rig.client.take() == down + newer


def test_unknown_fields_of_a_relayed_command_survive() -> None:
    """What a client of tomorrow says to a broker of tomorrow is theirs."""
    rig = SessionRig().connect()
    command = T.FromString(
        T(type=T.PRODUCER, producer=pb.CommandProducer(topic="x", producer_id=1, request_id=1)).SerializeToString()
    )
    command.producer.MergeFromString(b"\xc2\x3e\x03new")  # field 1000
    encoded = encode(T.PRODUCER, command.producer)
    rig.client.deliver(encoded)
    assert rig.broker.take() == encoded


def test_a_close_from_the_broker_does_not_lead_the_client_past_us() -> None:
    """The broker that has the topic now is looked up through us, not dialled."""
    rig = SessionRig().connect()
    body = pb.CommandCloseConsumer(consumer_id=6, request_id=1, assignedBrokerServiceUrl="pulsar://broker-9:6650")
    rig.broker.deliver(encode(T.CLOSE_CONSUMER, body))
    other = pb.CommandCloseProducer(producer_id=5, request_id=1, assignedBrokerServiceUrlTls="pulsar+ssl://broker-9:1")
    rig.broker.deliver(encode(T.CLOSE_PRODUCER, other))
    first, second = rig.to_client()
    assert first.close_consumer == pb.CommandCloseConsumer(consumer_id=6, request_id=1)
    assert second.close_producer == pb.CommandCloseProducer(producer_id=5, request_id=1)


# ---- backpressure


def test_a_client_that_does_not_read_stops_the_broker() -> None:
    """And the broker goes on when it reads again."""
    rig = SessionRig().connect()
    rig.client.set_writable(False)
    assert not rig.broker.reading
    rig.client.set_writable(True)
    assert rig.broker.reading


def test_a_broker_that_does_not_read_stops_the_client() -> None:
    """Frames that came meanwhile are taken in order afterwards, a worker's among them."""
    rig = SessionRig().connect()
    port = rig.worker()
    rig.broker.set_writable(False)
    assert not rig.client.reading
    rig.client.deliver(send(5, 1) + ack(1))
    assert port.calls == []
    rig.broker.set_writable(True)
    rig.clock.settle()
    assert kinds(rig.to_broker()) == [T.SEND]
    assert [name for name, _ in port.calls] == ["ack"]


def test_a_stalled_broker_cannot_hold_a_worker_s_commands_for_ever() -> None:
    """It is lost after two silent intervals, and the client is read again."""
    rig = SessionRig().connect()
    port = rig.worker()
    rig.broker.set_writable(False)
    rig.client.deliver(ack(1))
    rig.clock.advance(3 * rig.limits.keep_alive_s)
    assert [name for name, _ in port.calls] == ["ack"]
    assert rig.cause is None


def test_a_leg_opened_while_the_client_does_not_read_is_not_read_either() -> None:
    """Backpressure outlives a reconnect."""
    rig = with_worker()
    rig.client.set_writable(False)
    rig.broker.lose()
    rig.client.deliver(lookup(1))
    broker = rig.connector.last.accept()
    assert not broker.reading


# ---- the broker goes: without workers


def test_without_workers_the_client_goes_with_its_broker() -> None:
    """As behind Pulsar's own proxy: the client looks everything up anew."""
    rig = SessionRig().connect()
    rig.relayed_producer()
    rig.broker.lose("connection reset")
    assert rig.client.closing
    assert rig.cause == "broker_lost"
    assert rig.to_client() == []


def test_when_the_last_worker_has_gone_the_client_goes_with_its_broker_too() -> None:
    """Only a worker that is here needs the connection."""
    rig = SessionRig().connect()
    rig.worker().link.forget()
    rig.broker.lose()
    assert rig.cause == "broker_lost"


# ---- the broker goes: with workers (G4)


def test_with_workers_the_client_stays_and_hears_what_it_lost() -> None:
    """Relayed producers and consumers are closed, as by a broker that unloads a topic; the worker hears nothing."""
    rig = with_worker()
    rig.relayed_producer(5, 50)
    rig.relayed_consumer(6, 60)
    port = rig.directory.workers[0]
    rig.broker.lose("connection reset")
    first, second = rig.to_client()
    assert first.close_producer == pb.CommandCloseProducer(producer_id=5, request_id=2**64 - 1)
    assert second.close_consumer == pb.CommandCloseConsumer(consumer_id=6, request_id=2**64 - 1)
    assert port.calls == []
    assert not rig.client.closing


def test_what_was_closed_before_is_not_closed_again() -> None:
    """Neither what the client closed, nor the broker, nor what never came to be."""
    rig = with_worker()
    rig.relayed_producer(5, 50)
    rig.relayed_consumer(6, 60)
    rig.relayed_consumer(8, 80)
    rig.client.deliver(CLOSE_PRODUCER + CLOSE_CONSUMER + subscribe(9, 90, SHARED))
    rig.broker.deliver(success(8) + success(7))
    rig.broker.deliver(encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=8, request_id=1)))
    rig.broker.deliver(encode(T.ERROR, pb.CommandError(request_id=90, error=pb.ConsumerBusy, message="no")))
    rig.take_all()
    rig.broker.lose()
    assert rig.to_client() == []


def test_an_unsubscribed_consumer_is_gone_and_a_failed_unsubscribe_leaves_it() -> None:
    """The broker closes a consumer that unsubscribes, when it lets it."""
    rig = with_worker()
    rig.relayed_consumer(6, 60)
    rig.relayed_consumer(7, 70)
    for consumer_id in (6, 7):
        body = pb.CommandUnsubscribe(consumer_id=consumer_id, request_id=consumer_id)
        rig.client.deliver(encode(T.UNSUBSCRIBE, body))
    rig.broker.deliver(success(6))
    rig.broker.deliver(encode(T.ERROR, pb.CommandError(request_id=7, error=pb.ConsumerBusy, message="others are here")))
    rig.take_all()
    rig.broker.lose()
    assert [command.close_consumer.consumer_id for command in rig.to_client()] == [7]


@pytest.mark.parametrize("met_by", [b"", CLOSED_BY_BROKER], ids=["", "and by the broker"])
@pytest.mark.parametrize("ended_by", [T.CLOSE_CONSUMER, T.UNSUBSCRIBE], ids=["closed", "unsubscribed"])
def test_a_consumer_that_is_asked_for_behind_the_end_of_its_former_stands(ended_by: int, met_by: bytes) -> None:
    """What the broker says of the former does not end it: receipts are asked for, and it is closed with the broker."""
    rig = with_worker()
    rig.relayed_consumer(6, 60)
    unsubscribe = encode(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=6, request_id=7))
    rig.client.deliver(CLOSE_CONSUMER if ended_by == T.CLOSE_CONSUMER else unsubscribe)
    rig.client.deliver(subscribe(6, 62, SHARED))
    rig.broker.deliver(met_by + success(7) + success(62))
    rig.take_all()
    rig.client.deliver(ack(6, request_id=63))
    assert kinds(rig.to_broker()) == [T.ACK]
    rig.broker.lose()
    assert kinds(rig.to_client()) == [T.ACK_RESPONSE, T.CLOSE_CONSUMER]


def test_a_consumer_that_is_refused_behind_the_end_of_its_former_is_none() -> None:
    """Whatever was answered for the former one, and when."""
    rig = with_worker()
    rig.client.deliver(subscribe(6, 60, SHARED) + CLOSE_CONSUMER + subscribe(6, 62, SHARED))
    busy = encode(T.ERROR, pb.CommandError(request_id=62, error=pb.ConsumerBusy, message="no"))
    rig.broker.deliver(success(60) + success(7) + busy)
    rig.take_all()
    rig.broker.lose()
    assert rig.to_client() == []


def test_a_second_subscribe_that_is_refused_leaves_the_first() -> None:
    """A client that gave up waiting asks again, and is told that the consumer is being made."""
    rig = with_worker()
    rig.client.deliver(subscribe(6, 60, SHARED) + subscribe(6, 62, SHARED))
    present = encode(T.ERROR, pb.CommandError(request_id=62, error=pb.ServiceNotReady, message="already present"))
    rig.broker.deliver(present + success(60))
    rig.take_all()
    rig.broker.lose()
    assert kinds(rig.to_client()) == [T.CLOSE_CONSUMER]


def test_a_consumer_that_its_client_closes_has_ended_at_once() -> None:
    """A broker answers none of its acknowledgements from then on; and a client is not told what it has done itself."""
    rig = with_worker()
    rig.relayed_consumer(6, 60)
    rig.client.deliver(CLOSE_CONSUMER + ack(6, request_id=63))
    assert kinds(rig.to_broker()) == [T.CLOSE_CONSUMER]
    (refused,) = rig.to_client()
    assert (refused.ackResponse.request_id, refused.ackResponse.error) == (63, pb.ConsumerNotFound)
    rig.broker.lose()
    assert kinds(rig.to_client()) == [T.SUCCESS]


def test_an_answer_that_meets_the_close_of_its_consumer_opens_nothing() -> None:
    """It is the client's; when the broker goes, only the close is left to be answered."""
    rig = with_worker()
    rig.client.deliver(subscribe(6, 60, SHARED) + CLOSE_CONSUMER)
    rig.broker.deliver(success(60))
    assert [command.success.request_id for command in rig.to_client()] == [60]
    rig.broker.lose()
    assert [command.success.request_id for command in rig.to_client()] == [7]


def test_an_answer_to_a_closed_consumer_is_not_that_to_the_next_of_its_id() -> None:
    """That one is refused when the broker goes, and nothing of it is closed."""
    rig = with_worker()
    rig.client.deliver(subscribe(6, 60, SHARED) + CLOSE_CONSUMER + subscribe(6, 62, SHARED))
    rig.broker.deliver(success(60))
    rig.to_client()
    rig.broker.lose()
    assert [(told.type, told.error.request_id or told.success.request_id) for told in rig.to_client()] == [
        (T.SUCCESS, 7),
        (T.ERROR, 62),
    ]


def test_a_subscribe_before_an_unsubscribe_is_answered_after_it() -> None:
    """A broker may ask first whether the client may: then it makes another consumer."""
    rig = with_worker()
    rig.relayed_consumer(6, 60)
    unsubscribe = encode(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=6, request_id=7))
    rig.client.deliver(subscribe(6, 62, SHARED) + unsubscribe)
    rig.broker.deliver(success(7) + success(62))
    rig.take_all()
    rig.broker.lose()
    assert kinds(rig.to_client()) == [T.CLOSE_CONSUMER]


REQUESTS: dict[int, object] = {
    T.LOOKUP: pb.CommandLookupTopic(topic="x", request_id=1),
    T.PARTITIONED_METADATA: pb.CommandPartitionedTopicMetadata(topic="x", request_id=1),
    T.PRODUCER: pb.CommandProducer(topic="x", producer_id=9, request_id=1),
    T.SUBSCRIBE: pb.CommandSubscribe(topic="x", subscription="s", subType=SHARED, consumer_id=9, request_id=1),
    T.UNSUBSCRIBE: pb.CommandUnsubscribe(consumer_id=9, request_id=1),
    T.SEEK: pb.CommandSeek(consumer_id=9, request_id=1, message_publish_time=1),
    T.GET_LAST_MESSAGE_ID: pb.CommandGetLastMessageId(consumer_id=9, request_id=1),
    T.CONSUMER_STATS: pb.CommandConsumerStats(consumer_id=9, request_id=1),
    T.GET_TOPICS_OF_NAMESPACE: pb.CommandGetTopicsOfNamespace(request_id=1, namespace="public/default"),
    T.GET_SCHEMA: pb.CommandGetSchema(request_id=1, topic="x"),
    T.GET_OR_CREATE_SCHEMA: pb.CommandGetOrCreateSchema(
        request_id=1, topic="x", schema=pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
    ),
    T.WATCH_TOPIC_LIST: pb.CommandWatchTopicList(request_id=1, watcher_id=1, namespace="n", topics_pattern=".*"),
    T.TC_CLIENT_CONNECT_REQUEST: pb.CommandTcClientConnectRequest(request_id=1, tc_id=0),
    T.NEW_TXN: pb.CommandNewTxn(request_id=1),
    T.ADD_PARTITION_TO_TXN: pb.CommandAddPartitionToTxn(request_id=1),
    T.ADD_SUBSCRIPTION_TO_TXN: pb.CommandAddSubscriptionToTxn(request_id=1),
    T.END_TXN: pb.CommandEndTxn(request_id=1),
}
REPLIES: dict[int, int] = {
    T.LOOKUP: T.LOOKUP_RESPONSE,
    T.PARTITIONED_METADATA: T.PARTITIONED_METADATA_RESPONSE,
    T.CONSUMER_STATS: T.CONSUMER_STATS_RESPONSE,
    T.GET_SCHEMA: T.GET_SCHEMA_RESPONSE,
    T.GET_OR_CREATE_SCHEMA: T.GET_OR_CREATE_SCHEMA_RESPONSE,
    T.TC_CLIENT_CONNECT_REQUEST: T.TC_CLIENT_CONNECT_RESPONSE,
    T.NEW_TXN: T.NEW_TXN_RESPONSE,
    T.ADD_PARTITION_TO_TXN: T.ADD_PARTITION_TO_TXN_RESPONSE,
    T.ADD_SUBSCRIPTION_TO_TXN: T.ADD_SUBSCRIPTION_TO_TXN_RESPONSE,
    T.END_TXN: T.END_TXN_RESPONSE,
}


@pytest.mark.parametrize("kind", REQUESTS, ids=T.Type.Name)
def test_every_unanswered_request_is_answered_when_the_broker_goes(kind: int) -> None:
    """With the reply its sender waits for: an ERROR would leave a lookup hanging. The code makes clients try again."""
    rig = with_worker()
    request = encode(kind, REQUESTS[kind])
    rig.client.deliver(request)
    assert rig.broker.take() == request
    rig.broker.lose("connection reset")
    (command,) = rig.to_client()
    assert command.type == REPLIES.get(kind, T.ERROR)
    body = getattr(command, T.DESCRIPTOR.fields_by_number[command.type].name)
    assert body.request_id == 1
    assert (
        body.error_code
        if hasattr(body, "error_code")
        else body.error
        in (
            pb.ServiceNotReady,
            pb.TransactionCoordinatorNotFound,
        )
    )


def test_an_id_is_of_one_request_at_a_time() -> None:
    """A success of the first would be taken for the other's: that a producer has its topic."""
    rig = SessionRig().connect()
    seek = encode(T.SEEK, REQUESTS[T.SEEK])
    rig.client.deliver(seek + producer(5, 1))
    assert rig.broker.take() == seek
    (refused,) = rig.to_client()
    assert (refused.type, refused.error.request_id) == (T.ERROR, 1)
    rig.client.deliver(lookup(1))
    assert rig.broker.take() == lookup(1), "C++ numbers lookups apart"
    rig.to_client()
    rig.broker.deliver(success(1))
    rig.client.deliver(producer(5, 1))
    assert rig.broker.take() == producer(5, 1)


@pytest.mark.parametrize("request_frame", [CLOSE_CONSUMER, CLOSE_PRODUCER])
def test_a_close_has_succeeded_when_the_broker_goes(request_frame: bytes) -> None:
    """What it was to close is closed; the same while there is no broker."""
    rig = with_worker()
    rig.client.deliver(request_frame)
    rig.broker.lose()
    assert kinds(rig.to_client()) == [T.SUCCESS]
    rig.client.deliver(request_frame)
    assert kinds(rig.to_client()) == [T.SUCCESS]
    assert len(rig.connector.attempts) == 1


def test_an_acknowledgement_that_awaits_its_receipt_is_answered() -> None:
    """With ACK_RESPONSE; one whose receipt came is not."""
    rig = with_worker()
    rig.relayed_consumer(6, 60)
    rig.client.deliver(ack(6, request_id=70) + ack(6, request_id=71) + ack(6))
    rig.broker.deliver(encode(T.ACK_RESPONSE, pb.CommandAckResponse(consumer_id=6, request_id=70)))
    rig.take_all()
    rig.broker.lose()
    commands = rig.to_client()
    assert kinds(commands) == [T.ACK_RESPONSE, T.CLOSE_CONSUMER]
    answer = commands[0].ackResponse
    assert (answer.request_id, answer.consumer_id, answer.error) == (71, 6, pb.ServiceNotReady)


def test_receipts_are_watched_until_the_last_one_expected() -> None:
    """The first receipt must not make us overlook the second; an acknowledgement is answered once."""
    rig = with_worker()
    rig.relayed_consumer(6, 60)
    rig.client.deliver(ack(6, request_id=70) + ack(6, request_id=71))
    for request_id in (70, 71):
        rig.broker.deliver(encode(T.ACK_RESPONSE, pb.CommandAckResponse(consumer_id=6, request_id=request_id)))
    assert kinds(rig.to_client()) == [T.ACK_RESPONSE] * 2
    rig.broker.lose()
    assert kinds(rig.to_client()) == [T.CLOSE_CONSUMER]


def test_a_producer_that_still_waits_for_its_turn_is_refused() -> None:
    """Its request was answered with ready=false: the client awaits a second answer to the same request."""
    rig = with_worker()
    rig.client.deliver(producer(5, 50))
    rig.broker.deliver(producer_success(50, ready=False))
    rig.take_all()
    rig.broker.lose()
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (50, pb.ServiceNotReady)


def test_a_producer_whose_turn_came_is_closed() -> None:
    """The second answer made it one like all others."""
    rig = with_worker()
    rig.client.deliver(producer(5, 50))
    rig.broker.deliver(producer_success(50, ready=False) + producer_success(50))
    rig.take_all()
    rig.broker.lose()
    assert kinds(rig.to_client()) == [T.CLOSE_PRODUCER]


@pytest.mark.parametrize("request_id", [50, 52])
def test_a_producer_that_was_asked_for_behind_a_close_is_not_what_was_closed(request_id: int) -> None:
    """The close answers for the request before it alone, whatever the id of the one behind it."""
    rig = with_worker()
    rig.client.deliver(producer(5, 50) + CLOSE_PRODUCER + producer(5, request_id))
    rig.broker.deliver(success(8))
    rig.take_all()
    rig.broker.lose()
    assert [command.error.request_id for command in rig.to_client()] == [request_id]


def test_a_refused_close_leaves_the_request_of_its_producer() -> None:
    """The broker may not know the producer yet, and answer for it later."""
    rig = with_worker()
    rig.client.deliver(producer(5, 50) + CLOSE_PRODUCER)
    rig.broker.deliver(encode(T.ERROR, pb.CommandError(request_id=8, error=pb.UnknownError, message="not registered")))
    rig.take_all()
    rig.broker.lose()
    assert [command.error.request_id for command in rig.to_client()] == [50]


# ---- a new leg


def test_the_next_request_opens_a_new_leg_with_the_same_connect() -> None:
    """Requests wait for it in order; the client hears no second CONNECTED."""
    rig = with_worker()
    rig.broker.lose()
    assert len(rig.connector.attempts) == 1
    requests = lookup(1) + producer(5, 50)
    rig.client.deliver(requests)
    assert [attempt.address for attempt in rig.connector.attempts] == [BROKER, BROKER]
    broker = rig.connector.last.accept()
    assert parse(broker.take()) == parse(connect())
    broker.deliver(connected())
    assert broker.take() == requests
    broker.deliver(producer_success(50) + message(6, 1))
    assert kinds(rig.to_client()) == [T.PRODUCER_SUCCESS, T.MESSAGE]
    assert rig.session.counters.broker_reconnects_total == 1


def test_fresh_tokens_are_kept_for_the_next_leg() -> None:
    """The token of an old CONNECT may have expired; the one that answered a challenge has not."""
    rig = SessionRig().connect(auth_method_name="token", auth_data=b"old")
    rig.worker()
    response = pb.CommandAuthResponse(response=pb.AuthData(auth_method_name="token", auth_data=b"new"))
    rig.client.deliver(encode(T.AUTH_RESPONSE, response))
    rig.broker.lose()
    rig.client.deliver(lookup(1))
    assert parse(rig.connector.last.accept().take())[0].connect.auth_data == b"new"


def test_a_new_leg_that_cannot_be_had_refuses_what_waited_and_the_next_request_tries_again() -> None:
    """The worker stays through it all."""
    rig = with_worker()
    rig.broker.lose()
    for request_id in (1, 2):
        rig.client.deliver(lookup(request_id))
        rig.connector.last.refuse("connection refused")
        (command,) = rig.to_client()
        assert command.lookupTopicResponse.request_id == request_id
        assert "connection refused" in command.lookupTopicResponse.message
    assert len(rig.connector.attempts) == 3
    assert rig.directory.workers[0].calls == []


def test_a_new_leg_that_the_broker_refuses_counts_as_not_ready() -> None:
    """One request after another may try; no connection is closed over it."""
    rig = with_worker()
    rig.broker.lose()
    rig.client.deliver(producer(5, 50))
    refusal = pb.CommandError(request_id=2**64 - 1, error=pb.TooManyRequests, message="busy")
    rig.connector.last.accept().deliver(encode(T.ERROR, refusal))
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (50, pb.ServiceNotReady)
    assert "busy" in command.error.message
    assert rig.cause is None


@pytest.mark.parametrize("code", [pb.AuthenticationError, pb.AuthorizationError])
def test_a_client_that_the_broker_knows_no_more_is_told_so_and_goes(code: pb.ServerError) -> None:
    """Its credentials have expired or were revoked: it must not stay for its workers' sake."""
    rig = with_worker()
    rig.broker.lose()
    rig.client.deliver(producer(5, 50))
    refusal = pb.CommandError(request_id=2**64 - 1, error=code, message="expired")
    rig.connector.last.accept().deliver(encode(T.ERROR, refusal))
    (command,) = rig.to_client()
    assert (command.error.error, command.error.message) == (code, "expired")
    assert rig.cause == "broker_refused"
    assert rig.directory.workers[0].calls[0][0] == "lost"


@pytest.mark.parametrize("code", [pb.AuthenticationError, pb.AuthorizationError])
def test_a_client_whose_credentials_a_broker_refuses_later_goes_at_once(code: pb.ServerError) -> None:
    """A broker says so before it closes the connection, which is not how a broker is lost: no worker stays for it."""
    rig = with_worker()
    rig.broker.deliver(encode(T.ERROR, pb.CommandError(request_id=2**64 - 1, error=code, message="expired")))
    (command,) = rig.to_client()
    assert (command.error.error, command.error.message) == (code, "expired")
    assert rig.cause == "broker_refused"
    assert rig.directory.workers[0].calls[0][0] == "lost"


def test_data_for_what_was_closed_is_dropped_while_there_is_no_leg() -> None:
    """It would mean nothing to a new connection, and does not open one."""
    rig = with_worker()
    rig.relayed_producer(5, 50)
    rig.broker.lose()
    rig.client.deliver(send(5, 1) + ack(6) + flow(6, 1))
    assert len(rig.connector.attempts) == 1
    assert rig.session.counters.dropped_frames_total == 3
    rig.client.deliver(lookup(1) + send(5, 2))
    broker = rig.reopen()
    assert kinds(parse(broker.take())) == [T.LOOKUP]


def test_late_messages_of_a_closed_producer_never_reach_a_new_leg() -> None:
    """A broker ends a connection that sends for a producer it does not know. A producer opened anew sends."""
    rig = with_worker()
    rig.relayed_producer(5, 50)
    rig.relayed_producer(4, 40)
    rig.broker.lose()
    rig.client.deliver(lookup(1))
    broker = rig.reopen()
    broker.take()
    rig.client.deliver(send(5, 1) + send(4, 1))
    assert broker.take() == b""
    rig.client.deliver(producer(5, 51))
    broker.deliver(producer_success(51))
    rig.client.deliver(send(5, 1) + send(4, 2) + send(5, 2))
    assert kinds(parse(broker.take())) == [T.PRODUCER, T.SEND, T.SEND]
    rig.client.deliver(encode(T.CLOSE_PRODUCER, pb.CommandCloseProducer(producer_id=4, request_id=9)))
    broker.take()
    writes = broker.writes
    rig.client.deliver(send(5, 3) + send(5, 4))
    assert broker.writes - writes == 1, "nothing is stale any more: data goes unparsed again"


def test_what_waits_for_a_new_leg_is_bounded() -> None:
    """Beyond the bound a request is refused at once, and only that one."""
    rig = SessionRig(Limits(queued_while_connecting_bytes=3 * len(lookup(1)))).connect()
    rig.worker()
    rig.broker.lose()
    rig.client.deliver(lookup(1) + lookup(2) + lookup(3) + lookup(4) + lookup(5))
    refused = [command.lookupTopicResponse.request_id for command in rig.to_client()]
    assert refused == [4, 5]
    broker = rig.reopen()
    assert [command.lookupTopic.request_id for command in parse(broker.take())] == [1, 2, 3]


def test_unanswered_requests_are_bounded() -> None:
    """A client that asks faster than its broker answers is refused beyond the bound; answers make room."""
    rig = SessionRig(Limits(relayed_requests_max=2)).connect()
    rig.client.deliver(producer(1, 1) + producer(2, 2) + producer(3, 3))
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (3, pb.TooManyRequests)
    rig.broker.deliver(producer_success(1))
    rig.client.deliver(producer(3, 4))
    assert kinds(rig.to_client()) == [T.PRODUCER_SUCCESS]


def test_the_bytes_of_unanswered_requests_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few large requests are as many as a hundred thousand small ones; one alone may be as large as a frame."""
    monkeypatch.setattr(requests, "BYTES_MAX", 2 * len(producer(1, 1)))
    rig = SessionRig().connect()
    rig.client.deliver(producer(1, 1) + producer(2, 2) + producer(3, 3))
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (3, pb.TooManyRequests)
    rig.broker.deliver(producer_success(1))
    rig.client.deliver(producer(3, 4) + producer(4, 5))
    done, refused = rig.to_client()
    assert done.type == T.PRODUCER_SUCCESS
    assert refused.error.request_id == 5
    rig.broker.deliver(producer_success(2) + producer_success(4))
    monkeypatch.setattr(requests, "BYTES_MAX", 1)
    rig.client.deliver(producer(4, 6))
    assert kinds(rig.to_client()) == [T.PRODUCER_SUCCESS, T.PRODUCER_SUCCESS]


def test_producers_that_are_closed_while_they_wait_leave_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker never answers for them again: neither their number nor their bytes may count for ever."""
    monkeypatch.setattr(requests, "BYTES_MAX", 2 * len(producer(5, 1)))
    rig = SessionRig(Limits(relayed_requests_max=2)).connect()
    for request_id in range(10, 30):
        rig.client.deliver(producer(5, request_id))
        rig.broker.deliver(producer_success(request_id, ready=False))
        rig.client.deliver(CLOSE_PRODUCER)
        rig.broker.deliver(success(8))
    assert kinds(rig.to_client()) == [T.PRODUCER_SUCCESS, T.SUCCESS] * 20


def test_consumers_that_are_closed_before_they_are_answered_leave_no_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker does not answer their SUBSCRIBE any more; if it did just before, the client hears so."""
    monkeypatch.setattr(requests, "BYTES_MAX", 3 * len(subscribe(6, 1, SHARED)))
    rig = SessionRig(Limits(relayed_requests_max=3)).connect()
    for request_id in range(10, 50, 2):
        again = encode(T.ERROR, pb.CommandError(request_id=request_id + 1, error=pb.ServiceNotReady, message="present"))
        rig.client.deliver(subscribe(6, request_id, SHARED) + subscribe(6, request_id + 1, SHARED))
        rig.broker.deliver(again)
        rig.client.deliver(CLOSE_CONSUMER)
        rig.broker.deliver(success(7))
    assert kinds(rig.to_client()) == [T.ERROR, T.SUCCESS] * 20
    rig.client.deliver(subscribe(6, 60, SHARED) + CLOSE_CONSUMER)
    rig.broker.deliver(success(60) + success(7))
    assert [command.success.request_id for command in rig.to_client()] == [60, 7]
    rig.client.deliver(lookup(1) + lookup(2) + lookup(3))
    assert rig.to_client() == []


def test_a_client_that_leaves_while_a_new_leg_is_made_leaves_nothing() -> None:
    """No connection, no timer."""
    rig = with_worker()
    rig.broker.lose()
    rig.client.deliver(lookup(1))
    rig.client.lose()
    broker = rig.connector.last.accept()
    assert broker.closing
    assert broker.take() == b""
    assert rig.clock.waiting == 0
