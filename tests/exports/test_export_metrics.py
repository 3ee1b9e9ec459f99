"""Scrapes in files become files of the journal's table of metrics, each sample once; what is wrong is said in words."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest
from typer.testing import CliRunner

from admin_api.metrics import families
from integration.ports import free_ports
from proxy.cli.export_metrics import EXIT_NOTHING_EXPORTED
from proxy.cli.main import app
from proxy.exports.series import OWN_LABELS
from proxy.journal.arrow import arrow_schema
from proxy.journal.schema import METRICS

THREE = datetime(2026, 11, 24, 3, tzinfo=UTC)
THREE_NS = int(THREE.timestamp()) * 1_000_000_000
HOUR_NS = 3_600 * 1_000_000_000
TEXT = """\
# HELP keyline_subscription_acked_messages_total Messages that workers acknowledged.
# TYPE keyline_subscription_acked_messages_total counter
keyline_subscription_acked_messages_total{{topic="t",subscription="s"}} {value}
# TYPE keyline_subscription_ack_latency_seconds histogram
keyline_subscription_ack_latency_seconds_bucket{{topic="t",subscription="s",le="+Inf"}} 3
keyline_subscription_ack_latency_seconds_count{{topic="t",subscription="s"}} 3
keyline_subscription_ack_latency_seconds_sum{{topic="t",subscription="s"}} 0.25
# TYPE keyline_worker_connected gauge
keyline_worker_connected{{topic="t",subscription="s",worker="w1"}} 1
# TYPE keyline_gateway_broker_connections gauge
keyline_gateway_broker_connections{{state="ready"}} NaN
# TYPE process_cpu_seconds_total counter
process_cpu_seconds_total 7
"""


def scrape(folder: Path, name: str, value: int = 1) -> Path:
    """A file as a script would keep it."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(TEXT.format(value=value))
    return folder / name


def exported(*arguments: str | Path) -> tuple[int, str]:
    """Exit code and words, in one line."""
    result = CliRunner().invoke(app, ["export-metrics", *map(str, arguments)])
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def rows(root: Path, name: str = "keyline_subscription_acked_messages_total") -> list[dict[str, Any]]:
    """Of a metric, in order of time."""
    table = ds.dataset(root / "metrics", partitioning="hive").to_table(filter=ds.field("name") == name)
    return sorted(table.to_pylist(), key=lambda row: row["at_ns"])


def test_scrapes_are_samples_of_their_time_and_gateway(tmp_path: Path) -> None:
    """By the file's name, or else its own time; the folder is the gateway; buckets, others' and NaN are none."""
    scrape(tmp_path / "in" / "gw-1", "2026-11-24T03:00:00Z.prom", 1)
    scrape(tmp_path / "in" / "gw-1", "2026-11-24T05:00:01+01:00.prom", 2)
    os.utime(scrape(tmp_path / "in" / "gw-2", "latest.prom", 3), ns=(THREE_NS, THREE_NS))
    scrape(tmp_path / "in", ".hidden", 9)
    code, words = exported(tmp_path / "in", "--out", tmp_path / "out")
    assert code == 0, words
    assert words.startswith("12 samples of 4 metrics of 2 gateways, 3 files; next: keyline report ")
    found = rows(tmp_path / "out")
    assert [(row["gateway"], row["at_ns"], row["wall_ns"], row["value"]) for row in found] == [
        ("gw-1", THREE_NS, THREE_NS, 1.0),
        ("gw-2", THREE_NS, THREE_NS, 3.0),
        ("gw-1", THREE_NS + HOUR_NS + 1_000_000_000, THREE_NS + HOUR_NS + 1_000_000_000, 2.0),
    ]
    assert {(row["topic"], row["subscription"], row["consumer"]) for row in found} == {("t", "s", None)}
    (worker, *_) = rows(tmp_path / "out", "keyline_worker_connected")
    assert (worker["consumer"], worker["labels"]) == ("w1", [])
    names = set(ds.dataset(tmp_path / "out" / "metrics").to_table()["name"].to_pylist())
    assert len(names) == 4
    assert all(str(name).startswith("keyline_") and not str(name).endswith("_bucket") for name in names)
    file = min((tmp_path / "out").rglob("*.parquet"))
    assert ds.dataset(file).schema.names == arrow_schema(METRICS).names
    assert file.relative_to(tmp_path / "out").parts[:3] == ("metrics", "date=2026-11-24", "hour=03")


def test_times_in_the_text_are_those_of_the_samples(tmp_path: Path) -> None:
    """As OpenMetrics and a federation tell them."""
    text = "# TYPE keyline_gateway_ready gauge\nkeyline_gateway_ready {value} {at}\n"
    classic = text.format(value=1, at=THREE_NS // 1_000_000)
    (tmp_path / "a.txt").write_text(classic)
    (tmp_path / "b.txt").write_text(text.format(value=0, at=THREE_NS // 1_000_000_000 + 1) + "# EOF\n")
    code, words = exported(tmp_path / "a.txt", tmp_path / "b.txt", "--gateway", "gw", "--out", tmp_path / "out")
    assert code == 0, words
    found = rows(tmp_path / "out", "keyline_gateway_ready")
    assert [(row["gateway"], row["at_ns"] - THREE_NS, row["value"]) for row in found] == [
        ("gw", 0, 1.0),
        ("gw", 1_000_000_000, 0.0),
    ]


def test_an_hour_is_replaced_as_a_whole(tmp_path: Path) -> None:
    """So that nothing is there twice; hours that are not of the time stay."""
    first = scrape(tmp_path / "gw", "2026-11-24T03:10:00Z.prom", 1)
    scrape(tmp_path / "gw", "2026-11-24T04:10:00Z.prom", 2)
    assert exported(tmp_path / "gw", "--out", tmp_path / "out")[0] == 0
    first.rename(first.with_name("2026-11-24T03:20:00Z.prom"))
    scrape(tmp_path / "gw", "2026-11-24T04:10:00Z.prom", 9)
    arguments = ("--from", "2026-11-24T03:30Z", "--to", "2026-11-24T04:00Z", "--out", tmp_path / "out")
    assert exported(tmp_path / "gw", *arguments)[0] == 0
    assert [(row["at_ns"] - THREE_NS, row["value"]) for row in rows(tmp_path / "out")] == [
        (20 * 60 * 1_000_000_000, 1.0),
        (70 * 60 * 1_000_000_000, 2.0),
    ]


def test_what_is_wrong_is_said_and_nothing_is_exported(tmp_path: Path) -> None:
    """With what would be right, and the exit code of the help."""
    good, out = scrape(tmp_path / "gw", "2026-11-24T03:00:00Z.prom"), ("--out", tmp_path / "out")
    broken, foreign = tmp_path / "broken.prom", tmp_path / "foreign.prom"
    broken.write_text("<html>")
    foreign.write_text("process_cpu_seconds_total 7\n")
    (tmp_path / "empty").mkdir()
    nobody = f"http://127.0.0.1:{free_ports(1)[0]}"
    for arguments, told in (
        ((tmp_path / "nowhere",), "no such file; it should be a scrape, a folder of them, or a server's http URL"),
        ((tmp_path / "empty",), "no file; there should be texts of /metrics"),
        ((broken,), "it should be the text of a scrape of /metrics"),
        ((foreign,), "no metric keyline_... is in these files"),
        ((good, "--from", "2026-11-24T04:00Z"), "no sample is of that time"),
        ((nobody,), "it should be the address of a Prometheus server"),
        ((nobody, "--token-file", tmp_path / "no-token"), "it should have the server's token"),
    ):
        code, words = exported(*arguments, *out)
        assert (code, words.startswith("keyline: nothing was exported: ")) == (EXIT_NOTHING_EXPORTED, True), words
        assert told in words
    assert not (tmp_path / "out").exists()
    code, words = exported(good, "--from", "2026-11-25", "--to", "2026-11-24", *out)
    assert (code, "is not before --to 2026-11-24T00:00:00Z: nothing was exported" in words) == (2, True)
    assert exported(nobody, nobody, *out)[0] == EXIT_NOTHING_EXPORTED


def test_a_gateways_own_journal_is_no_place_for_it(tmp_path: Path) -> None:
    """Counters would be there twice."""
    good = scrape(tmp_path / "gw", "2026-11-24T03:00:00Z.prom")
    own = tmp_path / "journal/metrics/date=2026-11-24/hour=03/gateway=gw/run.parquet"
    own.parent.mkdir(parents=True)
    own.touch()
    code, words = exported(good, "--out", tmp_path / "journal")
    assert code == EXIT_NOTHING_EXPORTED
    assert "exported metrics should have a directory of their own" in words


def test_labels_of_the_gateways_metrics_are_known() -> None:
    """Whichever they get; any other label is of the scrape."""
    exported = (*families.GATEWAY, *families.TOPIC, *families.GROUP, *families.SUBSCRIPTION, *families.WORKER)
    labels = {family.label for family in exported if family.label}
    assert labels | {"version"} == OWN_LABELS, "keyline_build_info has the version"


@pytest.mark.parametrize("missing", ["--out", "SOURCE"])
def test_both_ends_are_needed(missing: str, tmp_path: Path) -> None:
    """Where from and where to."""
    arguments = ["somewhere"] if missing == "--out" else ["--out", str(tmp_path)]
    assert missing in exported(*arguments)[1]
