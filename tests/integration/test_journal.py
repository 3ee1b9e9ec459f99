"""The journal of a real gateway in front of a real broker, beside what the clients of the same run saw."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's documentation has it

from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.options import Batching
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from proxy.journal.schema import OPEN_DIRECTORY
from spark_reports import duckdb_audit
from spark_reports.drains import UNKNOWN, with_causes
from spark_reports.jobs import SECTIONS
from spark_reports.policy_spans import policy_spans
from spark_reports.reading import open_journal
from spark_reports.run import report
from tests.integration import broken_gateway
from tests.integration.clients import available, key_shared, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain

ROWS_BYTES = 4_000
"""More than an open file has before the first of its rows."""
MESSAGES = 12_000
STEP = MESSAGES // 4
"""So many are acknowledged between two things that happen, however long those take: the producer goes on meanwhile."""
KEYS = 500
QUEUE = 50
SLOW_MS = 50
"""So that workers always have something unacknowledged, and slots that move have to drain."""
WORKERS = ("w1", "w2", "w3")
POLICIES = {
    "key_window": "1",
    "retry_delay_ms": "100",
    "retry_multiplier": "1.2",
    "park_after": "12",
    "ack_lease_ms": "5000",
}
PATIENCE_S = 180.0
"""For what the clients of a busy machine must come to."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def newest(pulsar: PulsarStandalone) -> PulsarStandalone:
    """The shared broker of one version, for what does not depend on it; `pulsar` is the client's name here."""
    return pulsar


both_ways = pytest.mark.parametrize("batching", [Batching.NONE, Batching.DEFAULT], ids=lambda batching: batching.value)


def journaled(start: StartGateway, broker: PulsarStandalone, root: Path, **settings: str) -> KeylineGateway:
    """A gateway that writes everything down."""
    values = {"journal": str(root), "journal_deliveries": "true", "journal_key_secret": "s", **settings}
    return start(broker, **values)


def table(root: Path, name: str) -> pa.Table:
    """All that is published of a table."""
    return ds.dataset(root / name, partitioning=ds.partitioning(flavor="hive")).to_table()


def rows(root: Path, name: str) -> list[dict[str, Any]]:
    """The same, row by row in order of time."""
    found: list[dict[str, Any]] = table(root, name).to_pylist()
    return sorted(found, key=lambda row: row["wall_ns"])


def identities(root: Path, event: str) -> list[tuple[int, int, int]]:
    """Positions of the messages of these rows."""
    found = table(root, "deliveries").filter(ds.field("event") == event)
    columns = [found[name].to_pylist() for name in ("ledger", "entry", "batch_index")]
    return list(zip(*columns, strict=True))


def freeze(run: LoadRun, gateway: KeylineGateway, name: str) -> None:
    """Stop a worker where it holds something, so that not the machine's pace decides whether it does."""
    run.workers[name].pause()

    def holds() -> bool:
        (found,) = (each for each in gateway.statistics()["subscriptions"] if each["topic"] == run.topic)
        (held,) = (each["unacked_messages"] for each in found["dispatcher"]["workers"] if each["name"] == name)
        return bool(held >= QUEUE // 2)

    eventually(holds, f"{name} to hold half of what its queue takes")


def join_beside_a_frozen_one(run: LoadRun, gateway: KeylineGateway, name: str, frozen: str) -> None:
    """Let a worker join while another holds messages of slots that move: these have to drain."""
    freeze(run, gateway, frozen)
    run.start_workers(name, receiver_queue_size=QUEUE, ack_delay_ms=SLOW_MS)
    run.workers[frozen].resume()


@both_ways
def test_the_journal_says_what_the_clients_saw(
    batching: Batching,
    broker: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """Every delivery and acknowledgement of rolling workers, each join, leave, hand-over and what came back.

    And whoever judges by it finds the same numbers, and nothing wrong.
    """
    root = tmp_path / "journal"
    gateway = journaled(start_gateway, broker, root, journal_snapshot_s="1")
    topic = new_topic("journaled")
    with LoadRun(tmp_path / "load", gateway.service_url, topic) as run:
        run.start_workers(*WORKERS, receiver_queue_size=QUEUE, ack_delay_ms=SLOW_MS)
        producer = run.produce(keys=KEYS, rate_per_s=2_000.0, batching=batching)
        run.wait_acknowledged(STEP)
        join_beside_a_frozen_one(run, gateway, "w4", "w1")
        run.wait_acknowledged(2 * STEP)
        run.stop_worker("w2")
        run.wait_acknowledged(3 * STEP)
        freeze(run, gateway, "w1")
        run.kill_worker("w1")
        run.wait_acknowledged(4 * STEP)
        producer.stop()
        result = run.finish()
        assert result.ok, explain(result, gateway)
        statistics = httpx.get(f"{gateway.admin_url}/metrics", trust_env=False, timeout=30).text
    assert gateway.stop() == 0
    assert "keyline_gateway_journal_well 1.0" in statistics
    sent, acked = identities(root, "sent"), identities(root, "acked")
    assert len(set(acked)) == result.acknowledged == result.confirmed >= MESSAGES
    assert len(acked) == len(set(acked)), "nothing is acknowledged twice here"
    assert set(sent) == set(acked)
    assert result.deliveries <= len(sent), "a killed worker's client may have had what its application never got"
    returned = identities(root, "returned")
    assert len(sent) == len(acked) + len(returned)
    assert sum(row["messages"] for row in rows(root, "redeliveries")) == len(returned) > 0
    deliveries = table(root, "deliveries")
    assert len(set(deliveries["key_digest"].to_pylist())) == KEYS
    assert set(deliveries["consumer"].to_pylist()) == {*WORKERS, "w4"}
    events = rows(root, "events")
    kinds = [event["kind"] for event in events]
    assert kinds.count("worker_joined") == kinds.count("worker_left") == len(WORKERS) + 1
    in_time = sorted(events, key=lambda event: (event["at_ns"], event["number"]))
    assert [event["number"] for event in in_time] == sorted(event["number"] for event in events)
    handed_over = sum(
        json.loads(event["facts"])["hand_overs_count"] for event in events if event["kind"] == "drains_ended"
    )
    assert len(rows(root, "drains")) == handed_over > 0
    numbers = {row["name"] for row in rows(root, "metrics") if row["topic"] == topic}
    assert {"keyline_subscription_workers", "keyline_subscription_draining_hashes"} <= numbers
    found = report(spark, str(root), None)
    assert (found.violations, found.caveats) == (0, []), found.evidence
    assert found.totals == {
        "messages": result.confirmed,
        "deliveries": len(sent),
        "acked": result.confirmed,
        "returned": len(returned),
        "dropped": 0,
        "again_after_return": len(sent) - result.confirmed,
        "again_after_drop": 0,
        "again_in_another_life": 0,
        "keys": KEYS,
        "outstanding": 0,
        "waiting": 0,
        "consumers": len(WORKERS) + 1,
        "lives": 1,
        "gateways": 1,
    }


def test_a_whole_report_on_a_real_journal(
    newest: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """Every job runs over what a gateway wrote, and says what the clients saw."""
    root, out = tmp_path / "journal", tmp_path / "report"
    gateway = journaled(start_gateway, newest, root, journal_snapshot_s="1", journal_roll_s="2")
    with LoadRun(tmp_path / "load", gateway.service_url, new_topic("reported")) as run:
        run.start_workers(*WORKERS, receiver_queue_size=QUEUE, ack_delay_ms=SLOW_MS)
        producer = run.produce(keys=KEYS, rate_per_s=1_000.0)
        run.wait_acknowledged(STEP // 2)
        join_beside_a_frozen_one(run, gateway, "w4", "w1")
        run.wait_acknowledged(2 * STEP)
        producer.stop()
        result = run.finish()
    assert gateway.stop() == 0
    found = report(spark, str(root), out)
    assert (found.violations, found.caveats) == (0, []), found.evidence
    assert found.totals["messages"] == result.delivered == result.confirmed >= 2 * STEP
    tables = {path.stem: pq.read_table(path) for path in (out / "tables").iterdir()}
    assert pc.sum(tables["drains"]["hand_overs"]).as_py() == len(rows(root, "drains")) > 0
    assert pc.sum(tables["latency"]["acked"]).as_py() == result.confirmed
    assert tables["key_gini"]["keys"].to_pylist() == [KEYS]
    assert set(tables["key_shares"]["consumer"].to_pylist()) == {*WORKERS, "w4"}
    assert tables["forecast"]["workers"].to_pylist() == [len(WORKERS) + 1]
    assert tables["draining"].num_rows > 0
    page = (out / "index.html").read_text()
    assert found.line in page
    assert page.count("<svg") == len([plot for section in SECTIONS for plot in section.plots])
    assert found.coverage.words in page
    assert (found.coverage.counted > STEP, found.coverage.deliveries_share) == (True, 1.0)
    gone = max(root.glob("deliveries/*/*/*/*.parquet"), key=lambda file: file.stat().st_size)
    missing = pq.read_table(gone)["event"].to_pylist().count("sent")
    gone.unlink()
    less = report(spark, str(root), None).coverage
    assert found.coverage.found - missing <= less.found < found.coverage.found == less.counted


def test_the_cause_that_a_report_names_is_what_was_done(
    newest: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """Workers join, leave and crash beside ones that hold messages: each drain came from what was done as it began.

    Of the same journal as version 1 wrote it, the report names the same causes or none.
    """
    root, done = tmp_path / "journal", list[tuple[int, str]]()
    gateway = journaled(start_gateway, newest, root)

    def now(what: str) -> None:
        done.append((time.time_ns(), what))

    with LoadRun(tmp_path / "load", gateway.service_url, new_topic("causes")) as run:
        run.start_workers(*WORKERS, receiver_queue_size=QUEUE, ack_delay_ms=SLOW_MS)
        producer = run.produce(keys=KEYS, rate_per_s=1_000.0)
        run.wait_acknowledged(STEP // 4)
        now("worker_joined w4")
        join_beside_a_frozen_one(run, gateway, "w4", "w1")
        run.wait_acknowledged(STEP // 2)
        now("worker_left w2")
        run.stop_worker("w2")
        now("worker_joined w5")
        freeze(run, gateway, "w3")
        run.start_workers("w5", receiver_queue_size=QUEUE, ack_delay_ms=SLOW_MS)
        now("worker_left w3")
        run.kill_worker("w3")
        now("worker_joined w2")
        join_beside_a_frozen_one(run, gateway, "w2", "w1")
        run.wait_acknowledged(STEP)
        producer.stop()
        result = run.finish()
        assert result.ok, explain(result, gateway)
    assert gateway.stop() == 0
    journal = open_journal(str(root))
    events = journal.read(spark, "events")
    told = with_causes(journal.read(spark, "drains"), events).collect()
    for row in told:
        began_ns = row["wall_ns"] - row["duration_ns"]
        assert row["cause"] == max(step for step in done if step[0] <= began_ns)[1]
    assert {row["cause"] for row in told} >= {"worker_joined w4", "worker_joined w5", "worker_joined w2"}
    older = journal.read(spark, "drains").withColumns({"cause": F.lit(None), "cause_consumer": F.lit(None)})
    later = F.when(F.col("kind").startswith("worker_"), F.col("at_ns") + 300_000).otherwise(F.col("at_ns"))
    guessed = with_causes(older, events.withColumn("at_ns", later)).collect()
    true = {(row["slot"], row["began_ns"]): row["cause"] for row in told}
    known = [row for row in guessed if row["cause"] != UNKNOWN]
    assert all(row["cause"] == true[row["slot"], row["began_ns"]] for row in known)
    assert len(known) > len(guessed) / 2


def test_a_killed_gateways_journal_is_whole_up_to_its_last_second(
    newest: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """Its next life publishes what it had written; every file can be read, and no row is there twice."""
    root = tmp_path / "journal"
    gateway = journaled(start_gateway, newest, root, journal_roll_s="2")
    with LoadRun(tmp_path / "load", gateway.service_url, new_topic("journaled-kill")) as run:
        run.start_workers(*WORKERS, receiver_queue_size=QUEUE, ack_delay_ms=5)
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=1_000.0)
        run.wait_acknowledged(MESSAGES // 2)
        spool = root / OPEN_DIRECTORY
        eventually(
            lambda: any(file.is_file() and file.stat().st_size > ROWS_BYTES for file in spool.rglob("*")),
            "rows that are written and not published",
        )
        run.interruption(Cause.GATEWAY_KILLED)
        gateway.kill()
        published = [file for file in root.rglob("*.parquet") if OPEN_DIRECTORY not in file.parts]
        assert published
        for file in published:
            pq.read_table(file)
        gateway.start()
        metrics = f"{gateway.admin_url}/metrics"
        eventually(
            lambda: (
                "keyline_gateway_journal_rows_recovered_total 0.0"
                not in httpx.get(metrics, trust_env=False, timeout=30).text
            ),
            "what the killed life left to be recovered",
        )
        result = run.finish()
        assert result.ok, explain(result, gateway)
    assert gateway.stop() == 0
    deliveries = table(root, "deliveries")
    lives = set(deliveries["life"].to_pylist())
    assert len(lives) == 2
    columns = ("life", "event", "ledger", "entry", "batch_index", "attempt", "consumer")
    identity = list(zip(*[deliveries[name].to_pylist() for name in columns], strict=True))
    assert len(identity) == len(set(identity)), "a row is there twice"
    acked = set(identities(root, "acked"))
    assert len(acked) > MESSAGES * 0.7, "more is missing than the killed life's last second and a half"
    assert not list((root / OPEN_DIRECTORY / "keyline").iterdir())
    judged = report(spark, str(root), None)
    assert (judged.violations, judged.totals["lives"]) == (0, 2), judged.evidence


def test_a_broken_dispatcher_is_caught_by_its_own_journal(
    newest: PulsarStandalone, new_topic: Callable[[str], str], spark: SparkSession, tmp_path: Path
) -> None:
    """Keys go to a worker that joins while another has messages of them: the clients see it, and so does the report."""
    root = tmp_path / "journal"
    gateway = KeylineGateway(
        newest.service_url,
        newest.admin_url,
        tmp_path / "gateway",
        settings={"journal": str(root), "journal_deliveries": "true", "journal_key_secret": "s"},
        program=broken_gateway.program("forget_holders"),
    )
    with gateway, LoadRun(tmp_path / "load", gateway.service_url, new_topic("broken")) as run:
        run.start_workers("w1", receiver_queue_size=QUEUE, ack_delay_ms=300)
        run.produce(count=3_000, keys=50, rate_per_s=500.0)
        run.wait_acknowledged(1_000)
        run.start_workers("w2", receiver_queue_size=QUEUE, ack_delay_ms=5)
        result = run.finish()
        gateway.stop()
    assert result.holder_violations, "it was not broken"
    found = report(spark, str(root), None)
    assert found.by_kind["overlap"] > 0
    assert set(found.by_kind) <= {"overlap", "inversion"}
    assert {"overlap: message"} == {" ".join(words.split()[:2]) for words in found.evidence if words[0] == "o"}


def test_a_journal_of_key_policies_is_judged_by_them(
    newest: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """Messages given back under a window, a key that is parked and redriven, and a worker that loses its ack lease."""
    root, topic = tmp_path / "journal", new_topic("policies")
    gateway = journaled(start_gateway, newest, root, journal_snapshot_s="1", **POLICIES)
    api, path = AdminClient(gateway.admin_url), subscription_path(topic, "s")
    texts = [f"{key} {number}" for number in range(5) for key in range(30)]
    refused: set[str] = set()
    done: set[str] = set()

    def work(consumer: pulsar.Consumer, poisoned: str = "") -> None:
        """Refuse one message in five once, and the poisoned one always."""
        for message in available(consumer):
            text = message.data().decode()
            if text == poisoned or (text.endswith("1") and text not in refused):
                refused.add(text)
                consumer.negative_acknowledge(message)
            else:
                done.add(text)
                consumer.acknowledge(message)

    def works(condition: Callable[[], object], what: str, poisoned: str = "") -> None:
        def worked() -> bool:
            work(consumer, poisoned)
            return bool(condition())

        eventually(worked, what, deadline_s=PATIENCE_S)

    with ExitStack() as ends:
        direct, client = (
            ends.enter_context(closing(pulsar.Client(url))) for url in (newest.service_url, gateway.service_url)
        )
        (consumer,) = key_shared(client, topic, "w1", negative_ack_redelivery_delay_ms=50).consumers.values()
        producer = direct.create_producer(topic, batching_type=pulsar.BatchingType.KeyBased)
        with closing(pulsar.Client(gateway.service_url)) as hung:
            _idle = key_shared(hung, topic, "w2", receiver_queue_size=1)
            send_all(producer, [(text.split()[0], text.encode()) for text in texts])
            works(lambda: api.ask("GET", path)["ack_leases_lost"], "a worker that hangs loses its ack lease")
        works(lambda: done >= set(texts), "all of its messages come to the other")
        send_all(producer, [("poison", b"bad"), ("poison", b"after")])
        works(lambda: len(parked(api, path)) == 2, "the poisoned key is parked", "bad")
        api.ask("POST", f"{path}/parked/redrive", query={"key": "poison"})
        send_all(producer, [("poison", b"new")])
        works(lambda: "new" in done and not api.ask("GET", f"{path}/parked")["slots"], "the key goes on")
        assert {"bad", "after"} <= done
    assert gateway.stop() == 0
    told, kinds = table(root, "deliveries")["why"], {event["kind"] for event in rows(root, "events")}
    assert {"asked_for", "given_up"} <= set(told.to_pylist())
    assert {"keys_parked", "redriven", "ack_lease_lost"} <= kinds
    assert policy_spans(rows(root, "events")).policies
    found, _ = duckdb_audit.report(open_journal(str(root)))
    assert found.violations == 0, found.evidence


def parked(api: AdminClient, path: str) -> list[Any]:
    """Messages of the poisoned key that are."""
    found: list[Any] = api.ask("GET", f"{path}/parked/messages", query={"key": "poison"})
    return found


def test_events_are_messages_on_a_topic(
    newest: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str]
) -> None:
    """For whoever subscribes there, in their order, also what happens while the gateway stops."""
    topic, told = new_topic("watched"), new_topic("events")
    gateway = start_gateway(newest, journal_topic=told)
    with ExitStack() as ends:
        reader = pulsar.Client(newest.service_url)
        ends.callback(reader.close)
        events = reader.subscribe(told, "watcher", initial_position=pulsar.InitialPosition.Earliest)
        worker = pulsar.Client(gateway.service_url)
        worker.subscribe(topic, "s", consumer_type=pulsar.ConsumerType.KeyShared, consumer_name="w1")
        worker.close()
        assert gateway.stop() == 0
        kinds = []
        while "subscription_ended" not in kinds:
            message = events.receive(60_000)
            events.acknowledge(message)
            said = json.loads(message.data())
            kinds.append(said["kind"])
            assert (said["topic"], said["subscription"], said["gateway"]) == (topic, "s", "keyline")
            assert message.partition_key() == f"{topic} s"
            assert message.properties()["kind"] == said["kind"]
    assert kinds == ["subscription_began", "upstream_ready", "worker_joined", "worker_left", "subscription_ended"]
