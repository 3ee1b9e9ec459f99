"""What a real Prometheus scraped of a real gateway gives the same report as that gateway's own journal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from proxy.cli.export_metrics import EXIT_NOTHING_EXPORTED
from proxy.cli.main import app
from spark_reports.run import report
from spark_reports.span import Span
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain
from tests.integration.prometheus import RULES, Prometheus, prometheus
from tests.integration.test_journal import (
    KEYS,
    QUEUE,
    SLOW_MS,
    WORKERS,
    freeze,
    join_beside_a_frozen_one,
    journaled,
    rows,
)

JOBS = {"keyline": {}, "also": {"replica": "gw"}}
"""Scraped twice, as by a Prometheus with a job too many."""
BEFORE = 1_000
"""Messages that are done before a worker joins; more come until all has happened, however long it takes."""
SAME = ("acked", "dispatch_ms", "ack_ms", "hand_overs", "hand_over_ms", "redelivered", "redelivered_share")
COUNTED = "keyline_subscription_acked_messages_total"

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def exported(*arguments: object) -> tuple[int, str]:
    """Exit code and words of a command."""
    result = CliRunner().invoke(app, ["export-metrics", *map(str, arguments)])
    return result.exit_code, result.output


def service(spark: SparkSession, root: Path, out: Path, until: datetime) -> dict[str, Any]:
    """The one row of a report, of one subscription on one day (or the later of two)."""
    assert report(spark, str(root), out, Span(None, until)).violations == 0
    found: dict[str, Any] = pq.read_table(out / "tables" / "service.parquet").to_pylist()[-1]
    return found


def keep(admin_url: str, folder: Path) -> None:
    """A scrape, as a cron job would keep it."""
    folder.mkdir(parents=True, exist_ok=True)
    text = httpx.get(f"{admin_url}/metrics", trust_env=False, timeout=30).text
    (folder / f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}.prom").write_text(text)


def all_saw(scraping: Prometheus, root: Path, acknowledged: float) -> bool:
    """Whether Prometheus and the journal have as much."""
    scraped = scraping.now(COUNTED)
    own = [row["value"] for row in rows(root, "metrics") if row["name"] == COUNTED]
    return all(float(series["values"][0][1]) == acknowledged for series in scraped) and acknowledged in own[-1:]


def scraped_until(scraping: Prometheus, moment: datetime) -> bool:
    """Whether each job's last scrape is later than that."""
    last = [float(series["values"][0][1]) for series in scraping.now(f"timestamp({COUNTED})")]
    return len(last) == len(JOBS) and min(last) > moment.timestamp()


def test_what_prometheus_scraped_tells_the_same(
    pulsar: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    spark: SparkSession,
    tmp_path: Path,
) -> None:
    """By its HTTP API and by scrapes in files, beside the gateway's journal: throughput, latency, hand-overs."""
    root, topic, began = tmp_path / "journal", new_topic("exported"), datetime.now(UTC)
    gateway = journaled(start_gateway, pulsar, root, journal_snapshot_s="1", journal_roll_s="1")
    target = gateway.admin_url.removeprefix("http://")
    with (
        prometheus(tmp_path / "prometheus", JOBS, target, RULES) as scraping,
        LoadRun(tmp_path / "load", gateway.service_url, topic) as run,
    ):
        keep(gateway.admin_url, tmp_path / "scrapes" / "gw")
        eventually(lambda: any(root.glob("metrics/*/*/*/*.parquet")), "a snapshot before anything happens")
        run.start_workers(*WORKERS, receiver_queue_size=QUEUE, ack_delay_ms=SLOW_MS)
        producer = run.produce(keys=KEYS, rate_per_s=1_000.0)
        run.wait_acknowledged(BEFORE)
        join_beside_a_frozen_one(run, gateway, "w4", "w1")
        freeze(run, gateway, "w2")
        run.kill_worker("w2")
        producer.stop()
        messages = producer.record().confirmed_count
        run.wait_acknowledged(messages)
        eventually(lambda: all_saw(scraping, root, messages), "all of it in the scrapes and the journal")
        keep(gateway.admin_url, tmp_path / "scrapes" / "gw")
        until = datetime.now(UTC) + timedelta(seconds=1)
        eventually(lambda: scraped_until(scraping, until), "a scrape after the time that is reported on")
        since = f"{began:%Y-%m-%dT%H:%M:%SZ}"  # what was counted before the first sample would not be in the report
        code, words = exported(scraping.url, "--out", tmp_path / "twice", "--from", since, "--step", 1)
        assert (code, "two series differ only in" in words) == (EXIT_NOTHING_EXPORTED, True), words
        code, words = exported(scraping.url, "--out", tmp_path / "no", "--match", 'job="nothing"')
        assert (code, "it should scrape a gateway's /metrics" in words) == (EXIT_NOTHING_EXPORTED, True), words
        chosen = ("--from", since, "--step", 1, "--match", 'job="keyline"')
        for _ in range(2):  # once more changes nothing
            code, words = exported(scraping.url, "--out", tmp_path / "exported", *chosen)
            assert code == 0, words
        result = run.finish()
        assert result.ok, explain(result, gateway)
    assert exported(tmp_path / "scrapes", "--out", tmp_path / "kept")[0] == 0
    assert gateway.stop() == 0
    own = service(spark, root, tmp_path / "own", until)
    assert (own["acked"], own["hand_overs"] > 0, own["redelivered"] > 0) == (messages, True, True)
    for name in ("exported", "kept"):
        found = service(spark, tmp_path / name, tmp_path / f"report-{name}", until)
        assert {column: found[column] for column in SAME} == pytest.approx({column: own[column] for column in SAME})
        assert (found["topic"], found["subscription"]) == (topic, own["subscription"])
    page = (tmp_path / "report-exported" / "index.html").read_text()
    assert "nothing was judged: the journal has no record of messages" in page
    assert f"{own['acked']:,}" in page
