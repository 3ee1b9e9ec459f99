"""Three implementations of the protocol that are not ours, unmodified: Python (over C++), Java and Go.

Java and Go run as their own load clients, which tell rates and counts but not what they received. So what they did is
seen at the broker, whose backlog is empty only when every entry was acknowledged, and at a Python worker beside them,
which must get all of a key or nothing of it. Producers pack mixed-key batches, as all clients do by default: every
worker gets slices, and each client has its own way of acknowledging them.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import pulsar
import pytest

from integration import tools
from integration.errors import ToolMissingError
from integration.gateway import KeylineGateway
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.logs import tail
from tests.integration.clients import by_key, key_shared, numbered, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import explain

MESSAGES = 20_000
KEYS = 300
RUN_S_MAX = 180.0
Statistics = Callable[[str], dict[str, Any]]
NewTopic = Callable[[str], str]

slow = pytest.mark.slow


class Served(Protocol):
    """A broker or a gateway, wherever it runs."""

    @property
    def service_url(self) -> str:
        """What clients connect to."""


@pytest.fixture(scope="session")
def go() -> None:
    """Go's load client, or a skip that says what is missing."""
    try:
        tools.ensure_go_perf()
    except ToolMissingError as error:
        pytest.skip(str(error))


def backlog(topic_statistics: Statistics, topic: str) -> int:
    """Entries of the load's subscription that are not acknowledged at the broker."""
    return int(topic_statistics(topic)["subscriptions"][SUBSCRIPTION]["msgBacklog"])


def workers_at(gateway: KeylineGateway, topic: str) -> list[dict[str, Any]]:
    """The gateway's view of the load's workers."""
    found = gateway.served(topic, SUBSCRIPTION)
    return list(found["dispatcher"]["workers"]) if found else []


def wait_for_workers(gateway: KeylineGateway, topic: str, count: int, *runs: tools.LoadRun) -> None:
    """Return when so many have joined; a load client that ended before is told with its log."""

    def joined() -> bool:
        for run in runs:
            assert run.running, tail(run.log)
        return len(workers_at(gateway, topic)) == count

    eventually(joined, f"{count} workers", RUN_S_MAX)


def java_worker(gateway: Served, topic: str, log: Path, *options: str) -> tools.LoadRun:
    """Start Java's consumer on the load's subscription."""
    arguments = ("-st", "Key_Shared", "-ss", SUBSCRIPTION, "-sp", "Earliest", *options, topic)
    return tools.pulsar_perf("consume", *arguments, service_url=gateway.service_url, log=log)


def go_worker(gateway: Served, topic: str, log: Path) -> tools.LoadRun:
    """Start Go's consumer on the load's subscription; 3 is Key_Shared there."""
    arguments = ("--subscription", SUBSCRIPTION, "--subscription-type", "3", topic)
    return tools.go_perf("consume", *arguments, service_url=gateway.service_url, log=log)


def test_python_workers_in_this_process_join_and_leave(client: pulsar.Client, new_topic: NewTopic) -> None:
    """The official client in process: keys move to a joining worker, and back when it has left."""
    topic = new_topic("in-process")
    keys = [f"key-{number}" for number in range(90)]
    producer = client.create_producer(topic, batching_enabled=True)
    workers = key_shared(client, topic, "a", "b")
    send_all(producer, numbered(keys, 270))
    workers.receive(270)
    before = workers.worker_of_each_key()
    workers.received.clear()
    workers.consumers |= key_shared(client, topic, "c").consumers
    send_all(producer, numbered(keys, 270))
    assert by_key(workers.receive(270)) == {key: [b"0", b"1", b"2"] for key in keys}
    between = workers.worker_of_each_key()
    assert {name for key, name in between.items() if name != before[key]} == {"c"}
    workers.received.clear()
    workers.consumers.pop("c").close()
    send_all(producer, numbered(keys, 270))
    workers.receive(270)
    assert workers.worker_of_each_key() == before


@slow
def test_java_produces_and_consumes(
    gateway: KeylineGateway,
    client: pulsar.Client,
    new_topic: NewTopic,
    topic_statistics: Statistics,
    tmp_path: Path,
) -> None:
    """`pulsar-perf produce` and `pulsar-perf consume -st Key_Shared` with four consumers, mixed-key batches."""
    topic = new_topic("java")
    producing = ("produce", "-mk", "random", "-r", "4000", "-m", str(MESSAGES), topic)
    with java_worker(gateway, topic, tmp_path / "consume.log", "-n", "4", "-m", str(MESSAGES)) as consumer:
        wait_for_workers(gateway, topic, 4, consumer)
        log = tmp_path / "produce.log"
        with tools.pulsar_perf(*producing, service_url=gateway.service_url, log=log) as producer:
            produced = producer.wait(RUN_S_MAX)[-1].message_count
            consumed = consumer.wait(RUN_S_MAX)[-1].message_count
    assert produced is not None
    assert consumed is not None
    assert MESSAGES <= consumed <= produced
    # It ends with its latest acknowledgements unsent; whoever comes next gets those messages.
    rest = key_shared(client, topic, "rest", subscription_name=SUBSCRIPTION)

    def all_acknowledged() -> bool:
        rest.receive_available()
        return backlog(topic_statistics, topic) == 0

    eventually(all_acknowledged, "an empty backlog")


@slow
@pytest.mark.usefixtures("go")
def test_go_produces_and_consumes(
    gateway: KeylineGateway, new_topic: NewTopic, topic_statistics: Statistics, tmp_path: Path
) -> None:
    """Its producer sets no keys: each batch has a key of its own, made of the producer's name and a number."""
    topic = new_topic("go")
    with go_worker(gateway, topic, tmp_path / "consume.log") as consumer:
        wait_for_workers(gateway, topic, 1, consumer)
        producing = ("--rate", "2000", topic)
        log = tmp_path / "produce.log"
        with tools.go_perf("produce", *producing, service_url=gateway.service_url, log=log):
            eventually(lambda: sum(item["acked_messages"] for item in workers_at(gateway, topic)) > 5_000, "its acks")
        eventually(lambda: backlog(topic_statistics, topic) == 0, "an empty backlog")


@slow
@pytest.mark.usefixtures("go")
def test_python_java_and_go_share_one_subscription(
    gateway: KeylineGateway, new_topic: NewTopic, topic_statistics: Statistics, tmp_path: Path
) -> None:
    """Each key has one worker among them, whatever its language, and every slice gets acknowledged."""
    topic = new_topic("three-languages")
    with (
        LoadRun(tmp_path / "load", gateway.service_url, topic) as run,
        java_worker(gateway, topic, tmp_path / "java.log") as in_java,
    ):
        # Python first: it creates the subscription at the topic's beginning.
        run.start_workers("python")
        with go_worker(gateway, topic, tmp_path / "go.log") as in_go:
            wait_for_workers(gateway, topic, 3, in_java, in_go)
            run.produce(count=MESSAGES, keys=KEYS, batching=Batching.DEFAULT, run_length=5).record()
            eventually(lambda: backlog(topic_statistics, topic) == 0, "an empty backlog", RUN_S_MAX)
            counts = {worker["name"]: worker["acked_messages"] for worker in workers_at(gateway, topic)}
            run.stop_worker("python")
    assert len(counts) == 3
    assert min(counts.values()) > 0, counts
    assert sum(counts.values()) == MESSAGES, counts
    result = run.finish(quiet_s_max=0)
    assert not result.order_violations, explain(result)
    assert not result.duplicates, explain(result)
    assert result.delivered == counts["python"], explain(result)
    elsewhere = {key for _, key, _ in result.missing}
    assert len(elsewhere) + result.keys == KEYS, "a key was at Python and elsewhere"
