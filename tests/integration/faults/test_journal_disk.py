"""The disk under a journal is full: told, survived, and nobody's messages wait for it. A real, small file system."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pyarrow.dataset as ds
import pytest

from integration.gateway import KeylineGateway
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway, explain

DISK_BYTES = 8 << 20
MESSAGES = 20_000
KEYS = 200
RATE_PER_S = 2_000.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.broker,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system"),
]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system with little room."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place], check=True)
    try:
        yield place
    finally:
        subprocess.run(["/bin/umount", "--lazy", place], check=True)


def fill(file: Path) -> None:
    """Take all the room that is left."""
    with file.open("wb", buffering=0) as filler, contextlib.suppress(OSError):
        while filler.write(bytes(4096)):
            pass


def metric(gateway: KeylineGateway, name: str) -> float:
    """The sum over all labels."""
    lines = httpx.get(f"{gateway.admin_url}/metrics", trust_env=False, timeout=30).text.splitlines()
    return sum(float(line.rpartition(" ")[2]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))


def test_a_full_disk_costs_rows_and_no_delivery(
    small_disk: Path,
    pulsar: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
    tmp_path: Path,
) -> None:
    """All messages get through in order; what is lost is counted; with room again the journal goes on."""
    root = small_disk / "journal"
    gateway = start_gateway(pulsar, journal=str(root), journal_deliveries="true", journal_roll_s="1")
    with LoadRun(tmp_path / "load", gateway.service_url, new_topic("full-disk")) as run:
        run.start_workers("w1", "w2", receiver_queue_size=100)
        run.produce(count=MESSAGES, keys=KEYS, rate_per_s=RATE_PER_S)
        run.wait_acknowledged(MESSAGES // 10)
        filler = small_disk / "filler"
        fill(filler)
        eventually(lambda: metric(gateway, "keyline_gateway_journal_well") == 0, "the gateway to say so")
        eventually(lambda: metric(gateway, "keyline_gateway_journal_rows_dropped_total") > 0, "lost rows to be counted")
        run.wait_acknowledged(MESSAGES // 2)
        filler.unlink()
        eventually(lambda: metric(gateway, "keyline_gateway_journal_well") == 1, "the journal to go on")
        result = run.finish()
        assert result.ok, explain(result, gateway)
        assert result.delivered == MESSAGES
        assert not result.duplicates
    assert gateway.stop() == 0
    found = ds.dataset(root / "deliveries", partitioning=ds.partitioning(flavor="hive")).to_table()
    assert 0 < len(found) < 2 * MESSAGES, "some were written, and some were lost"
    log = gateway.log.read_text()
    assert log.count("journal write failed") >= 1
    assert log.count("journal recovered") >= 1
    assert "Traceback" not in log
