"""A replica that shares a subscription by streams stands still, as under SIGSTOP, or is cut off from the broker.

Or its connections are lost, as at a firewall, and it comes back beside what the broker has of it.

First one that does not lead the group, and then the one that does.

The broker's keep-alive is set to longer than any test: so what a replica that hangs consumed comes free because others
ask for it, or never.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.faults.proxy import FaultProxy
from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.replicas import Replicas
from proxy.cli.admin_client import AdminClient
from tests.integration.conditions import eventually
from tests.integration.exclusive_rig import administer, stream_holders
from tests.integration.faults.cuttable import Cuttable, cut, cuttable_broker, ended_here, forgotten
from tests.integration.faults.owner_waits import SILENCE_ALLOWED, WAIT_BESIDE_S_MAX, WatchedLoad, frozen, told
from tests.integration.owner_rig import REPLICAS, WORKERS, Owned

NAMES: Final = tuple(f"replica-{number}" for number in range(REPLICAS))
RATE_PER_S: Final = 250.0
HANGS_S: Final = 25.0
"""Longer than any key may wait."""
DEPLOYMENTS: Final = 5
"""One for each test."""
DROPPED_LATE_S: Final = 40.0
"""When a replica's streams go to others, so that it can be seen what was before."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def cuttable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuttable]:
    """Of each version; what hung consumers had comes free because others ask for it, or never."""
    data = tmp_path_factory.mktemp("pulsar")
    with cuttable_broker(request.param, data, REPLICAS * DEPLOYMENTS, SILENCE_ALLOWED) as cuttable:
        yield cuttable


class Shared(Owned):
    """A subscription that three replicas share, each with streams and with workers that stay."""

    def __init__(self, replicas: Replicas, run: LoadRun, ways: list[FaultProxy]) -> None:
        super().__init__(replicas.gateways, run, replicas.start)
        self._ways = ways

    def way(self, gateway: KeylineGateway) -> FaultProxy:
        """How it reaches the broker."""
        return self._ways[self.gateways.index(gateway)]


@contextmanager
def shared(cuttable: Cuttable, topic: str, directory: Path, **settings: str) -> Iterator[Shared]:
    """As it says."""
    broker, ways = cuttable.broker, cuttable.take(REPLICAS)
    addresses = [(way.service_url, listener) for listener, way in ways.items()]
    with ExitStack() as stack:
        replicas = Replicas(stack, broker, directory, {"groups_mode": "streams", **settings}, addresses)
        url = replicas.start(REPLICAS).service_url
        run = stack.enter_context(LoadRun(directory / "load", url, topic, producer_url=broker.service_url))
        place = Shared(replicas, run, [*ways.values()])
        place.start_workers_that_stay(*WORKERS)
        eventually(lambda: stream_holders(broker, topic) == set(NAMES), "streams at every replica")
        yield place


def group(gateway: KeylineGateway, topic: str) -> dict[str, Any]:
    """What a replica knows of the group."""
    path = f"/groups/{topic.removeprefix('persistent://')}/{SUBSCRIPTION}"
    found: dict[str, Any] = AdminClient(gateway.admin_url).ask("GET", path)
    return found


def of_role(place: Owned, *, leads: bool) -> KeylineGateway:
    """The first replica that leads the group, or that does not."""
    found: list[KeylineGateway] = []

    def known() -> bool:
        at = [gateway for gateway in place.gateways if group(gateway, place.run.topic)["leading"] is not None]
        found[:] = [gateway for gateway in place.gateways if (gateway in at) == leads]
        return len(at) == 1

    eventually(known, "one leader")
    return found[0]


Fault: TypeAlias = Callable[[Shared, KeylineGateway], AbstractContextManager[None]]
FAULTS: Final[dict[str, Fault]] = {
    "hangs": lambda _, gateway: frozen(gateway),
    "cut-off": lambda place, gateway: cut(place.way(gateway)),
    "forgotten": lambda place, gateway: forgotten(place.way(gateway)),
    "ended-here": lambda place, gateway: ended_here(place.way(gateway)),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_no_key_waits_for_a_replica_that_hangs_or_is_cut_off(
    fault: str, cuttable: Cuttable, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Its keys go on at others, in order, and when it goes on it delivers nothing of them. One after the other.

    In between all have streams again.
    """
    topic = new_topic("streams-hung")
    with shared(cuttable, topic, tmp_path) as place:
        load = WatchedLoad(place, RATE_PER_S, Batching.KEY_BASED)
        for role, leads in (("another", False), ("the leader", True)):
            eventually(lambda: stream_holders(cuttable.broker, topic) == set(NAMES), "streams at every replica")
            victim = of_role(place, leads=leads)
            load.suffer(told(place, FAULTS[fault](place, victim)), HANGS_S, role)
        print(load.end(Cause.GATEWAY_PAUSED, wait_s_max=WAIT_BESIDE_S_MAX))


def test_a_broker_gives_up_what_a_replica_that_hangs_consumes_before_others_may_have_it(
    cuttable: Cuttable, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """However late that is: nothing of it is at the broker any more, and its streams are its own still."""
    topic = new_topic("streams-asked-for")
    late = {"group_drop_s": str(DROPPED_LATE_S)}
    with shared(cuttable, topic, tmp_path, **late) as place:
        leader, hangs = of_role(place, leads=True), of_role(place, leads=False)
        name = NAMES[place.gateways.index(hangs)]

        def consumed() -> list[str]:
            consumers = administer(cuttable.broker, "GET", topic, "stats")["subscriptions"][SUBSCRIPTION]["consumers"]
            return [each["consumerName"] for each in consumers if each["consumerName"].startswith(name)]

        assert consumed()
        with frozen(hangs):
            eventually(lambda: not consumed(), "the broker to give its consumers up")
            sessions = group(leader, topic)["leading"]["sessions"]
        streams = [each["streams"] for each in sessions if each["replica"].startswith(name)]
        assert streams, "it was dropped before"
        assert streams != [[]]
