"""A journal in an object store: whole, though the store stands still for a while, and Spark reads it there.

The store is Versity's gateway, an S3 server that people run, on loopback. The journal's own tests have disks' faults.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from integration.errors import ToolMissingError
from integration.go_tool import ensure_go_program
from integration.journals.make import make
from integration.journals.plan import Plan
from integration.load.run import LoadRun
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess
from integration.s3_connector import ensure_connector
from integration.standalone import PulsarStandalone
from spark_reports.command import EXIT_NOTHING_JUDGED
from spark_reports.faults import connector
from spark_reports.reading import open_journal
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain

STORE_MODULE: Final = "github.com/versity/versitygw/cmd/versitygw@latest"
USER: Final = "somebody"
SECRET: Final = "open sesame"
BEFORE: Final = 2_500
"""Messages that are done before the store stands still."""
BUCKET: Final = "journals"
REPORT_S_MAX: Final = 300
SINCE: Final = 1_000
"""Messages that are done while the store stands still, after the gateway has noticed."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class ObjectStore:
    """A server of its own, and what it demands."""

    def __init__(self, process: OwnedProcess, port: int) -> None:
        self.process = process
        self.url = f"s3://{BUCKET}/team?scheme=http&endpoint_override={LOOPBACK}:{port}&region=us-east-1"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """With an empty bucket."""
    try:
        program = ensure_go_program("versitygw", STORE_MODULE, "the object store")
    except ToolMissingError as error:
        pytest.skip(str(error))
    (port,) = free_ports(1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", USER)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    (tmp_path / "objects" / BUCKET).mkdir(parents=True)
    command = [str(program), "--access", USER, "--secret", SECRET, "--port", f"{LOOPBACK}:{port}", "--quiet"]
    process = OwnedProcess([*command, "posix", str(tmp_path / "objects")], tmp_path / "store.log")
    try:
        eventually(lambda: answers(port), "the store to answer")
        yield ObjectStore(process, port)
    finally:
        process.signal(signal.SIGCONT)
        process.stop()


def answers(port: int) -> bool:
    """Whether somebody does there, if only to say that nobody is allowed in."""
    try:
        return httpx.get(f"http://{LOOPBACK}:{port}/", trust_env=False, timeout=30).status_code == httpx.codes.FORBIDDEN
    except httpx.HTTPError:
        return False


def test_a_store_that_stands_still_costs_no_row_and_no_delivery(
    pulsar: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    store: ObjectStore,
    tmp_path: Path,
) -> None:
    """Files wait on the gateway's disk, deliveries go on, and everything is there in the end, once."""
    spool = tmp_path / "spool"
    settings = {"journal_deliveries": "true", "journal_roll_s": "1", "journal_spool_directory": str(spool)}
    gateway = start_gateway(pulsar, journal=store.url, **settings)
    with LoadRun(tmp_path / "load", gateway.service_url, new_topic("stored")) as run:
        run.start_workers("w1", "w2", receiver_queue_size=50)
        producer = run.produce(keys=100, rate_per_s=400.0)
        run.wait_acknowledged(BEFORE)
        store.process.signal(signal.SIGSTOP)
        eventually(lambda: "keyline_gateway_journal_well 0.0" in metrics(gateway.admin_url), "the journal to complain")
        run.wait_acknowledged(run.progress.acknowledged + SINCE)
        store.process.signal(signal.SIGCONT)
        producer.stop()
        result = run.finish()
        assert result.ok, explain(result, gateway)
        eventually(lambda: "keyline_gateway_journal_well 1.0" in metrics(gateway.admin_url), "the journal to be well")
    assert gateway.stop() == 0
    filesystem, root = fs.FileSystem.from_uri(store.url)
    found = ds.dataset(f"{root}/deliveries", filesystem=filesystem, partitioning="hive").to_table()
    counts = Counter(found["event"].to_pylist())
    done = result.confirmed
    assert (counts["sent"], counts["acked"]) == (done, done)
    opened = open_journal(store.url)
    assert opened.skipped == []
    assert {"events", "deliveries"} <= set(opened.files)
    assert [path for path in spool.rglob("*") if path.is_file()] == [], "nothing is left behind"
    told = keyline_report(store.url, tmp_path)
    assert told.returncode == 0, told.stderr
    said = f"audit: {done:,} messages, {done:,} deliveries, {done:,} acknowledged, 100 keys, 2 workers"
    assert told.stdout.splitlines()[-1] == f"{said}, 1 runs: 0 violations"


def test_spark_without_its_connector_is_told_which(store: ObjectStore, tmp_path: Path) -> None:
    """A line that can be copied, no stack trace; and a journal that is not there is told before Spark is asked."""
    missing = keyline_report(store.url, tmp_path)
    assert missing.returncode == EXIT_NOTHING_JUDGED
    assert missing.stderr.splitlines()[-1].startswith(f"keyline: {store.url}: no such directory")
    make(Plan(messages=100, keys=10, workers=2, gateways=1, rate_per_s=100, faults=0), tmp_path / "made")
    filesystem, root = fs.FileSystem.from_uri(store.url)
    fs.copy_files(str(tmp_path / "made"), root, destination_filesystem=filesystem)
    without = keyline_report(store.url, tmp_path, "--conf", "spark.jars=")
    assert without.returncode == EXIT_NOTHING_JUDGED
    assert f"--conf spark.jars.packages={connector()}" in without.stderr.splitlines()[-1]
    assert "Traceback" not in without.stderr


def keyline_report(url: str, directory: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The command, with Spark here and its connector."""
    jars = ",".join(map(str, ensure_connector()))
    keyline = Path(sys.executable).with_name("keyline")
    return subprocess.run(
        [keyline, "report", url, "--conf", f"spark.jars={jars}", *more],
        capture_output=True,
        text=True,
        cwd=directory,
        timeout=REPORT_S_MAX,
        check=False,
    )


def metrics(admin_url: str) -> str:
    """What a scrape gets."""
    return httpx.get(f"{admin_url}/metrics", trust_env=False, timeout=30).text
