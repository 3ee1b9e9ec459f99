"""A replica in owner mode is cut off from the broker, and from nothing else: whether it owns, leads, or neither."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from integration.faults.proxy import FaultProxy
from integration.ports import LOOPBACK, free_ports
from integration.standalone import PulsarStandalone
from tests.integration.faults.owner_waits import check_waits
from tests.integration.owner_rig import REPLICAS, Owned, owned_subscription

CUTS_S: Final = (1.0, 5.0, 30.0)

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Cuttable:
    """A broker to which each replica has a way of its own."""

    def __init__(self, broker: PulsarStandalone, ways: list[FaultProxy]) -> None:
        self.broker = broker
        self.ways = ways


@pytest.fixture(scope="module")
def cuttable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuttable]:
    """One for all: each test has gateways of its own."""
    port, *proxy_ports = free_ports(1 + REPLICAS)
    listeners = [f"direct:pulsar://{LOOPBACK}:{port}"]
    listeners += [f"way-{number}:pulsar://{LOOPBACK}:{each}" for number, each in enumerate(proxy_ports)]
    settings = {
        "advertisedAddress": "",
        "advertisedListeners": ",".join(listeners),
        "internalListenerName": "direct",
    }
    with ExitStack() as stack:
        broker = PulsarStandalone(data=tmp_path_factory.mktemp("pulsar"), port=port, settings=settings)
        stack.enter_context(broker)
        ways = [stack.enter_context(FaultProxy(port, port=each)) for each in proxy_ports]
        yield Cuttable(broker, ways)


@pytest.fixture
def owned(cuttable: Cuttable, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """Three replicas."""
    ways = [(way.service_url, f"way-{number}") for number, way in enumerate(cuttable.ways)]
    with owned_subscription(cuttable.broker, new_topic("cut"), tmp_path, ways=ways) as owned:
        yield owned


@contextmanager
def cut(way: FaultProxy) -> Iterator[None]:
    """Nothing moves between a replica and the broker in this block."""
    way.stall()
    try:
        yield
    finally:
        way.heal()


@pytest.mark.parametrize("seconds", CUTS_S)
def test_no_key_waits_for_an_owner_that_is_cut_off(cuttable: Cuttable, owned: Owned, seconds: float) -> None:
    """Others do not reach the broker through it: its keys go on at another, in order."""
    number = owned.gateways.index(owned.owner())
    print(check_waits(owned, cut(cuttable.ways[number]), seconds))


def test_no_key_waits_for_another_replica_that_is_cut_off(cuttable: Cuttable, owned: Owned) -> None:
    """It may lead; its workers go on to consume at the owner."""
    number = next(number for number, each in enumerate(owned.gateways) if each is not owned.owner())
    print(check_waits(owned, cut(cuttable.ways[number]), CUTS_S[-1]))
