"""A client that names a broker: it is taken there only if the cluster names that broker, now or shortly before."""

from __future__ import annotations

import pytest

from proxy.limits import Limits
from proxy.net.broker.names import NAMED_FOR_S
from proxy.net.session.worker import AGAIN_S
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.topic_names import COORDINATOR_TOPIC
from tests.net.fakes import FakeTransport
from tests.net.session_rig import (
    SessionRig,
    T,
    connect,
    connected,
    encode,
    flow,
    lookup,
    lookup_response,
    parse,
    producer,
    producer_success,
    send,
    subscribe,
    success,
)

CONNECT = pb.CommandLookupTopicResponse.Connect
REDIRECT = pb.CommandLookupTopicResponse.Redirect
FAILED = pb.CommandLookupTopicResponse.Failed
SHARED = pb.CommandSubscribe.Shared
FRONT = "pulsar://broker-0:6650"
MEANT = "broker-3:6650"
TARGET = f"pulsar://{MEANT}"
STRANGE = ["evil.example:6650", "127.0.0.1:22", "169.254.169.254:80", "broker-3:22", "broker-0:8080"]


def asking(wish: str = MEANT, **options: object) -> SessionRig:
    """A client of a broker that nobody has heard of; a configured broker has let it in."""
    rig = SessionRig(**options)  # type: ignore[arg-type]
    return rig.connect(proxy_to_broker_url=wish)


def question(rig: SessionRig) -> pb.CommandLookupTopic:
    """What the configured broker is asked."""
    (command,) = rig.to_broker()
    assert command.type == T.LOOKUP
    return command.lookupTopic


def named(rig: SessionRig, url: str = TARGET) -> FakeTransport:
    """The configured broker names one, and the connection that follows stands."""
    rig.broker.deliver(lookup_response(question(rig).request_id, CONNECT, url))
    transport = rig.connector.last.accept()
    transport.deliver(connected())
    return transport


def dialled(rig: SessionRig) -> list[str]:
    """Every address that was dialled."""
    return [attempt.address for attempt in rig.connector.attempts]


# ---- a place that the cluster does not name


@pytest.mark.parametrize("wish", STRANGE)
def test_a_place_that_no_lookup_names_is_never_dialled(wish: str) -> None:
    """Its client gets a broker's word that it may come in, and is sent away at its first request."""
    rig = asking(wish)
    rig.client.deliver(subscribe(6, 60, SHARED))
    assert question(rig).topic == "orders"
    assert rig.to_client() == []
    rig.client.deliver(flow(6, 10) + send(5, 1))
    assert rig.to_broker() == []


@pytest.mark.parametrize("wish", STRANGE)
@pytest.mark.parametrize("answer", [CONNECT, FAILED])
def test_refused_clients_are_told_the_same_whatever_they_named(wish: str, answer: int) -> None:
    """Nothing of the place, of what the lookup said, or of how long it took."""
    rig = asking(wish)
    rig.client.deliver(subscribe(6, 60, SHARED))
    rig.broker.deliver(lookup_response(question(rig).request_id, answer, "pulsar://broker-9:6650"))
    (command,) = rig.to_client()
    assert command.error.error == pb.ServiceNotReady
    assert command.error.message == "the cluster does not name this broker; look up again"
    assert rig.cause == "target_refused"
    assert rig.client.closing
    assert dialled(rig) == [FRONT]


def test_a_broker_that_does_not_answer_leaves_nobody_waiting() -> None:
    """The question has a bound in time."""
    rig = asking(limits=Limits(handshake_timeout_s=5.0))
    rig.client.deliver(subscribe(6, 60, SHARED))
    rig.clock.advance(4.9)
    assert rig.cause is None
    rig.clock.advance(0.2)
    assert rig.cause == "target_refused"


def test_a_broker_that_answers_the_question_with_an_error_names_nothing() -> None:
    """Brokers refuse some lookups so."""
    rig = asking()
    rig.client.deliver(subscribe(6, 60, SHARED))
    error = pb.CommandError(request_id=question(rig).request_id, error=pb.AuthorizationError, message="no")
    rig.broker.deliver(encode(T.ERROR, error))
    assert rig.cause == "target_refused"


def test_the_configured_broker_decides_who_comes_in() -> None:
    """Its refusal is the client's, and the place is not asked."""
    rig = SessionRig()
    rig.client.deliver(connect(proxy_to_broker_url="evil.example:6650"))
    error = pb.CommandError(request_id=2**64 - 1, error=pb.AuthenticationError, message="no token")
    rig.connector.last.accept().deliver(encode(T.ERROR, error))
    (command,) = rig.to_client()
    assert (command.error.error, command.error.message) == (pb.AuthenticationError, "no token")
    assert dialled(rig) == [FRONT]


def test_a_worker_of_a_strange_place_does_not_join() -> None:
    """Its permission is asked where its topic is, and it has not come there."""
    rig = asking("evil.example:6650", authorize=True)
    rig.client.deliver(subscribe(1, 100) + flow(1, 10))
    rig.broker.deliver(lookup_response(question(rig).request_id, CONNECT, TARGET))
    assert rig.directory.workers == []
    assert rig.cause == "target_refused"
    assert dialled(rig) == [FRONT]


@pytest.mark.parametrize("mode", [pb.Exclusive, pb.ExclusiveWithFencing, pb.WaitForExclusive])
@pytest.mark.parametrize("by_itself", [True, False])
def test_a_producer_of_a_strange_place_owns_nothing_and_holds_up_nobody(mode: int, by_itself: bool) -> None:  # noqa: FBT001 - pytest passes it
    """Nothing of it reached a broker, so nobody waits for one to take it off, and no owner may have been fenced."""
    rig = asking("evil.example:6650")
    rightful = SessionRig(clock=rig.clock, elections=rig.elections).connect()
    wish = pb.CommandProducer(topic="orders", producer_id=5, request_id=50, producer_access_mode=mode)  # type: ignore[arg-type]
    rig.client.deliver(encode(T.PRODUCER, wish))
    asked = question(rig).request_id
    if by_itself:
        rig.client.lose("gone")
    else:
        rig.broker.deliver(lookup_response(asked, CONNECT, TARGET))
    assert rig.session.cause is not None
    election = rig.elections.of("persistent://public/default/orders")
    assert not election.owned
    rightful.client.deliver(encode(T.PRODUCER, wish))
    assert [command.type for command in rightful.to_broker()] == [T.PRODUCER]
    rightful.broker.deliver(producer_success(50))
    assert [command.type for command in rightful.to_client()] == [T.PRODUCER_SUCCESS]
    assert election.owned


def test_requests_that_name_no_topic_are_not_answered_by_the_wrong_broker() -> None:
    """None of them can say which broker is right; a client puts them to its service URL."""
    rig = asking()
    body = pb.CommandGetTopicsOfNamespace(namespace="public/default", request_id=8)
    rig.client.deliver(encode(T.GET_TOPICS_OF_NAMESPACE, body))
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (8, pb.ServiceNotReady)
    assert rig.to_broker() == []


# ---- a place that it names when asked


def test_a_broker_that_a_lookup_names_now_is_where_the_client_gets_to() -> None:
    """As if it had come there at once: with its own CONNECT, its requests in order, and no second CONNECTED."""
    rig = asking()
    rig.client.deliver(producer(5, 50) + subscribe(6, 60, SHARED))
    front = rig.broker
    target = named(rig)
    assert front.closing
    assert dialled(rig) == [FRONT, TARGET]
    commands = parse(target.take())
    assert [command.type for command in commands] == [T.CONNECT, T.PRODUCER, T.SUBSCRIBE]
    assert not commands[0].connect.HasField("proxy_to_broker_url")
    assert rig.to_client() == []
    target.deliver(producer_success(50) + success(60))
    assert [command.type for command in rig.to_client()] == [T.PRODUCER_SUCCESS, T.SUCCESS]
    rig.client.deliver(send(5, 1))
    assert target.take() == send(5, 1)
    assert rig.session.counters.targets_asked_total == 1


def test_the_next_client_is_taken_there_at_once() -> None:
    """One question for all clients of a broker."""
    first = asking()
    first.client.deliver(subscribe(6, 60, SHARED))
    named(first)
    second = SessionRig(clock=first.clock, names=first.names)
    second.client.deliver(connect(proxy_to_broker_url=MEANT))
    assert dialled(second) == [TARGET]


def test_a_redirect_of_a_known_broker_is_followed_when_asking() -> None:
    """Any broker may be the configured one; the owner is often another."""
    rig = asking()
    rig.client.deliver(subscribe(6, 60, SHARED))
    rig.broker.deliver(lookup_response(question(rig).request_id, REDIRECT, "pulsar://broker-2:6650"))
    leg = rig.connector.last.accept()
    leg.deliver(connected())
    (_, command) = parse(leg.take())
    leg.deliver(lookup_response(command.lookupTopic.request_id, CONNECT, TARGET))
    rig.connector.last.accept().deliver(connected())
    assert dialled(rig) == [FRONT, "pulsar://broker-2:6650", TARGET]
    assert rig.cause is None


def test_a_worker_s_permission_is_asked_at_the_broker_that_was_named() -> None:
    """Not at the one that only knew the way."""
    rig = asking(authorize=True)
    rig.client.deliver(subscribe(1, 100))
    target = named(rig)
    (_, probe) = parse(target.take())
    assert probe.subscribe.read_compacted
    assert rig.directory.workers == []
    error = pb.CommandError(request_id=probe.subscribe.request_id, error=pb.NotAllowedError, message="nonsense")
    target.deliver(encode(T.ERROR, error))
    assert len(rig.directory.workers) == 1


def test_a_transaction_coordinator_s_client_is_taken_to_its_broker() -> None:
    """Its first request has no topic, but a number that stands for one."""
    rig = asking()
    rig.client.deliver(encode(T.TC_CLIENT_CONNECT_REQUEST, pb.CommandTcClientConnectRequest(request_id=9, tc_id=3)))
    (command,) = rig.to_broker()
    assert command.lookupTopic.topic == COORDINATOR_TOPIC.format(3)


def test_what_is_closed_before_it_was_passed_on_is_closed_after_it() -> None:
    """Or the broker would open what its client takes for closed."""
    rig = asking()
    close = pb.CommandCloseProducer(producer_id=5, request_id=51)
    rig.client.deliver(producer(5, 50) + encode(T.CLOSE_PRODUCER, close))
    target = named(rig)
    assert [command.type for command in parse(target.take())] == [T.CONNECT, T.PRODUCER, T.CLOSE_PRODUCER]
    assert rig.to_client() == []


def test_credentials_asked_for_meanwhile_go_to_who_asked() -> None:
    """And the fresh ones to the next broker."""
    rig = SessionRig().connect(proxy_to_broker_url=MEANT, auth_method_name="token", auth_data=b"old")
    challenge = encode(T.AUTH_CHALLENGE, pb.CommandAuthChallenge(challenge=pb.AuthData(auth_data=b"?")))
    rig.broker.deliver(challenge)
    assert rig.client.take() == challenge
    fresh = pb.AuthData(auth_method_name="token", auth_data=b"new")
    response = encode(T.AUTH_RESPONSE, pb.CommandAuthResponse(response=fresh))
    rig.client.deliver(response)
    assert rig.broker.take() == response
    rig.client.deliver(subscribe(6, 60, SHARED))
    assert parse(named(rig).take())[0].connect.auth_data == b"new"


def test_a_broker_lost_while_it_is_asked_is_asked_again_for_the_workers_that_wait() -> None:
    """Each tries again, and that begins anew."""
    rig = asking(authorize=True)
    rig.client.deliver(subscribe(1, 100))
    question(rig)
    rig.broker.lose("gone")
    assert rig.to_client() == []
    assert rig.cause is None
    rig.clock.advance(AGAIN_S)
    rig._leg = rig.connector.last.accept()
    rig._leg.deliver(connected())
    assert [command.type for command in rig.to_broker()] == [T.CONNECT, T.LOOKUP]


# ---- a place that it named before


def test_what_a_client_s_lookup_was_answered_with_is_known_from_then_on() -> None:
    """Every client comes so, where there is one gateway: it looks up, and then names what it was told."""
    rig = SessionRig().connect()
    rig.client.deliver(lookup(1))
    rig.broker.deliver(lookup_response(1, CONNECT, TARGET))
    assert [command.type for command in rig.to_client()] == [T.LOOKUP_RESPONSE]
    assert len(rig.names._named_at) == 1
    rig.client.deliver(lookup(2))
    rig.broker.deliver(lookup_response(2, FAILED, "pulsar://broker-8:6650"))
    rig.broker.deliver(lookup_response(3, CONNECT, "pulsar://broker-9:6650"))
    assert len(rig.names._named_at) == 1, "an answer that failed, or that nobody asked for, names nothing"


def test_a_lookup_is_for_addresses_that_the_gateway_reaches() -> None:
    """It dials them, not the client, which may want those of a listener for the world outside."""
    rig = SessionRig().connect()
    body = pb.CommandLookupTopic(topic="orders", request_id=1, advertised_listener_name="outside")
    rig.client.deliver(encode(T.LOOKUP, body))
    (command,) = rig.to_broker()
    assert not command.lookupTopic.HasField("advertised_listener_name")
    assert (command.lookupTopic.topic, command.lookupTopic.request_id) == ("orders", 1)


@pytest.mark.parametrize("wanted", ["", "outside"])
def test_all_lookups_are_for_the_listener_that_is_configured(wanted: str) -> None:
    """Or a client's lookup at one replica and the question of another would have different answers."""
    rig = SessionRig(listener_name="for-gateways").connect()
    body = pb.CommandLookupTopic(topic="orders", request_id=1, advertised_listener_name=wanted)
    rig.client.deliver(encode(T.LOOKUP, body))
    (command,) = rig.to_broker()
    assert command.lookupTopic.advertised_listener_name == "for-gateways"
    asked = asking(listener_name="for-gateways")
    asked.client.deliver(subscribe(6, 60, SHARED))
    assert question(asked).advertised_listener_name == "for-gateways"


def test_a_leg_that_is_opened_anew_goes_to_no_place_that_was_forgotten() -> None:
    """A broker that has gone may have left its address to another; a worker's connection outlives many brokers."""
    rig = SessionRig(named=[TARGET]).connect(proxy_to_broker_url=MEANT)
    rig.worker()
    rig.broker.lose("gone")
    rig.client.take()
    rig.clock.advance(1.0)
    rig.client.deliver(subscribe(6, 60, SHARED))
    assert dialled(rig) == [TARGET, TARGET]
    rig.connector.last.refuse()
    rig.client.take()
    rig.clock.oversleep(NAMED_FOR_S)
    rig.client.deliver(subscribe(7, 70, SHARED))
    assert dialled(rig) == [TARGET, TARGET, FRONT]


# ---- behind a proxy


def test_a_proxy_hears_of_no_broker_that_the_cluster_does_not_name() -> None:
    """It would dial what it is told, as the gateway would."""
    rig = SessionRig(brokers=["pulsar://proxy:6650"], upstream_is_proxy=True)
    rig.client.deliver(connect(proxy_to_broker_url="evil.example:6650"))
    proxy = rig.connector.last.accept()
    proxy.deliver(connected())
    rig.client.deliver(subscribe(6, 60, SHARED))
    (command, asked) = parse(proxy.take())
    assert not command.connect.HasField("proxy_to_broker_url")
    proxy.deliver(lookup_response(asked.lookupTopic.request_id, CONNECT, TARGET))
    assert rig.cause == "target_refused"
    assert len(rig.connector.attempts) == 1


def test_a_proxy_is_told_of_a_broker_that_a_lookup_through_it_names() -> None:
    """Both kinds of address name it, for how the proxy dials its brokers is its own matter."""
    rig = asking(brokers=["pulsar://proxy:6650"], upstream_is_proxy=True)
    rig.client.deliver(subscribe(6, 60, SHARED))
    target = named(rig, f"pulsar+ssl://{MEANT}")
    assert dialled(rig) == ["pulsar://proxy:6650", "pulsar://proxy:6650"]
    commands = parse(target.take())
    assert commands[0].connect.proxy_to_broker_url == MEANT
    assert [command.type for command in commands] == [T.CONNECT, T.SUBSCRIBE]


# ---- a place that was known when the connection to it was made


def consuming() -> SessionRig:
    """A worker's client at a broker that was named, in whose name nothing has been looked up for long."""
    rig = SessionRig(Limits(keep_alive_s=3_600), named=[TARGET]).connect(proxy_to_broker_url=MEANT)
    rig.client.deliver(subscribe(1, 100))
    port = rig.directory.workers[-1]
    port.link.subscribed()
    rig.take_all()
    rig.clock.advance(2 * NAMED_FOR_S)
    return rig


def ask_for_something(rig: SessionRig, number: int) -> None:
    """The client opens its connection to the broker anew."""
    rig.client.deliver(subscribe(7, 9_000 + number, SHARED))


def test_a_brokers_restart_sends_no_worker_away_though_nobody_looked_up_for_long() -> None:
    """Its connection stood until now, so the place is still the one that the cluster had named."""
    rig = consuming()
    rig.broker.lose()
    rig.clock.advance(NAMED_FOR_S - 1)
    ask_for_something(rig, 1)
    assert dialled(rig)[-1] == TARGET
    assert rig.cause is None


def test_a_place_that_was_left_for_long_is_asked_for_again() -> None:
    """Its address may be somebody else's by now."""
    rig = consuming()
    rig.broker.lose()
    rig.clock.advance(NAMED_FOR_S)
    ask_for_something(rig, 1)
    assert dialled(rig)[-1] == FRONT


def test_a_connection_made_on_trust_gives_no_more_time() -> None:
    """Or who has the address now would be believed for as long as it is dialled again and again."""
    rig = consuming()
    rig.broker.lose()
    for number in range(3):
        rig.clock.advance(NAMED_FOR_S / 3 - 1)
        ask_for_something(rig, number)
        assert dialled(rig)[-1] == TARGET
        rig.reopen()
        rig.broker.lose()
        rig.take_all()
    rig.clock.advance(NAMED_FOR_S / 3)
    ask_for_something(rig, 4)
    assert dialled(rig)[-1] == FRONT
