"""The gateway's configuration as the chart renders it, read by the gateway."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from proxy.config.load import shown
from proxy.config.settings import GROUP_OF
from tests.helm.chart import SCENARIOS, Chart, configuration, pod_spec, workload

OWNED = {
    "listen", "admin_listen", "listen_tls", "tls_certificate_file", "tls_key_file", "tls_client_ca_file",
    "replica_name", "replica_listen", "replica_address", "replica_secret_file", "replica_tls_certificate_file",
    "replica_tls_key_file", "replica_tls_ca_file", "broker_token", "journal_key_secret",
}  # fmt: skip
"""Settings that are the chart's own."""


def check_config(text: str, place: Path) -> dict[str, Any]:
    """Let `keyline check-config` read it, with empty files where Secrets would be mounted."""
    moved = text.replace("/etc/keyline/", f"{place}/")
    for name in re.findall(rf'"({re.escape(str(place))}/[^"]+)"', moved):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).touch()
    file = place / "keyline.toml"
    file.write_text(moved)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("KEYLINE_")}
    command = [sys.executable, "-m", "proxy.cli", "check-config", "--config", str(file), "--json"]
    environment |= {"KEYLINE_REPLICA_NAME": "events-keyline-0", "KEYLINE_REPLICA_ADDRESS": "10.0.0.1:6670"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout
    settings: dict[str, Any] = json.loads(done.stdout)["settings"]
    return {name: setting["value"] for name, setting in settings.items()}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_gateway_takes_what_is_rendered(chart: Chart, scenario: str, tmp_path: Path) -> None:
    """And what a person set stands in it."""
    settings = check_config(configuration(chart.render(scenario)), tmp_path)
    asked = yaml.safe_load(SCENARIOS[scenario].read_text()).get("config", {})
    for name, value in asked.items():
        if name in {"gateway_memory_bytes", "websocket_origins"}:
            continue  # written in other forms
        assert settings[name] == value, name


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_every_file_that_is_named_is_mounted(chart: Chart, scenario: str) -> None:
    """A Secret's items under the very names that the configuration has."""
    manifests = chart.render(scenario)
    pod = pod_spec(workload(manifests))
    items = {
        volume["name"]: [item["path"] for item in volume["secret"]["items"]]
        for volume in pod["volumes"]
        if "secret" in volume
    }
    mounted = {
        f"{mount['mountPath']}/{path}"
        for mount in pod["containers"][0]["volumeMounts"]
        for path in items.get(mount["name"], [])
    }
    assert set(re.findall(r'"(/etc/keyline/[^"]+)"', configuration(manifests))) == mounted


def test_every_setting_can_be_passed(chart: Chart, tmp_path: Path) -> None:
    """With its default, those that have none or are the chart's own excepted."""
    defaults = {
        name: shown(value)
        for name, (_, group) in GROUP_OF.items()
        if name not in OWNED and (value := group.model_fields[name].default) is not None
    }
    defaults["groups_enabled"] = True
    text = configuration(chart.render("minimal", f"config={json.dumps(defaults)}"))
    assert set(defaults) <= set(tomllib.loads(text))
    settings = check_config(text, tmp_path)
    assert {name: settings[name] for name in defaults} == defaults


def test_a_release_is_found_by_its_name(chart: Chart) -> None:
    """As apache/pulsar-helm-chart makes names: `pulsar` is added unless the release's has it."""

    def urls(scenario: str, *settings: str) -> tuple[str, str, bool]:
        found = tomllib.loads(configuration(chart.render(scenario, *settings)))
        return found["broker_url"], found["broker_admin_url"], found["broker_is_proxy"]

    proxy, broker = "pulsar-proxy.shop.svc.cluster.local", "main-pulsar-broker.messaging.svc.cluster.local"
    assert urls("minimal") == (f"pulsar://{proxy}:6650", f"http://{proxy}:80", True)
    assert urls("secured-release") == (f"pulsar+ssl://{broker}:6651", f"https://{broker}:8443", False)
    assert urls("minimal", "pulsar.tls.enabled=true")[1] == f"https://{proxy}:443"
    assert urls("minimal", 'pulsar.component="broker"')[1].endswith("pulsar-broker.shop.svc.cluster.local:8080")
    assert urls("minimal", 'pulsar.fullname="bus"')[0] == "pulsar://bus-proxy.shop.svc.cluster.local:6650"


def test_a_releases_secrets_are_found_by_its_name(chart: Chart) -> None:
    """Of the CA's Secret the certificate only: its key is in it too."""
    volumes = {volume["name"]: volume for volume in pod_spec(workload(chart.render("secured-release")))["volumes"]}
    assert volumes["token"]["secret"] == {
        "secretName": "main-token-keyline",
        "items": [{"key": "TOKEN", "path": "token"}],
    }
    assert volumes["pulsar-ca"]["secret"] == {
        "secretName": "main-ca-tls",
        "items": [{"key": "ca.crt", "path": "ca.crt"}],
    }
    assert volumes["admin-token"]["secret"]["secretName"] == "main-token-asymmetric-key"
    manifests = chart.render("secured-release", "adminTokens.symmetric=true")
    found = tomllib.loads(configuration(manifests))
    assert found["admin_token_secret_file"] == "/etc/keyline/admin-token/SECRETKEY"


def test_what_a_person_sets_wins(chart: Chart) -> None:
    """Over what is derived, what is false or zero included."""
    text = configuration(chart.render("single", "config.broker_is_proxy=true", "config.groups_enabled=true"))
    found = tomllib.loads(text)
    assert (found["broker_is_proxy"], found["groups_enabled"], found["drain_timeout_s"]) == (True, True, 0)


@pytest.mark.parametrize(("scenario", "groups"), [("minimal", True), ("single", False), ("autoscaled", True)])
def test_several_replicas_are_a_group(chart: Chart, scenario: str, groups: bool) -> None:  # noqa: FBT001 - of the table
    """One is not."""
    assert tomllib.loads(configuration(chart.render(scenario)))["groups_enabled"] is groups


def test_each_replica_is_named_after_its_pod(chart: Chart) -> None:
    """So no two have one name."""
    (container,) = pod_spec(workload(chart.render()))["containers"]
    environment = {variable["name"]: variable for variable in container["env"]}
    assert environment["KEYLINE_REPLICA_NAME"]["valueFrom"] == {"fieldRef": {"fieldPath": "metadata.name"}}


def test_tls_settings_are_passed_only_with_tls(chart: Chart) -> None:
    """Then clients without it reach nothing, unless they may."""
    without = tomllib.loads(configuration(chart.render("minimal")))
    assert not {"listen_tls", "tls_certificate_file", "tls_key_file", "tls_client_ca_file"} & set(without)
    with_it = tomllib.loads(configuration(chart.render("public-tls")))
    assert (with_it["listen"], with_it["listen_tls"]) == ("127.0.0.1:6660", "0.0.0.0:6661")
    assert with_it["tls_client_ca_file"] == "/etc/keyline/client-ca/ca.crt"
    assert tomllib.loads(configuration(chart.render("own-certificate")))["listen"] == "0.0.0.0:6660"


def test_a_new_configuration_makes_new_pods(chart: Chart) -> None:
    """The gateway reads it once."""

    def checksum(*settings: str) -> Any:
        return workload(chart.render("minimal", *settings))["spec"]["template"]["metadata"]["annotations"][
            "checksum/config"
        ]

    assert checksum() == checksum('service.type="NodePort"')
    assert checksum() != checksum("config.workers_max=5")


@pytest.mark.parametrize(
    ("scenario", "journal", "mounted"),
    [
        ("journal-volumes", "/var/lib/keyline/journal", True),
        ("journal-shared", "/var/lib/keyline/journal", True),
        ("object-store", "s3://journals/keyline", True),
        ("minimal", None, False),
    ],
)
def test_the_journal_has_a_place_that_can_be_written_to(
    chart: Chart,
    scenario: str,
    journal: str | None,
    mounted: bool,  # noqa: FBT001 - of the table
) -> None:
    """The root file system cannot."""
    manifests = chart.render(scenario)
    assert tomllib.loads(configuration(manifests)).get("journal") == journal
    mounts = {mount["mountPath"] for mount in pod_spec(workload(manifests))["containers"][0]["volumeMounts"]}
    assert ("/var/lib/keyline" in mounts) == mounted
