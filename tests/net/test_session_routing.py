"""Which way a client's commands go: to a worker of ours or to the broker."""

from __future__ import annotations

import pytest

from proxy.core.slice_id import slice_id
from proxy.errors import ClientError
from proxy.net.ports import WorkerLink, WorkerPort
from proxy.net.relay.requests import BYTES_MAX
from proxy.producers.request import full_name
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.topic_names import persistent_topic
from tests.net.fakes import FakeWorkerPort
from tests.net.session_rig import SessionRig, T, ack, encode, flow, message, send, subscribe, success

SHARED = pb.CommandSubscribe.Shared


@pytest.mark.parametrize(
    ("name", "full"),
    [
        ("orders", "persistent://public/default/orders"),
        ("orders-partition-3", "persistent://public/default/orders-partition-3"),
        ("t/n/orders", "persistent://t/n/orders"),
        ("persistent://t/n/orders", "persistent://t/n/orders"),
        ("persistent://t/c/n/orders", "persistent://t/c/n/orders"),
        ("PERSISTENT://t/n/orders", "persistent://t/n/orders"),
        ("Persistent://t/c/n/Orders", "persistent://t/c/n/Orders"),
        ("non-persistent://t/n/orders", None),
        ("topic://t/n/orders", None),
        ("segment://t/n/orders", None),
        ("t/orders", None),
        ("a/b/c/d", None),
        ("", None),
        ("persistent://t/n", None),
        ("persistent://t//orders", None),
    ],
)
def test_topic_names_are_completed_as_the_broker_does(name: str, full: str | None) -> None:
    """Two workers that write one topic differently meet; what is not ours, or no name, is left to the broker."""
    assert persistent_topic(name) == full


@pytest.mark.parametrize(
    "name",
    ["/orders", "orders/", "t/orders", "", "PERSISTENT://t/n", "per\N{LATIN SMALL LETTER LONG S}istent://t/n/orders"],
)
def test_a_key_shared_subscribe_of_a_name_that_is_none_here_is_not_passed_on(name: str) -> None:
    """Some brokers know a persistent topic by it: its consumer would be beside the gateway's. Other types go there."""
    rig = SessionRig().connect()
    rig.client.deliver(subscribe(3, 9, topic=name))
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error) == (9, pb.InvalidTopicName)
    assert "persistent://tenant/namespace/topic" in told.error.message
    assert rig.to_broker() == []
    rig.client.deliver(subscribe(3, 10, kind=SHARED, topic=name))
    assert len(rig.to_broker()) == 1


def test_producers_of_one_topic_meet_however_they_write_its_domain() -> None:
    """As its workers do."""
    assert full_name("PERSISTENT://public/default/orders") == full_name("orders")


def test_a_key_shared_subscribe_goes_to_the_directory_with_its_topic_completed() -> None:
    """The broker does not hear of it."""
    rig = SessionRig().connect(feature_flags=pb.FeatureFlags(supports_broker_entry_metadata=True))
    rig.client.deliver(subscribe(3, 9))
    (port,) = rig.directory.workers
    assert port.command.topic == "persistent://public/default/orders"
    assert port.command.request_id == 9
    assert port.link.consumer_id == 3
    assert port.link.peer == "192.0.2.7:40000"
    assert port.link.client_version == "Pulsar-CPP-v3.7.0"
    assert port.link.accepts_broker_entry_metadata
    assert rig.to_broker() == []


def test_a_client_that_knows_no_entry_metadata_says_so() -> None:
    """An absent flag is a no."""
    rig = SessionRig().connect()
    assert not rig.worker().link.accepts_broker_entry_metadata


@pytest.mark.parametrize("topic", ["non-persistent://public/default/x", "NON-PERSISTENT://a/b/x", "topic://a/b/x"])
def test_key_shared_on_another_kind_of_topic_is_the_broker_s(topic: str) -> None:
    """It serves that, or refuses it in its own words."""
    rig = SessionRig().connect()
    command = subscribe(1, 1, topic=topic)
    rig.client.deliver(command)
    assert rig.broker.take() == command
    assert rig.directory.workers == []


@pytest.mark.parametrize("kind", [pb.CommandSubscribe.Exclusive, SHARED, pb.CommandSubscribe.Failover])
def test_other_subscription_types_are_relayed_byte_for_byte(kind: int) -> None:
    """Short topic names included: the broker completes them itself."""
    rig = SessionRig().connect()
    command = subscribe(1, 1, kind)
    rig.client.deliver(command)
    assert rig.broker.take() == command


CONSUMER_COMMANDS = {
    "flow": flow(1, 10),
    "ack": ack(1),
    "redeliver": encode(T.REDELIVER_UNACKNOWLEDGED_MESSAGES, pb.CommandRedeliverUnacknowledgedMessages(consumer_id=1)),
    "close": encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=1, request_id=7)),
    "unsubscribe": encode(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=7)),
    "seek": encode(T.SEEK, pb.CommandSeek(consumer_id=1, request_id=7, message_publish_time=1)),
    "get_last_message_id": encode(T.GET_LAST_MESSAGE_ID, pb.CommandGetLastMessageId(consumer_id=1, request_id=7)),
    "consumer_stats": encode(T.CONSUMER_STATS, pb.CommandConsumerStats(consumer_id=1, request_id=7)),
}

OTHER_ANSWERS = {
    "consumer_stats": encode(T.CONSUMER_STATS_RESPONSE, pb.CommandConsumerStatsResponse(request_id=9)),
    "ack": encode(T.ACK_RESPONSE, pb.CommandAckResponse(consumer_id=1, request_id=9)),
    "seek": encode(T.ERROR, pb.CommandError(request_id=9, error=pb.ServiceNotReady, message="try again")),
}
"""To what a client may ask before its SUBSCRIBE was answered."""


@pytest.mark.parametrize("name", CONSUMER_COMMANDS)
def test_a_worker_s_commands_go_to_its_port(name: str) -> None:
    """By consumer id, each to its own method; the broker hears none of it."""
    rig = SessionRig().connect()
    port, other = rig.worker(1, 100), rig.worker(2, 101)
    rig.client.deliver(CONSUMER_COMMANDS[name])
    ((called, argument),) = port.calls
    assert called == name
    assert argument in (10, 7) if isinstance(argument, int) else argument.consumer_id == 1  # type: ignore[attr-defined]
    assert other.calls == []
    assert rig.to_broker() == []


@pytest.mark.parametrize("name", CONSUMER_COMMANDS)
@pytest.mark.parametrize("with_worker", [False, True])
def test_a_consumer_nobody_knows_is_left_to_the_broker(name: str, with_worker: bool) -> None:  # noqa: FBT001 - a case
    """It ignores what needs no answer and refuses the rest, as it always did; we raise nothing."""
    rig = SessionRig().connect()
    if with_worker:
        rig.worker(2, 101)
    rig.client.deliver(CONSUMER_COMMANDS[name])
    assert rig.broker.take() == CONSUMER_COMMANDS[name]
    assert rig.cause is None


@pytest.mark.parametrize("with_worker", [False, True])
def test_an_ack_of_no_consumer_that_asks_for_an_answer_gets_one(with_worker: bool) -> None:  # noqa: FBT001 - a case
    """A broker would never answer, and what was asked would be kept while the connection lasts."""
    rig = SessionRig().connect()
    gone = rig.worker(1, 100)
    if with_worker:
        rig.worker(2, 101)
    gone.link.forget()
    asked = pb.CommandAck(consumer_id=1, ack_type=pb.CommandAck.Individual, request_id=7)
    asked.message_id.add(ledgerId=1, entryId=1)
    rig.take_all()
    rig.client.deliver(encode(T.ACK, asked))
    (answer,) = rig.to_client()
    assert (answer.ackResponse.consumer_id, answer.ackResponse.request_id) == (1, 7)
    assert answer.ackResponse.error == pb.ConsumerNotFound
    assert "no consumer 1" in answer.ackResponse.message
    assert rig.to_broker() == []


def test_commands_reach_a_worker_before_its_subscribe_was_answered() -> None:
    """The port says it may be called at once; a client may close what it no longer wants."""
    rig = SessionRig().connect()
    rig.client.deliver(subscribe(1, 1) + CONSUMER_COMMANDS["close"])
    assert rig.directory.workers[0].calls == [("close", 7)]


def test_a_forgotten_worker_s_id_is_free() -> None:
    """After `forget` its commands are the broker's, and the same id may join again; an old link cannot undo that."""
    rig = SessionRig().connect()
    old = rig.worker()
    old.link.forget()
    rig.client.deliver(ack(1))
    assert [command.type for command in rig.to_broker()] == [T.ACK]
    new = rig.worker()
    old.link.forget()
    rig.client.deliver(ack(1))
    assert [name for name, _ in new.calls] == ["ack"]
    assert old.calls == []


@pytest.mark.parametrize("kind", [pb.CommandSubscribe.Key_Shared, SHARED])
def test_a_worker_s_id_subscribed_again_is_answered_as_the_broker_would(kind: int) -> None:
    """ServiceNotReady while it joins, Success once it has: a client that timed out asks again."""
    rig = SessionRig().connect()
    rig.client.deliver(subscribe(1, 1) + subscribe(1, 2, kind))
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (2, pb.ServiceNotReady)
    rig.directory.workers[0].link.subscribed()
    rig.client.deliver(subscribe(1, 3, kind))
    assert [command.success.request_id for command in rig.to_client()] == [1, 3]
    assert len(rig.directory.workers) == 1
    assert rig.to_broker() == []


@pytest.mark.parametrize("name", OTHER_ANSWERS)
def test_a_worker_is_ready_by_the_answer_to_its_subscribe_alone(name: str) -> None:
    """What it asked meanwhile may be answered first, and makes no consumer of it."""
    rig = SessionRig().connect()
    rig.client.deliver(subscribe(1, 1))
    (port,) = rig.directory.workers
    port.link.send(OTHER_ANSWERS[name])
    rig.client.deliver(subscribe(1, 2))
    _, again = rig.to_client()
    assert (again.error.request_id, again.error.error) == (2, pb.ServiceNotReady)


def test_subscribes_that_wait_have_a_bound_whatever_else_was_answered() -> None:
    """A client could ask for statistics with each, and have the gateway keep as many megabytes as it likes."""
    rig = SessionRig().connect()
    body = pb.CommandSubscribe(topic="orders", subscription="s", subType=pb.CommandSubscribe.Key_Shared)
    body.schema.CopyFrom(pb.Schema(name="s", type=pb.Schema.Avro, schema_data=b"x" * (BYTES_MAX // 8)))
    for number in range(8):
        body.consumer_id = body.request_id = number
        rig.client.deliver(encode(T.SUBSCRIBE, body))
        rig.directory.workers[-1].link.send(OTHER_ANSWERS["consumer_stats"])
    refused = [command.error for command in rig.to_client() if command.type == T.ERROR]
    assert [(error.request_id, error.error) for error in refused] == [(7, pb.TooManyRequests)]
    rig.directory.workers[0].link.subscribed()
    rig.client.deliver(encode(T.SUBSCRIBE, body))
    assert [command.success.request_id for command in rig.to_client()] == [0]
    assert len(rig.directory.workers) == 8


def test_a_relayed_consumer_s_id_subscribed_as_key_shared_does_not_become_two() -> None:
    """The answer is the broker's for an id in use, before and after it answered the first."""
    rig = SessionRig().connect()
    rig.client.deliver(subscribe(1, 1, SHARED) + subscribe(1, 2))
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (2, pb.ServiceNotReady)
    rig.broker.deliver(success(1))
    rig.client.deliver(subscribe(1, 3))
    assert [command.success.request_id for command in rig.to_client()] == [1, 3]
    assert rig.directory.workers == []


def test_a_relayed_consumer_closed_by_either_side_frees_its_id() -> None:
    """Then a worker may take it."""
    rig = SessionRig().connect()
    rig.relayed_consumer(1, 1)
    rig.client.deliver(CONSUMER_COMMANDS["close"])
    rig.broker.deliver(success(7))
    rig.relayed_consumer(2, 2)
    rig.broker.deliver(encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=2, request_id=2**64 - 1)))
    rig.client.deliver(subscribe(1, 8) + subscribe(2, 9))
    assert [port.link.consumer_id for port in rig.directory.workers] == [1, 2]


@pytest.mark.parametrize("permits", [0, 2**31, 2**32 - 1])
def test_a_flow_that_grants_nothing_ends_the_connection(permits: int) -> None:
    """The broker reads permits as a signed number and closes the connection of who grants none or fewer."""
    rig = SessionRig().connect()
    port = rig.worker()
    rig.client.deliver(flow(1, permits))
    assert [name for name, _ in port.calls] == ["lost"]
    assert rig.cause == "bad_flow"
    assert "from 1 to 2147483647 may be granted" in rig.to_client()[0].error.message


def test_the_largest_flow_is_taken() -> None:
    """The bound itself is inside."""
    rig = SessionRig().connect()
    port = rig.worker()
    rig.client.deliver(flow(1, 2**31 - 1))
    assert port.calls == [("flow", 2**31 - 1)]


def test_a_directory_that_refuses_by_exception_refuses_the_subscribe() -> None:
    """The client is at fault and is told so with the error's own code; the connection stays and the id is free."""
    rig = SessionRig().connect()
    attempts = 0

    def refuse(_link: WorkerLink, _command: pb.CommandSubscribe) -> WorkerPort:
        nonlocal attempts
        attempts += 1
        message = "subscription is of another type"
        raise ClientError(message, pb.ConsumerBusy)

    rig.directory.subscribe = refuse  # type: ignore[method-assign, assignment]
    rig.client.deliver(subscribe(1, 4) + subscribe(1, 5))
    answers = [(command.error.request_id, command.error.error) for command in rig.to_client()]
    assert answers == [(4, pb.ConsumerBusy), (5, pb.ConsumerBusy)]
    assert attempts == 2
    assert rig.cause is None


def test_a_worker_may_be_forgotten_inside_its_own_subscribe() -> None:
    """A refusal that needs no waiting comes through the link before the port is handed over."""
    rig = SessionRig().connect()

    def refuse(link: WorkerLink, command: pb.CommandSubscribe) -> FakeWorkerPort:
        link.refuse(ClientError("no", pb.ConsumerBusy))
        return FakeWorkerPort(link, command)

    rig.directory.subscribe = refuse  # type: ignore[method-assign]
    rig.client.deliver(subscribe(1, 4))
    assert rig.to_client()[0].error.error == pb.ConsumerBusy
    assert rig.workers_count == 0


def test_workers_learn_when_the_client_stops_reading() -> None:
    """A worker that does not read its socket counts as one without permits."""
    rig = SessionRig().connect()
    port = rig.worker()
    rig.client.set_writable(False)
    assert not port.link.writable
    rig.client.set_writable(True)
    assert port.calls == [("writability_changed", False), ("writability_changed", True)]


def test_order_is_kept_between_what_is_relayed_and_what_is_ours() -> None:
    """Frames of one piece go their ways in the order they came, and runs leave as one write."""
    rig = SessionRig().connect()
    rig.relayed_producer(5, 50)
    port = rig.worker()
    writes = rig.broker.writes
    rig.client.deliver(send(5, 1) + send(5, 2) + ack(1) + send(5, 3) + flow(1, 1) + ack(6) + send(5, 4))
    assert [command.type for command in rig.to_broker()] == [T.SEND, T.SEND, T.SEND, T.ACK, T.SEND]
    assert [name for name, _ in port.calls] == ["ack", "flow"]
    assert rig.broker.writes - writes == 4


def test_without_workers_a_run_of_data_commands_is_one_write() -> None:
    """Acknowledgements and permits of relayed consumers included."""
    rig = SessionRig().connect()
    writes = rig.broker.writes
    data = b"".join(send(5, i) + ack(6) + flow(6, 1) for i in range(50))
    rig.client.deliver(data)
    assert rig.broker.take() == data
    assert rig.broker.writes - writes == 1


def test_messages_to_the_client_come_as_one_write() -> None:
    """Both ways alike."""
    rig = SessionRig().connect()
    writes = rig.client.writes
    data = b"".join(message(6, i) for i in range(50))
    rig.broker.deliver(data)
    assert rig.client.take() == data
    assert rig.client.writes - writes == 1


SLICE = slice_id(77, [1, 2])
LATEST = pb.MessageIdData(ledgerId=2**63 - 1, entryId=2**63 - 1)
EARLIEST = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)


@pytest.mark.parametrize("kind", [SHARED, pb.CommandSubscribe.Exclusive])
def test_a_slice_s_id_is_unmasked_where_a_relayed_consumer_starts(kind: int) -> None:
    """An id kept from a worker names the entry it was cut from; its index means nothing there."""
    rig = SessionRig().connect()
    body = pb.CommandSubscribe(topic="x", subscription="s", subType=kind, consumer_id=1, request_id=1)  # type: ignore[arg-type]
    body.start_message_id.CopyFrom(pb.MessageIdData(ledgerId=5, entryId=SLICE, batch_index=1, partition=2))
    rig.client.deliver(encode(T.SUBSCRIBE, body))
    (command,) = rig.to_broker()
    assert command.subscribe.start_message_id == pb.MessageIdData(ledgerId=5, entryId=77, partition=2)


def test_a_slice_s_id_is_unmasked_in_a_relayed_seek() -> None:
    """Likewise; a seek by time has nothing to unmask."""
    rig = SessionRig().connect()
    body = pb.CommandSeek(consumer_id=1, request_id=1)
    body.message_id.CopyFrom(pb.MessageIdData(ledgerId=5, entryId=SLICE))
    rig.client.deliver(encode(T.SEEK, body) + CONSUMER_COMMANDS["seek"])
    first, second = rig.to_broker()
    assert first.seek.message_id.entryId == 77
    assert second.seek.message_publish_time == 1


@pytest.mark.parametrize("position", [LATEST, EARLIEST, pb.MessageIdData(ledgerId=5, entryId=77, batch_index=3)])
def test_other_ids_stay_as_they_are(position: pb.MessageIdData) -> None:
    """Latest and earliest have the slices' bit too, and are none."""
    rig = SessionRig().connect()
    body = pb.CommandSeek(consumer_id=1, request_id=1)
    body.message_id.CopyFrom(position)
    rig.client.deliver(encode(T.SEEK, body))
    assert rig.to_broker()[0].seek.message_id == position


def test_a_worker_s_seek_keeps_the_id_it_was_given() -> None:
    """Its subscription knows slices itself."""
    rig = SessionRig().connect()
    port = rig.worker()
    body = pb.CommandSeek(consumer_id=1, request_id=1)
    body.message_id.CopyFrom(pb.MessageIdData(ledgerId=5, entryId=SLICE))
    rig.client.deliver(encode(T.SEEK, body))
    assert port.calls == [("seek", body)]
