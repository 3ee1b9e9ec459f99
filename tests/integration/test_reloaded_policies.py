"""Policies of keys that a reload of the configuration changes while messages wait: a real broker, the official client.

What workers saw is judged by their own records, and by the gateway's journal: by the policy in force at each moment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pulsar
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest

from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import SUBSCRIPTION, Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from spark_reports import duckdb_audit
from spark_reports.policy_spans import MS, policy_spans
from spark_reports.reading import open_journal
from tests.integration.clients import available, key_shared, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain
from tests.integration.parked_rig import parked
from tests.integration.redriver import Redriver
from tests.integration.test_admin_api import order

MESSAGES: Final = 3_000
LATER: Final = 1_500
STEP: Final = MESSAGES // 4
KEYS: Final = 40
"""So few that under a window of 1 the workers are slower than the producer: messages wait at each reload."""
WORKERS: Final = ("w1", "w2", "w3")
LEASE_MS: Final = 5_000
"""A worker keeps it on any machine if it works."""
DELAYED: Final = "key_window=1 park_after=20 retry_delay_ms=200"
LEASED: Final = f"key_window=4 park_after=20 retry_delay_ms=500 retry_multiplier=2 ack_lease_ms={LEASE_MS}"
PARKING: Final = "key_window=1 park_after=1"
WIDER: Final = "key_window=2"
IN_FORCE: Final = [(1, 200, 0), (4, 500, LEASE_MS), (1, 0, 0), (2, 0, 0)]
"""Window, retry delay and ack lease of each."""

NewTopic = Callable[[str], str]

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Rule:
    """The configuration's file of one gateway: a rule for all of its subscriptions."""

    def __init__(self, directory: Path, policy: str) -> None:
        self.file = directory / "keyline.toml"
        self._gateway: KeylineGateway | None = None
        self._write(policy)

    def holds_at(self, gateway: KeylineGateway) -> None:
        """Whose file it is."""
        self._gateway = gateway

    def hang_up(self, policy: str) -> None:
        """Another rule by SIGHUP, which answers nothing: it is in force when the configuration shows it."""
        assert self._gateway is not None
        written = self._write(policy)
        os.kill(self._gateway.pid, signal.SIGHUP)
        api = AdminClient(self._gateway.admin_url)
        eventually(lambda: api.ask("GET", "/configuration")["key_policies"]["value"] == written, "the rule")

    def reload(self, policy: str) -> None:
        """Another rule by the operator's command, which answers when it is in force."""
        assert self._gateway is not None
        self._write(policy)
        assert "key_policies" in order(self._gateway, "reload")

    def _write(self, policy: str) -> list[str]:
        written = [f"* * {policy}"] if policy else []
        self.file.write_text(f"key_policies = {written}\n")
        return written


@pytest.mark.parametrize("batching", [Batching.NONE, Batching.DEFAULT], ids=lambda batching: batching.value)
def test_policies_change_under_load_while_messages_wait(
    batching: Batching, pulsar: PulsarStandalone, start_gateway: StartGateway, new_topic: NewTopic, tmp_path: Path
) -> None:
    """What waits goes on under the new policy: nothing is lost, shared, or overtaken by what the window keeps back.

    Refused messages wait for their retry; then a worker that hangs loses its keys; then refused messages are parked
    with all that is behind them, and redriven all the time; then the rule asks for another window alone, but parking
    lasts as long as the subscription is here.
    """
    rule, root, topic = Rule(tmp_path, DELAYED), tmp_path / "journal", new_topic("reloaded")
    kept = {"journal": str(root), "journal_deliveries": "true", "journal_key_secret": "s", "journal_snapshot_s": "1"}
    gateway = start_gateway(pulsar, config=str(rule.file), **kept)
    rule.holds_at(gateway)
    redriver = Redriver(gateway, topic, SUBSCRIPTION)
    with LoadRun(tmp_path / "load", gateway.service_url, topic) as run, redriver.at_work():
        run.start_workers(*WORKERS, receiver_queue_size=20, ack_delay_ms=5, nack_fraction=0.05, nack_delay_ms=50)
        run.produce(count=MESSAGES, keys=KEYS, batching=batching)
        let_wait(run, gateway, STEP, "waiting_messages")
        rule.hang_up(LEASED)
        hang(run, gateway, "w1")
        run.produce(count=LATER, keys=KEYS, batching=batching)
        let_wait(run, gateway, 0, "waiting_messages")
        rule.reload(PARKING)
        let_wait(run, gateway, LATER // 5, "parked_slots")
        rule.hang_up(WIDER)
        result = run.finish()
    told = explain(result, gateway)
    assert (result.ok, result.connections_lost) == (True, 0), told
    assert result.delivered == result.acknowledged == MESSAGES + LATER, told
    causes = {Cause.NEGATIVE_ACK, Cause.BATCH_UNFINISHED, Cause.LEASE_LOST, Cause.CLIENT_QUEUE}
    assert set(result.duplicates_by_cause) <= causes, told
    assert redriver.redriven > 0, told
    assert gateway.stop() == 0
    judge(root)


def let_wait(run: LoadRun, gateway: KeylineGateway, count: int, what: str) -> None:
    """Return when so many more are acknowledged, and some wait, or are parked."""
    run.wait_acknowledged(run.progress.acknowledged + count)
    eventually(lambda: subscription(gateway, run.topic)["dispatcher"][what], what)


def subscription(gateway: KeylineGateway, topic: str) -> dict[str, Any]:
    """What the gateway tells of it."""
    found: dict[str, Any] = AdminClient(gateway.admin_url).ask("GET", subscription_path(topic, SUBSCRIPTION))
    return found


def hang(run: LoadRun, gateway: KeylineGateway, name: str) -> None:
    """A worker stands still until it has lost its keys and others have gone on with them; then it comes again."""

    def told() -> dict[str, Any]:
        return subscription(gateway, run.topic)

    run.interruption(Cause.LEASE_LOST, workers={name})
    run.workers[name].pause()
    eventually(lambda: told()["ack_leases_lost"] == 1, "the worker that hangs loses its ack lease")
    run.wait_acknowledged(run.progress.acknowledged + STEP // 4)
    run.workers[name].resume()
    eventually(lambda: name in {each["name"] for each in told()["dispatcher"]["workers"]}, "it comes again")


def judge(root: Path) -> None:
    """By the journal: each policy was in force and in use, and none was broken. It does not have what is redriven."""

    def table(name: str) -> Any:
        return ds.dataset(root / name, partitioning=ds.partitioning(flavor="hive")).to_table()

    policies = policy_spans(table("events").to_pylist()).policies
    names = ("key_window", "retry_delay_ns", "ack_lease_ns")
    seen = [tuple(row[name] // (MS if name.endswith("_ns") else 1) for name in names) for row in policies]
    assert seen == IN_FORCE
    deliveries = table("deliveries")
    assert {"given_up", "asked_for"} <= set(deliveries["why"].to_pylist())
    for policy in policies[:2]:
        at_ns = deliveries.filter(ds.field("event") == "sent")["at_ns"]
        meanwhile = pc.and_(pc.greater_equal(at_ns, policy["since_ns"]), pc.less(at_ns, policy["until_ns"]))
        assert pc.sum(meanwhile).as_py() > STEP // 2, policy
    found, _ = duckdb_audit.report(open_journal(str(root)))
    assert found.violations == 0, found.evidence


class Picky:
    """A worker that refuses some messages each time, and acknowledges the others."""

    def __init__(self, consumer: pulsar.Consumer, *refused: bytes) -> None:
        self.consumer = consumer
        self.refused = refused
        self.came: list[bytes] = []

    def works_until(self, condition: Callable[[], object], what: str) -> None:
        """Return once the condition holds."""

        def worked() -> bool:
            for message in available(self.consumer):
                self.came.append(message.data())
                refuses = message.data() in self.refused
                (self.consumer.negative_acknowledge if refuses else self.consumer.acknowledge)(message)
            return bool(condition())

        eventually(worked, what)


class Scene:
    """A gateway with a rule, its topic, and who looks at the dead letters."""

    def __init__(self, broker: PulsarStandalone, start: StartGateway, topic: str, directory: Path, policy: str) -> None:
        self.topic = topic
        self.rule = Rule(directory, policy)
        self.gateway = start(broker, config=str(self.rule.file))
        self.rule.holds_at(self.gateway)
        self.direct = pulsar.Client(broker.service_url)
        self.client = pulsar.Client(self.gateway.service_url)
        first = pulsar.InitialPosition.Earliest
        self._letters = self.direct.subscribe(f"{topic}-s-DLQ", "look", initial_position=first)
        self._producer = self.direct.create_producer(topic)
        self._came: list[bytes] = []

    def send(self, key: str, *contents: bytes) -> None:
        """Messages of a key."""
        send_all(self._producer, [(key, each) for each in contents])

    def worker(self, *refused: bytes) -> Picky:
        """One that comes again, if it was here: under its name."""
        workers = key_shared(self.client, self.topic, "a", negative_ack_redelivery_delay_ms=50)
        return Picky(workers.consumers["a"], *refused)

    def letters(self) -> list[bytes]:
        """Dead letters so far."""
        self._came += [message.data() for message in available(self._letters)]
        return self._came

    def parked(self, key: str) -> int:
        """How many messages of a key are."""
        return len(parked(self.gateway, self.topic, key))

    def close(self) -> None:
        """Both clients."""
        self.client.close()
        self.direct.close()


@pytest.fixture
def scene_of(
    pulsar: PulsarStandalone, start_gateway: StartGateway, new_topic: NewTopic, tmp_path: Path
) -> Iterator[Callable[[str], Scene]]:
    """Makes one scene with a first policy."""
    made: list[Scene] = []

    def make(policy: str) -> Scene:
        made.append(Scene(pulsar, start_gateway, new_topic("attempts"), tmp_path, policy))
        return made[-1]

    yield make
    for scene in made:
        scene.close()


def test_a_bound_on_attempts_lets_a_blocked_key_go_on_and_ends_with_the_rule(
    scene_of: Callable[[str], Scene],
) -> None:
    """What had its attempts before goes to the dead letters when it is refused once more; later without a bound."""
    scene = scene_of("key_window=1")
    worker = scene.worker(b"1", b"6")
    scene.send("k", b"0", b"1", b"2", b"3")
    worker.works_until(lambda: worker.came.count(b"1") >= 4, "the poisoned message comes again and again")
    assert set(worker.came) == {b"0", b"1"}
    assert scene.letters() == []
    scene.rule.reload("key_window=1 dead_letter_after=2")
    worker.works_until(lambda: b"3" in worker.came, "the key goes on")
    assert list(dict.fromkeys(worker.came)) == [b"0", b"1", b"2", b"3"]
    assert worker.came[-2:] == [b"2", b"3"]
    worker.works_until(lambda: scene.letters() == [b"1"], "its copy in the dead letters")
    scene.rule.hang_up("key_window=1")
    scene.send("k", b"6", b"7")
    worker.works_until(lambda: worker.came.count(b"6") >= 5, "the next one comes without a bound")
    assert b"7" not in worker.came
    assert scene.letters() == [b"1"]


def test_parking_goes_on_under_a_rule_of_dead_letters_until_the_workers_have_left(
    scene_of: Callable[[str], Scene],
) -> None:
    """What is parked stays so and is redriven; other keys are parked, too, and none has dead letters before."""
    scene = scene_of("key_window=1 park_after=2")
    worker = scene.worker(b"p1", b"q1")
    scene.send("p", b"p1", b"p2")
    worker.works_until(lambda: scene.parked("p") == 2, "a key is parked")
    scene.rule.hang_up("key_window=1 dead_letter_after=2")
    scene.send("p", b"p3")
    scene.send("q", b"q1", b"q2")
    worker.works_until(lambda: (scene.parked("p"), scene.parked("q")) == (3, 2), "both keys are parked")
    assert set(worker.came) == {b"p1", b"q1"}
    path = subscription_path(scene.topic, "s")
    api = AdminClient(scene.gateway.admin_url)
    well = Picky(worker.consumer)
    for key in ("p", "q"):
        api.ask("POST", f"{path}/parked/redrive", query={"key": key})
    well.works_until(lambda: not api.ask("GET", f"{path}/parked")["slots"], "nothing is parked")
    assert [each for each in well.came if each.startswith(b"p")] == [b"p1", b"p2", b"p3"]
    assert [each for each in well.came if each.startswith(b"q")] == [b"q1", b"q2"]
    assert scene.letters() == []
    worker.consumer.close()
    again = scene.worker(b"p4")
    scene.send("p", b"p4", b"p5")
    again.works_until(lambda: scene.letters() == [b"p4"], "the poisoned message in the dead letters")
    again.works_until(lambda: b"p5" in again.came, "the key goes on")
    assert again.came == [b"p4", b"p4", b"p5"]
