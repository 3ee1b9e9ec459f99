"""A replica in owner mode does not hear the broker, which hears it: half of a network is lost.

It says that it is there, and asks for what it is to have, for as long as its connections stand. The broker itself
answers none of that here: its keep-alive is set to longer than any test. At last its connections are lost, as at a
firewall, and it comes back beside what the broker has of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.faults.conditions import Direction
from integration.faults.proxy import FaultProxy
from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION
from integration.load.run import LoadRun
from integration.replicas import Replicas
from proxy.cli.admin_client import AdminClient
from tests.integration.busy_replicas import patiently, settle
from tests.integration.faults.cuttable import Cuttable, cut, cuttable_broker, ended_here, forgotten
from tests.integration.faults.line import last
from tests.integration.faults.owner_waits import SILENCE_ALLOWED, WAIT_BESIDE_S_MAX, WatchedLoad, frozen, told
from tests.integration.owner_rig import REPLICAS, WORKERS, Owned

RATE_PER_S: Final = 250.0
UNHEARD_S: Final = 30.0
FROZEN_S: Final = 15.0
"""Long enough for others to have what it owned."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def cuttable(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cuttable]:
    """Of each version."""
    data = tmp_path_factory.mktemp("pulsar")
    with cuttable_broker(request.param, data, REPLICAS, SILENCE_ALLOWED) as cuttable:
        yield cuttable


@contextmanager
def unheard_after(seconds: float, gateway: KeylineGateway, way: FaultProxy) -> Iterator[None]:
    """It stands still for so long at the beginning of this block, and hears nothing since."""
    with ExitStack() as stack:
        with frozen(gateway):
            last(seconds)
            stack.enter_context(cut(way, Direction.TO_CLIENT))
        yield


def test_no_key_waits_for_a_replica_that_does_not_hear_the_broker(
    cuttable: Cuttable, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Neither for the owner, nor for one that comes back and is to own it again because an operator wants so."""
    broker, ways = cuttable.broker, cuttable.take(REPLICAS)
    topic = new_topic("unheard")
    addresses = [(way.service_url, listener) for listener, way in ways.items()]
    with ExitStack() as stack:
        replicas = Replicas(stack, broker, tmp_path, {"group_deployment": topic.rpartition("/")[2]}, addresses)
        url = replicas.start(REPLICAS).service_url
        settle(replicas.gateways)
        run = stack.enter_context(LoadRun(tmp_path / "load", url, topic, producer_url=broker.service_url))
        owned = Owned(replicas.gateways, run, replicas.start)
        owned.start_workers_that_stay(*WORKERS)
        load = WatchedLoad(owned, RATE_PER_S)
        victim = next(each for each in owned.gateways if each is not owned.leader())
        number = owned.gateways.index(victim)
        way = [*ways.values()][number]
        order = {"replica": f"replica-{number}"}
        path = f"/subscriptions/{topic.removeprefix('persistent://')}/{SUBSCRIPTION}/owner"
        AdminClient(victim.admin_url).ask("PUT", path, json=order)
        for fault, what in (
            (cut(way, Direction.TO_CLIENT), "the owner"),
            (unheard_after(FROZEN_S, victim, way), "one that comes back"),
            (forgotten(way), "one whose connections are forgotten"),
            (ended_here(way), "one whose connections end at its side alone"),
        ):
            patiently(lambda: owned.owner() is victim, "the subscription to be where it is ordered to")
            load.suffer(told(owned, fault), UNHEARD_S, what)
        patiently(lambda: owned.owner() is victim, "it to be there again")
        print(load.end(Cause.GATEWAY_PAUSED, Cause.CONNECTION_LOST, wait_s_max=WAIT_BESIDE_S_MAX))
