"""Mail between replicas at a real broker: who comes back hears again, whatever the broker still has of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Final

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.faults.proxy import FaultProxy
from proxy.aio.clock_and_connector import AioClock, AioConnector
from proxy.limits import Limits
from proxy.net.broker.directory import Brokers
from proxy.net.broker.settings import BrokerSettings
from proxy.net.mail.group_mail import PulsarGroupMail
from tests.integration.faults.cuttable import cuttable_broker

KEEP_ALIVE_S: Final = 1.0
"""The replica gives a silent connection up after twice this; the broker, far later."""
HEARD_S_MAX: Final = 60.0
AGAIN_S: Final = 0.2

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(params=PULSAR_VERSIONS)
def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, FaultProxy]]:
    """One way to a broker, behind the listener of that name."""
    with cuttable_broker(request.param, tmp_path_factory.mktemp("pulsar"), 1) as cuttable:
        yield from cuttable.take(1).items()


def test_a_replica_hears_again_though_the_broker_has_its_former_consumers(way: tuple[str, FaultProxy]) -> None:
    """Its connection carries nothing any more, and neither end is told; it comes back on another."""
    listener, line = way

    async def scenario() -> None:
        loop = asyncio.get_running_loop()
        clock, heard = AioClock(loop), set[bytes]()
        settings = BrokerSettings((line.service_url,), "test", keep_alive_s=KEEP_ALIVE_S, listener_name=listener)
        brokers = Brokers(AioConnector(loop, Limits()), clock, settings)
        mail = PulsarGroupMail("public/default", "a", brokers, clock, heard.add)
        try:
            mail.start()
            await says(mail, heard, b"before")
            assert line.forget(0) > 0
            await says(mail, heard, b"after")
        finally:
            mail.stop()
            gone = asyncio.Event()
            brokers.close(gone.set)
            await asyncio.wait_for(gone.wait(), HEARD_S_MAX)

    asyncio.run(scenario())


async def says(mail: PulsarGroupMail, heard: set[bytes], what: bytes) -> None:
    """Say this to itself, and to all, until it has heard both."""
    ways: tuple[tuple[bytes, Callable[[bytes], None]], ...] = (
        (what + b" to one", lambda data: mail.send("a", data)),
        (what + b" to all", mail.send_all),
    )
    async with asyncio.timeout(HEARD_S_MAX):
        while {text for text, _ in ways} - heard:
            for text, send in ways:
                send(text)
            await asyncio.sleep(AGAIN_S)
