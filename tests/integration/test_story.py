"""The whole story of a deployment, told of processes and of containers, with both broker versions.

Deploy, produce, consume from three languages, roll the workers, ask the admin API, let Prometheus scrape, kill the
broker, kill a gateway, roll the replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.errors import ToolMissingError
from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from tests.integration.busy_replicas import note_standstills
from tests.integration.conditions import eventually
from tests.integration.conftest import explain
from tests.integration.deployments import REPLICAS, Deployment, Gateway, as_containers, as_processes
from tests.integration.exclusive_rig import administer
from tests.integration.prometheus import RULES, prometheus
from tests.integration.test_clients import go_worker, java_worker

PLACES = {"processes": as_processes, "containers": as_containers}
MESSAGES = 4_000
RATE_PER_S = 600.0
KEYS = 200
WORKERS = ("w0", "w1", "w2", "w3")
RUN_S_MAX = 180.0

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture(
    scope="module",
    params=[(place, version) for place in PLACES for version in PULSAR_VERSIONS],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def deployment(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Two replicas in front of a broker, in each place and of each version."""
    place, version = request.param
    with ExitStack() as stack:
        try:
            deployed = stack.enter_context(PLACES[place](version, tmp_path_factory.mktemp("story")))
        except ToolMissingError as error:
            pytest.skip(str(error))
        yield deployed


@pytest.fixture
def loaded(deployment: Deployment, new_topic: Callable[[str], str], tmp_path: Path) -> Iterator[LoadRun]:
    """Two workers at each replica, and messages that come."""
    with LoadRun(tmp_path, deployment.url(), new_topic("story"), producer_url=deployment.broker.service_url) as run:
        for number, name in enumerate(WORKERS):
            run.start_worker(name, service_url=deployment.url(number % 2), receiver_queue_size=20, ack_delay_ms=5)
        for worker in run.workers.values():
            worker.wait_joined()
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S, batching=Batching.DEFAULT)
        run.wait_acknowledged(MESSAGES // 8)
        yield run


def judge(deployment: Deployment, run: LoadRun, *causes: Cause) -> None:
    """Complete, in order, and repeated for no other causes than these, and what clients do with batches by default."""
    run.wait_acknowledged(MESSAGES)
    of_processes = [each.log for each in deployment.gateways if isinstance(each, KeylineGateway)]
    allowed = {Cause.BATCH_UNFINISHED, *causes, *note_standstills(run, *of_processes)}
    result = run.finish()
    assert result.ok, explain(result)
    assert result.delivered == result.acknowledged == MESSAGES, explain(result)
    assert set(result.duplicates_by_cause) <= allowed, explain(result)


def workers_at(deployment: Deployment, topic: str) -> dict[str, dict[str, Any]]:
    """All workers of a topic, by name, as the replicas know them."""
    return {
        worker["name"]: worker
        for gateway in deployment.gateways
        for item in gateway.statistics()["subscriptions"]
        if item["topic"] == topic
        for worker in item["dispatcher"]["workers"]
    }


def serving(deployment: Deployment, topic: str) -> Gateway:
    """The replica that owns the subscription and serves all its workers, as soon as one does."""
    found: list[Gateway] = []

    def serves() -> bool:
        found[:] = [each for each in deployment.gateways if each.workers(topic, SUBSCRIPTION) == set(WORKERS)]
        return len(found) == 1

    eventually(serves, "one replica that serves all workers")
    return found[0]


def backlog(deployment: Deployment, topic: str) -> int:
    """Entries that are not acknowledged at the broker."""
    return int(administer(deployment.broker, "GET", topic, "stats")["subscriptions"][SUBSCRIPTION]["msgBacklog"])


def test_the_broker_is_of_the_version_it_is_said_to_be(deployment: Deployment) -> None:
    """By its own word, so that a table of versions speaks of what was tested."""
    with deployment.broker.admin() as http:
        assert http.get("/admin/v2/brokers/version").raise_for_status().text == deployment.broker.version


def test_three_languages_share_a_subscription(
    deployment: Deployment, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Python, Java and Go at two replicas: each gets keys, and everything is acknowledged once."""
    topic = new_topic("languages")
    first, second = deployment.gateways
    with (
        LoadRun(tmp_path / "load", first.service_url, topic) as run,
        java_worker(second, topic, tmp_path / "java.log"),
    ):
        run.start_workers("python")
        with go_worker(first, topic, tmp_path / "go.log"):
            eventually(lambda: len(workers_at(deployment, topic)) == 3, "three workers", RUN_S_MAX)
            run.produce(count=MESSAGES, keys=KEYS, batching=Batching.NONE).record()
            eventually(lambda: backlog(deployment, topic) == 0, "an empty backlog", RUN_S_MAX)
            counts = {name: worker["acked_messages"] for name, worker in workers_at(deployment, topic).items()}
            run.stop_worker("python")
    assert min(counts.values()) > 0, counts
    assert sum(counts.values()) == MESSAGES, counts
    result = run.finish(quiet_s_max=0)
    assert not result.order_violations, explain(result)
    assert not result.duplicates, explain(result)
    elsewhere = {key for _, key, _ in result.missing}
    assert len(elsewhere) + result.keys == KEYS, "a key was at Python and elsewhere"


def test_workers_are_rolled(deployment: Deployment, loaded: LoadRun) -> None:
    """Each leaves in peace and comes back under load: nothing comes twice."""
    for number, name in enumerate(WORKERS):
        loaded.stop_worker(name)
        loaded.start_worker(name, service_url=deployment.url(number % 2), ack_delay_ms=5).wait_joined()
    judge(deployment, loaded)


def test_an_operator_looks(deployment: Deployment, loaded: LoadRun, tmp_path: Path) -> None:
    """The owner has all workers, each replica knows the others, and Prometheus has scraped what was acknowledged."""
    owner = serving(deployment, loaded.topic)
    first, _ = deployment.gateways
    deployed = httpx.get(f"{first.admin_url}/api/v1/deployment", trust_env=False, timeout=30).raise_for_status().json()
    names = {replica["replica"].rpartition("-")[0] for replica in deployed["replicas"]}  # without the process's digest
    assert names == set(REPLICAS)
    target = owner.admin_url.removeprefix("http://")
    with prometheus(tmp_path / "prometheus", {"keyline": {}}, target, RULES) as scraping:
        eventually(
            lambda: scraping.now("sum(keyline_subscription_acked_messages_total) > 0"), "a scrape of acknowledgements"
        )
        eventually(lambda: scraping.now("keyline_deployment_bundles > 0"), "a scrape of the deployment")
    judge(deployment, loaded)


def test_the_broker_is_killed(deployment: Deployment, loaded: LoadRun) -> None:
    """Workers keep their connections; messages may come again that they have acknowledged, and none is lost."""
    with loaded.paused(Cause.BROKER_STOPPED):
        deployment.broker.kill()
        deployment.broker.start()
        loaded.wait_acknowledged(MESSAGES // 2)
    judge(deployment, loaded, Cause.BROKER_STOPPED, Cause.SENT_TWICE, Cause.CLIENT_QUEUE)


def test_a_gateway_is_killed(deployment: Deployment, loaded: LoadRun) -> None:
    """All workers go to the other replica, which owns it then and delivers again at most what they had."""
    victim = serving(deployment, loaded.topic)
    loaded.interruption(Cause.GATEWAY_KILLED)
    victim.kill()
    loaded.wait_acknowledged(MESSAGES // 2)
    victim.start()
    judge(deployment, loaded, Cause.GATEWAY_KILLED, Cause.CLIENT_QUEUE)


def test_replicas_are_rolled(deployment: Deployment, loaded: LoadRun) -> None:
    """One after the other, as a Deployment does: each ends in peace, and nothing comes twice."""
    for number, gateway in enumerate(deployment.gateways):
        assert gateway.stop() == 0
        gateway.start()
        loaded.wait_acknowledged(MESSAGES * (number + 2) // 6)
    judge(deployment, loaded)
