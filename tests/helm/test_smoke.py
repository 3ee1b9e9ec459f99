"""What the pod of `helm test` runs, run against a real gateway as the chart's values start it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from helm.build import CHART
from integration.gateway import KeylineGateway
from integration.ports import free_ports
from integration.standalone import PulsarStandalone

pytestmark = pytest.mark.slow

RUN_S_MAX = 60


def smoke(service_url: str, topic: str, timeout_s: int = 30) -> subprocess.CompletedProcess[str]:
    """Run the script to its end, with the variables that the pod has."""
    variables = {
        "SMOKE_SERVICE_URL": service_url,
        "SMOKE_TOPIC": topic,
        "SMOKE_MESSAGES": "100",
        "SMOKE_TIMEOUT_S": str(timeout_s),
        "SMOKE_TOKEN_FILE": "/nowhere/token",
        "SMOKE_CA_FILE": "/nowhere/ca.crt",
    }
    script = str(CHART / "files" / "smoke.py")
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=RUN_S_MAX, check=False
    )


def test_it_passes_twice_through_replicas_that_are_a_group(pulsar: PulsarStandalone, tmp_path: Path) -> None:
    """As with the chart's defaults; what an earlier run left does not confuse a later one."""
    topic = f"persistent://public/default/smoke-{os.getpid()}"
    settings = {"groups_enabled": "true"}
    with KeylineGateway(pulsar.service_url, pulsar.admin_url, tmp_path, settings=settings) as gateway:
        for _ in range(2):
            done = smoke(gateway.service_url, topic)
            assert done.returncode == 0, done.stderr
            assert "100 messages with 10 keys" in done.stdout


def test_it_fails_where_nobody_answers() -> None:
    """With a sentence and within its time."""
    (port,) = free_ports(1)
    done = smoke(f"pulsar://127.0.0.1:{port}", "persistent://public/default/smoke", timeout_s=10)
    assert done.returncode == 1
    assert "failed: " in done.stderr
