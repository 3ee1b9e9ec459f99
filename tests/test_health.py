"""The health check of containers: it finds the admin API where the configuration has it, and says whether it lives."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from integration.certificates import Authority
from proxy.app.health import connection


@contextmanager
def answering(status: int, context: ssl.SSLContext | None = None) -> Iterator[int]:
    """A server that answers ``/livez`` so; gives its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/livez" else 404)
            self.end_headers()

        def log_message(self, *_words: object) -> None:
            """Not of interest."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        if context is not None:
            server.socket = context.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


def checked(environment: Mapping[str, str]) -> tuple[int, str]:
    """Exit code and what it said, run as a container's health check runs it."""
    done = subprocess.run(
        [sys.executable, "-m", "proxy.app.health"], env=dict(environment), capture_output=True, text=True, check=False
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("environment", "text", "expected"),
    [
        ({}, "", ("127.0.0.1", 8750)),
        ({}, 'admin_listen = "0.0.0.0:9000"', ("127.0.0.1", 9000)),
        ({}, 'admin_listen = "[::]:9000"', ("::1", 9000)),
        ({}, 'admin_listen = "[fd00::1]:9000"', ("fd00::1", 9000)),
        ({"KEYLINE_ADMIN_LISTEN": "10.0.0.1:9001"}, 'admin_listen = "0.0.0.0:9000"', ("10.0.0.1", 9001)),
    ],
)
def test_it_asks_where_the_gateway_listens(
    environment: dict[str, str], text: str, expected: tuple[str, int], tmp_path: Path
) -> None:
    """The environment is stronger than the file; an address that means all is asked on loopback."""
    if text:
        path = tmp_path / "keyline.toml"
        path.write_text(text)
        environment = environment | {"KEYLINE_CONFIG": str(path)}
    asked = connection(environment)
    assert (asked.host, asked.port) == expected


def test_a_gateway_that_lives() -> None:
    """Silence and 0."""
    with answering(200) as port:
        assert checked({"KEYLINE_ADMIN_LISTEN": f"127.0.0.1:{port}"}) == (0, "")


def test_a_gateway_with_tls(tmp_path: Path) -> None:
    """Its certificate is for its users, whose name for it we do not know."""
    signed = Authority(tmp_path).sign("gateway", "keyline.example.org")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(signed.certificate, signed.key)
    with answering(200, context) as port:
        listen = {"KEYLINE_ADMIN_LISTEN": f"127.0.0.1:{port}"}
        assert checked(listen | {"KEYLINE_ADMIN_TLS": "true"}) == (0, "")
        assert checked(listen)[0] == 1


def test_a_gateway_that_does_not_live() -> None:
    """1, and why."""
    with answering(503) as port:
        code, why = checked({"KEYLINE_ADMIN_LISTEN": f"127.0.0.1:{port}"})
        assert (code, why) == (1, "/livez answered 503\n")
    code, why = checked({"KEYLINE_ADMIN_LISTEN": f"127.0.0.1:{port}"})
    assert code == 1
    assert why.startswith("no gateway answers: ")


def test_a_configuration_that_cannot_be_read() -> None:
    """The gateway would not have started with it either."""
    code, why = checked({"KEYLINE_CONFIG": "/nowhere/keyline.toml"})
    assert code == 1
    assert "/nowhere/keyline.toml" in why
