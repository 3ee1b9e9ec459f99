"""A worker joins when the broker has said that its client may consume that, and goes when it may no more."""

from __future__ import annotations

import struct
from typing import Any, cast

import pytest

from proxy.limits import Limits
from proxy.net.relay.requests import BYTES_MAX, OWN_REQUESTS
from proxy.net.session.permission import UNANSWERED_MAX, Permission, PermissionWatch, Place
from proxy.net.session.settings import SessionSettings
from proxy.net.session.worker import AGAIN_S as JOIN_AGAIN_S
from proxy.net.session.worker import AGAIN_S_MAX
from proxy.net.session.workers import JOIN_S_MAX
from proxy.net.slices import Slices
from proxy.service_url import parse_service_url
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock, FakeWorkerPort
from tests.net.producer_rig import not_ready, ready, want
from tests.net.session_rig import (
    SessionRig,
    ack,
    encode,
    flow,
    lookup,
    new_elections,
    subscribe,
    success,
)

T = pb.BaseCommand
AGAIN_S = SessionSettings((parse_service_url("pulsar://b:6650"),)).authorize_again_s
QUIET = Limits(keep_alive_s=3_600)
DENIED = "Client is not authorized to subscribe"


def new_rig() -> SessionRig:
    """A client that is connected and has asked for nothing yet."""
    return SessionRig(QUIET, authorize=True).connect()


def asked(rig: SessionRig) -> list[pb.CommandSubscribe]:
    """The questions to the broker since the last look."""
    commands = rig.to_broker()
    assert {command.type for command in commands} <= {T.SUBSCRIBE}
    return [command.subscribe for command in commands]


def answer(rig: SessionRig, probe: pb.CommandSubscribe, code: int, message: str = DENIED) -> None:
    """Let the broker say so."""
    error = pb.CommandError(request_id=probe.request_id, error=code, message=message)  # type: ignore[arg-type]
    rig.broker.deliver(encode(T.ERROR, error))


def joined(rig: SessionRig, consumer_id: int = 1, request_id: int = 100) -> FakeWorkerPort:
    """A worker that may."""
    rig.client.deliver(subscribe(consumer_id, request_id))
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    port = rig.directory.workers[-1]
    port.link.subscribed()
    assert [command.type for command in rig.to_client()] == [T.SUCCESS]
    return port


def test_the_question_can_do_nothing_at_the_broker() -> None:
    """It contradicts itself, makes no topic, and its ids are no client's."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    (probe,) = asked(rig)
    assert (probe.topic, probe.subscription) == ("persistent://public/default/orders", "s")
    assert (probe.subType, probe.read_compacted) == (pb.CommandSubscribe.Shared, True)
    assert not probe.force_topic_creation
    assert probe.request_id > OWN_REQUESTS < probe.consumer_id
    assert rig.directory.workers == []
    assert rig.to_client() == []


@pytest.mark.parametrize("kind", [T.SUBSCRIBE, T.GET_OR_CREATE_SCHEMA])
def test_a_client_does_not_choose_the_question_s_id(kind: int) -> None:
    """The broker's answer to its own request would pass for a yes to what it may not."""
    rig = new_rig()
    own = OWN_REQUESTS + 1
    frame = subscribe(9, own, pb.CommandSubscribe.Shared)
    if kind != T.SUBSCRIBE:
        schema = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
        frame = encode(kind, pb.CommandGetOrCreateSchema(request_id=own, topic="x", schema=schema))
    rig.client.deliver(frame + subscribe(1, 100))
    assert rig.cause == "bad_request_id"
    error = pb.CommandError(request_id=own, error=pb.NotAllowedError, message="for the other one")
    rig.broker.deliver(encode(T.ERROR, error))
    assert rig.directory.workers == []


def test_the_receipt_of_an_ack_is_no_answer_to_the_question() -> None:
    """Of an ACK that was passed on unseen, before the client had workers; the one that follows is looked at."""
    rig = new_rig()
    own = OWN_REQUESTS + 1
    rig.client.deliver(subscribe(9, 7, pb.CommandSubscribe.Shared))
    rig.broker.deliver(success(7))
    rig.client.deliver(ack(9, own))
    rig.client.deliver(subscribe(1, 100) + ack(9, 8))
    rig.broker.deliver(encode(T.ACK_RESPONSE, pb.CommandAckResponse(consumer_id=9, request_id=own)))
    assert rig.directory.workers == []
    error = pb.CommandError(request_id=own, error=pb.AuthorizationError, message=DENIED)
    rig.broker.deliver(encode(T.ERROR, error))
    assert rig.directory.workers == []
    assert rig.session.counters.permissions_denied_total == 1


@pytest.mark.parametrize("first", [b"", encode(T.PING)], ids=["first", "behind another"])
@pytest.mark.parametrize("kind", [T.SEND, T.ACK, T.FLOW, T.REDELIVER_UNACKNOWLEDGED_MESSAGES])
def test_no_other_command_hides_in_one_that_is_passed_on_unparsed(kind: int, first: bytes) -> None:
    """Of two types in one command a broker takes the last: its Success would be a yes to the gateway's question."""
    rig = new_rig()
    own = OWN_REQUESTS + 1
    hidden = T(type=T.CLOSE_CONSUMER, close_consumer=pb.CommandCloseConsumer(consumer_id=99, request_id=own))
    command = bytes((8, kind)) + hidden.SerializeToString()
    frame = struct.pack(">II", len(command) + 4, len(command)) + command
    rig.client.deliver(first + frame + subscribe(1, 100))
    assert rig.cause == "bad_frame"
    rig.broker.deliver(success(own))
    assert (asked(rig), rig.directory.workers) == ([], [])


@pytest.mark.parametrize("code", [pb.NotAllowedError, pb.TopicNotFound, pb.SubscriptionNotFound, pb.ServiceNotReady])
def test_whoever_may_joins(code: int) -> None:
    """The client hears of its own SUBSCRIBE only."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    answer(rig, asked(rig)[0], code)
    assert len(rig.directory.workers) == 1
    assert rig.to_client() == []
    counters = rig.session.counters
    assert (counters.permissions_asked_total, counters.permissions_denied_total) == (1, 0)


def refused_in_its_words(rig: SessionRig, code: int, denied: int) -> None:
    """The client was told so; its connection stays, and it may ask for something else."""
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error, command.error.message) == (100, code, DENIED)
    assert rig.directory.workers == []
    assert rig.session.counters.permissions_denied_total == denied
    assert rig.workers_count == 0
    joined(rig)


@pytest.mark.parametrize("code", [pb.AuthorizationError, pb.AuthenticationError])
def test_who_may_not_consume_hears_so(code: int) -> None:
    """At once, in the broker's words."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    answer(rig, asked(rig)[0], code)
    refused_in_its_words(rig, code, denied=1)


@pytest.mark.parametrize("code", [pb.UnknownError, pb.TooManyRequests])
def test_who_gets_no_clear_answer_hears_so_in_the_end(code: int) -> None:
    """It may be over soon, so the broker is asked again until the time is up."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    until = rig.clock.now() + JOIN_S_MAX
    while questions := asked(rig):
        assert rig.clock.now() < until + 2 * AGAIN_S_MAX
        answer(rig, questions[0], code)
        rig.clock.advance(AGAIN_S_MAX)
    assert rig.clock.now() >= until
    refused_in_its_words(rig, code, denied=0)


def test_a_broker_that_lets_the_question_in_is_rid_of_it_at_once() -> None:
    """No broker does; then it has said yes."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    (probe,) = asked(rig)
    rig.broker.deliver(success(probe.request_id))
    (close,) = rig.to_broker()
    assert close.close_consumer.consumer_id == probe.consumer_id
    rig.broker.deliver(success(close.close_consumer.request_id))
    assert len(rig.directory.workers) == 1
    assert rig.to_client() == []


def test_who_closes_before_the_answer_does_not_join() -> None:
    """A client whose patience ends; the answer finds nobody, whatever it is, also if the id is in use again."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    rig.client.deliver(encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=1, request_id=101)))
    (command,) = rig.to_client()
    assert command.success.request_id == 101
    first = asked(rig)[0]
    rig.client.deliver(subscribe(1, 102))
    answer(rig, first, pb.AuthorizationError)
    assert rig.to_client() == []
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    assert len(rig.directory.workers) == 1


@pytest.mark.parametrize("code", [pb.NotAllowedError, pb.AuthorizationError])
def test_those_who_come_while_their_place_is_asked_for_share_the_next_question(code: int) -> None:
    """Never the one under way: what it asks for may have been taken back since it was sent."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    (first,) = asked(rig)
    rig.client.deliver(b"".join(subscribe(number, 100 + number) for number in range(2, 500)))
    assert asked(rig) == []
    answer(rig, first, pb.NotAllowedError)
    assert len(rig.directory.workers) == 1
    (second,) = asked(rig)
    answer(rig, second, code)
    refused = [command.error.request_id for command in rig.to_client()]
    joining = [worker.link.consumer_id for worker in rig.directory.workers[1:]]
    everybody = list(range(2, 500))
    assert (joining, refused) == ((everybody, []) if code == pb.NotAllowedError else ([], [100 + n for n in everybody]))
    assert asked(rig) == []
    rig.client.deliver(subscribe(500, 600))
    assert len(asked(rig)) == 1


def test_what_waits_for_an_answer_is_bounded() -> None:
    """A SUBSCRIBE may have megabytes, and its client may leave the answer unread for as long as it likes."""
    rig = new_rig()
    body = pb.CommandSubscribe(topic="orders", subscription="s", subType=pb.CommandSubscribe.Key_Shared)
    body.schema.CopyFrom(pb.Schema(name="s", type=pb.Schema.Avro, schema_data=b"x" * (BYTES_MAX // 8)))
    for number in range(8):
        body.consumer_id = body.request_id = number
        rig.client.deliver(encode(T.SUBSCRIBE, body))
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error) == (7, pb.TooManyRequests)
    assert rig.workers_count == 7
    rig.client.deliver(encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=0, request_id=101)))
    rig.to_client()
    rig.client.deliver(encode(T.SUBSCRIBE, body))
    assert rig.to_client() == []
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    answer(rig, asked(rig)[0], pb.AuthorizationError)
    assert [command.error.request_id for command in rig.to_client()] == [1, 2, 3, 4, 5, 6, 7]
    joined(rig)


def test_those_who_share_a_question_ask_again_when_the_broker_went() -> None:
    """Who was asked for and who waited for the next question."""
    rig = new_rig()
    joined(rig)
    rig.client.deliver(subscribe(2, 200) + subscribe(3, 201))
    assert len(asked(rig)) == 1
    rig.broker.lose()
    rig.clock.advance(JOIN_AGAIN_S)
    rig.reopen()
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    assert sorted(port.command.request_id for port in rig.directory.workers) == [100, 200, 201]
    assert rig.to_client() == []


def test_other_places_have_questions_of_their_own() -> None:
    """An answer is for one topic and one subscription."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100) + subscribe(2, 101, topic="other"))
    questions = asked(rig)
    assert [probe.topic.rsplit("/")[-1] for probe in questions] == ["orders", "other"]
    answer(rig, questions[1], pb.AuthorizationError)
    assert [command.error.request_id for command in rig.to_client()] == [101]
    answer(rig, questions[0], pb.NotAllowedError)
    assert len(rig.directory.workers) == 1


def test_who_goes_before_the_answer_does_not_join() -> None:
    """The connection is lost."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    (probe,) = asked(rig)
    broker = rig.broker
    rig.client.lose()
    broker.deliver(encode(T.ERROR, pb.CommandError(request_id=probe.request_id, error=pb.NotAllowedError, message="")))
    assert rig.directory.workers == []


def test_what_comes_before_the_answer() -> None:
    """Permits are kept; what needs a consumer is answered that there is none yet."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100) + flow(1, 7) + ack(1, 101))
    seek = encode(T.SEEK, pb.CommandSeek(consumer_id=1, request_id=102, message_publish_time=1))
    last = encode(T.GET_LAST_MESSAGE_ID, pb.CommandGetLastMessageId(consumer_id=1, request_id=103))
    gone = encode(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=104))
    stats = encode(T.CONSUMER_STATS, pb.CommandConsumerStats(consumer_id=1, request_id=105))
    rig.client.deliver(seek + last + gone + stats)
    receipt, *refusals = rig.to_client()
    assert receipt.ackResponse.request_id == 101
    assert [(each.error.request_id, each.error.error) for each in refusals] == [
        (number, pb.ServiceNotReady) for number in (102, 103, 104, 105)
    ]
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    assert rig.directory.workers[0].calls == [("flow", 7)]


def test_a_broker_that_goes_before_it_answers() -> None:
    """The next one is asked: no worker joins on a guess. With a worker here its connection stays."""
    rig = new_rig()
    joined(rig)
    rig.client.deliver(subscribe(2, 200))
    assert len(asked(rig)) == 1
    rig.broker.lose()
    assert rig.to_client() == []
    rig.clock.advance(JOIN_AGAIN_S)
    rig.reopen()
    assert len(rig.directory.workers) == 1
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    assert [port.command.consumer_id for port in rig.directory.workers] == [1, 2]
    assert rig.to_client() == []


@pytest.mark.parametrize("named", [True, False])
def test_a_client_whose_own_broker_does_not_come_back_is_told(named: bool) -> None:  # noqa: FBT001 - a parameter
    """It has to look up again where it named that one; else the gateway goes to any that is there."""
    rig = SessionRig(QUIET, authorize=True, named=["pulsar://broker-3:6650"])
    rig.connect(**({"proxy_to_broker_url": "broker-3:6650"} if named else {}))
    rig.client.deliver(subscribe(1, 100))
    assert len(asked(rig)) == 1
    rig.broker.lose()
    rig.clock.advance(JOIN_AGAIN_S)
    rig.connector.last.refuse()
    told = [(command.error.request_id, command.error.error) for command in rig.to_client()]
    assert told == ([(100, pb.ServiceNotReady)] if named else [])
    assert rig.workers_count == (0 if named else 1)


def test_a_relay_that_takes_no_more_says_so() -> None:
    """While there is no broker, what waits for it has a bound; so has the time in which a worker tries again."""
    rig = SessionRig(Limits(queued_while_connecting_bytes=64, keep_alive_s=3_600), authorize=True).connect()
    joined(rig)
    rig.broker.lose()
    rig.client.deliver(lookup(1) + subscribe(2, 200))
    assert [command for command in rig.to_client() if command.type == T.ERROR] == []
    rig.clock.advance(JOIN_S_MAX + AGAIN_S_MAX)
    refused = [command.error for command in rig.to_client() if command.type == T.ERROR]
    assert [(error.request_id, error.error) for error in refused] == [(200, pb.ServiceNotReady)]


def test_a_question_and_a_producer_that_is_taken_back_do_not_meet() -> None:
    """Both are requests of the gateway's own on one connection, and each gets its own answer."""
    clock = FakeClock()
    elections = new_elections(clock)
    rig, other = (SessionRig(QUIET, clock=clock, elections=elections, authorize=True).connect() for _ in range(2))
    rig.client.deliver(want(10, 1))
    rig.broker.deliver(not_ready(10))
    other.client.deliver(want(20, 2))
    (question,) = other.to_broker()
    refusal = pb.CommandError(request_id=question.producer.request_id, error=pb.IncompatibleSchema, message="")
    other.broker.deliver(encode(T.ERROR, refusal))
    rig.take_all()
    rig.broker.deliver(ready(10, epoch=1))
    (withdrawal,) = rig.to_broker()
    assert withdrawal.type == T.CLOSE_PRODUCER
    rig.client.deliver(subscribe(1, 100))
    (probe,) = asked(rig)
    assert probe.request_id != withdrawal.close_producer.request_id
    other.take_all()
    rig.broker.deliver(success(withdrawal.close_producer.request_id))
    assert [command.type for command in other.to_broker()] == [T.PRODUCER]
    answer(rig, probe, pb.NotAllowedError)
    assert len(rig.directory.workers) == 1


def test_it_is_asked_again_for_each_subscription_while_anybody_consumes_it() -> None:
    """Not once for each worker; the first time after half the interval at the earliest."""
    rig = new_rig()
    first, second = joined(rig, 1, 100), joined(rig, 2, 101)
    rig.clock.advance(AGAIN_S / 2 - 1)
    assert asked(rig) == []
    rig.clock.advance(AGAIN_S / 2 + 1)
    (probe,) = asked(rig)
    answer(rig, probe, pb.NotAllowedError)
    rig.clock.advance(AGAIN_S)
    assert len(asked(rig)) == 1
    for port in (first, second):
        port.link.forget()
    rig.clock.advance(2 * AGAIN_S)
    assert asked(rig) == []
    assert rig.to_client() == []


def test_who_may_no_more_is_closed() -> None:
    """All its workers of that subscription; what they have is for others. The client subscribes again and hears why."""
    rig = new_rig()
    ports = [joined(rig, 1, 100), joined(rig, 2, 101)]
    rig.clock.advance(AGAIN_S)
    answer(rig, asked(rig)[0], pb.AuthorizationError)
    closed = rig.to_client()
    assert [command.close_consumer.consumer_id for command in closed] == [1, 2]
    assert [port.calls[-1] for port in ports] == [("lost", f"its permission was revoked: {DENIED}")] * 2
    assert rig.workers_count == 0
    assert rig.session.counters.permissions_revoked_total == 2
    assert rig.cause is None
    rig.clock.advance(2 * AGAIN_S)
    assert asked(rig) == [], "nothing is consumed"


def test_who_may_no_more_while_its_subscription_has_not_answered_hears_so() -> None:
    """Its client knows of no consumer that could be closed: it waits for the answer to its SUBSCRIBE, and gets that."""
    rig = new_rig()
    joined(rig)
    rig.client.deliver(subscribe(2, 101))
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    joining = rig.directory.workers[1]
    rig.clock.advance(AGAIN_S)
    answer(rig, asked(rig)[0], pb.AuthorizationError)
    closed, refused = rig.to_client()
    assert closed.close_consumer.consumer_id == 1
    assert (refused.error.request_id, refused.error.error) == (101, pb.AuthorizationError)
    assert refused.error.message == DENIED
    assert [call[0] for call in joining.calls] == ["lost"]
    assert rig.workers_count == 0


@pytest.mark.parametrize("code", [pb.NotAllowedError, pb.AuthorizationError])
def test_who_came_after_the_question_was_sent_has_an_answer_of_its_own(code: int) -> None:
    """Also where the first one is no: that says nothing of what is permitted by now."""
    rig = new_rig()
    joined(rig)
    rig.clock.advance(AGAIN_S)
    (first,) = asked(rig)
    rig.client.deliver(subscribe(2, 101))
    answer(rig, first, pb.AuthorizationError)
    assert [command.close_consumer.consumer_id for command in rig.to_client()] == [1]
    answer(rig, asked(rig)[0], code)
    told = [(command.error.request_id, command.error.error) for command in rig.to_client()]
    assert (len(rig.directory.workers), told) == ((2, []) if code == pb.NotAllowedError else (1, [(101, code)]))


def test_who_lets_no_question_be_answered_has_to_subscribe_anew() -> None:
    """Its own commands can make the broker end the connection by which the question goes, each time."""
    rig = new_rig()
    port = joined(rig)
    for number in range(UNANSWERED_MAX):
        rig.clock.advance(AGAIN_S)
        assert len(asked(rig)) == 1, "a question"
        rig.broker.lose()
        rig.client.deliver(subscribe(77, 9_000 + number, pb.CommandSubscribe.Shared, "other"))
        rig.reopen()
        rig.take_all()
        assert port.calls == []
    rig.clock.advance(AGAIN_S)
    assert [call[0] for call in port.calls] == ["lost"]
    assert T.CLOSE_CONSUMER in [command.type for command in rig.to_client()]
    assert rig.workers_count == 0


def test_who_subscribes_anew_after_that_is_asked_about_anew() -> None:
    """It was closed again at each look, though the broker had permitted it meanwhile."""
    rig = new_rig()
    joined(rig)
    for _ in range(UNANSWERED_MAX + 1):
        rig.clock.advance(AGAIN_S)
    assert rig.workers_count == 0
    while questions := asked(rig):
        answer(rig, questions[0], pb.NotAllowedError)
    rig.take_all()
    port = joined(rig, 1, 200)
    for _ in range(2 * UNANSWERED_MAX):
        rig.clock.advance(AGAIN_S)
        (question,) = asked(rig)
        answer(rig, question, pb.NotAllowedError)
    assert port.calls == []


@pytest.mark.parametrize(
    ("fields", "code", "words"),
    [
        ({"consumer_name": "x" * 1_001}, pb.NotAllowedError, "a consumer name of 1001 characters: at most 1000"),
        ({"subscription": "x" * 1_001}, pb.NotAllowedError, "a subscription name of 1001 characters: at most 1000"),
        (
            {"topic": "persistent://a/b/" + "x" * 3_984},
            pb.NotAllowedError,
            "a topic name of 4001 characters: at most 4000",
        ),
        (
            {"metadata": [pb.KeyValue(key="k", value="x" * 65_535), pb.KeyValue(key="", value="x")]},
            pb.MetadataError,
            "consumer properties of 65537 characters: at most 65536",
        ),
    ],
)
def test_a_worker_with_words_of_megabytes_is_refused(fields: dict[str, Any], code: int, words: str) -> None:
    """Before the broker is asked: each line that tells of the worker would have its name."""

    def wanting(request_id: int, fields: dict[str, Any]) -> bytes:
        asked_for = {"topic": "orders", "subscription": "s"} | fields
        kind = pb.CommandSubscribe.Key_Shared
        return encode(T.SUBSCRIBE, pb.CommandSubscribe(subType=kind, consumer_id=1, request_id=request_id, **asked_for))

    rig = new_rig()
    rig.client.deliver(wanting(100, fields))
    assert asked(rig) == []
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error, told.error.message) == (100, code, f"{words} are allowed")
    ((name, value),) = fields.items()
    rig.client.deliver(wanting(101, {name: value[:-1]}))
    assert len(asked(rig)) == 1


def test_questions_of_workers_that_were_closed_are_bounded() -> None:
    """Each keeps names, until a broker answers that may take its time."""
    rig = SessionRig(Limits(keep_alive_s=3_600, workers_per_connection_max=5), authorize=True).connect()
    for number in range(10):
        close = encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=1, request_id=200 + number))
        rig.client.deliver(subscribe(1, 100 + number, topic=f"t{number}") + close)
    assert [told.type for told in rig.to_client()] == [T.SUCCESS] * 10
    questions = asked(rig)
    assert len(questions) == 10
    rig.client.deliver(subscribe(1, 110, topic="t10"))
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error) == (110, pb.TooManyRequests)
    answer(rig, questions[0], pb.NotAllowedError)
    joined(rig, 1, 111)


def test_who_waits_while_no_question_is_answered_is_told_to_try_again() -> None:
    """That is no refusal of the broker's, and a client gives up at one."""
    rig = new_rig()
    rig.client.deliver(subscribe(1, 100))
    answer(rig, asked(rig)[0], pb.NotAllowedError)
    for _ in range(UNANSWERED_MAX + 1):
        rig.clock.advance(AGAIN_S)
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error) == (100, pb.ServiceNotReady)
    assert [call[0] for call in rig.directory.workers[0].calls] == ["lost"]


def test_who_consumes_stays_for_as_long_as_the_gateway_itself_does_not_reach_the_broker() -> None:
    """An outage is no fault of the client's; once it is over, the questions count."""
    rig = new_rig()
    port = joined(rig)
    port.broker_away = True
    for _ in range(5 * UNANSWERED_MAX):
        rig.clock.advance(AGAIN_S)
    assert port.calls == []
    port.broker_away = False
    for _ in range(UNANSWERED_MAX + 1):
        rig.clock.advance(AGAIN_S)
    assert [call[0] for call in port.calls] == ["lost"]


def test_thousands_of_places_are_asked_for_with_one_look_at_the_workers() -> None:
    """One for each would take time by the square of the workers on a connection."""
    clock = FakeClock()
    looks: list[float] = []
    asked_for: list[Place] = []

    class Permissions:
        def ask(self, place: Place, _answered: object) -> None:
            asked_for.append(place)

    def away() -> set[Place]:
        looks.append(clock.now())
        return set()

    places = {Place("topic", f"s-{number}") for number in range(1_000)}
    watch = PermissionWatch(
        cast("Permission", Permissions()), clock, Slices(clock), AGAIN_S, "peer", lambda: places, away, lambda *_: None
    )
    watch.begin()
    clock.advance(AGAIN_S)
    assert (set(asked_for), len(looks)) == (places, 1)


def test_an_answer_gives_new_time() -> None:
    """One in so many is enough."""
    rig = new_rig()
    port = joined(rig)
    for _ in range(3):
        for _ in range(UNANSWERED_MAX):
            rig.clock.advance(AGAIN_S)
        answer(rig, asked(rig)[-1], pb.NotAllowedError)
    assert port.calls == []


@pytest.mark.parametrize("code", [pb.UnknownError, pb.ServiceNotReady, pb.TooManyRequests])
def test_a_broker_without_an_answer_now_is_asked_again_in_time(code: int) -> None:
    """Whoever has joined stays."""
    rig = new_rig()
    port = joined(rig)
    rig.clock.advance(AGAIN_S)
    answer(rig, asked(rig)[0], code)
    assert port.calls == []
    rig.clock.advance(AGAIN_S)
    assert len(asked(rig)) == 1


def test_a_client_that_the_broker_does_not_know_any_more_goes_with_its_workers() -> None:
    """Its connection to the broker was lost while it only consumed; the next question opens one, and is refused."""
    rig = new_rig()
    port = joined(rig)
    rig.broker.lose()
    rig.clock.advance(AGAIN_S)
    refusal = pb.CommandError(request_id=2**64 - 1, error=pb.AuthenticationError, message="token expired")
    rig.connector.last.accept().deliver(encode(T.ERROR, refusal))
    assert rig.cause == "broker_refused"
    assert port.calls == [("lost", "token expired")]
