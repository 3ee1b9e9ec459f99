"""Several gateways, one subscription: replicas as processes, on real brokers, under load, audited by the clients.

Workers know all replicas, as a Kubernetes Service would show them, and connect to any.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import httpx
import pulsar
import pytest
from pyspark.sql import SparkSession

from integration.gateway import KeylineGateway, service_url_of
from integration.load.audit import AuditResult
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from proxy.groups.streams import STREAMS_DEFAULT, GroupId
from proxy.net.group.topic_name import group_topic_name
from spark_reports import leases
from spark_reports.reading import open_journal
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain
from tests.integration.exclusive_rig import administer, stream_holders

MESSAGES = 12_000
RATE_PER_S = 600.0
KEYS = 500
REPLICAS = 3
NAMES = tuple(f"replica-{number}" for number in range(REPLICAS))
WORKERS = tuple(f"w{number}" for number in range(2 * REPLICAS))
RECEIVER_QUEUE_SIZE = 20
KEEP_ALIVE_S = 3
PAUSES = 2
SINCE = 1_000
"""Messages that the others deliver before the paused one wakes up."""

OF_A_DEATH = {Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE}
OF_A_PAUSE = {Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE}

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Cluster:
    """Replicas of one service."""

    def __init__(self, *gateways: KeylineGateway) -> None:
        self.gateways = gateways

    def url(self, first: int) -> str:
        """All replicas, beginning with one of them."""
        return service_url_of(self.gateways, first)

    def leaders(self, topic: str) -> list[tuple[int, KeylineGateway]]:
        """Those that lead the group of this topic, or believe so, with their epochs."""
        found = []
        for gateway in self.gateways:
            if gateway.running:
                groups = httpx.get(f"{gateway.admin_url}/api/v1/groups", trust_env=False, timeout=30).json()["groups"]
                found += [(group["epoch"], gateway) for group in groups if group["topic"] == topic and group["leads"]]
        return found


@pytest.fixture(scope="module")
def module_broker_settings() -> dict[str, str]:
    """Silent connections are given up soon."""
    return {"keepAliveIntervalSeconds": str(KEEP_ALIVE_S)}


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    """Where all replicas write their events."""
    return tmp_path / "journal"


@pytest.fixture
def cluster(module_broker: PulsarStandalone, start_gateway: StartGateway, journal: Path) -> Cluster:
    """Three replicas in front of each broker version in turn."""
    settings = {"groups_enabled": "true", "groups_mode": "streams", "journal": str(journal)}
    return Cluster(*[start_gateway(module_broker, replica_name=name, **settings) for name in NAMES])


@pytest.fixture
def loaded(
    cluster: Cluster,
    module_broker: PulsarStandalone,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> Iterator[LoadRun]:
    """Workers of all replicas have joined, every replica has streams, and messages come."""
    topic = new_topic("replicas")
    with LoadRun(tmp_path, cluster.url(0), topic, producer_url=module_broker.service_url) as run:
        for number, name in enumerate(WORKERS):
            url = cluster.url(number % REPLICAS)
            run.start_worker(name, service_url=url, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=5)
        for worker in run.workers.values():
            worker.wait_joined()
        eventually(lambda: spread(module_broker, topic, REPLICAS), "streams at every replica")
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S)
        yield run


def spread(broker: PulsarStandalone, topic: str, replicas: int) -> bool:
    """Whether so many replicas consume all streams."""
    return len(stream_holders(broker, topic)) == replicas


def others_have_all(broker: PulsarStandalone, topic: str, replica: str) -> bool:
    """Whether all streams are consumed, and none by this one."""
    having = stream_holders(broker, topic)
    return bool(having) and replica not in having


def check(result: AuditResult, cluster: Cluster, causes: set[Cause]) -> None:
    """Complete, in order, and repeated for no other causes than these."""
    assert result.ok, explain(result, *cluster.gateways)
    assert result.delivered == result.acknowledged == MESSAGES, explain(result, *cluster.gateways)
    assert set(result.duplicates_by_cause) <= causes, explain(result, *cluster.gateways)


def test_replicas_are_restarted_one_after_another(cluster: Cluster, loaded: LoadRun) -> None:
    """What a replica has goes to the others before it stops: nothing comes twice."""
    for number, gateway in enumerate(cluster.gateways):
        loaded.wait_acknowledged(MESSAGES * (number + 1) // (REPLICAS + 2))
        gateway.restart()
    check(loaded.finish(), cluster, set())


def test_replicas_are_killed(
    cluster: Cluster, loaded: LoadRun, module_broker: PulsarStandalone, journal: Path, spark: SparkSession
) -> None:
    """The others go on with what it had when it has certainly stopped: again at most what workers had, and in order."""
    leading = set()
    for number, gateway in enumerate(cluster.gateways):
        loaded.wait_acknowledged(MESSAGES * (number + 1) // (REPLICAS + 2))
        leading |= {NAMES[cluster.gateways.index(leader)] for _, leader in cluster.leaders(loaded.topic)}
        loaded.interruption(Cause.GATEWAY_KILLED, workers=gateway.workers(loaded.topic, SUBSCRIPTION))
        gateway.kill()
        gateway.start()
    # On a busy machine a gateway starts so slowly that there may be no message left for what the last one had.
    eventually(lambda: bool(stream_holders(module_broker, loaded.topic)), "all streams to be leased again")
    check(loaded.finish(), cluster, OF_A_DEATH)
    for gateway in cluster.gateways:
        assert gateway.stop() == 0
    judge_journal(spark, journal, leading)


def judge_journal(spark: SparkSession, root: Path, leading: set[str]) -> None:
    """What the replicas' journals say of their group is what was seen of it. All clocks are this machine's."""
    events = open_journal(str(root)).read(spark, "events").cache()
    reigns = leases.leaders(events).collect()
    first = reigns[0].epoch
    assert [reign.epoch for reign in reigns] == list(range(first, first + len(reigns)))
    assert {reign.gateway for reign in reigns} >= leading
    moved = leases.hand_overs(events).collect()
    streams = {(STREAMS_DEFAULT, stream) for stream in range(STREAMS_DEFAULT)}
    assert {(one.streams_count, one.stream) for one in moved} == streams
    told = [one for one in moved if one.lost_wall_ns is not None]
    assert len(told) < len(moved), "who is killed cannot tell what it lost"
    assert all(one.lost_wall_ns <= one.gained_wall_ns for one in told), "a stream at two replicas at once"


def test_a_replica_is_paused_for_longer_than_its_leases(
    cluster: Cluster, module_broker: PulsarStandalone, loaded: LoadRun
) -> None:
    """It wakes up with messages on its socket that others have delivered since, and delivers none of them.

    The broker lets nobody have its streams before it has given up its connection.
    """
    for number, gateway in enumerate(cluster.gateways[:PAUSES]):
        loaded.wait_acknowledged(MESSAGES * (number + 1) // (PAUSES + 2))
        with loaded.paused(Cause.GATEWAY_PAUSED, gateway.workers(loaded.topic, SUBSCRIPTION)):
            gateway.pause()
            eventually(
                partial(others_have_all, module_broker, loaded.topic, NAMES[number]), "the others to have its streams"
            )
            loaded.wait_acknowledged(min(loaded.progress.acknowledged + SINCE, MESSAGES))
        gateway.resume()
    check(loaded.finish(), cluster, OF_A_PAUSE)


def test_topics_are_unloaded_under_replicas(cluster: Cluster, module_broker: PulsarStandalone, loaded: LoadRun) -> None:
    """The group's, whose broker forgets who waits to lead, and the subscription's own: nothing comes twice.

    The leader stops afterwards, and another leads all the same.
    """
    for number in range(2):
        loaded.wait_acknowledged(MESSAGES * (number + 1) // 5)
        for topic in (group_topic_name("public/default", GroupId(loaded.topic, SUBSCRIPTION)), loaded.topic):
            administer(module_broker, "PUT", topic, "unload")
    eventually(lambda: len(cluster.leaders(loaded.topic)) == 1, "one leader")
    epoch, leader = cluster.leaders(loaded.topic)[0]
    # Who stops while its streams are not back yet cannot tell the broker what its workers have acknowledged.
    eventually(lambda: spread(module_broker, loaded.topic, REPLICAS), "all streams to be back")
    leader.stop()
    eventually(lambda: len(cluster.leaders(loaded.topic)) == 1, "another leader")
    assert cluster.leaders(loaded.topic)[0][0] > epoch
    leader.start()
    check(loaded.finish(), cluster, {Cause.SENT_TWICE})


def test_the_broker_restarts_under_replicas(cluster: Cluster, module_broker: PulsarStandalone, loaded: LoadRun) -> None:
    """Nobody can lead meanwhile and leases run out; what workers had may come again, and nothing comes out of order."""
    loaded.wait_acknowledged(MESSAGES // 3)
    with loaded.paused(Cause.BROKER_STOPPED):
        module_broker.restart()
        eventually(lambda: spread(module_broker, loaded.topic, REPLICAS), "streams at every replica")
        eventually(lambda: len(cluster.leaders(loaded.topic)) == 1, "one leader")
    check(loaded.finish(), cluster, {Cause.BROKER_STOPPED, Cause.SENT_TWICE, Cause.CLIENT_QUEUE})


def test_a_groups_memory_is_kept_and_does_not_grow(
    module_broker: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
) -> None:
    """A broker deletes what no subscription needs: the last record is needed, and nothing before it."""
    gateways = [
        start_gateway(module_broker, groups_enabled="true", groups_mode="streams", replica_name=name)
        for name in NAMES[:2]
    ]
    topic = new_topic("remembered")
    memory = group_topic_name("public/default", GroupId(topic, SUBSCRIPTION))

    def kept() -> int:
        return int(administer(module_broker, "GET", memory, "stats")["subscriptions"]["keyline-group"]["msgBacklog"])

    def joined(gateway: KeylineGateway) -> pulsar.Client:
        client = pulsar.Client(gateway.service_url)
        client.subscribe(topic, SUBSCRIPTION, consumer_type=pulsar.ConsumerType.KeyShared)
        return client

    def leader() -> list[tuple[int, KeylineGateway]]:
        return Cluster(*gateways).leaders(topic)

    present = joined(gateways[0])
    eventually(leader, "a leader")
    epochs = [leader()[0][0]]
    for number in (1, 2, 3):
        other = joined(gateways[number % 2])
        present.close()
        present = other
        eventually(lambda: [at for _, at in leader()] == [gateways[number % 2]], "the other to lead")  # noqa: B023 - it is called before the next
        epochs.append(leader()[0][0])
        administer(module_broker, "PUT", memory, "unload")
        assert kept() >= 1, "the last record"
        eventually(leader, "a leader again")
    assert epochs == sorted(set(epochs)), "each leader knows of those before it"
    eventually(lambda: kept() == 1, "the last record alone to be kept")
    present.close()
