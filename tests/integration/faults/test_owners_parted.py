"""Two replicas in owner mode, both of which reach the broker and their workers: what the network between them does.

The pairs run beside each other on one broker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Final, TypeAlias

import pytest

from integration.faults.proxy import FaultProxy
from integration.gateway import KeylineGateway
from integration.load.run import LoadRun
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from tests.integration.busy_replicas import settle
from tests.integration.faults.owner_waits import WAIT_BESIDE_S_MAX, check_waits
from tests.integration.owner_rig import TAKING, WORKERS, Owned
from tests.integration.side_by_side import Case, CaseOf, Outcomes

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


Fault: TypeAlias = Callable[[Pair], AbstractContextManager[None]]
"""Starts a pair's workers, and gives what happens to it."""


def parted(pair: Pair) -> AbstractContextManager[None]:
    """All workers are at the replica that does not own: the subscription goes to it, in order."""
    pair.start_workers(pair.other)
    return pair.parted(served_at=pair.other)


def parted_with_workers_at_both(pair: Pair) -> AbstractContextManager[None]:
    """Keys go on at the owner's, which keeps them."""
    pair.start_workers(pair.owner, pair.other)
    return pair.parted(served_at=pair.owner)


def forgotten(pair: Pair) -> AbstractContextManager[None]:
    """The two reach each other, and neither end of a leg is told: legs are found out, and made again."""
    pair.start_workers(pair.other)
    return pair.forgotten()


FAULTS: Final = {
    "workers-at-the-other": parted,
    "workers-at-both": parted_with_workers_at_both,
    "legs-forgotten": forgotten,
}


def pair_on(broker: PulsarStandalone, fault: Fault, topic: str, directory: Path) -> Case:
    """Two replicas, and this between them."""

    def prepare(stack: ExitStack) -> Callable[[], str]:
        directory.mkdir()
        networks: list[FaultProxy] = []

        def between(port: int) -> int:
            networks.append(stack.enter_context(FaultProxy(port)))
            return networks[-1].port

        settings = {"group_deployment": directory.name}
        replicas = Replicas(stack, broker, directory, settings, between=between)
        first = replicas.start(PAIR)
        settle(replicas.gateways)
        load = LoadRun(directory / "load", first.service_url, topic, producer_url=broker.service_url)
        owned = Owned(replicas.gateways, stack.enter_context(load), replicas.start)
        owned.run.start_workers("first")
        (owner,) = (each for each in owned.gateways if owned.workers(each))
        owned.run.stop_worker("first")
        happens = fault(Pair(owned, networks, owner))
        return lambda: check_waits(owned, happens, PARTED_S, wait_s_max=WAIT_BESIDE_S_MAX)

    return prepare


@pytest.fixture(scope="module")
def case_of(pulsar: PulsarStandalone, new_topic: Callable[[str], str]) -> CaseOf:
    """On one broker."""
    return lambda name, directory: pair_on(pulsar, FAULTS[name], new_topic("parted"), directory)


@pytest.mark.parametrize("case", FAULTS)
def test_no_key_waits_for_the_network_between_two_replicas(outcomes: Outcomes, case: str) -> None:
    """Their keys go on, wherever the workers are."""
    print(outcomes[case].result())
