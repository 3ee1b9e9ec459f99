"""What the configuration gives the gateway to speak for clients with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import jwt
import pytest

from integration.certificates import Authority
from proxy.app.proxy_role import proxy_role_of
from proxy.app.security import Certificates
from proxy.config.load import load
from proxy.errors import StartFailure
from proxy.limits import Limits
from proxy.net.broker.settings import Credentials
from proxy.net.relay.identity import ProxyRole

KEY = b"a key of thirty-two bytes or more"


def signed_token(file: Path, claims: dict[str, object]) -> str:
    """The path of a file with a token."""
    file.write_text(jwt.encode(claims, KEY, algorithm="HS256") + "\n")
    return str(file)


def made(directory: Path, **settings: str) -> ProxyRole | None:
    """The proxy role of a gateway that has certificates for everything."""
    authority = Authority(directory)
    shown = authority.sign("shown", "localhost")
    values = {
        "broker_url": "pulsar+ssl://broker",
        "listen_tls": "127.0.0.1:6661",
        "tls_certificate_file": str(shown.certificate),
        "tls_key_file": str(shown.key),
        "tls_client_ca_file": str(authority.file),
        **settings,
    }
    config = load(None, {f"KEYLINE_{name.upper()}": value for name, value in values.items()}).config
    loop = asyncio.new_event_loop()
    try:
        return proxy_role_of(config, loop, Limits(), Certificates(config))
    finally:
        loop.close()


def test_without_either_nobody_is_spoken_for(tmp_path: Path) -> None:
    """A client's certificate opens the door and no more."""
    assert made(tmp_path) is None


def test_a_token_says_the_role_and_no_client_may_bear_the_gateways_own(tmp_path: Path) -> None:
    """Of both its tokens; one that is read anew each time."""
    token = tmp_path / "proxy"
    role = made(
        tmp_path,
        broker_token_file=signed_token(tmp_path / "own", {"sub": "keyline"}),
        proxy_role_token_file=signed_token(token, {"sub": "keyline-proxy"}),
    )
    assert role is not None
    assert role.own_roles == {"keyline", "keyline-proxy"}
    assert role.version.startswith("Keyline-v")
    token.write_text("renewed")
    assert role.credentials() == Credentials("token", b"renewed")


def test_a_certificate_says_it_where_there_is_no_token(tmp_path: Path) -> None:
    """And names that no client may bear."""
    authority = Authority(tmp_path)
    own = authority.sign("own", "gateway", role="keyline")
    proxy = authority.sign("proxy", "gateway", role="keyline-proxy")
    role = made(
        tmp_path,
        broker_tls_certificate_file=str(own.certificate),
        broker_tls_key_file=str(own.key),
        proxy_role_certificate_file=str(proxy.certificate),
        proxy_role_key_file=str(proxy.key),
    )
    assert role is not None
    assert role.credentials() == Credentials("tls", b"")
    assert role.own_roles == {"keyline", "keyline-proxy"}


@pytest.mark.parametrize("claims", [{}, {"sub": ["keyline"]}, {"role": "keyline"}])
def test_a_token_that_names_no_role_here_is_for_brokers_to_read(tmp_path: Path, claims: dict[str, object]) -> None:
    """They may read another claim."""
    file = tmp_path / "token"
    file.write_text(jwt.api_jws.encode(str(claims).replace("'", '"').encode(), KEY, algorithm="HS256"))
    role = made(tmp_path, proxy_role_token_file=str(file))
    assert role is not None
    assert role.own_roles == frozenset()


def test_a_token_that_is_no_web_token_will_do(tmp_path: Path) -> None:
    """A broker's provider may be of the operator's own."""
    file = tmp_path / "token"
    file.write_text("opaque")
    role = made(tmp_path, proxy_role_token_file=str(file))
    assert role is not None
    assert role.own_roles == frozenset()


def test_an_empty_token_file_is_told_at_the_start(tmp_path: Path) -> None:
    """Not when the first client comes."""
    file = tmp_path / "token"
    file.write_text("")
    with pytest.raises(StartFailure, match="is empty"):
        made(tmp_path, proxy_role_token_file=str(file))
