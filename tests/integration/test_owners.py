"""Three replicas in owner mode on real brokers: workers at all of them, producers with default batching, audited."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Final

import pulsar
import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from integration.threads import beside
from proxy.cli.admin_client import AdminClient
from tests.integration.busy_replicas import settle
from tests.integration.conditions import eventually
from tests.integration.owner_rig import (
    MESSAGES,
    REPLICAS,
    WORKERS,
    Owned,
    deployment_of,
    owned_subscription,
    subscription_at,
    tls_settings,
)

SUBSCRIBED: Final = 240
"""Consumers that come while bundles move, and again until all replicas have given theirs away."""
SUBSCRIBED_MAX: Final = 10 * SUBSCRIBED
AT_A_TIME: Final = 8
OPERATION_S: Final = 10
"""What a client gives a SUBSCRIBE: a third of its default."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def tls_of(broker: PulsarStandalone, directory: Path) -> dict[str, str]:
    """With the older broker replicas speak TLS to each other."""
    return {} if broker.version == PULSAR_VERSIONS[0] else tls_settings(directory / "certificates")


@pytest.fixture
def owned(broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """At replicas that a test may stop."""
    with owned_subscription(broker, new_topic("owned"), tmp_path, tls_of(broker, tmp_path)) as owned:
        yield owned


@pytest.fixture(scope="module")
def replicas(broker: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Replicas]:
    """Those that no test stops."""
    directory = tmp_path_factory.mktemp("shared")
    with deployment_of(broker, "shared", directory, tls_of(broker, directory)) as replicas:
        yield replicas


@pytest.fixture
def shared(
    replicas: Replicas, broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> Iterator[Owned]:
    """At those."""
    settle(replicas.gateways)
    with subscription_at(replicas, broker, new_topic("shared"), tmp_path) as owned:
        yield owned


def test_default_batches_keep_every_key_in_order_and_at_one_worker(shared: Owned) -> None:
    """Whichever replica owns the subscription, and to whichever its workers have come: nothing is repeated either."""
    shared.owner()
    shared.produce()
    shared.finish()


def test_an_owner_is_killed(owned: Owned) -> None:
    """The next one delivers again what workers had of it, in order, and nothing else."""
    owned.produce()
    owned.run.wait_acknowledged(MESSAGES // 3)
    owner = owned.owner()
    owned.run.interruption(Cause.GATEWAY_KILLED, workers=frozenset(WORKERS))
    owner.kill()
    owner.start()
    owned.finish(Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE)


def test_replicas_are_restarted_one_after_another(owned: Owned) -> None:
    """What a replica owns goes to the others drained, and what its own workers have of others is waited for."""
    owned.produce()
    since_ns = time.monotonic_ns()
    for number, gateway in enumerate(owned.gateways):
        owned.run.wait_acknowledged(MESSAGES * (number + 1) // (REPLICAS + 2))
        owned.run.interruption(Cause.GATEWAY_STOPPED, workers=frozenset(WORKERS))
        gateway.restart()
    owned.finish(Cause.CLIENT_QUEUE)
    waits = sorted(owned.run.longest_waits(since_ns).values())
    p50, p99 = (waits[len(waits) * share // 100] / 1e9 for share in (50, 99))
    print(f"longest wait of a key: p50 {p50:.2f} s, p99 {p99:.2f} s")


def test_any_replica_answers_for_all_and_takes_orders(shared: Owned) -> None:
    """Who asks need not know where a subscription is, and an order holds wherever it was given."""
    owner = shared.owner()
    other = next(gateway for gateway in shared.gateways if gateway is not owner)
    path = f"/subscriptions/{shared.run.topic.removeprefix('persistent://')}/{SUBSCRIPTION}"
    asked = AdminClient(other.admin_url)
    found = asked.ask("GET", path)
    assert found["served_by"] == AdminClient(owner.admin_url).ask("GET", "/deployment")["replica"]
    assert {worker["name"] for worker in found["dispatcher"]["workers"]} == set(WORKERS)
    listed = asked.pages("/subscriptions", "subscriptions")
    assert shared.run.topic in [item["topic"] for item in listed["subscriptions"]]
    assert listed["unanswered"] == []
    asked.ask("POST", f"{path}/pause")
    shared.produce()
    eventually(
        lambda: asked.ask("GET", path)["dispatcher"]["waiting_messages"] > 0, "messages that wait for the pause to end"
    )
    assert shared.run.audit().delivered == 0
    asked.ask("POST", f"{path}/resume")
    shared.finish()


def test_an_order_outlives_the_owner_that_carries_it_out(owned: Owned) -> None:
    """A paused subscription stays so at the next owner, and every replica lists it; nothing was delivered meanwhile."""
    owner = owned.owner()
    other = next(gateway for gateway in owned.gateways if gateway is not owner)
    path = f"/subscriptions/{owned.run.topic.removeprefix('persistent://')}/{SUBSCRIPTION}"
    asked = AdminClient(other.admin_url)
    asked.ask("POST", f"{path}/pause")
    eventually(
        lambda: [order["paused"] for order in asked.ask("GET", "/orders")] == [True], "the order at all replicas"
    )
    owned.produce()
    owned.run.interruption(Cause.GATEWAY_KILLED, workers=frozenset(WORKERS))
    owner.kill()
    owner.start()
    owned.owner()
    found = asked.ask("GET", path)
    assert found["dispatcher"]["paused"]
    assert owned.run.audit().delivered == 0
    asked.ask("POST", f"{path}/resume")
    owned.finish()


def test_a_replica_is_drained_and_goes_on_to_serve_its_workers(shared: Owned) -> None:
    """What it shared goes to the others without a repetition, and it owns nothing until that is taken back."""
    owner = shared.owner()
    asked = AdminClient(next(gateway for gateway in shared.gateways if gateway is not owner).admin_url)
    name = AdminClient(owner.admin_url).ask("GET", "/deployment")["replica"]

    def bundles() -> dict[str, int]:
        return {row["replica"]: row["bundles"] for row in asked.ask("GET", "/deployment")["replicas"]}

    shared.produce()
    shared.run.wait_acknowledged(MESSAGES // 4)
    asked.ask("POST", f"/deployment/replicas/{name}/drain")
    eventually(lambda: bundles()[name] == 0, "a replica that owns nothing")
    assert shared.owner() is not owner
    assert AdminClient(owner.admin_url).ask("GET", "/deployment")["drained"]
    shared.run.wait_acknowledged(MESSAGES // 2)
    asked.ask("DELETE", f"/deployment/replicas/{name}/drain")
    eventually(lambda: bundles()[name] > 0, "a replica that owns its share")
    shared.finish()


def test_a_subscription_is_moved_by_an_operator(shared: Owned) -> None:
    """To the replica that is named, without a repetition; the order stands at all replicas."""
    owner = shared.owner()
    target = next(gateway for gateway in shared.gateways if gateway is not owner)
    asked = AdminClient(owner.admin_url)
    path = f"/subscriptions/{shared.run.topic.removeprefix('persistent://')}/{SUBSCRIPTION}"
    shared.produce()
    shared.run.wait_acknowledged(MESSAGES // 4)
    asked.ask("PUT", f"{path}/owner", json={"replica": f"replica-{shared.gateways.index(target)}"})
    eventually(lambda: shared.workers(target) == set(WORKERS), "the replica that is named to serve all workers")
    shared.finish()


@contextmanager
def bundles_moving(owned: Owned) -> Iterator[Callable[[], bool]]:
    """One replica after the other gives all that it owns to the others, and takes its share back.

    Gives what tells whether each has done so.
    """
    asked = AdminClient(owned.gateways[0].admin_url)
    names = [row["replica"] for row in asked.ask("GET", "/deployment")["replicas"]]
    moves = 0

    def move(over: threading.Event) -> None:
        nonlocal moves
        for name in itertools.cycle(names):
            for method in ("POST", "DELETE"):
                if over.wait(0.2):
                    asked.ask("DELETE", f"/deployment/replicas/{name}/drain")
                    return
                asked.ask(method, f"/deployment/replicas/{name}/drain")
                moves += 1

    with beside(move):
        yield lambda: moves >= 2 * len(names)
    assert moves >= 2 * len(names), "replicas gave too little away: this proves nothing"


def test_workers_that_come_while_bundles_move_are_all_let_in(shared: Owned) -> None:
    """Wherever they come: no client sees a refusal, which some would not get over before their time is up."""
    shared.owner()
    clients = [
        pulsar.Client(
            gateway.service_url,
            operation_timeout_seconds=OPERATION_S,
            logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
        )
        for gateway in shared.gateways
    ]

    def subscribe(number: int) -> float:
        """Three consumers of each subscription, at three replicas."""
        began = time.monotonic()
        clients[number % REPLICAS].subscribe(
            shared.run.topic, f"moving-{number // REPLICAS}", consumer_type=pulsar.ConsumerType.KeyShared
        )
        return time.monotonic() - began

    took: list[float] = []
    try:
        with bundles_moving(shared) as all_moved, ThreadPoolExecutor(AT_A_TIME) as pool:
            for first in range(0, SUBSCRIBED_MAX, SUBSCRIBED):
                took += pool.map(subscribe, range(first, first + SUBSCRIBED))
                if all_moved():
                    break
    finally:
        for client in clients:
            client.close()
    print(f"SUBSCRIBE: p50 {median(took):.2f} s, longest {max(took):.2f} s, of {len(took)}")
