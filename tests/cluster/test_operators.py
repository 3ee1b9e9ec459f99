"""What the chart makes for others' operators, judged by their own definitions; TLS from a Secret such as they make.

The definitions are cert-manager's and the Prometheus operator's, in a real API server; the operators do not run.
"""

from __future__ import annotations

from pathlib import Path

import pulsar
import pytest
import yaml

from helm.build import CHART
from integration.certificates import Authority
from integration.cluster.programs import VERSION
from integration.go_tool import module_files
from tests.cluster.conftest import Install
from tests.cluster.installed import Installed
from tests.cluster.release import PulsarRelease

PROMETHEUS = "github.com/prometheus-operator/prometheus-operator@v0.85.0", "example/prometheus-operator-crd"
CERT_MANAGER = "github.com/cert-manager/cert-manager@v1.21.2", "deploy/crds"
SCENARIOS = Path(__file__).parents[1] / "helm" / "values"
OTHERS = {"VMPodScrape"}
"""Kinds whose definitions are in no module."""
TLS = (
    *("tls.enabled=true", "tls.certManager.enabled=true", "tls.certManager.issuerRef.name=team"),
    "config.admin_tls=true",
)

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.cluster]


@pytest.fixture(scope="module")
def operated(release: PulsarRelease) -> PulsarRelease:
    """The cluster knows the operators' kinds."""
    for module, folder in (PROMETHEUS, CERT_MANAGER):
        for path in sorted((module_files(module, "definitions of operators") / folder).glob("*.yaml")):
            release.cluster.kubectl("apply", "--server-side", "--filename", str(path))
    for kind in ("podmonitors.monitoring.coreos.com", "certificates.cert-manager.io"):
        release.cluster.kubectl("wait", "--for=condition=Established", f"crd/{kind}")
    return release


@pytest.mark.parametrize("scenario", sorted(path.stem for path in SCENARIOS.glob("*.yaml")))
def test_every_scenario_is_taken_as_it_is(operated: PulsarRelease, scenario: str) -> None:
    """Strictly: no field that the API server does not know, no value that it refuses."""
    given = ("--namespace", operated.namespace, "--values", str(SCENARIOS / f"{scenario}.yaml"))
    done = operated.cluster.helm("template", "events", str(CHART), *given, "--kube-version", VERSION, "--no-hooks")
    assert done.returncode == 0, done.stderr
    manifests = [one for one in yaml.safe_load_all(done.stdout) if one and one["kind"] not in OTHERS]
    said = operated.cluster.kubectl(
        *("apply", "--dry-run=server", "--validate=strict", "--namespace", operated.namespace, "--filename", "-"),
        said=yaml.safe_dump_all(manifests),
    )
    assert len(said.splitlines()) == len(manifests)


def test_clients_come_by_tls_with_a_certificate_from_a_secret(
    operated: PulsarRelease, install: Install, tmp_path: Path
) -> None:
    """The chart's own test goes by TLS; the address itself, which is not in the certificate, is refused by clients."""
    authority = Authority(tmp_path / "keys")
    installed = Installed(operated.cluster, operated.namespace, "events")
    names = [f"{installed.fullname}{suffix}" for suffix in ("", ".pulsar", ".pulsar.svc", ".pulsar.svc.cluster.local")]
    admin = [name.replace(installed.fullname, f"{installed.fullname}-admin", 1) for name in names]
    signed = authority.sign("gateway", *names, *admin)
    files = (f"tls.crt={signed.certificate}", f"tls.key={signed.key}", f"ca.crt={authority.file}")
    installed.kubectl(
        *("create", "secret", "generic", f"{installed.fullname}-tls"), *(f"--from-file={file}" for file in files)
    )
    try:
        install("events", *TLS)
        done = operated.cluster.helm("test", "events", "--namespace", operated.namespace, "--logs")
        assert done.returncode == 0, done.stdout + done.stderr
        assert "went through pulsar+ssl://events-keyline.pulsar.svc:6651" in done.stdout
        asked = operated.cluster.kubectl.get("certificate/events-keyline", "--namespace", operated.namespace)["spec"]
        assert set(asked["dnsNames"]) == {*names, *admin}, "the names that clients come by"
        with pytest.raises(pulsar.ConnectError):
            stranger(operated.cluster.address(operated.namespace, installed.fullname), authority)
    finally:
        installed.kubectl("delete", "secret", f"{installed.fullname}-tls")


def stranger(address: str, authority: Authority) -> None:
    """A client that comes by the address, which is not in the certificate."""
    client = pulsar.Client(
        f"pulsar+ssl://{address}:6651",
        tls_trust_certs_file_path=str(authority.file),
        tls_validate_hostname=True,
        operation_timeout_seconds=5,
        logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error),
    )
    try:
        client.create_producer("persistent://public/default/stranger")
    finally:
        client.close()
