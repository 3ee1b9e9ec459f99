"""The role that a client's certificate names, or why it names none."""

from __future__ import annotations

import pytest

from proxy.errors import ClientError
from proxy.net.session.client_principal import LOOK_S, Expiry, Principal, principal_of
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock
from tests.net.subjects import CN, EXPIRES_S, OU, O, certificate_of, named

NOW_S = 1_700_000_000.0


@pytest.mark.parametrize("name", ["app", "team/app", "app.v1@example.com", "two words", "a:b'c(d)*", "admin"])
def test_the_role_is_the_common_name(name: str) -> None:
    """As brokers take it, superusers among them: who may sign certificates says who is who."""
    assert principal_of(named(name), NOW_S) == Principal(name, EXPIRES_S)


def test_of_several_common_names_the_most_specific_one_counts() -> None:
    """It stands last in the certificate and first in its text."""
    certificate = certificate_of(((CN, "general"),), ((CN, "specific"),), ((O, "Example"),))
    assert principal_of(certificate, NOW_S).role == "specific"


@pytest.mark.parametrize(
    "name",
    [
        "a,b",
        "a+b",
        'a"b',
        "a\\b",
        "a<b",
        "a>b",
        "a;b",
        "a=b",
        "#a",
        " a",
        "a ",
        "a\tb",
        "a\x00b",
        "ä",
        "app\u200b",
        " ",
    ],
)
def test_a_name_that_brokers_would_read_as_another_is_refused(name: str) -> None:
    """Cut or escaped it would be a role that the certificate does not name, and that another one may."""
    with pytest.raises(ClientError, match="common name that brokers would read as another") as refused:
        principal_of(named(name), NOW_S)
    assert refused.value.wire_code == pb.AuthenticationError


def test_a_name_that_is_not_alone_is_refused() -> None:
    """A broker would take both together for the role."""
    with pytest.raises(ClientError, match="alone in its part"):
        principal_of(certificate_of(((CN, "app"), (OU, "unit"))), NOW_S)


def test_names_elsewhere_in_the_subject_are_none() -> None:
    """Whatever an organization calls itself."""
    assert principal_of(certificate_of(((CN, "app"),), ((O, "x,CN=admin"),)), NOW_S).role == "app"
    with pytest.raises(ClientError, match="no common name"):
        principal_of(certificate_of(((O, "CN=admin"),)), NOW_S)
    with pytest.raises(ClientError, match="no common name"):
        principal_of(certificate_of(), NOW_S)


def test_the_name_by_which_brokers_know_their_websocket_proxy_is_refused() -> None:
    """With it a broker would ask for the gateway's permission alone."""
    with pytest.raises(ClientError, match="another thing to brokers"):
        principal_of(named("__websocket_dummy_original_principle"), NOW_S)


@pytest.mark.parametrize("certificate", [b"", b"no certificate", named("app")[:-1]])
def test_what_is_no_certificate_is_refused(certificate: bytes) -> None:
    """Nothing but a refusal comes of it."""
    with pytest.raises(ClientError, match="cannot be read"):
        principal_of(certificate, NOW_S)


def test_an_expired_certificate_is_refused() -> None:
    """From the second on in which it expires, as OpenSSL has it of a handshake; a resumed session has none."""
    assert principal_of(named("app"), EXPIRES_S - 1).role == "app"
    with pytest.raises(ClientError, match="has expired"):
        principal_of(named("app"), EXPIRES_S)


@pytest.mark.parametrize("left_s", [0.5, LOOK_S, 3.7 * LOOK_S])
def test_expiry_is_told_once_and_in_time(left_s: float) -> None:
    """Never before, and only while somebody wants to know."""
    clock = FakeClock()
    told: list[float] = []
    Expiry(clock, Principal("app", clock.time() + left_s), lambda: told.append(clock.time()))
    stopped = Expiry(clock, Principal("app", clock.time() + left_s), lambda: told.append(-1))
    clock.advance(left_s - 0.25)
    assert not told
    stopped.stop()
    clock.advance(0.25)
    assert len(told) == 1
    clock.advance(10 * LOOK_S)
    assert len(told) == 1
    assert clock.waiting == 0
