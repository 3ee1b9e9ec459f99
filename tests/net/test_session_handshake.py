"""CONNECT and CONNECTED through a session, and the addresses a client may name."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from proxy.errors import ClientError
from proxy.limits import Limits
from proxy.net.handshake import TargetPolicy, requested_broker
from proxy.service_url import ServiceUrl, parse_service_url
from proxy.shortened import CUT
from proxy.wire import pulsar_pb2 as pb
from tests.net.session_rig import SessionRig, T, connect, connected, encode, parse, subscribe


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("broker:6650", ServiceUrl("pulsar", "broker", 6650)),
        ("pulsar://broker", ServiceUrl("pulsar", "broker", 6650)),
        ("pulsar+ssl://broker", ServiceUrl("pulsar+ssl", "broker", 6651)),
        ("pulsar://10.0.0.1:7000/", ServiceUrl("pulsar", "10.0.0.1", 7000)),
        ("[::1]:6650", ServiceUrl("pulsar", "::1", 6650)),
    ],
)
def test_service_urls_are_read_as_clients_write_them(text: str, url: ServiceUrl) -> None:
    """Clients send host:port, people write URLs; what was read prints as a URL that reads back."""
    assert parse_service_url(text) == url
    assert parse_service_url(str(url)) == url


@pytest.mark.parametrize(
    "text", ["", "http://broker:80", "pulsar://", "broker:99999", "broker:0", "a@b:1", "broker:6650/x", "b:x", "[::1"]
)
def test_what_is_no_service_url_is_refused(text: str) -> None:
    """Nothing else becomes an address to dial."""
    with pytest.raises(ValueError, match=r"."):
        parse_service_url(text)


def test_a_client_without_a_wish_goes_to_the_configured_broker() -> None:
    """The upstream connection is the client's own and carries its CONNECT whole, credentials and flags included."""
    rig = SessionRig()
    flags = pb.FeatureFlags(supports_auth_refresh=True, supports_broker_entry_metadata=True)
    rig.client.deliver(connect(auth_method_name="token", auth_data=b"secret", feature_flags=flags))
    assert rig.connector.last.address == "pulsar://broker-0:6650"
    rig.connector.last.accept()
    (command,) = rig.to_broker()
    assert command.connect.client_version == "Pulsar-CPP-v3.7.0"
    assert command.connect.auth_data == b"secret"
    assert command.connect.feature_flags == flags


@pytest.mark.parametrize("wish", ["broker-3:6651", "pulsar://broker-3:6651"])
def test_a_client_goes_to_the_broker_it_names_and_the_broker_does_not_hear_the_wish(wish: str) -> None:
    """`proxy_to_broker_url` is ours to fulfil, with the scheme of the configured brokers whatever the client says."""
    rig = SessionRig(brokers=["pulsar+ssl://broker-0:6651"], named=["pulsar+ssl://broker-3:6651"])
    rig.client.deliver(connect(proxy_to_broker_url=wish))
    assert rig.connector.last.address == "pulsar+ssl://broker-3:6651"
    rig.connector.last.accept()
    (command,) = rig.to_broker()
    assert not command.connect.HasField("proxy_to_broker_url")


def test_in_front_of_a_pulsar_proxy_the_wish_is_passed_on() -> None:
    """Brokers behind a proxy cannot be dialled; the proxy knows the way."""
    rig = SessionRig(brokers=["pulsar://proxy:6650"], upstream_is_proxy=True, named=["pulsar://broker-3:6650"])
    rig.client.deliver(connect(proxy_to_broker_url="broker-3:6650"))
    assert rig.connector.last.address == "pulsar://proxy:6650"
    rig.connector.last.accept()
    assert rig.to_broker()[0].connect.proxy_to_broker_url == "broker-3:6650"


@pytest.mark.parametrize("wish", ["http://broker:80", "broker:0", "evil.example:6650", "in.cluster.local:22"])
def test_a_wish_that_is_malformed_or_not_allowed_ends_the_connection(wish: str) -> None:
    """A stranger's address is dialled only if it is one and the operator allows it, even if the cluster names it."""
    rig = SessionRig(targets=TargetPolicy(frozenset({".cluster.local"}), frozenset({6650})), named=[wish])
    rig.client.deliver(connect(proxy_to_broker_url=wish))
    (command,) = rig.to_client()
    assert "proxy_to_broker_url" in command.error.message
    assert rig.connector.attempts == []
    assert rig.cause == "target_refused"
    assert rig.client.closing


def test_what_is_on_a_list_is_no_broker_for_that() -> None:
    """An operator's list makes the cluster's brokers fewer; it opens nothing."""
    rig = SessionRig(targets=TargetPolicy(frozenset({".cluster.local"}), frozenset({6650})))
    rig.client.deliver(connect(proxy_to_broker_url="pod-of-a-stranger.cluster.local:6650"))
    assert rig.connector.last.address == "pulsar://broker-0:6650"


def test_both_lists_let_through_what_stands_on_them() -> None:
    """Domains, hosts and ports."""
    policy = TargetPolicy(frozenset({".cluster.local", "broker"}), frozenset({6650}))
    for wish in ("broker:6650", "b-1.cluster.local:6650"):
        command = pb.CommandConnect(client_version="x", proxy_to_broker_url=wish)
        assert str(requested_broker(command, "pulsar", policy)) == f"pulsar://{wish}"
    with pytest.raises(ClientError):
        requested_broker(
            pb.CommandConnect(client_version="x", proxy_to_broker_url="cluster.local:6650"), "pulsar", policy
        )


def test_connected_promises_only_what_holds() -> None:
    """Unknown feature flags and newer protocol versions are taken out, the rest is the broker's own answer."""
    rig = SessionRig()
    rig.client.deliver(connect())
    flags = pb.FeatureFlags(supports_partial_producer=True, supports_scalable_topics=True)
    flags.MergeFromString(b"\xf8\x01\x01")  # field 31: a flag of tomorrow
    rig.connector.last.accept().deliver(connected(protocol_version=25, feature_flags=flags))
    (command,) = rig.to_client()
    assert command.connected.server_version == "Pulsar Server 4.2.4"
    assert command.connected.protocol_version == 21
    assert command.connected.max_message_size == 5_242_880
    assert command.connected.feature_flags.SerializeToString() == b"\x18\x01"
    assert rig.session._state.value == "connected"


def test_an_older_broker_keeps_its_version() -> None:
    """The protocol version is the lesser of both."""
    rig = SessionRig()
    rig.client.deliver(connect())
    rig.connector.last.accept().deliver(connected(protocol_version=13))
    assert rig.to_client()[0].connected.protocol_version == 13


def test_a_broker_that_takes_larger_messages_than_we_do_is_cut_to_our_size() -> None:
    """A client that knows the bound refuses one message; one that does not would lose its connection."""
    rig = SessionRig()
    rig.client.deliver(connect())
    rig.connector.last.accept().deliver(connected(max_message_size=50 * 1024 * 1024))
    assert rig.to_client()[0].connected.max_message_size == Limits().max_frame_bytes - 10 * 1024


def test_challenges_and_responses_pass_through() -> None:
    """Authentication is between client and broker, at the handshake and at every refresh."""
    rig = SessionRig()
    rig.client.deliver(connect(auth_method_name="sasl", auth_data=b"1"))
    broker = rig.connector.last.accept()
    broker.take()
    challenge = encode(T.AUTH_CHALLENGE, pb.CommandAuthChallenge(challenge=pb.AuthData(auth_data=b"?")))
    response = encode(T.AUTH_RESPONSE, pb.CommandAuthResponse(response=pb.AuthData(auth_data=b"!")))
    broker.deliver(challenge)
    assert rig.client.take() == challenge
    rig.client.deliver(response)
    assert broker.take() == response
    broker.deliver(connected())
    assert rig.to_client()[0].type == T.CONNECTED
    broker.deliver(challenge)
    assert rig.client.take() == challenge
    rig.client.deliver(response)
    assert broker.take() == response


def test_a_broker_that_cannot_be_reached_is_told_as_not_ready() -> None:
    """ServiceNotReady makes clients try again; the reason is in the message."""
    rig = SessionRig()
    rig.client.deliver(connect())
    rig.connector.last.refuse("connection refused")
    (command,) = rig.to_client()
    assert command.error.error == pb.ServiceNotReady
    assert "connection refused" in command.error.message
    assert rig.client.closing
    assert rig.cause == "broker_unreachable"


def test_brokers_are_tried_in_turn_from_the_session_s_own_start() -> None:
    """One dead broker of several does not show."""
    rig = SessionRig(brokers=["pulsar://a:1", "pulsar://b:2", "pulsar://c:3"], first_broker=1)
    rig.client.deliver(connect())
    rig.connector.last.refuse()
    rig.connector.last.refuse()
    assert [attempt.address for attempt in rig.connector.attempts] == ["pulsar://b:2", "pulsar://c:3", "pulsar://a:1"]
    rig.connector.last.accept().deliver(connected())
    assert rig.to_client()[0].type == T.CONNECTED


def test_a_named_broker_has_no_substitute() -> None:
    """A topic lives on one broker; another would only refuse it."""
    rig = SessionRig(brokers=["pulsar://a:1", "pulsar://b:2"], named=["pulsar://c:3"])
    rig.client.deliver(connect(proxy_to_broker_url="c:3"))
    rig.connector.last.refuse()
    assert len(rig.connector.attempts) == 1
    assert rig.cause == "broker_unreachable"


def test_the_broker_s_refusal_reaches_the_client_in_its_own_words() -> None:
    """An AuthenticationError must not look like trouble that passes."""
    rig = SessionRig()
    rig.client.deliver(connect())
    error = pb.CommandError(request_id=2**64 - 1, error=pb.AuthenticationError, message="no such token")
    rig.connector.last.accept().deliver(encode(T.ERROR, error))
    (command,) = rig.to_client()
    assert (command.error.error, command.error.message) == (pb.AuthenticationError, "no such token")
    assert rig.client.closing
    assert rig.cause == "broker_refused"


def test_nothing_after_a_broker_s_refusal_counts() -> None:
    """Not even a CONNECTED in the same piece: the relay has ended."""
    rig = SessionRig()
    rig.client.deliver(connect())
    error = pb.CommandError(request_id=2**64 - 1, error=pb.AuthenticationError, message="no such token")
    rig.connector.last.accept().deliver(encode(T.ERROR, error) + connected())
    assert rig.session._parts is None
    assert rig.cause == "broker_refused"
    assert [command.type for command in rig.to_client()] == [T.ERROR]


def test_a_broker_that_never_answers_connect_is_given_up() -> None:
    """The handshake has a bound on the upstream leg too."""
    rig = SessionRig()
    rig.client.deliver(connect())
    broker = rig.connector.last.accept()
    rig.clock.advance(rig.limits.handshake_timeout_s + 0.1)
    assert broker.closing
    assert rig.to_client()[0].error.error == pb.ServiceNotReady


def test_a_broker_that_answers_connect_with_nonsense_is_given_up() -> None:
    """Neither an unexpected command nor a malformed one harms more than this client."""
    for nonsense in (encode(T.SUCCESS, pb.CommandSuccess(request_id=1)), b"\xff" * 64):
        rig = SessionRig()
        rig.client.deliver(connect())
        rig.connector.last.accept().deliver(nonsense)
        assert rig.to_client()[0].error.error == pb.ServiceNotReady
        assert rig.cause == "broker_unreachable"


def test_a_client_that_leaves_during_the_handshake_leaves_nothing_behind() -> None:
    """A connection that comes to stand afterwards is closed at once, without a CONNECT."""
    rig = SessionRig()
    rig.client.deliver(connect())
    rig.client.lose("gone")
    broker = rig.connector.last.accept()
    assert broker.take() == b""
    assert broker.closing
    assert rig.clock.waiting == 0


def test_commands_wait_for_connected() -> None:
    """A broker closes the connection of a client that does not wait; only authentication goes on meanwhile."""
    rig = SessionRig()
    rig.client.deliver(connect())
    rig.client.deliver(encode(T.PING))
    assert parse(rig.client.take())[0].type == T.PONG
    rig.client.deliver(encode(T.LOOKUP, pb.CommandLookupTopic(topic="x", request_id=1)))
    assert rig.cause == "not_connected"


def test_a_client_s_version_is_kept_cut_and_passed_on_whole() -> None:
    """It stands in log lines before anybody is authenticated, and in statistics for as long as the client is here."""
    version = "v" * 100_000
    rig = SessionRig()
    with capture_logs() as lines:
        rig.client.deliver(connect(client_version=version))
        rig.connector.last.accept()
        (passed_on,) = rig.to_broker()
        rig.client.deliver(connect())
    assert passed_on.connect.client_version == version
    assert rig.cause == "connected_twice"
    assert [len(line["client"]) for line in lines if line["event"] == "session_ended"] == [256]
    rig = SessionRig().connect(client_version=version)
    rig.client.deliver(subscribe(3, 9))
    (port,) = rig.directory.workers
    assert port.link.client_version == "v" * 255 + CUT
    assert rig.session._parts is not None
    assert rig.session._parts.producers.client_version == "v" * 255 + CUT
