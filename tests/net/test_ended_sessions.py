"""What a client leaves behind when it goes: nothing, at once, without a collector.

A cycle of references would keep a session, its relay and its workers until the collector walks everything that lives,
which stops a large gateway's loop for a fifth of a second; clients come and go far too often for that.
"""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from proxy.aio.clock_and_connector import AioClock, AioConnector
from proxy.aio.transport import AioTransport
from proxy.app.listener import GatewayServer
from proxy.core.worker import Worker
from proxy.limits import Limits
from proxy.net.broker.names import BrokerNames
from proxy.net.heartbeat import Heartbeat
from proxy.net.relay.leg import UpstreamLeg
from proxy.net.relay.relay import Relay
from proxy.net.session.ownership_changes import OwnershipChanges
from proxy.net.session.services import SessionServices
from proxy.net.session.session import ClientSession
from proxy.net.session.sessions import Sessions
from proxy.net.session.settings import SessionSettings
from proxy.net.session.worker import Worker as WorkerOfSession
from proxy.net.session.workers import SessionWorkers
from proxy.net.slices import Slices
from proxy.net.subscription.directory import Subscriptions
from proxy.net.subscription.openings import Openings
from proxy.net.subscription.settings import SubscriptionSettings
from proxy.net.subscription.workers import SubscribedWorker
from proxy.service_url import parse_service_url
from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from tests.net import producer_rig
from tests.net.fakes import FakeBackground, FakeClock
from tests.net.session_rig import T, connect, new_elections
from tests.net.subscription_rig_broker import TOPIC, FakeBrokers
from tests.net.test_server import Bench, Client, run

OF_A_CLIENT = (
    AioTransport,
    ClientSession,
    Heartbeat,
    OwnershipChanges,
    Relay,
    SessionWorkers,
    SubscribedWorker,
    UpstreamLeg,
    Worker,
    WorkerOfSession,
)
CLIENTS = 20


@pytest.fixture(autouse=True)
def _without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop run until something is so; `run` bounds it."""
    while not condition():  # noqa: ASYNC110 - nobody would set an event
        await asyncio.sleep(0.005)


class Gateway:
    """Sessions on real sockets and a real subscription; its broker alone is made up."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._of_others = objects_of_clients()
        """What tests before this one have left, kept alive so that it does not vanish meanwhile."""
        clock = FakeClock()
        self.subscriptions = Subscriptions(
            FakeBrokers(clock), clock, SubscriptionSettings(), Openings(clock, FakeBackground(clock))
        )
        self._clock = clock

    async def start(self, *, judged: bool = False) -> None:
        """Listen; the broker is asked what clients may consume only if they are `judged`."""
        bench = self._bench
        await bench.broker.start()
        settings, limits = SessionSettings((parse_service_url(bench.broker.url),), authorize_workers=judged), Limits()
        connector, clock = AioConnector(bench.loop, limits), AioClock(bench.loop)
        names = BrokerNames(settings.brokers, clock)
        sessions = Sessions(
            SessionServices(
                connector, clock, self.subscriptions, new_elections(), names, settings, limits, Slices(clock)
            )
        )
        bench._server = GatewayServer(sessions, limits, bench.loop)
        await bench._server.listen("127.0.0.1", 0)

    async def worker(self) -> Client:
        """A client with one Key_Shared consumer that has joined."""
        client = await self._bench.client()
        client.write(connect())
        assert (await client.read()).type == T.CONNECTED
        body = pb.CommandSubscribe(
            topic=TOPIC, subscription="s", subType=pb.CommandSubscribe.Key_Shared, consumer_id=1, request_id=7
        )
        client.write(frames.encode_command(pb.BaseCommand(type=T.SUBSCRIBE, subscribe=body)))
        before = self.subscriptions.services.quota.workers
        await until(lambda: self.subscriptions.services.quota.workers > before)
        self._clock.settle()
        assert (await client.read()).type == T.SUCCESS
        client.write(commands.flow(1, 10))
        return client

    async def left(self, sessions: int) -> Counter[str]:
        """Objects of clients that are alive when so many sessions stand and their brokers know who has gone."""
        server = self._bench._server
        assert server is not None
        quota = self.subscriptions.services.quota

        def so_many() -> bool:
            self._clock.settle()  # some leave in a later turn of the subscription's clock
            return server.statistics().connections == quota.workers == sessions

        await until(so_many)
        await asyncio.sleep(0.1)
        self._clock.settle()
        others = {id(item) for item in self._of_others}
        return Counter(type(item).__name__ for item in objects_of_clients() if id(item) not in others)


def objects_of_clients() -> list[object]:
    """All that are alive in this process."""
    return [item for item in gc.get_objects() if isinstance(item, OF_A_CLIENT)]


@pytest.mark.parametrize("closes", [True, False], ids=["closes-its-consumer", "just-goes"])
def test_nothing_of_a_client_outlives_it(closes: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """Others stay and keep the subscription up; all that belonged to those who went has gone with them."""

    async def test(bench: Bench) -> None:
        gateway = Gateway(bench)
        await gateway.start()
        await gateway.worker()
        alone = await gateway.left(1)
        clients = [await gateway.worker() for _ in range(CLIENTS)]
        assert (await gateway.left(1 + CLIENTS))["ClientSession"] == 1 + CLIENTS
        for client in clients:
            if closes:
                client.write(commands.close_consumer(1, 9))
                assert (await client.read()).type == T.SUCCESS
            client.close()
        assert await gateway.left(1) == alone

    run(test)


@pytest.mark.parametrize("mode", [producer_rig.EXCLUSIVE, producer_rig.FENCE], ids=["exclusive", "fencing"])
@pytest.mark.parametrize("closes", [True, False], ids=["closes-its-producer", "just-goes"])
def test_nothing_of_a_client_that_took_a_topic_outlives_it(*, mode: int, closes: bool) -> None:
    """Each of its requests waits for its turn first."""

    async def test(bench: Bench) -> None:
        gateway = Gateway(bench)
        await gateway.start()
        alone = await gateway.left(0)
        clients = [await gateway.worker() for _ in range(CLIENTS)]
        for number, client in enumerate(clients):
            client.write(producer_rig.want(10, mode=mode, topic=f"{TOPIC}-{number}"))
            assert (await client.read()).type == T.PRODUCER_SUCCESS
            if closes:
                client.write(producer_rig.close(11))
                assert (await client.read()).type == T.SUCCESS
            client.close()
        assert await gateway.left(0) == alone

    run(test)


@pytest.mark.parametrize("judged", [False, True], ids=["trusted", "judged"])
def test_nothing_of_a_client_that_only_connects_outlives_it(*, judged: bool) -> None:
    """As the probe of a load balancer, or a client that looks up."""

    async def test(bench: Bench) -> None:
        gateway = Gateway(bench)
        await gateway.start(judged=judged)
        alone = await gateway.left(0)
        for _ in range(CLIENTS):
            client = await bench.client()
            client.write(connect())
            assert (await client.read()).type == T.CONNECTED
            client.close()
        assert await gateway.left(0) == alone

    run(test)
