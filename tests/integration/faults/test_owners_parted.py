"""Two replicas in owner mode, both of which reach the broker and their workers: what the network between them does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from integration.faults.proxy import FaultProxy
from integration.gateway import KeylineGateway
from integration.load.run import LoadRun
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from tests.integration.faults.owner_waits import check_waits
from tests.integration.owner_rig import TAKING, WORKERS, Owned

PAIR: Final = 2
"""As many as the chart installs."""
PARTED_S: Final = 30.0
LEG_BYTES: Final = 4_096
"""A leg carried more, and a connection for signs of life less."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Pair:
    """Two replicas, a subscription that one of them owns, and the network between them."""

    def __init__(self, owned: Owned, networks: list[FaultProxy], owner: KeylineGateway) -> None:
        self.owned = owned
        self.owner = owner
        (self.other,) = (each for each in owned.gateways if each is not owner)
        self._networks = networks

    def start_workers(self, *gateways: KeylineGateway) -> None:
        """All of them, at these replicas in turn, to which they always come back."""
        for number, name in enumerate(WORKERS):
            self.owned.run.start_worker(name, service_url=gateways[number % len(gateways)].service_url, **TAKING)
        assert self.owned.owner() is self.owner

    @contextmanager
    def parted(self, served_at: KeylineGateway) -> Iterator[None]:
        """Nothing moves between the two in this block; at its end one serves workers, and not the other."""
        for network in self._networks:
            network.stall()
        try:
            yield
            assert [each for each in self.owned.gateways if self.owned.workers(each)] == [served_at]
        finally:
            for network in self._networks:
                network.heal()

    @contextmanager
    def forgotten(self) -> Iterator[None]:
        """The network has forgotten all legs that stand, and takes new ones."""
        legs_count = sum(network.forget(LEG_BYTES) for network in self._networks)
        assert legs_count == len(WORKERS)
        yield


@pytest.fixture
def pair(module_pulsar: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Pair]:
    """Without workers."""
    with ExitStack() as stack:
        networks: list[FaultProxy] = []

        def between(port: int) -> int:
            networks.append(stack.enter_context(FaultProxy(port)))
            return networks[-1].port

        replicas = Replicas(stack, module_pulsar, tmp_path, between=between)
        first = replicas.start(PAIR)
        load = LoadRun(
            tmp_path / "load", first.service_url, new_topic("parted"), producer_url=module_pulsar.service_url
        )
        owned = Owned(replicas.gateways, stack.enter_context(load), replicas.start)
        owned.run.start_workers("first")
        (owner,) = (each for each in owned.gateways if owned.workers(each))
        owned.run.stop_worker("first")
        yield Pair(owned, networks, owner)


def test_no_key_waits_where_all_workers_are_at_the_other_replica(pair: Pair) -> None:
    """The subscription goes to the replica that has them, in order."""
    pair.start_workers(pair.other)
    check_waits(pair.owned, pair.parted(served_at=pair.other), PARTED_S)


def test_no_key_waits_where_both_have_workers(pair: Pair) -> None:
    """Keys go on at the owner's, which keeps them."""
    pair.start_workers(pair.owner, pair.other)
    check_waits(pair.owned, pair.parted(served_at=pair.owner), PARTED_S)


def test_no_key_waits_for_legs_that_the_network_has_forgotten(pair: Pair) -> None:
    """The two reach each other, and neither end is told: the legs are found out, and made again."""
    pair.start_workers(pair.other)
    check_waits(pair.owned, pair.forgotten(), PARTED_S)
