"""Messages that were refused too often, on their way to a topic of their own."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.net.websocket import settling
from proxy.net.websocket.dead_letters import ANSWER_S_MAX
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import peek
from tests.net.session_rig import connected, encode, producer_success
from tests.net.websocket_rig import FakeSession, T, WebsocketRig, batch, id_of, member, partitions, single

GRAVE = "persistent://public/default/orders-s-DLQ"
WISHES: dict[str, Any] = {"redeliveries_max": 2, "dead_letter_topic": GRAVE, "nack_delay_s": 1.0, "token": "t"}


def last_try(rig: WebsocketRig, entry: int, tail: bytes, *ids: str) -> None:
    """Deliver an entry once more than it may come, refuse these messages of it, and let the delay pass."""
    rig.deliver(entry, tail, tries=2)
    rig.say(type="nack", messageIds=list(ids))
    rig.clock.advance(1)


def answer(rig: WebsocketRig, session: FakeSession, *frames: bytes) -> None:
    """Write to a connection beside the worker's own."""
    assert session.transport is not None
    for frame in frames:
        session.transport.write(frame)
    rig.clock.settle()


def take(session: FakeSession) -> pb.BaseCommand:
    """The one thing it was told since the last look."""
    (command,) = session.commands
    session.commands.clear()
    return command


def located(request_id: int) -> bytes:
    """Where the topic is."""
    body = pb.CommandLookupTopicResponse(
        brokerServiceUrl="pulsar://broker-1:6650",
        response=pb.CommandLookupTopicResponse.Connect,
        request_id=request_id,
        proxy_through_service_url=True,
    )
    return encode(T.LOOKUP_RESPONSE, body)


def receipt(sequence: int) -> bytes:
    """The broker has it."""
    return encode(T.SEND_RECEIPT, pb.CommandSendReceipt(producer_id=0, sequence_id=sequence))


def produce(rig: WebsocketRig, count: int = 0) -> FakeSession:
    """Go the whole way to a producer; the connection it is on."""
    first = rig.more[-1]
    connect = take(first).connect
    assert (connect.auth_method_name, connect.auth_data, connect.proxy_to_broker_url) == ("token", b"t", "")
    answer(rig, first, connected())
    answer(rig, first, partitions(take(first).partitionMetadata.request_id, count))
    lookup = take(first).lookupTopic
    assert lookup.topic == GRAVE + ("-partition-0" if count else "")
    answer(rig, first, located(lookup.request_id))
    assert first.ends, "the connection served to find the broker"
    second = rig.more[-1]
    assert second is not first
    assert take(second).connect.proxy_to_broker_url == "broker-1:6650"
    answer(rig, second, connected())
    body = take(second).producer
    assert body.topic == lookup.topic
    answer(rig, second, producer_success(body.request_id))
    return second


@pytest.mark.parametrize("count", [0, 3])
def test_a_message_at_its_last_try_is_taken_away_and_acknowledged(count: int) -> None:
    """With its key, its properties and where it came from, by way of the topic's own broker."""
    rig = WebsocketRig(**WISHES, outstanding_max=1).join()
    tail = single(b"poison", partition_key=b"k", properties=[pb.KeyValue(key="a", value="b")], event_time=5)
    last_try(rig, 4, tail, id_of(4))
    session = produce(rig, count)
    sent = take(session)
    assert sent.send.sequence_id == 0
    answer(rig, session, receipt(0))
    (ack,) = rig.take_acks()
    assert [place.entryId for place in ack.message_id] == [4]
    assert rig.session.granted[0] == 2, "one for it, one for the next"
    rig.deliver(5, single(b"poison too"), tries=2)
    rig.say(type="nack", messageIds=[id_of(5)])
    rig.clock.advance(1)
    assert take(session).send.sequence_id == 1, "over the same producer"
    assert len(rig.more) == 2


def test_a_dead_letter_is_its_message() -> None:
    """Read back as a consumer would."""
    rig = WebsocketRig(**WISHES).join()
    tail = single(
        b"poison", partition_key=b"a2V5", partition_key_b64_encoded=True, ordering_key=b"o", event_time=5,
        properties=[pb.KeyValue(key="a", value="b")],
    )  # fmt: skip
    last_try(rig, 4, tail, id_of(4))
    frame = produce(rig).latest
    command_bytes = int.from_bytes(frame[4:8], "big")
    found = peek(frame[8 + command_bytes :])
    metadata = found.metadata
    assert frame[8 + command_bytes + found.payload_start :] == b"poison"
    assert (metadata.partition_key, metadata.partition_key_b64_encoded) == (b"a2V5", True)
    assert (metadata.ordering_key, metadata.event_time, metadata.producer_name) == (b"o", 5, b"p")
    assert {item.key: item.value for item in metadata.properties} == {
        "a": "b",
        "REAL_TOPIC": "persistent://public/default/orders",
        "REAL_SUBSCRIPTION": "s",
        "ORIGIN_MESSAGE_ID": "7:4:-1",
        "ORIGIN_MESSAGE_IDY_TIME": "7:4:-1",
    }


def test_before_the_last_try_it_is_given_back() -> None:
    """As without dead letters."""
    rig = WebsocketRig(**WISHES).join()
    rig.deliver(4, single(), tries=1)
    rig.say(type="nack", messageIds=[id_of(4)])
    rig.clock.advance(1)
    assert rig.take_redelivers() == [(0, [4])]
    assert not rig.more


def test_of_a_batch_one_is_taken_away_and_the_rest_waits_for_that() -> None:
    """Were the batch given back at once, the dead letter would be delivered again."""
    rig = WebsocketRig(**WISHES).join()
    rig.deliver(4, batch(member(b"0"), member(b"1"), member(b"2")), tries=1)
    rig.say(type="nack", messageIds=[id_of(4, 1, 3)])
    rig.clock.advance(1)
    assert rig.take_redelivers() == [(0, [4])]
    last_try(rig, 4, batch(member(b"0"), member(b"1"), member(b"2")), id_of(4, 1, 3))
    rig.ack(id_of(4, 0, 3))
    rig.take_acks()
    session = produce(rig)
    assert not rig.take()
    answer(rig, session, receipt(take(session).send.sequence_id))
    (ack,) = rig.take_acks()
    assert [list(place.ack_set) for place in ack.message_id] == [[0b101]]
    rig.ack(id_of(4, 2, 3))
    assert len(rig.take_acks()) == 1


def send_error(sequence: int) -> bytes:
    """The broker does not take it."""
    body = pb.CommandSendError(producer_id=0, sequence_id=sequence, error=pb.PersistenceError, message="full")
    return encode(T.SEND_ERROR, body)


def refused(rig: WebsocketRig, session: FakeSession) -> None:
    """The broker does not take it."""
    answer(rig, session, send_error(take(session).send.sequence_id))


def cut(rig: WebsocketRig, session: FakeSession) -> None:
    """The connection goes."""
    assert session.transport is not None
    session.transport.close()
    rig.clock.settle()


def silent(rig: WebsocketRig, session: FakeSession) -> None:
    """No answer comes."""
    assert not session.ends
    rig.clock.advance(ANSWER_S_MAX)


@pytest.mark.parametrize("failure", [refused, cut, silent])
def test_what_cannot_be_taken_away_is_given_back(failure: Any) -> None:
    """And tried to be taken away again when it is refused once more."""
    rig = WebsocketRig(**WISHES, outstanding_max=1).join()
    last_try(rig, 4, single(), id_of(4))
    failure(rig, produce(rig))
    rig.clock.advance(0)
    assert rig.take_redelivers() == [(0, [4])]
    last_try(rig, 4, single(), id_of(4))
    if failure is not refused:
        produce(rig)
    sent = take(rig.more[-1])
    answer(rig, rig.more[-1], receipt(sent.send.sequence_id))
    assert len(rig.take_acks()) == 1
    assert rig.session.granted[0] == 3, "one for each time it came, one for the next: no room was made twice"


def many_last_tries(count: int) -> tuple[WebsocketRig, FakeSession]:
    """So many messages are on their way to be dead letters, and none of them is there."""
    rig = WebsocketRig(**WISHES).join()
    for entry in range(count):
        rig.deliver(entry, single(), tries=2)
    for entry in range(0, count, 50):
        rig.say(type="nack", messageIds=[id_of(each) for each in range(entry, min(entry + 50, count))])
    rig.clock.advance(1)
    session = produce(rig)
    assert not rig.take()
    return rig, session


def test_all_that_fail_together_are_given_back_together() -> None:
    """Each command to give some back names all that are kept: one for each message would name the square of them."""
    rig, session = many_last_tries(200)
    closed = pb.CommandCloseProducer(producer_id=0, request_id=0)
    answer(rig, session, encode(T.CLOSE_PRODUCER, closed))
    rig.clock.advance(1)
    (command,) = rig.take()
    assert len(command.redeliverUnacknowledgedMessages.message_ids) == 200


def test_those_that_fail_one_after_the_other_are_given_back_together_where_the_client_keeps_many() -> None:
    """As refusals are."""
    rig, session = many_last_tries(200)
    for sequence in range(50):
        answer(rig, session, send_error(sequence))
        rig.clock.advance(0.0001)
    rig.clock.advance(1)
    given_back = rig.take_redelivers()
    assert sorted(entry for _, entries in given_back for entry in entries) == list(range(50))
    assert len(given_back) <= 4


def test_what_failed_may_be_settled_until_it_is_given_back() -> None:
    """By an acknowledgement, also before it failed, or because the broker has sent it again."""
    rig, session = many_last_tries(200)
    session.commands.clear()
    answer(rig, session, send_error(0))
    rig.clock.advance(0)
    assert rig.take_redelivers() == [(0, [0])]
    rig.ack(id_of(4))
    answer(rig, session, *(send_error(sequence) for sequence in range(1, 5)))
    rig.ack(id_of(2))
    rig.deliver(3, single(), tries=2)
    assert len(rig.take_acks()) == 2
    rig.clock.advance(1)
    assert rig.take_redelivers() == [(0, [1])]
    assert session.commands == [], "what was sent again is another delivery, which nobody has refused"


def test_what_failed_waits_for_another_of_its_batch_that_is_under_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if that began while it waited to be given back; the pause is as many seconds as there are messages."""
    monkeypatch.setattr(settling, "PAUSE_S", 1.0)
    rig = WebsocketRig(**WISHES).join()
    rig.deliver(4, batch(member(b"0"), member(b"1")), tries=2)
    last_try(rig, 1, single(), id_of(1))
    session = produce(rig)
    rig.nack(id_of(4, 0, 2))
    rig.clock.advance(3)
    rig.nack(id_of(4, 1, 2))
    rig.clock.advance(2)
    answer(rig, session, send_error(0))
    rig.clock.advance(0)
    assert rig.take_redelivers() == [(0, [1])]
    answer(rig, session, send_error(1))
    rig.clock.advance(3)
    assert [command.send.sequence_id for command in session.commands] == [0, 1, 2]
    assert rig.take() == []
    answer(rig, session, receipt(2))
    assert len(rig.take_acks()) == 1
    rig.clock.advance(3)
    assert rig.take_redelivers() == [(0, [4])]


def test_what_failed_cannot_be_refused_again_before_it_is_given_back() -> None:
    """It goes back as it is, once, and makes no second room."""
    rig = WebsocketRig(**WISHES, outstanding_max=1).join()
    last_try(rig, 4, single(), id_of(4))
    refused(rig, produce(rig))
    rig.nack(id_of(4))
    rig.clock.advance(10)
    assert rig.take_redelivers() == [(0, [4])]
    assert rig.session.granted[0] == 2, "one for it, one for the next"


def test_an_acknowledgement_meanwhile_counts() -> None:
    """The client has thought better of it; the dead letter is there all the same."""
    rig = WebsocketRig(**WISHES, outstanding_max=1).join()
    last_try(rig, 4, single(), id_of(4))
    rig.ack(id_of(4))
    assert len(rig.take_acks()) == 1
    session = produce(rig)
    answer(rig, session, receipt(take(session).send.sequence_id))
    assert len(rig.take_acks()) == 1, "once more, which harms nobody"
    assert rig.session.granted[0] == 2


def test_a_worker_that_goes_takes_its_producer_with_it() -> None:
    """No connection, no timer stays."""
    rig = WebsocketRig(**WISHES).join()
    last_try(rig, 4, single(), id_of(4))
    session = produce(rig)
    refused(rig, session)
    rig.worker.closed("gone")
    rig.clock.settle()
    assert session.ends
    assert rig.clock.waiting == 0


def test_a_failed_dead_letter_that_comes_again_before_it_is_given_back_makes_room_once() -> None:
    """Its acknowledgement frees the place that it took the second time."""
    rig = WebsocketRig(**WISHES, outstanding_max=1).join()
    last_try(rig, 4, single(), id_of(4))
    session = produce(rig)
    answer(rig, session, send_error(take(session).send.sequence_id))
    rig.deliver(4, single(), tries=2)
    rig.ack(id_of(4))
    rig.clock.advance(1)
    assert rig.worker._permits.room == 1


def test_what_waits_for_another_letter_of_its_batch_makes_room_once() -> None:
    """Refused again meanwhile, it is what it was."""
    rig = WebsocketRig(**WISHES, outstanding_max=4).join()
    rig.deliver(4, batch(member(b"0"), member(b"1")), tries=2)
    rig.nack(id_of(4, 0, 2))
    rig.nack(id_of(4, 1, 2))
    rig.clock.advance(1)
    session = produce(rig)
    answer(rig, session, send_error(0))
    rig.nack(id_of(4, 0, 2))
    rig.clock.advance(1)
    answer(rig, session, receipt(1))
    rig.clock.advance(5)
    assert rig.worker._permits.room == 4
