"""A journal in an object store, by its real protocol: whole, though the store stands still for a while.

The store is moto's server, which speaks S3 on loopback. The journal's own tests have the faults of disks.
"""

from __future__ import annotations

import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
import pyarrow.dataset as ds
import pytest
from pyarrow import fs

from integration.load.run import LoadRun
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess
from integration.standalone import PulsarStandalone
from spark_reports.reading import open_journal
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain

MESSAGES: Final = 10_000
BUCKET: Final = "journals"
SINCE: Final = 1_000
"""Messages that are done while the store stands still, after the gateway has noticed."""

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class ObjectStore:
    """A server of its own."""

    def __init__(self, process: OwnedProcess, port: int) -> None:
        self.process = process
        self.url = f"s3://{BUCKET}/team?scheme=http&endpoint_override={LOOPBACK}:{port}&region=us-east-1"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """With an empty bucket."""
    (port,) = free_ports(1)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "somebody")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    command = [str(Path(sys.executable).with_name("moto_server")), "-H", LOOPBACK, "-p", f"{port}"]
    process = OwnedProcess(command, tmp_path / "store.log")
    try:
        eventually(lambda: answers(port), "the store to answer")
        httpx.put(f"http://{LOOPBACK}:{port}/{BUCKET}", trust_env=False).raise_for_status()
        yield ObjectStore(process, port)
    finally:
        process.signal(signal.SIGCONT)
        process.stop()


def answers(port: int) -> bool:
    """Whether somebody does there."""
    try:
        return httpx.get(f"http://{LOOPBACK}:{port}/moto-api/", trust_env=False).is_success
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
        run.produce(count=MESSAGES, keys=100, rate_per_s=400.0)
        run.wait_acknowledged(MESSAGES // 4)
        store.process.signal(signal.SIGSTOP)
        eventually(lambda: "keyline_gateway_journal_well 0.0" in metrics(gateway.admin_url), "the journal to complain")
        run.wait_acknowledged(run.progress.acknowledged + SINCE)
        store.process.signal(signal.SIGCONT)
        result = run.finish()
        assert result.ok, explain(result, gateway)
        eventually(lambda: "keyline_gateway_journal_well 1.0" in metrics(gateway.admin_url), "the journal to be well")
    assert gateway.stop() == 0
    filesystem, root = fs.FileSystem.from_uri(store.url)
    found = ds.dataset(f"{root}/deliveries", filesystem=filesystem, partitioning="hive").to_table()
    counts = Counter(found["event"].to_pylist())
    assert (counts["sent"], counts["acked"]) == (MESSAGES, MESSAGES)
    opened = open_journal(store.url)
    assert opened.skipped == []
    assert {"events", "deliveries"} <= set(opened.files)
    assert [path for path in spool.rglob("*") if path.is_file()] == [], "nothing is left behind"


def metrics(admin_url: str) -> str:
    """What a scrape gets."""
    return httpx.get(f"{admin_url}/metrics", trust_env=False).text
