"""In whose name a client's connections to brokers are opened: its own, or the gateway's, on its behalf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.errors import ConfigurationError
from proxy.net.broker.settings import Credentials
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock, FakeTransport
from tests.net.session_rig import (
    SessionRig,
    T,
    connect,
    connected,
    encode,
    lookup,
    lookup_response,
    new_elections,
    parse,
    subscribe,
)
from tests.net.subjects import named

LEFT_S = 90.0
CHALLENGE = encode(T.AUTH_CHALLENGE, pb.CommandAuthChallenge(challenge=pb.AuthData(auth_data=b"PulsarAuthRefresh")))
FORGED = encode(T.AUTH_RESPONSE, pb.CommandAuthResponse(response=pb.AuthData(auth_method_name="token", auth_data=b"!")))


class Tokens:
    """The proxy role's token, another one each time; or none, while the file is away."""

    def __init__(self) -> None:
        """The first is `token-1`."""
        self.given = 0
        self.missing = False

    def __call__(self) -> Credentials:
        """As a token file would."""
        if self.missing:
            message = "the broker token file /secret/place is empty"
            raise ConfigurationError(message)
        self.given += 1
        return Credentials("token", f"token-{self.given}".encode())


def rig_of(name: str = "app", tokens: Tokens | None = None, **options: Any) -> SessionRig:
    """A client has shown a certificate of that name, which expires in `LEFT_S`."""
    clock = FakeClock()
    elections = new_elections(clock)
    certificate = named(name, expires_s=int(clock.time()) + LEFT_S)
    return SessionRig(
        certificate=certificate, proxy_role=tokens or Tokens(), clock=clock, elections=elections, **options
    )


def spoken_for(rig: SessionRig, **fields: object) -> FakeTransport:
    """Bring a client to CONNECTED by its certificate; return the gateway's connection to the broker."""
    rig.client.deliver(connect(auth_method_name="tls", **fields))
    broker = rig.proxied.last.accept()
    broker.deliver(connected())
    assert [command.type for command in rig.to_client()] == [T.CONNECTED]
    return broker


def refusal(rig: SessionRig) -> str:
    """What the client was told; nothing was dialled for it."""
    (command,) = rig.to_client()
    assert command.error.error == pb.AuthenticationError
    assert rig.cause == "certificate_refused"
    assert rig.client.closing
    assert rig.connector.attempts == rig.proxied.attempts == []
    return command.error.message


def test_the_gateway_speaks_for_a_client_that_showed_a_certificate() -> None:
    """In its proxy role, for the client's, and in no word of the client's but its version and its features."""
    rig = rig_of()
    flags = pb.FeatureFlags(supports_broker_entry_metadata=True)
    broker = spoken_for(rig, feature_flags=flags, auth_data=b"whatever")
    (command,) = parse(broker.take())
    flags.supports_auth_refresh = True
    assert command.connect == pb.CommandConnect(
        client_version="Pulsar-CPP-v3.7.0",
        protocol_version=21,
        auth_method_name="token",
        auth_data=b"token-1",
        original_principal="app",
        proxy_version="Keyline-v9",
        feature_flags=flags,
    )
    assert rig.connector.attempts == []


def test_without_a_proxy_role_such_a_client_is_refused() -> None:
    """The gateway's own certificate would be shown in its place."""
    rig = SessionRig(certificate=named("app"))
    rig.client.deliver(connect(auth_method_name="tls"))
    assert "cannot be passed on" in refusal(rig)


def test_without_a_certificate_nobody_is_spoken_for() -> None:
    """On a plain connection, or on a WebSocket."""
    rig = SessionRig(proxy_role=Tokens())
    rig.client.deliver(connect(auth_method_name="tls"))
    assert "no certificate was shown" in refusal(rig)


@pytest.mark.parametrize("field", ["original_principal", "original_auth_data", "original_auth_method", "proxy_version"])
@pytest.mark.parametrize("value", ["admin", ""])
def test_who_is_spoken_for_speaks_for_nobody(field: str, value: str) -> None:
    """A client with a certificate that names another principal is refused, not overruled."""
    rig = rig_of()
    rig.client.deliver(connect(auth_method_name="tls", **{field: value}))
    assert field in refusal(rig)


@pytest.mark.parametrize("name", ["a,b", "__websocket_dummy_original_principle", "keyline"])
def test_a_certificate_that_names_nobody_or_the_gateway_is_refused(name: str) -> None:
    """Its connection ends before a broker hears of it."""
    rig = rig_of(name)
    rig.client.deliver(connect(auth_method_name="tls"))
    assert "the client's certificate" in refusal(rig)


@pytest.mark.parametrize("method", ["token", "none", "basic", "TLS", ""])
def test_a_certificate_lends_nothing_to_who_brings_credentials(method: str) -> None:
    """Its words are passed on by the connector of clients, and with nothing of the gateway's."""
    rig = rig_of()
    rig.client.deliver(connect(auth_method_name=method, auth_data=b"mine", original_principal="admin"))
    (command,) = parse(rig.connector.last.accept().take())
    assert command.connect.auth_method_name == method
    assert command.connect.auth_data == b"mine"
    assert command.connect.original_principal == "admin"
    assert rig.proxied.attempts == []


@pytest.mark.parametrize("proxy_role", [None, Tokens()])
def test_a_proxys_client_with_a_certificate_is_refused(proxy_role: Callable[[], Credentials] | None) -> None:
    """A broker with `authenticateOriginalAuthData` would take the gateway's certificate for that client's."""
    rig = SessionRig(proxy_role=proxy_role)
    rig.client.deliver(
        connect(auth_method_name="token", auth_data=b"a proxy's", original_principal="x", original_auth_method="tls")
    )
    assert "a proxy's client" in refusal(rig)


def test_challenges_are_answered_by_the_gateway_and_never_by_the_client() -> None:
    """With today's token, at the handshake and later; what a client sends unasked reaches no broker and no memory."""
    rig = rig_of()
    rig.client.deliver(connect(auth_method_name="tls"))
    broker = rig.proxied.last.accept()
    broker.take()
    for number, after in ((2, connected()), (3, b"")):
        broker.deliver(CHALLENGE)
        (command,) = parse(broker.take())
        assert command.authResponse.response.auth_method_name == "token"
        assert command.authResponse.response.auth_data == f"token-{number}".encode()
        broker.deliver(after)
    assert [command.type for command in rig.to_client()] == [T.CONNECTED]
    rig.client.deliver(FORGED)
    assert broker.take() == b""
    assert rig.session.counters.dropped_frames_total == 1


def test_a_connection_that_is_opened_anew_has_the_same_principal_and_a_fresh_token() -> None:
    """Also after a client's forged answer."""
    rig = rig_of()
    broker = spoken_for(rig)
    rig.worker()
    rig.client.deliver(FORGED)
    broker.lose("broker restarted")
    rig.client.deliver(lookup(7))
    (command, asked) = parse(_accepted(rig).take())
    assert (command.connect.auth_data, command.connect.original_principal) == (b"token-2", "app")
    assert asked.type == T.LOOKUP


def _accepted(rig: SessionRig) -> FakeTransport:
    transport = rig.proxied.last.accept()
    transport.deliver(connected())
    return transport


def test_redirected_lookups_are_asked_in_the_same_name() -> None:
    """And a challenge there, which a client could not be asked to answer, is the gateway's to answer."""
    rig = rig_of()
    broker = spoken_for(rig)
    rig.client.deliver(lookup(7))
    broker.deliver(lookup_response(7, pb.CommandLookupTopicResponse.Redirect, "pulsar://broker-1:6650"))
    assert rig.proxied.last.address == "pulsar://broker-1:6650"
    other = rig.proxied.last.accept()
    (command,) = parse(other.take())
    assert (command.connect.auth_data, command.connect.original_principal) == (b"token-2", "app")
    other.deliver(CHALLENGE)
    assert parse(other.take())[0].authResponse.response.auth_data == b"token-3"
    assert rig.connector.attempts == []


def test_permissions_are_asked_in_the_same_name() -> None:
    """A worker joins if the broker lets both roles in: on that connection, and on no other."""
    rig = rig_of(authorize=True)
    broker = spoken_for(rig)
    broker.take()
    rig.client.deliver(subscribe(1, 100))
    (probe,) = parse(broker.take())
    assert (probe.type, probe.subscribe.read_compacted) == (T.SUBSCRIBE, True)
    error = pb.CommandError(request_id=probe.subscribe.request_id, error=pb.AuthorizationError, message="no")
    broker.deliver(encode(T.ERROR, error))
    assert rig.directory.workers == []
    assert rig.to_client()[0].error.error == pb.AuthorizationError


@pytest.mark.parametrize("challenged", [False, True])
def test_a_token_that_cannot_be_read_is_told_without_its_place(challenged: bool) -> None:  # noqa: FBT001 - a case
    """The client tries again; why is in the log."""
    tokens = Tokens()
    rig = rig_of(tokens=tokens)
    rig.client.deliver(connect(auth_method_name="tls"))
    if challenged:
        rig.proxied.last.accept()
        tokens.missing = True
        assert rig.proxied.last.transport is not None
        rig.proxied.last.transport.deliver(CHALLENGE)
    else:
        tokens.missing = True
        rig.proxied.last.accept()
    (command,) = rig.to_client()
    assert command.error.error == pb.ServiceNotReady
    assert "secret" not in command.error.message
    assert rig.cause == "broker_unreachable"


def test_a_connection_ends_with_its_certificate() -> None:
    """Its workers go to others, and its client may come back with a new one; not a moment before."""
    rig = rig_of()
    broker = spoken_for(rig)
    port = rig.worker()
    for _ in range(int(LEFT_S) - 1):
        rig.clock.advance(1)
        rig.client.deliver(encode(T.PING))
        broker.deliver(encode(T.PING))
    assert port.calls == []
    rig.clock.advance(1)
    assert rig.cause == "certificate_expired"
    assert port.calls == [("lost", "the certificate of 'app' has expired")]
    assert rig.client.closing
    rig.clock.advance(3600)
    assert rig.clock.waiting == 0
