"""The listener on real sockets, and its bounds and sums without any."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvloop

from proxy.aio.clock_and_connector import AioClock, AioConnector
from proxy.app.listener import GatewayServer
from proxy.limits import Limits
from proxy.net.broker.names import BrokerNames
from proxy.net.session.services import SessionServices
from proxy.net.session.session import ClientSession
from proxy.net.session.sessions import RefusedConnection, Sessions
from proxy.net.session.settings import SessionSettings
from proxy.net.slices import Slices
from proxy.service_url import parse_service_url
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock, FakeConnector, FakeDirectory, FakeTransport
from tests.net.session_rig import (
    T,
    connect,
    connected,
    lookup,
    lookup_response,
    message,
    new_elections,
    parse,
    producer_success,
    send,
    success,
)

PATIENCE_S = 60.0


class TinyBroker:
    """Answers CONNECT, LOOKUP, PRODUCER and CLOSE_PRODUCER, and gives every SEND back as a MESSAGE."""

    def __init__(self) -> None:
        """Call `start` next."""
        self.url = ""
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen on a free port of the loopback."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()
        self.url = f"pulsar://{host}:{port}"

    def stop(self) -> None:
        """Drop everybody and listen no more."""
        if self._server is not None:
            self._server.close()
        for writer in self._writers:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        splitter = frames.FrameSplitter(10_000_000)
        while data := await reader.read(65_536):
            for frame in splitter.feed(data):
                kind = frames.frame_type(frame)
                if kind == T.CONNECT:
                    writer.write(connected())
                elif kind == T.LOOKUP:
                    request_id = frames.parse_command(frame).lookupTopic.request_id
                    writer.write(lookup_response(request_id, pb.CommandLookupTopicResponse.Connect, self.url))
                elif kind == T.PRODUCER:
                    writer.write(producer_success(frames.parse_command(frame).producer.request_id))
                elif kind == T.CLOSE_PRODUCER:
                    writer.write(success(frames.parse_command(frame).close_producer.request_id))
                elif kind == T.SEND:
                    writer.write(message(1, frames.parse_command(frame).send.sequence_id))
        writer.close()


class Client:
    """A client that reads whole frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Streams to a gateway."""
        self._reader = reader
        self._writer = writer

    def write(self, data: bytes) -> None:
        """Send bytes."""
        self._writer.write(data)

    async def read(self) -> pb.BaseCommand:
        """Await one whole frame."""
        head = await self._reader.readexactly(4)
        return parse(head + await self._reader.readexactly(int.from_bytes(head, "big")))[0]

    async def ended(self) -> bool:
        """Await the gateway's end of the connection; false if there was something else before it."""
        return await self._reader.read() == b""

    def close(self) -> None:
        """Leave."""
        self._writer.close()


class Bench:
    """A broker, a gateway in front of it, clients; and the end of them all."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing runs yet."""
        self.loop = loop
        self.broker = TinyBroker()
        self._server: GatewayServer | None = None
        self._clients: list[Client] = []

    async def gateway(self, limits: Limits | None = None) -> GatewayServer:
        """Start the broker, and a gateway in front of it on a free port of the loopback."""
        await self.broker.start()
        limits = limits or Limits()
        settings = SessionSettings((parse_service_url(self.broker.url),), authorize_workers=False)
        connector, clock = AioConnector(self.loop, limits), AioClock(self.loop)
        self._server = GatewayServer(
            Sessions(
                SessionServices(
                    connector,
                    clock,
                    FakeDirectory(),
                    new_elections(),
                    BrokerNames(settings.brokers, clock),
                    settings,
                    limits,
                    Slices(clock),
                )
            ),
            limits,
            self.loop,
        )
        await self._server.listen("127.0.0.1", 0)
        return self._server

    async def client(self) -> Client:
        """Connect one more client to the gateway."""
        assert self._server is not None
        host, port = self._server.addresses[0]
        client = Client(*await asyncio.open_connection(host, port))
        self._clients.append(client)
        return client

    async def close(self) -> None:
        """Leave no socket to the loop's end."""
        for client in self._clients:
            client.close()
        self.broker.stop()
        if self._server is not None:
            self._server.stop_accepting()
            self._server.close_sessions()
            assert await self._server.sessions_gone(PATIENCE_S)


def run(test: Callable[[Bench], Awaitable[None]]) -> None:
    """Run on uvloop, as in production."""

    async def main() -> None:
        bench = Bench(asyncio.get_running_loop())
        try:
            await asyncio.wait_for(test(bench), PATIENCE_S)
        finally:
            await bench.close()

    uvloop.run(main())


def test_a_client_talks_to_its_broker_through_sockets() -> None:
    """Handshake, lookup and ten thousand messages there and back, in order; the end of the broker is the client's."""

    async def test(bench: Bench) -> None:
        server = await bench.gateway()
        client = await bench.client()
        client.write(connect())
        assert (await client.read()).connected.protocol_version == 21
        client.write(lookup(1))
        answer = (await client.read()).lookupTopicResponse
        assert answer.proxy_through_service_url
        client.write(b"".join(send(1, number) for number in range(10_000)))
        for number in range(10_000):
            assert (await client.read()).message.message_id.entryId == number
        statistics = server.statistics()
        assert statistics.connections == 1
        assert statistics.counters["relayed_to_broker_frames_total"] == 10_001
        bench.broker.stop()
        assert await client.ended()
        assert await server.sessions_gone(PATIENCE_S)
        assert server.statistics().ended_total["broker_lost"] == 1

    run(test)


def test_shutting_down_takes_no_new_clients_and_ends_those_here() -> None:
    """First the door, then the guests; the wait ends when the last has gone."""

    async def test(bench: Bench) -> None:
        server = await bench.gateway()
        assert await server.sessions_gone(0.1), "nobody is here"
        client = await bench.client()
        client.write(connect())
        await client.read()
        address = server.addresses[0]
        server.stop_accepting()
        assert server.addresses == []
        assert not server.statistics().accepting
        with pytest.raises(OSError):  # noqa: PT011 - refused or reset, as the system has it
            await asyncio.open_connection(*address)
        assert not await server.sessions_gone(0.01), "one is here"
        server.close_sessions()
        assert await server.sessions_gone(PATIENCE_S)
        assert await client.ended()
        assert server.statistics().ended_total["shut_down"] == 1

    run(test)


def test_a_client_beyond_the_bound_is_told_so_and_closed() -> None:
    """Through a real socket: the words arrive before the end. A place that is left is free again."""

    async def test(bench: Bench) -> None:
        server = await bench.gateway(Limits(connections_max=1))
        bench.broker.stop()
        first = await bench.client()
        first.write(connect()[:-1])
        second = await bench.client()
        refusal = (await second.read()).error
        assert refusal.error == pb.NotAllowedError
        assert "maximum number of connections: 1" in refusal.message
        assert await second.ended()
        first.write(connect()[-1:])
        assert "no connection" in (await first.read()).error.message
        assert await first.ended()
        first.close()
        assert await server.sessions_gone(PATIENCE_S)
        third = await bench.client()
        third.write(connect())
        assert (await third.read()).error.error == pb.ServiceNotReady
        statistics = server.statistics()
        assert (statistics.connections_total, statistics.refused_total) == (3, 1)

    run(test)


def rooms(limits: Limits) -> Sessions:
    """Sessions without sockets."""
    clock = FakeClock()
    settings = SessionSettings((parse_service_url("pulsar://b:6650"),))
    return Sessions(
        SessionServices(
            FakeConnector(clock),
            clock,
            FakeDirectory(),
            new_elections(),
            BrokerNames(settings.brokers, clock),
            settings,
            limits,
            Slices(clock),
        )
    )


def test_each_address_has_its_own_bound() -> None:
    """One neighbour cannot take all places; a place that is left is free again. IPv6 counts as any other."""
    sessions = rooms(Limits(connections_per_address_max=2))
    for address in ("192.0.2.1", "[2001:db8::1]"):
        first = sessions.admit(f"{address}:1000")
        assert isinstance(first, ClientSession)
        assert isinstance(sessions.admit(f"{address}:1001"), ClientSession)
        assert isinstance(sessions.admit(f"{address}:1002"), RefusedConnection)
        first.closed("gone")
        assert isinstance(sessions.admit(f"{address}:1003"), ClientSession)
    statistics = sessions.statistics(accepting=True)
    assert (statistics.connections, statistics.refused_per_address_total) == (4, 2)


def test_totals_never_fall_when_sessions_end() -> None:
    """What an ended session counted stays in the sums, with the cause of its end."""
    sessions = rooms(Limits())
    clock = FakeClock()
    for _ in range(3):
        session = sessions.admit("192.0.2.1:1000")
        transport = FakeTransport(clock, session)
        transport.open()
        transport.deliver(b"\xff" * 50)
    statistics = sessions.statistics(accepting=True)
    assert statistics.connections == 0
    assert statistics.counters["bytes_received_total"] == 150
    assert statistics.ended_total["bad_frame"] == 3


def test_clients_are_spread_over_the_brokers() -> None:
    """Each session starts with the next one."""
    clock = FakeClock()
    connector = FakeConnector(clock)
    settings = SessionSettings(tuple(parse_service_url(f"pulsar://{name}:1") for name in "abc"))
    sessions = Sessions(
        SessionServices(
            connector,
            clock,
            FakeDirectory(),
            new_elections(),
            BrokerNames(settings.brokers, clock),
            settings,
            Limits(),
            Slices(clock),
        )
    )
    for _ in range(6):
        transport = FakeTransport(clock, sessions.admit("192.0.2.1:1000"))
        transport.open()
        transport.deliver(connect())
    hosts = [attempt.address[9] for attempt in connector.attempts]
    assert sorted(hosts) == list("aabbcc")


def test_closing_all_sessions_spares_none() -> None:
    """Also those that end, and leave the list, while it is walked."""
    sessions = rooms(Limits())
    clock = FakeClock()
    transports = [FakeTransport(clock, sessions.admit(f"192.0.2.1:{port}")) for port in range(5)]
    for transport in transports:
        transport.open()
    gone: list[bool] = []
    sessions.when_empty(lambda: gone.append(True))
    sessions.close_all()
    assert gone == []
    clock.settle()
    assert all(transport.closing for transport in transports)
    assert gone == [True]
