"""Workers in Python, Java and Go at different replicas share a subscription, whose owner changes, or hangs.

Java and Go tell rates and counts only. So what they did is seen at the broker, whose backlog is empty only when every
message was acknowledged, and at Python's workers, which must not get a key's messages out of order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import pytest

from integration import tools
from integration.artifacts import PULSAR_VERSIONS
from integration.errors import ToolMissingError
from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient
from tests.integration.conditions import eventually
from tests.integration.conftest import explain
from tests.integration.faults.owner_waits import frozen
from tests.integration.owner_rig import MESSAGES, REPLICAS, WORKERS, Owned, owned_subscription
from tests.integration.test_clients import RUN_S_MAX, backlog, go_worker, java_worker, workers_at

ALL: Final = len(WORKERS) + 2

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def owned(broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[Owned]:
    """Three replicas, with Python's workers at each."""
    try:
        tools.ensure_go_perf()
    except ToolMissingError as error:
        pytest.skip(str(error))
    with owned_subscription(broker, new_topic("languages"), tmp_path) as owned:
        yield owned


def owner_of_all(owned: Owned) -> KeylineGateway | None:
    """The replica that serves all workers, if one does."""
    serving = [gateway for gateway in owned.gateways if owned.workers(gateway)]
    return serving[0] if len(serving) == 1 and len(owned.workers(serving[0])) == ALL else None


def wait_for_owner(owned: Owned, but: KeylineGateway | None = None) -> KeylineGateway:
    """Return the replica that serves all workers, as soon as one does."""
    found: list[KeylineGateway] = []

    def serves() -> bool:
        owner = owner_of_all(owned)
        found[:] = [] if owner is None or owner is but else [owner]
        return bool(found)

    eventually(serves, "one replica that serves all workers", RUN_S_MAX)
    return found[0]


def acknowledged(gateway: KeylineGateway, topic: str) -> dict[str, int]:
    """How many messages each worker has acknowledged at this replica."""
    return {worker["name"]: worker["acked_messages"] for worker in workers_at(gateway, topic)}


def test_workers_in_three_languages_follow_the_owner(
    owned: Owned, topic_statistics: Callable[[str], dict[str, object]], tmp_path: Path
) -> None:
    """From any replica; when the subscription moves, clients of each language go on at the next owner."""
    topic = owned.run.topic
    owner = owned.owner()
    beside = [gateway for gateway in owned.gateways if gateway is not owner]
    assert len(beside) == REPLICAS - 1
    with (
        java_worker(beside[0], topic, tmp_path / "java.log") as in_java,
        go_worker(beside[1], topic, tmp_path / "go.log") as in_go,
    ):
        assert wait_for_owner(owned) is owner
        owned.produce()
        owned.run.wait_acknowledged(MESSAGES // 5)
        eventually(lambda: all(acknowledged(owner, topic).values()), "something that each worker acknowledged")
        before = acknowledged(owner, topic)
        path = f"/subscriptions/{topic.removeprefix('persistent://')}/{SUBSCRIPTION}/owner"
        AdminClient(beside[0].admin_url).ask(
            "PUT", path, json={"replica": f"replica-{owned.gateways.index(beside[1])}"}
        )
        assert wait_for_owner(owned, but=owner) is beside[1]
        eventually(lambda: backlog(topic_statistics, topic) == 0, "an empty backlog", RUN_S_MAX)
        after = acknowledged(beside[1], topic)
        assert in_java.running
        assert in_go.running
        for name in WORKERS:
            owned.run.stop_worker(name)
    assert min(after.values()) > 0, after
    assert before.keys() == after.keys()
    result = owned.run.finish(quiet_s_max=0)
    assert not result.order_violations, explain(result)
    assert not result.duplicates, explain(result)


@pytest.mark.parametrize("broker", ["pulsar"], indirect=True, ids=PULSAR_VERSIONS[:1], scope="session")
def test_workers_in_three_languages_go_on_while_the_owner_hangs(
    owned: Owned, topic_statistics: Callable[[str], dict[str, object]], tmp_path: Path
) -> None:
    """All is acknowledged before it goes on, by clients of each language at replicas that do not hang."""
    topic = owned.run.topic
    owner = owned.owner()
    beside = [gateway for gateway in owned.gateways if gateway is not owner]
    with (
        java_worker(beside[0], topic, tmp_path / "java.log"),
        go_worker(beside[1], topic, tmp_path / "go.log"),
    ):
        assert wait_for_owner(owned) is owner
        owned.produce()
        owned.run.wait_acknowledged(MESSAGES // 5)
        with owned.run.paused(Cause.GATEWAY_PAUSED, WORKERS), frozen(owner):
            owned.run.producers[-1].record()
            eventually(lambda: backlog(topic_statistics, topic) == 0, "an empty backlog", RUN_S_MAX)
            after = [acknowledged(gateway, topic) for gateway in beside if owned.workers(gateway)]
        for name in WORKERS:
            owned.run.stop_worker(name)
    (of_next_owner,) = after
    of_others = {name: count for name, count in of_next_owner.items() if name not in WORKERS}
    assert len(of_others) == ALL - len(WORKERS), of_next_owner
    assert min(of_others.values()) > 0, of_next_owner
    result = owned.run.finish(quiet_s_max=0)
    assert not result.order_violations, explain(result)
    assert set(result.duplicates_by_cause) <= {Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE}, explain(result)
