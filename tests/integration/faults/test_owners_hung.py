"""A replica in owner mode stands still, as under SIGSTOP, or is cut off from the broker, and from nothing else.

It owns the subscription, or leads, or both, or neither: each for 1, 5, 30 and 120 s, one fault after another in a
deployment. Deployments run beside each other on one broker, and in each there are two subscriptions, of which the
replica owns one. The contract holds over all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway
from integration.load.run import LoadRun
from integration.replicas import Replicas
from tests.integration.busy_replicas import settle
from tests.integration.faults.cuttable import Cuttable, cut, cuttable_broker
from tests.integration.faults.owner_waits import Victims, check_waits, frozen
from tests.integration.owner_rig import REPLICAS, WORKERS, Owned, owned_subscription
from tests.integration.side_by_side import Case, CaseOf, Outcomes

LONG_S: Final = 30.0
EACH_S: Final = (1.0, 5.0, LONG_S, 120.0)
RATE_OF_ONE_PER_S: Final = 100.0
"""Of the only subscription of a deployment; little, for the others are measured meanwhile."""


class Trouble(NamedTuple):
    """What one deployment goes through."""

    cut: bool
    """Whether the replica is cut off, and not frozen."""
    leads: bool


TROUBLES: Final = {
    "frozen-owner": Trouble(cut=False, leads=False),
    "frozen-leader": Trouble(cut=False, leads=True),
    "owner-cut-off": Trouble(cut=True, leads=False),
    "leader-cut-off": Trouble(cut=True, leads=True),
}
ANYWHERE: Final = "frozen-owner-of-clients-that-go-anywhere"
ANYWHERE_S: Final = 60.0
ANYWHERE_WAIT_S_MAX: Final = 30.0
"""The time until a replica is dropped and all goes on, 10 s, and what the machine needs while the others place their
subscriptions, all at once: 20.3 s were seen. A rule that fails keeps keys for as long as the replica is frozen."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def cuttable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuttable]:
    """Of each version."""
    ways_count = REPLICAS * sum(each.cut for each in TROUBLES.values())
    with cuttable_broker(request.param, tmp_path_factory.mktemp("pulsar"), ways_count) as cuttable:
        yield cuttable


def deployment(cuttable: Cuttable, trouble: Trouble, topics: tuple[str, str], directory: Path) -> Case:
    """Three replicas that go through this, with workers that stay where they are."""
    ways = cuttable.take(REPLICAS) if trouble.cut else {}
    broker = cuttable.broker

    def prepare(stack: ExitStack) -> Callable[[], str]:
        directory.mkdir()
        addresses = [(way.service_url, listener) for listener, way in ways.items()]
        replicas = Replicas(stack, broker, directory, {"group_deployment": directory.name}, addresses)
        url = replicas.start(REPLICAS).service_url
        settle(replicas.gateways)
        runs = [
            stack.enter_context(LoadRun(directory / f"load-{number}", url, topic, producer_url=broker.service_url))
            for number, topic in enumerate(topics)
        ]
        owned = [Owned(replicas.gateways, run, replicas.start) for run in runs]
        for each in owned:
            each.start_workers_that_stay(*WORKERS)

        def cut_off(gateway: KeylineGateway) -> AbstractContextManager[None]:
            return cut([*ways.values()][replicas.gateways.index(gateway)])

        def act() -> str:
            victims = Victims(*owned, leads=trouble.leads)
            for seconds in EACH_S:
                received = victims.suffer(cut_off if trouble.cut else frozen, seconds)
                if seconds >= LONG_S and not trouble.cut:
                    assert received == 0, "a frozen replica has served its workers"
            return victims.end()

        return act

    return prepare


def anywhere(cuttable: Cuttable, topic: str, directory: Path) -> Case:
    """Three replicas whose owner is frozen, and workers whose clients try one after the other."""

    def prepare(stack: ExitStack) -> Callable[[], str]:
        directory.mkdir()
        owned = stack.enter_context(owned_subscription(cuttable.broker, topic, directory))

        def act() -> str:
            owner = owned.owner()
            return check_waits(
                owned,
                frozen(owner),
                ANYWHERE_S,
                rate_per_s=RATE_OF_ONE_PER_S,
                wait_s_max=ANYWHERE_WAIT_S_MAX,
                hung=owner,
            )

        return act

    return prepare


@pytest.fixture(scope="module")
def case_of(cuttable: Cuttable, new_topic: Callable[[str], str]) -> CaseOf:
    """On a broker of one version."""

    def case(name: str, directory: Path) -> Case:
        if name == ANYWHERE:
            return anywhere(cuttable, new_topic("hung"), directory)
        return deployment(cuttable, TROUBLES[name], (new_topic("hung"), new_topic("beside")), directory)

    return case


@pytest.mark.parametrize("case", TROUBLES)
def test_no_key_waits_for_a_replica_that_hangs_or_is_cut_off(outcomes: Outcomes, case: str) -> None:
    """Its keys go on at others, in order, and when it goes on it finds out. Only its own workers wait until then."""
    print(outcomes[case].result())


@pytest.mark.parametrize("case", [ANYWHERE])
def test_no_key_waits_for_clients_that_ask_the_frozen_replica(outcomes: Outcomes, case: str) -> None:
    """Their service URL has all replicas. A client that looks the topic up at the frozen one waits.

    Keys wait for it only while no other client is at another replica, which is printed and not judged.
    """
    print(outcomes[case].result())
