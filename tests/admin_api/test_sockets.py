"""WebSockets at the admin API: real sockets and a client library on one side, a scripted gateway on the other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from admin_api import socket_protocol, socket_queue
from admin_api.app import admin_app
from admin_api.server import AdminServer
from admin_api.socket_names import socket_request
from proxy.errors import KeylineError
from proxy.socket_request import SocketRequest
from proxy.views.admin import Admin
from tests.net.session_rig import new_elections
from tests.net.subscription_rig import SubscriptionRig

if TYPE_CHECKING:
    from admin_api.ports import WorkerSocket

PATH = "consumer/persistent/public/default/orders/s"
WORKER = f"v2/{PATH}?subscriptionType=Key_Shared"
PATIENCE_S = 60.0


class Gateway:
    """Implements `ports.WorkerSockets` and `ports.SocketWorker`: what happens is written down, and done by the test."""

    def __init__(self, answer: Callable[[WorkerSocket], None]) -> None:
        self._answer = answer
        self.requests: list[SocketRequest] = []
        self.said: list[str | bytes] = []
        self.writable: list[bool] = []
        self.ends: list[str] = []
        self.socket: WorkerSocket

    def open(self, request: SocketRequest, socket: WorkerSocket) -> Gateway:
        """As the port says."""
        self.requests.append(request)
        self.socket = socket
        asyncio.get_running_loop().call_soon(self._answer, socket)
        return self

    def received(self, frame: str | bytes) -> None:
        """As the port says."""
        self.said.append(frame)

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """As the port says."""
        self.writable.append(writable)

    def closed(self, reason: str) -> None:
        """As the port says."""
        self.ends.append(reason)


@asynccontextmanager
async def serving(
    gateway: Gateway, *, origins: tuple[str, ...] = (), loopback: bool = False, keep_alive_s: float = 30.0
) -> AsyncIterator[str]:
    """The admin API on a free port; its address."""
    rig = SubscriptionRig()
    admin = Admin(rig.subscriptions, new_elections(), list, {})
    app = admin_app(admin, admin, "1.2.3", sockets=gateway, socket_origins=origins, loopback=loopback)
    admin_server = AdminServer(app, keep_alive_s)
    host, port = await admin_server.start("127.0.0.1", 0)
    try:
        yield f"{host}:{port}"
    finally:
        await admin_server.stop()


def play(scenario: Coroutine[Any, Any, None]) -> None:
    """Run it, with an end to its patience."""

    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await scenario

    asyncio.run(bounded())


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until it holds."""
    while not condition():  # noqa: ASYNC110 - nobody would set an event
        await asyncio.sleep(0)


@asynccontextmanager
async def left_unread(gateway: Gateway, *, keep_alive_s: float = 30.0) -> AsyncIterator[asyncio.StreamWriter]:
    """A client that reads nothing, and has been sent too much."""
    async with serving(gateway, keep_alive_s=keep_alive_s) as address:
        _, writer = await upgraded(address)
        await until(lambda: gateway.requests)
        while False not in gateway.writable:
            gateway.socket.send("x" * 100_000)
            await asyncio.sleep(0)
        yield writer


def accept(socket: WorkerSocket) -> None:
    """Let everybody in."""
    socket.accept()


def test_what_either_side_says_arrives_in_order_and_then_the_end() -> None:
    """Text and bytes; the gateway's close comes behind what it had said."""

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address, connect(f"ws://{address}/ws/{WORKER}", proxy=None) as client:
            for number in range(100):
                await client.send(str(number))
                gateway.socket.send(str(number))
            gateway.socket.send(b"bytes")
            await until(lambda: len(gateway.said) == 100)
            gateway.socket.close(1012, "come again")
            heard = [await client.recv() for _ in range(101)]
            assert heard == [*map(str, range(100)), b"bytes"]
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1012, "come again")
            await until(lambda: gateway.ends)
            assert gateway.said == list(map(str, range(100)))

    play(scenario())


def test_what_a_client_said_before_it_went_is_read() -> None:
    """Though writing to it has failed already: it may have been acknowledgements."""

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address:
            async with connect(f"ws://{address}/ws/{WORKER}", proxy=None, max_queue=None) as client:
                for number in range(500):
                    await client.send(str(number))
                    gateway.socket.send("x")
            await until(lambda: gateway.ends)
            assert gateway.said == list(map(str, range(500)))
            assert gateway.ends[0].startswith("the client closed the WebSocket: 1000")

    play(scenario())


def test_a_client_that_reads_nothing_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once when much is unread, and again when it is gone; nothing is lost."""
    monkeypatch.setattr(socket_queue, "UNREAD_HIGH_BYTES", 100_000)
    monkeypatch.setattr(socket_queue, "UNREAD_LOW_BYTES", 10_000)

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address:
            async with connect(f"ws://{address}/ws/{WORKER}", proxy=None, max_queue=1) as client:
                sent = 0
                while False not in gateway.writable:
                    gateway.socket.send("x" * 10_000)
                    sent += 1
                    await asyncio.sleep(0)
                for _ in range(sent):
                    assert await client.recv() == "x" * 10_000
                await until(lambda: gateway.writable == [False, True])
            await until(lambda: gateway.ends)

    play(scenario())


def test_a_client_that_goes_while_it_joins_is_told_to_the_gateway() -> None:
    """Which would let a worker join that nobody serves."""

    async def scenario() -> None:
        gateway = Gateway(lambda _: None)
        async with serving(gateway) as address:
            host, _, port = address.rpartition(":")
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(UPGRADE.format(address=address).encode())
            await until(lambda: gateway.requests)
            writer.close()
            await writer.wait_closed()
            await until(lambda: gateway.ends)

    play(scenario())


async def refusal(address: str, path: str, **headers: str) -> tuple[int, dict[str, Any]]:
    """Status and problem of an upgrade that is refused."""
    with pytest.raises(InvalidStatus) as refused:
        async with connect(f"ws://{address}/ws/{path}", additional_headers=headers, proxy=None):
            pass
    response = refused.value.response
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, json.loads(response.body or b"")


def test_a_refusal_of_the_gateway_is_the_answer_to_the_upgrade(caplog: pytest.LogCaptureFixture) -> None:
    """As a problem with its status; no fault is logged."""

    async def scenario() -> None:
        async with serving(Gateway(lambda socket: socket.refuse(409, "it is taken"))) as address:
            status, body = await refusal(address, WORKER)
            assert (status, body["status"], body["detail"]) == (409, 409, "it is taken")

    play(scenario())
    assert not caplog.records


def test_pages_of_other_sites_open_nothing_unless_they_may() -> None:
    """Their own origin is no other site; programs send none. On loopback other names are refused altogether."""

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway, origins=("https://good.example",)) as address:
            status, body = await refusal(address, WORKER, Origin="https://evil.example")
            assert (status, "websocket_origins" in body["detail"]) == (403, True)
            for origin in ("https://good.example", f"http://{address}"):
                async with connect(f"ws://{address}/ws/{WORKER}", additional_headers={"Origin": origin}, proxy=None):
                    pass
            assert len(gateway.requests) == 2
        async with serving(gateway, origins=("*",)) as address:
            headers = {"Origin": "https://evil.example"}
            async with connect(f"ws://{address}/ws/{WORKER}", additional_headers=headers, proxy=None):
                pass
        async with serving(gateway, origins=("*",), loopback=True) as address:
            port = address.rpartition(":")[2]
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"ws://rebound.example:{port}/ws/{WORKER}", host="127.0.0.1", proxy=None):
                    pass
            assert refused.value.response.status_code == 403
            assert len(gateway.requests) == 3

    play(scenario())


def test_credentials_come_by_header_or_query_and_the_header_is_stronger() -> None:
    """Browsers can send the one only, programs should send the other."""

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address:
            for query, headers in (
                ("", {"Authorization": "Bearer one"}),
                ("&token=two", {}),
                ("&token=two", {"Authorization": "bearer  three "}),
                ("", {}),
            ):
                async with connect(f"ws://{address}/ws/{WORKER}{query}", additional_headers=headers, proxy=None):
                    pass
            assert [request.token for request in gateway.requests] == ["one", "two", "three", None]
            status, body = await refusal(address, WORKER, Authorization="Basic dTpw")
            assert (status, "Bearer" in body["detail"]) == (400, True)

    play(scenario())


def test_without_an_upgrade_there_is_nothing() -> None:
    """And it is said what there would be."""

    async def scenario() -> None:
        async with serving(Gateway(accept)) as address, httpx.AsyncClient(trust_env=False) as client:
            answer = await client.get(f"http://{address}/ws/{WORKER}")
            assert (answer.status_code, answer.headers["upgrade"]) == (426, "websocket")

    play(scenario())


QUERY = {"subscriptionType": "Key_Shared"}
PLAIN = SocketRequest("v2", "persistent://public/default/orders", "s", "192.0.2.1:5")


@pytest.mark.parametrize(
    ("path", "query", "expected"),
    [
        ("v2/" + PATH, {}, {}),
        ("v1/" + PATH, {}, {"dialect": "v1"}),
        ("v1/" + PATH, {"frames": "binary"}, {"dialect": "v1", "binary": True}),
        ("v2/" + PATH, {"unknown": "1"}, {}),
        ("v2/consumer/persistent/t/n/a/b/c/s", {}, {"topic": "persistent://t/n/a/b/c"}),
        ("v2/consumer/persistent/t/n/a%2Fb/s%2F1", {}, {"topic": "persistent://t/n/a/b", "subscription": "s/1"}),
        ("v2/consumer/persistent/t/n/%C3%BC/s%20s", {}, {"topic": "persistent://t/n/ü", "subscription": "s s"}),
        ("v2/" + PATH, {"receiverQueueSize": "0"}, {"outstanding_max": 1}),
        ("v2/" + PATH, {"receiverQueueSize": "5000"}, {"outstanding_max": 1_000}),
        ("v2/" + PATH, {"consumerName": "me", "priorityLevel": "2"}, {"consumer_name": "me", "priority_level": 2}),
        ("v2/" + PATH, {"ackTimeoutMillis": "1500"}, {"ack_timeout_s": 1.5}),
        ("v2/" + PATH, {"negativeAckRedeliveryDelay": "0"}, {"nack_delay_s": 0.0}),
        ("v2/" + PATH, {"pullMode": "TRUE", "cryptoFailureAction": "CONSUME"}, {"pull": True, "encrypted": "CONSUME"}),
        ("v2/" + PATH, {"pullMode": "yes"}, {}),
        (
            "v2/" + PATH,
            {"maxRedeliverCount": "3"},
            {"redeliveries_max": 3, "dead_letter_topic": "persistent://public/default/orders-s-DLQ"},
        ),
        (
            "v2/" + PATH,
            {"maxRedeliverCount": "3", "deadLetterTopic": "late"},
            {"redeliveries_max": 3, "dead_letter_topic": "persistent://public/default/late"},
        ),
        (
            "v2/" + PATH,
            {"maxRedeliverCount": "3", "deadLetterTopic": "t/n/late"},
            {"redeliveries_max": 3, "dead_letter_topic": "persistent://t/n/late"},
        ),
        (
            "v2/" + PATH,
            {"subscriptionMode": "NonDurable", "subscriptionInitialPosition": "Earliest"},
            {"durable": False, "earliest": True},
        ),
    ],
)
def test_an_address_is_read(path: str, query: dict[str, str], expected: dict[str, Any]) -> None:
    """Names and parameters mean what they mean at Pulsar's own service; only v2 needs the type to be named."""
    request = socket_request(path, query | QUERY, None, PLAIN.peer)
    assert request == replace(PLAIN, **expected)


@pytest.mark.parametrize(
    ("path", "query", "status", "words"),
    [
        ("v3/" + PATH, {}, 404, "use /ws/v2"),
        ("v2/producer/persistent/public/default/orders", {}, 404, "a producer is not served here"),
        ("v2/reader/persistent/public/default/orders", {}, 404, "a reader is not served here"),
        ("v2/consumer/persistent/public/default/s", {}, 400, "the path should be"),
        ("v2/consumer/persistent/public/default//s", {}, 400, "the path should be"),
        ("v2/consumer/non-persistent/public/default/orders/s", {}, 400, "only persistent topics"),
        ("v2/consumer/persistent/pub%2Flic/default/orders/s", {}, 400, "tenant 'pub/lic'"),
        ("v2/consumer/persistent/public/de fault/orders/s", {}, 400, "namespace"),
        (f"v2/consumer/persistent/public/default/{'x' * 1_001}/s", {}, 400, "topic: at most 1000"),
        ("v2/" + PATH, {"subscriptionType": "Shared"}, 400, "Shared is not served here"),
        ("v2/" + PATH, {"subscriptionType": "key_shared"}, 400, "subscriptionType: key_shared"),
        ("v2/" + PATH, {"receiverQueueSize": "-1"}, 400, "receiverQueueSize: "),
        ("v2/" + PATH, {"receiverQueueSize": "many"}, 400, "receiverQueueSize: "),
        ("v2/" + PATH, {"ackTimeoutMillis": "10"}, 400, "ackTimeoutMillis: must be 0 or at least 1000"),
        ("v2/" + PATH, {"subscriptionInitialPosition": "Middle"}, 400, "subscriptionInitialPosition: "),
        ("v2/" + PATH, {"cryptoFailureAction": "GUESS"}, 400, "cryptoFailureAction: "),
        ("v2/" + PATH, {"maxRedeliverCount": "0"}, 400, "maxRedeliverCount: "),
        ("v2/" + PATH, {"deadLetterTopic": "dlq"}, 400, "deadLetterTopic: maxRedeliverCount must be given too"),
        (
            "v2/" + PATH,
            {"maxRedeliverCount": "1", "deadLetterTopic": "a/b"},
            400,
            "deadLetterTopic: 'persistent://a/b'",
        ),
        (
            "v2/" + PATH,
            {"maxRedeliverCount": "1", "deadLetterTopic": "non-persistent://a/b/c"},
            400,
            "should be the name of a persistent topic",
        ),
        ("v2/" + PATH, {"consumerName": "n" * 1_001}, 400, "consumerName: "),
        ("v1/" + PATH, {"recieverQueueSize": "1"}, 400, "recieverQueueSize: "),
        ("v1/" + PATH, {"frames": "xml"}, 400, "frames: "),
    ],
)
def test_a_wrong_address_is_refused_with_what_would_be_right(
    path: str, query: dict[str, str], status: int, words: str
) -> None:
    """What would change how messages are consumed is never ignored."""
    with pytest.raises(KeylineError) as refused:
        socket_request(path, QUERY | query, None, PLAIN.peer)
    assert (refused.value.http_status, words in str(refused.value)) == (status, True), str(refused.value)


def test_pulsars_default_type_is_exclusive() -> None:
    """A client that names no type means that one, and must not become a Key_Shared worker unasked."""
    with pytest.raises(KeylineError, match="Exclusive is not served here"):
        socket_request("v2/" + PATH, {}, None, PLAIN.peer)
    assert socket_request("v1/" + PATH, {}, None, PLAIN.peer).dialect == "v1"


async def upgraded(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A WebSocket that answers nothing by itself."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(UPGRADE.format(address=address).encode())
    assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101")
    return reader, writer


UPGRADE = (
    f"GET /ws/{WORKER} HTTP/1.1\r\nHost: {{address}}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


def test_a_client_that_neither_reads_nor_answers_is_cut() -> None:
    """Closing would wait for it to read, and its keys with it."""

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with left_unread(gateway, keep_alive_s=0.05) as writer:
            await until(lambda: gateway.ends)
            writer.close()

    play(scenario())


def test_a_client_that_does_not_take_the_close_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evicted, it would keep its socket for ever."""
    monkeypatch.setattr(socket_queue, "CLOSE_S_MAX", 0.05)
    monkeypatch.setattr(socket_protocol, "FAREWELL_S", 0.05)

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with serving(gateway) as address:
            reader, writer = await upgraded(address)
            await until(lambda: gateway.requests)
            gateway.socket.send("x" * 20_000_000)
            gateway.socket.close(1012, "come again")
            await until(lambda: gateway.ends)
            await asyncio.sleep(0.5)  # far longer than its farewell takes
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(20_000_000)
            writer.close()

    play(scenario())


def test_commands_are_not_read_while_their_answers_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else questions would pile up answers without end."""
    monkeypatch.setattr(socket_queue, "UNREAD_HIGH_BYTES", 100_000)

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with left_unread(gateway) as writer:
            question = bytes((0x81, 0x82, 0, 0, 0, 0)) + b"{}"
            for _ in range(100):
                writer.write(question * 100)
                await asyncio.sleep(0)
            for _ in range(100):
                await asyncio.sleep(0)
            assert len(gateway.said) <= 1
            writer.transport.abort()
            await until(lambda: gateway.ends)

    play(scenario())


either_end = pytest.mark.parametrize(
    "end", [b"\x88\x80\0\0\0\0", b"\x83\x80\0\0\0\0"], ids=["a close", "a wrong frame"]
)


@either_end
def test_what_was_said_before_the_end_is_heard_whatever_is_unread(end: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading has stopped within what arrived at once: the rest of that may be acknowledgements."""
    monkeypatch.setattr(socket_queue, "UNREAD_HIGH_BYTES", 100_000)
    commands = [b"%02d" % number for number in range(50)]

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with left_unread(gateway) as writer:
            writer.write(b"".join(bytes((0x81, 0x82, 0, 0, 0, 0)) + command for command in commands) + end)
            await until(lambda: gateway.ends)
            assert gateway.said == [command.decode() for command in commands]
            writer.transport.abort()

    play(scenario())


@either_end
def test_the_server_stops_though_a_client_that_reads_nothing_is_about_to_end(
    end: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no second close to be sent to it."""
    monkeypatch.setattr(socket_queue, "UNREAD_HIGH_BYTES", 100_000)

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with left_unread(gateway) as writer:
            writer.write(end)
            await until(lambda: gateway.ends)
        writer.transport.abort()

    play(scenario())


def test_a_command_that_is_too_large_is_no_fault(caplog: pytest.LogCaptureFixture) -> None:
    """1009, though messages are on their way."""

    async def scenario() -> None:
        gateway = Gateway(accept)
        async with (
            serving(gateway) as address,
            connect(f"ws://{address}/ws/{WORKER}", proxy=None, max_queue=None) as client,
        ):
            await until(lambda: gateway.requests)

            async def talk() -> None:
                while not gateway.ends:
                    gateway.socket.send("x")
                    await asyncio.sleep(0)

            talking = asyncio.create_task(talk())
            with suppress(ConnectionClosed):
                await client.send("x" * 2_000_000)
            with suppress(ConnectionClosed):
                async for _ in client:
                    pass
            assert client.close_code == 1009
            await until(lambda: gateway.ends)
            await talking

    play(scenario())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"X-Large": "x" * 9_000}, b"431"),
        ({f"X-{number}": "x" for number in range(200)}, b"431"),
        ({"Origin": "http://["}, b"403"),
    ],
)
def test_an_odd_handshake_is_answered(headers: dict[str, str], status: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the client's library or a proxy has put there; no fault is logged."""

    async def scenario() -> None:
        async with serving(Gateway(accept)) as address:
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
            writer.write(UPGRADE.format(address=address).replace("\r\n\r\n", f"\r\n{lines}\r\n").encode())
            assert (await reader.readline()).split()[1] == status
            writer.close()
            await writer.wait_closed()

    play(scenario())
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_fault_in_the_gateway_ends_the_connection() -> None:
    """A worker whose commands nobody reads would hold its keys for ever."""

    class Faulty(Gateway):
        def received(self, frame: str | bytes) -> None:
            super().received(frame)
            raise RuntimeError("a fault")

    async def scenario() -> None:
        gateway = Faulty(accept)
        async with serving(gateway) as address, connect(f"ws://{address}/ws/{WORKER}", proxy=None) as client:
            await client.send("{}")
            with pytest.raises(ConnectionClosed) as closed:
                await client.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1011
            await until(lambda: gateway.ends)

    play(scenario())
