"""Replicas in owner mode: the port between them, and the Secret by which they know each other."""

from __future__ import annotations

from base64 import b64decode
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from proxy.net.owner.proof import Secret
from tests.helm.chart import Chart, configuration, of_kind, one, pod_spec, workload

NAME = "events-keyline-replicas"
YEARS = timedelta(days=365)


def files(chart: Chart, *settings: str) -> dict[str, bytes]:
    """What the chart puts into the Secret, by key."""
    secret = one(chart.render("minimal", *settings), "Secret")
    assert secret["metadata"]["name"] == NAME
    return {name: b64decode(value) for name, value in secret["data"].items()}


def test_the_secret_has_all_that_the_pods_mount(chart: Chart) -> None:
    """A secret that the gateway takes, and a certificate that its authority has signed, for years."""
    made = files(chart)
    Secret.of_lines(made["secret"])
    authority, certificate = (x509.load_pem_x509_certificate(made[name]) for name in ("ca.crt", "tls.crt"))
    certificate.verify_directly_issued_by(authority)
    assert certificate.not_valid_after_utc - certificate.not_valid_before_utc > 9 * YEARS
    assert isinstance(certificate.public_key(), RSAPublicKey)
    (volume,) = (each for each in pod_spec(workload(chart.render("minimal")))["volumes"] if each["name"] == "replicas")
    assert volume["secret"]["secretName"] == NAME
    assert {item["key"] for item in volume["secret"]["items"]} == set(made)


def test_each_release_has_a_secret_of_its_own(chart: Chart) -> None:
    """Nothing in it is the same twice."""
    first, second = files(chart), files(chart)
    assert all(first[name] != second[name] for name in first)


def test_a_secret_that_exists_is_used(chart: Chart) -> None:
    """And none is made."""
    manifests = chart.render("minimal", 'replicas.existingSecret="ours"')
    assert not of_kind(manifests, "Secret")
    assert "ours" in {each.get("secret", {}).get("secretName") for each in pod_spec(workload(manifests))["volumes"]}


@pytest.mark.parametrize(("host", "address"), [("0.0.0.0", "$(POD_IP):6670"), ("[::]", "[$(POD_IP)]:6670")])
def test_replicas_reach_each_other_at_their_pods(chart: Chart, host: str, address: str) -> None:
    """At the port that the gateway listens at."""
    manifests = chart.render("minimal", f'listenHost="{host}"')
    (container,) = pod_spec(workload(manifests))["containers"]
    variables = {each["name"]: each for each in container["env"]}
    assert variables["POD_IP"]["valueFrom"]["fieldRef"]["fieldPath"] == "status.podIP"
    assert variables["KEYLINE_REPLICA_ADDRESS"]["value"] == address
    names = [each["name"] for each in container["env"]]
    assert names.index("POD_IP") < names.index("KEYLINE_REPLICA_ADDRESS"), "a variable refers to earlier ones only"
    assert {"name": "replicas", "containerPort": 6670} in container["ports"]
    assert f'replica_listen = "{host}:6670"' in configuration(manifests)


@pytest.mark.parametrize(
    ("scenario", "settings", "owner"),
    [("minimal", [], True), ("minimal", ['config.groups_mode="streams"'], False), ("single", [], False)],
)
def test_owner_mode_is_there_whole_or_not_at_all(
    chart: Chart,
    scenario: str,
    settings: list[str],
    owner: bool,  # noqa: FBT001 - of the table
) -> None:
    """Not where the mode is another, or one replica is no group."""
    manifests = chart.render(scenario, *settings)
    (container,) = pod_spec(workload(manifests))["containers"]
    found = (
        bool(of_kind(manifests, "Secret")),
        "replicas" in {each["name"] for each in container["ports"]},
        "KEYLINE_REPLICA_ADDRESS" in {each["name"] for each in container["env"]},
        "replica_" in configuration(manifests),
    )
    assert set(found) == {owner}
