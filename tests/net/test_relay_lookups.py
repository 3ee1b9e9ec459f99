"""Lookups: answered so that the client stays, redirects followed on its behalf."""

from __future__ import annotations

import pytest

from proxy.limits import Limits
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeTransport
from tests.net.session_rig import (
    SessionRig,
    T,
    connected,
    encode,
    lookup,
    lookup_response,
    parse,
    producer,
    producer_success,
)

CONNECT = pb.CommandLookupTopicResponse.Connect
REDIRECT = pb.CommandLookupTopicResponse.Redirect
FAILED = pb.CommandLookupTopicResponse.Failed
PLAIN = "pulsar://broker-2:6650"
SECURE = "pulsar+ssl://broker-2:6651"


def asked(rig: SessionRig, request_id: int = 1) -> None:
    """The client has put a lookup to its broker."""
    rig.client.deliver(lookup(request_id))
    rig.broker.take()


def accept_leg(rig: SessionRig) -> FakeTransport:
    """Take the connection a redirect asked for, up to CONNECTED."""
    leg = rig.connector.last.accept()
    assert [command.type for command in parse(leg.take())] == [T.CONNECT]
    leg.deliver(connected())
    return leg


@pytest.mark.parametrize(
    ("broker", "told"), [("pulsar://broker-0:6650", PLAIN), ("pulsar+ssl://broker-0:6651", SECURE)]
)
def test_an_answer_keeps_the_client_here(broker: str, told: str) -> None:
    """Both addresses become the one that we can dial: a client names the one of its own kind when it comes back."""
    rig = SessionRig(brokers=[broker]).connect()
    asked(rig)
    rig.broker.deliver(lookup_response(1, CONNECT, PLAIN, SECURE))
    (command,) = rig.to_client()
    answer = command.lookupTopicResponse
    assert answer.proxy_through_service_url
    assert (answer.response, answer.brokerServiceUrl, answer.brokerServiceUrlTls) == (CONNECT, told, told)
    assert rig.session.counters.lookups_rewritten_total == 1


@pytest.mark.parametrize(
    ("broker", "calls_itself", "through", "told"),
    [
        ("pulsar://pulsar:6650", "pulsar://localhost:6650", True, "pulsar://pulsar:6650"),
        ("pulsar+ssl://pulsar:6651", "pulsar+ssl://127.0.0.1:6651", True, "pulsar+ssl://pulsar:6651"),
        ("pulsar://pulsar:6650", "pulsar://localhost:6650", False, "pulsar://localhost:6650"),
        ("pulsar://pulsar:6650", PLAIN, True, PLAIN),
    ],
)
def test_a_broker_that_calls_itself_localhost_is_the_one_that_was_asked(
    broker: str,
    calls_itself: str,
    through: bool,  # noqa: FBT001 - pytest passes it
    told: str,
) -> None:
    """A standalone broker in a container of its own: nobody else reaches it by the name it gives itself."""
    rig = SessionRig(brokers=[broker]).connect()
    asked(rig)
    answer = pb.CommandLookupTopicResponse(request_id=1, response=CONNECT, proxy_through_service_url=through)
    answer.brokerServiceUrl = answer.brokerServiceUrlTls = calls_itself
    rig.broker.deliver(encode(T.LOOKUP_RESPONSE, answer))
    (command,) = rig.to_client()
    answered = command.lookupTopicResponse
    assert (answered.brokerServiceUrl, answered.brokerServiceUrlTls) == (told, told)
    assert answered.proxy_through_service_url


def test_names_of_brokers_are_left_to_a_proxy() -> None:
    """It dials them from where it is."""
    rig = SessionRig(brokers=["pulsar://proxy:6650"], upstream_is_proxy=True).connect()
    asked(rig)
    answer = pb.CommandLookupTopicResponse(request_id=1, response=CONNECT, proxy_through_service_url=True)
    answer.brokerServiceUrl = "pulsar://localhost:6650"
    rig.broker.deliver(encode(T.LOOKUP_RESPONSE, answer))
    (command,) = rig.to_client()
    assert command.lookupTopicResponse.brokerServiceUrl == "pulsar://localhost:6650"


def test_a_failed_lookup_passes_unchanged() -> None:
    """There is nowhere to go."""
    rig = SessionRig().connect()
    asked(rig)
    answer = pb.CommandLookupTopicResponse(request_id=1, response=FAILED, error=pb.TopicNotFound, message="no")
    frame = encode(T.LOOKUP_RESPONSE, answer)
    rig.broker.deliver(frame)
    assert rig.client.take() == frame


@pytest.mark.parametrize("lookup_first", [True, False])
def test_a_lookup_and_another_request_may_share_an_id(lookup_first: bool) -> None:  # noqa: FBT001 - pytest passes it
    """C++ clients number their lookups apart from their other requests, so both answers must arrive."""
    rig = SessionRig().connect()
    rig.client.deliver(lookup(7) + producer(1, 7) if lookup_first else producer(1, 7) + lookup(7))
    rig.broker.take()
    rig.broker.deliver(producer_success(7) + lookup_response(7, CONNECT, PLAIN))
    assert [command.type for command in rig.to_client()] == [T.PRODUCER_SUCCESS, T.LOOKUP_RESPONSE]
    parts = rig.session._parts
    assert parts is not None
    assert len(parts.relay._requests._pending) == 0


def test_an_answer_nobody_asked_for_is_dropped() -> None:
    """It could only confuse."""
    rig = SessionRig().connect()
    rig.broker.deliver(lookup_response(9, CONNECT, PLAIN) + lookup_response(9, REDIRECT, PLAIN))
    assert rig.to_client() == []
    assert len(rig.connector.attempts) == 1


def test_a_redirect_is_followed_with_the_client_s_own_credentials() -> None:
    """C++ and Java clients would dial the other broker themselves and be past us."""
    rig = SessionRig().connect(auth_method_name="token", auth_data=b"secret")
    asked(rig)
    rig.broker.deliver(lookup_response(1, REDIRECT, PLAIN, SECURE))
    assert rig.to_client() == []
    assert rig.connector.last.address == PLAIN
    leg = rig.connector.last.accept()
    assert parse(leg.take())[0].connect.auth_data == b"secret"
    leg.deliver(connected())
    (command,) = parse(leg.take())
    assert command.lookupTopic.authoritative
    assert (command.lookupTopic.topic, command.lookupTopic.request_id) == ("orders", 1)
    leg.deliver(lookup_response(1, CONNECT, PLAIN))
    (answer,) = rig.to_client()
    assert answer.lookupTopicResponse.brokerServiceUrl == PLAIN
    assert answer.lookupTopicResponse.proxy_through_service_url


def test_redirects_are_followed_so_far_and_no_further() -> None:
    """Two brokers that point at each other end in an answer that makes the client try again."""
    rig = SessionRig(Limits(redirects_max=3)).connect()
    asked(rig)
    rig.broker.deliver(lookup_response(1, REDIRECT, "pulsar://a:1"))
    for url in ("pulsar://b:1", "pulsar://c:1", "pulsar://d:1"):
        accept_leg(rig).deliver(lookup_response(1, REDIRECT, url))
    (command,) = rig.to_client()
    assert command.lookupTopicResponse.response == FAILED
    assert command.lookupTopicResponse.error == pb.ServiceNotReady
    assert "3 times" in command.lookupTopicResponse.message
    assert len(rig.connector.attempts) == 4


def test_a_redirect_s_connection_serves_many_lookups_and_closes_when_idle() -> None:
    """A thousand partitions live on few brokers."""
    rig = SessionRig().connect()
    for request_id in (1, 2, 3):
        asked(rig, request_id)
        rig.broker.deliver(lookup_response(request_id, REDIRECT, PLAIN))
    assert len(rig.connector.attempts) == 2
    leg = accept_leg(rig)
    assert [command.lookupTopic.request_id for command in parse(leg.take())] == [1, 2, 3]
    leg.deliver(b"".join(lookup_response(request_id, CONNECT, PLAIN) for request_id in (1, 2, 3)))
    assert len(rig.to_client()) == 3
    rig.clock.advance(rig.limits.keep_alive_s - 1)
    assert [leg.closing] == [False]
    asked(rig, 4)
    rig.broker.deliver(lookup_response(4, REDIRECT, PLAIN))
    leg.deliver(lookup_response(4, CONNECT, PLAIN))
    for _ in range(10):
        rig.clock.advance(rig.limits.keep_alive_s / 5)
        rig.client.deliver(encode(T.PONG))
        rig.broker.deliver(encode(T.PONG))
    assert leg.closing
    parts = rig.session._parts
    assert parts is not None
    assert parts.relay._lookups._redirects._legs == {}


def test_a_redirect_that_leads_nowhere_fails_the_lookup_and_nothing_else() -> None:
    """Refused, lost, challenged, or no address at all: the client tries again."""
    for ending in ("refused", "lost", "challenged", "address"):
        rig = SessionRig().connect()
        asked(rig)
        rig.broker.deliver(lookup_response(1, REDIRECT, "http://x" if ending == "address" else PLAIN))
        if ending == "refused":
            rig.connector.last.refuse()
        elif ending == "lost":
            accept_leg(rig).lose()
        elif ending == "challenged":
            challenge = pb.CommandAuthChallenge(challenge=pb.AuthData(auth_data=b"?"))
            rig.connector.last.accept().deliver(encode(T.AUTH_CHALLENGE, challenge))
        (command,) = rig.to_client()
        assert command.lookupTopicResponse.response == FAILED, ending
        assert command.lookupTopicResponse.error == pb.ServiceNotReady
        assert rig.cause is None
        asked(rig, 2)
        rig.broker.deliver(lookup_response(2, CONNECT, PLAIN))
        assert rig.to_client()[0].lookupTopicResponse.response == CONNECT


def test_connections_for_redirects_are_bounded() -> None:
    """A broker that redirects everywhere cannot make us dial the whole world."""
    rig = SessionRig(Limits(redirect_connections_max=2)).connect()
    for request_id in (1, 2, 3):
        asked(rig, request_id)
        rig.broker.deliver(lookup_response(request_id, REDIRECT, f"pulsar://b-{request_id}:1"))
    (command,) = rig.to_client()
    assert (command.lookupTopicResponse.request_id, command.lookupTopicResponse.response) == (3, FAILED)
    assert len(rig.connector.attempts) == 3


def test_when_the_client_leaves_its_redirects_end() -> None:
    """No connection of its stays, nor any timer."""
    rig = SessionRig().connect()
    asked(rig)
    rig.broker.deliver(lookup_response(1, REDIRECT, PLAIN))
    leg = accept_leg(rig)
    rig.client.lose()
    assert leg.closing
    assert rig.clock.waiting == 0


def test_an_answer_that_comes_after_the_broker_was_lost_is_not_a_second_one() -> None:
    """The lookup was refused when the leg went; its redirect's answer finds nobody."""
    rig = SessionRig().connect()
    rig.worker()
    asked(rig)
    rig.broker.deliver(lookup_response(1, REDIRECT, PLAIN))
    leg = accept_leg(rig)
    first_leg = rig.connector.attempts[0].transport
    assert first_leg is not None
    first_leg.lose()
    assert rig.to_client()[0].lookupTopicResponse.response == FAILED
    leg.deliver(lookup_response(1, CONNECT, PLAIN))
    assert rig.to_client() == []
