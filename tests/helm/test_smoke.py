"""What the pod of `helm test` runs, run against a real gateway as the chart's values start it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from base64 import b64decode
from contextlib import ExitStack
from pathlib import Path

import pytest

from helm.build import CHART
from integration.certificates import Authority
from integration.gateway import KeylineGateway
from integration.ports import LOOPBACK, free_ports
from integration.standalone import PulsarStandalone
from tests.helm.chart import Chart, configuration, one

pytestmark = pytest.mark.slow

RUN_S_MAX = 240
NAMES = {
    "groups_enabled",
    "groups_mode",
    "replica_secret_file",
    "replica_tls_certificate_file",
    "replica_tls_key_file",
    "replica_tls_ca_file",
}


def smoke(
    service_url: str, topic: str, timeout_s: int = 120, authority: str = "/nowhere/ca.crt"
) -> subprocess.CompletedProcess[str]:
    """Run the script to its end, with the variables that the pod has."""
    variables = {
        "SMOKE_SERVICE_URL": service_url,
        "SMOKE_TOPIC": topic,
        "SMOKE_MESSAGES": "100",
        "SMOKE_TIMEOUT_S": str(timeout_s),
        "SMOKE_TOKEN_FILE": "/nowhere/token",
        "SMOKE_CA_FILE": authority,
    }
    script = str(CHART / "files" / "smoke.py")
    environment = {**os.environ, **variables}
    return subprocess.run(
        [sys.executable, script], env=environment, capture_output=True, text=True, timeout=RUN_S_MAX, check=False
    )


def replicas_settings(chart: Chart, directory: Path) -> dict[str, str]:
    """What the chart sets for replicas, with the files of its Secret in a directory."""
    manifests = chart.render("minimal")
    directory.mkdir()
    for name, value in one(manifests, "Secret")["data"].items():
        (directory / name).write_bytes(b64decode(value))
    found = tomllib.loads(configuration(manifests).replace("/etc/keyline/replicas", str(directory)))
    return {name: str(value).lower() if value is True else value for name, value in found.items() if name in NAMES}


def test_it_passes_twice_through_replicas_that_are_a_group(
    pulsar: PulsarStandalone, chart: Chart, tmp_path: Path
) -> None:
    """As with the chart's defaults: two, of which one leads the worker to the other, by the chart's own Secret.

    What an earlier run left does not confuse a later one.
    """
    topic = "persistent://public/default/smoke"
    settings = replicas_settings(chart, tmp_path / "files")
    ports = free_ports(6)
    with ExitStack() as stack:
        gateways = [
            stack.enter_context(
                KeylineGateway(
                    pulsar.service_url,
                    pulsar.admin_url,
                    tmp_path / f"replica-{number}",
                    port=ports[2 + number],
                    admin_port=ports[4 + number],
                    settings=settings | {"replica_name": f"replica-{number}", "replica_listen": f"{LOOPBACK}:{port}"},
                )
            )
            for number, port in enumerate(ports[:2])
        ]
        for gateway in gateways:
            done = smoke(gateway.service_url, topic)
            assert done.returncode == 0, done.stderr
            assert "100 messages with 10 keys" in done.stdout


def test_it_goes_by_tls_to_the_names_of_the_certificate_alone(pulsar: PulsarStandalone, tmp_path: Path) -> None:
    """With the authority that the Secret has; an address that the certificate does not name is refused."""
    topic = "persistent://public/default/smoke-tls"
    authority = Authority(tmp_path / "keys")
    signed = authority.sign("gateway", "localhost")
    (port,) = free_ports(1)
    settings = {
        "listen_tls": f"{LOOPBACK}:{port}",
        "tls_certificate_file": str(signed.certificate),
        "tls_key_file": str(signed.key),
    }
    with KeylineGateway(pulsar.service_url, pulsar.admin_url, tmp_path, settings=settings):
        done = smoke(f"pulsar+ssl://localhost:{port}", topic, authority=str(authority.file))
        assert done.returncode == 0, done.stderr
        assert f"100 messages with 10 keys went through pulsar+ssl://localhost:{port}" in done.stdout
        refused = smoke(f"pulsar+ssl://{LOOPBACK}:{port}", topic, timeout_s=5, authority=str(authority.file))
        assert refused.returncode == 1


def test_it_fails_where_nobody_answers() -> None:
    """With a sentence and within its time."""
    (port,) = free_ports(1)
    done = smoke(f"pulsar://127.0.0.1:{port}", "persistent://public/default/smoke", timeout_s=10)
    assert done.returncode == 1
    assert "failed: " in done.stderr
