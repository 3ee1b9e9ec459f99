"""The port for other replicas with TLS, of a whole gateway as a process: who is not let in."""

from __future__ import annotations

import contextlib
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.certificates import Authority, Signed
from integration.ports import free_ports
from proxy.net.owner.proof import MAGIC, hello
from tests.test_app import LittleBroker, running

HOST = "127.0.0.1"
TIMEOUT_S = 10.0


class Port:
    """The replicas' port of a running gateway, and the authority that it believes."""

    def __init__(self, directory: Path) -> None:
        self.authority = Authority(directory, "replicas")
        self.number = free_ports(1)[0]
        self.directory = directory
        secret = directory / "secret"
        secret.write_text("a secret of the replicas of this test\n")
        signed = self.authority.sign("replica", HOST)
        self.settings = {
            "groups_enabled": "true",
            "groups_mode": "owner",
            "replica_listen": f"{HOST}:{self.number}",
            "replica_secret_file": str(secret),
            "replica_tls_certificate_file": str(signed.certificate),
            "replica_tls_key_file": str(signed.key),
            "replica_tls_ca_file": str(self.authority.file),
        }

    def answer(self, signed: Signed | None) -> bytes:
        """What it answers to a HELLO from who shows this certificate; nothing if it ends the connection."""
        context = ssl.create_default_context(cafile=self.authority.file)
        if signed is not None:
            context.load_cert_chain(signed.certificate, signed.key)
        with (
            contextlib.suppress(OSError),  # ssl.SSLError is one: the refusal, if it comes before the end
            self._connection() as plain,
            context.wrap_socket(plain, server_hostname=HOST) as connection,
        ):
            connection.sendall(hello(bytes(32)))
            return connection.recv(4096)
        return b""

    def plain_answer(self) -> bytes:
        """As `answer`, without TLS."""
        with self._connection() as plain:
            plain.sendall(hello(bytes(32)))
            with contextlib.suppress(ConnectionResetError):
                return plain.recv(4096)
        return b""

    def _connection(self) -> socket.socket:
        return socket.create_connection((HOST, self.number), TIMEOUT_S)


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    """One gateway for all."""
    made = Port(tmp_path_factory.mktemp("replicas"))
    broker = LittleBroker()
    with running(broker_url=broker.url, **made.settings) as (gateway, _, _):
        opened = next(line for line in gateway.lines if "replica port opened" in line)
        assert '"tls": true' in opened
        yield made
    broker.close()


def test_a_replica_is_answered(port: Port) -> None:
    """It shows a certificate of the authority, and the gateway goes on to the secret."""
    assert port.answer(port.authority.sign("another", HOST)).startswith(MAGIC)


def test_a_connection_without_a_certificate_is_not_answered(port: Port) -> None:
    """TLS 1.3 ends the handshake for the client before the server has asked."""
    assert port.answer(None) == b""


def test_a_certificate_of_another_authority_is_not_answered(port: Port) -> None:
    """Such as the one that signs for clients."""
    clients = Authority(port.directory / "others", "clients")
    assert port.answer(clients.sign("client", HOST)) == b""


def test_without_tls_nothing_is_answered(port: Port) -> None:
    """A HELLO as it comes in the clear is no TLS."""
    assert not port.plain_answer().startswith(MAGIC)
