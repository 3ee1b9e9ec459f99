"""The whole gateway as a process: start, readiness, signals, exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pulsar as pulsar_client
import pytest

from integration.ports import free_ports
from integration.standalone import PulsarStandalone
from proxy.app.log import MASK
from proxy.app.parts import broker_settings, session_settings
from proxy.config.load import load
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import T, connected, frame

EXIT_S_MAX = 120.0

Undecided = tuple["Keyline", str, pulsar_client.Consumer, list[pulsar_client.Message]]


class Keyline:
    """A gateway process whose log lines are read as they come."""

    def __init__(self, **environment: str) -> None:
        settings = {
            "KEYLINE_LISTEN": "127.0.0.1:0",
            "KEYLINE_ADMIN_LISTEN": "127.0.0.1:0",
            "KEYLINE_REPLICA_NAME": "replica-1",
            **{f"KEYLINE_{name.upper()}": value for name, value in environment.items()},
        }
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("KEYLINE_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "proxy.cli", "serve"], env=inherited | settings, stderr=subprocess.PIPE, text=True
        )
        self.lines: list[str] = []

    def until(self, event: str) -> dict[str, Any]:
        """Read log lines up to the one of this event."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("{"):
                fields: dict[str, Any] = json.loads(line)
                if fields["event"] == event:
                    return fields
        raise AssertionError(f"no line {event!r} in:\n{''.join(self.lines)}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for the end and keep what was logged."""
        _, rest = self.process.communicate(timeout=EXIT_S_MAX)
        self.lines += rest.splitlines(keepends=True)
        return self.process.returncode


@contextlib.contextmanager
def running(**environment: str) -> Iterator[tuple[Keyline, str, tuple[str, int]]]:
    """Start a gateway; with the URL of its admin API and the address for clients."""
    gateway = Keyline(**environment)
    try:
        started = gateway.until("gateway started")
        host, _, port = started["addresses"][0].rpartition(":")
        yield gateway, f"http://{started['admin']}", (host, int(port))
    finally:
        gateway.process.kill()
        gateway.process.communicate()


class LittleBroker:
    """A listener that answers CONNECT and nothing else."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"pulsar://127.0.0.1:{self._listener.getsockname()[1]}"
        self.connects: list[pb.CommandConnect] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self._listener.accept()
                self._threads.append(threading.Thread(target=self._talk, args=(peer,), daemon=True))
                self._threads[-1].start()

    def _talk(self, peer: socket.socket) -> None:
        splitter = frames.FrameSplitter(1 << 20)
        with peer, contextlib.suppress(OSError):
            while data := peer.recv(65536):
                for piece in splitter.feed(data):
                    command = frames.parse_command(piece)
                    if command.type == T.CONNECT:
                        self.connects.append(command.connect)
                        peer.sendall(connected())

    def close(self) -> None:
        """Accept no more."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._threads[0].join(5)


@pytest.fixture
def little_broker() -> Iterator[LittleBroker]:
    """Give a broker that shakes hands."""
    little = LittleBroker()
    yield little
    little.close()


def test_without_a_broker_it_lives_but_is_not_ready() -> None:
    """The reason names the broker; SIGTERM ends it with 0."""
    with running(broker_url=f"pulsar://127.0.0.1:{free_ports(1)[0]}") as (gateway, admin, _):
        assert httpx.get(f"{admin}/livez", timeout=60).status_code == 200
        assert "cannot connect" in gateway.until("brokers not reached")["reason"]
        answer = httpx.get(f"{admin}/readyz", timeout=60)
        assert answer.status_code == 503
        assert answer.json()["reasons"][0].startswith("broker: cannot connect to pulsar://127.0.0.1:")
        gateway.signal(signal.SIGTERM)
        assert gateway.exit_code() == 0


def test_with_a_broker_it_is_ready_and_introduces_itself(little_broker: LittleBroker) -> None:
    """Readiness is a handshake that worked, with our name and token; SIGINT ends it with 0."""
    with running(broker_url=little_broker.url, broker_token="hush-hush") as (gateway, admin, _):
        gateway.until("brokers reached")
        answer = httpx.get(f"{admin}/readyz", timeout=60)
        assert (answer.status_code, answer.json()) == (200, {"ready": True, "reasons": []})
        assert httpx.get(f"{admin}/api/v1/subscriptions", timeout=60).json()["subscriptions"] == []
        gateway.signal(signal.SIGINT)
        assert gateway.exit_code() == 0
    assert little_broker.connects[0].client_version.startswith("Keyline-v")
    assert little_broker.connects[0].auth_data == b"hush-hush"
    assert not any("hush-hush" in line for line in gateway.lines)


def test_a_signal_closes_the_listener_and_every_client(little_broker: LittleBroker) -> None:
    """Clients see the end of their connection and go elsewhere."""
    with running(broker_url=little_broker.url) as (gateway, _, address):
        client = socket.create_connection(address)
        client.sendall(frame(type=T.CONNECT, connect=pb.CommandConnect(client_version="test")))
        (piece,) = frames.FrameSplitter(1 << 20).feed(client.recv(65536))
        assert frames.parse_command(piece).type == T.CONNECTED
        gateway.signal(signal.SIGTERM)
        while client.recv(65536):
            pass
        client.close()
        assert gateway.exit_code() == 0
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address)


def test_every_log_line_is_json_with_the_replicas_name(little_broker: LittleBroker) -> None:
    """Those of libraries too."""
    with running(broker_url=little_broker.url, log_level="debug") as (gateway, admin, _):
        gateway.until("broker connected")
        httpx.get(f"{admin}/livez", timeout=60)
        gateway.signal(signal.SIGTERM)
        gateway.exit_code()
    lines = [json.loads(line) for line in gateway.lines]
    assert {line["replica"] for line in lines} == {"replica-1"}
    assert all({"event", "level", "time", "logger"} <= set(line) for line in lines)


def test_an_address_in_use_ends_it_with_1_and_a_sentence(little_broker: LittleBroker) -> None:
    """For either of its addresses."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for setting in ("listen", "admin_listen"):
            gateway = Keyline(**{"broker_url": little_broker.url, setting: address})
            assert gateway.exit_code() == 1
            assert gateway.lines[-1].startswith(f"keyline: {setting} {address}: ")
            assert "in use" in gateway.lines[-1]


def test_nothing_that_sounds_secret_is_written() -> None:
    """Not even if someone logs it by mistake, through us or through the standard library, in either format."""
    program = (
        "import logging, sys, structlog; from proxy.app.log import configure_logging\n"
        "from time import monotonic; from proxy.app.log_limiter import LineLimiter\n"
        "configure_logging('info', sys.argv[1], 'replica-1', LineLimiter(monotonic, 0))\n"
        "structlog.get_logger('a').info('one', broker_token='hush', broker='b')\n"
        "logging.getLogger('b').warning('two', extra={'Authorization': 'hush'})\n"
        "structlog.get_logger('c').debug('three')\n"
    )
    for line_format in ("json", "console"):
        command = [sys.executable, "-c", program, line_format]
        done = subprocess.run(command, capture_output=True, text=True, timeout=EXIT_S_MAX, check=True)
        lines = done.stderr.splitlines()
        assert len(lines) == 2
        assert "hush" not in done.stderr
        assert all("replica-1" in line and MASK in line for line in lines)


@pytest.mark.parametrize("line_format", ["json", "console"])
def test_a_traceback_shows_no_values(line_format: str) -> None:
    """A fault is logged with where it was, and without what the variables held: tokens, keys and messages."""
    program = (
        "import structlog, sys; from proxy.app.log import configure_logging\n"
        "from time import monotonic; from proxy.app.log_limiter import LineLimiter\n"
        "configure_logging('info', sys.argv[1], 'replica-1', LineLimiter(monotonic, 0))\n"
        "def fails(credential):\n"
        "    raise RuntimeError('a fault')\n"
        "try:\n"
        "    fails('hu' + 'sh')\n"
        "except RuntimeError:\n"
        "    structlog.get_logger('a').exception('failed')\n"
    )
    command = [sys.executable, "-c", program, line_format]
    done = subprocess.run(command, capture_output=True, text=True, timeout=EXIT_S_MAX, check=True)
    assert "a fault" in done.stderr
    assert "fails" in done.stderr
    assert "hush" not in done.stderr


def test_settings_reach_their_parts() -> None:
    """One place for each of the configuration's values."""
    config = load(
        None,
        {
            "KEYLINE_BROKER_URL": "pulsar://a,b:7000",
            "KEYLINE_BROKER_TOKEN": "hush",
            "KEYLINE_UPSTREAM_CONNECTIONS_PER_BROKER": "3",
            "KEYLINE_KEEP_ALIVE_S": "7",
            "KEYLINE_BROKER_IS_PROXY": "true",
            "KEYLINE_ALLOWED_BROKER_HOSTS": ".svc",
        },
    ).config
    upstream = broker_settings(config)
    assert upstream.service_urls == ("pulsar://a:6650", "pulsar://b:7000")
    assert (upstream.connections_per_broker, upstream.keep_alive_s) == (3, 7.0)
    credentials = upstream.credentials()
    assert credentials is not None
    assert (credentials.method, credentials.data) == ("token", b"hush")
    sessions = session_settings(config, None)
    assert [str(url) for url in sessions.brokers] == ["pulsar://a:6650", "pulsar://b:7000"]
    assert sessions.upstream_is_proxy
    assert sessions.targets.hosts == frozenset({".svc"})
    assert sessions.targets.ports is None


@pytest.fixture
def undecided(pulsar: PulsarStandalone, new_topic: Callable[[str], str]) -> Iterator[Undecided]:
    """Give a gateway one of whose workers holds messages it has not acknowledged, and a SIGTERM on its way."""
    with running(broker_url=pulsar.service_url, drain_timeout_s="60") as (gateway, admin, (host, port)):
        topic = new_topic("drain")
        quiet = pulsar_client.ConsoleLogger(pulsar_client.LoggerLevel.Error)
        client = pulsar_client.Client(f"pulsar://{host}:{port}", logger=quiet)
        consumer = client.subscribe(topic, "s", consumer_type=pulsar_client.ConsumerType.KeyShared)
        producer = client.create_producer(topic)
        for number in range(5):
            producer.send(b"m", partition_key=f"k{number}")
        messages = [consumer.receive(timeout_millis=60_000) for _ in range(5)]
        gateway.signal(signal.SIGTERM)
        gateway.until("gateway drain started")
        yield gateway, admin, consumer, messages
        client.shutdown()


def test_a_gateway_that_shuts_down_is_unready_and_waits_for_acknowledgements(undecided: Undecided) -> None:
    """It ends with 0 as soon as the last one is confirmed, long before its time is over."""
    gateway, admin, consumer, messages = undecided
    answer = httpx.get(f"{admin}/readyz", timeout=60)
    assert answer.status_code == 503
    assert answer.json()["reasons"] == ["shutting down"]
    for message in messages:
        consumer.acknowledge(message)
    assert gateway.until("gateway stopped")["drained"] is True
    assert gateway.exit_code() == 0


def test_a_second_signal_cuts_the_wait_short(undecided: Undecided) -> None:
    """What was not acknowledged is delivered again by whoever comes next; the exit code is still 0."""
    gateway, _, _, _ = undecided
    gateway.signal(signal.SIGTERM)
    assert gateway.until("gateway stopped")["drained"] is False
    assert gateway.exit_code() == 0


def test_what_is_not_asked_for_is_not_loaded() -> None:
    """A gateway without a journal starts without Arrow and numpy, and without the client library."""
    loaded = "import proxy.app.run, sys; print([m for m in ('numpy', 'pulsar', 'pyarrow') if m in sys.modules])"
    said = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True).stdout
    assert said == "[]\n"
