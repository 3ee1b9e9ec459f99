"""docker-compose.yml: Compose's own loader takes it, and what it says of broker, gateway and Prometheus works.

Broker and gateway run as it describes them, from images built here, since no registry can be reached; Prometheus judges
its configuration and scrapes by it as a program. Grafana is not run: its files are looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import docker
import httpx
import pulsar
import pytest
import yaml
from testcontainers.core.network import Network

from dashboards.alert_rules import RULES, rules_with
from dashboards.build import rendered as rendered_dashboards
from integration.containers.daemon import docker_daemon
from integration.containers.images import build_keyline, ensure_pulsar
from integration.errors import IntegrationError, ToolMissingError
from integration.go_tool import ensure_go_program
from integration.ports import LOOPBACK, free_ports
from proxy.config.load import load
from tests.integration.conditions import eventually
from tests.integration.prometheus import promtool

ROOT: Final = Path(__file__).resolve().parents[2]
LOADER: Final = "github.com/compose-spec/compose-go/v2/cmd@v2.16.2"
ADMIN_PORT: Final = "8750/tcp"
CLIENT_PORT: Final = "6660/tcp"
QUIET: Final = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)

pytestmark = pytest.mark.slow

Model = dict[str, Any]


@pytest.fixture(scope="module")
def model() -> Model:
    """The file as Compose's loader understands it; skips where that cannot be built."""
    try:
        loader = ensure_go_program("cmd", LOADER, "Compose's loader")
    except IntegrationError as error:
        pytest.skip(str(error))
    command = [str(loader), "-format", "json", str(ROOT / "docker-compose.yml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=240)
    assert done.returncode == 0, done.stderr
    loaded: Model = json.loads(done.stdout)
    return loaded


def test_ports_are_on_loopback_and_files_are_there(model: Model) -> None:
    """Nothing asks for a password, so nothing is public; what is mounted exists."""
    services = model["services"]
    assert set(services) == {"pulsar", "gateway", "prometheus", "grafana"}
    for service in services.values():
        assert {port["host_ip"] for port in service.get("ports", [])} <= {LOOPBACK}
        for volume in service.get("volumes", []):
            if volume["type"] == "bind":
                assert Path(volume["source"]).is_file(), volume


def test_the_gateways_variables_are_settings(model: Model) -> None:
    """A name that no setting has would keep it from starting; only where things are differs from the defaults."""
    environment = model["services"]["gateway"]["environment"]
    assert load(None, environment).config.broker.broker_url == "pulsar://pulsar:6650"
    assert set(environment) == {"KEYLINE_BROKER_URL", "KEYLINE_BROKER_ADMIN_URL", "KEYLINE_REPLICA_NAME"}


def test_rules_can_be_those_with_links_to_a_published_runbook(tmp_path: Path) -> None:
    """`dashboards.alert_rules` writes them and Prometheus takes them; the variable names their file."""
    rules = tmp_path / "keyline.rules.yml"
    rules.write_text(rules_with("https://wiki.example.com/runbook"))
    promtool("check", "rules", rules)
    services = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    place = f"${{KEYLINE_RULES:-./{RULES.relative_to(ROOT)}}}:/etc/prometheus/rules/keyline.rules.yml:ro"
    assert place in services["prometheus"]["volumes"], "the loader's program, unlike Compose, knows no variables"


def test_grafana_has_every_dashboard_and_its_data(model: Model) -> None:
    """Where its provider looks, with Prometheus as the source that the dashboards choose by its type."""
    grafana = model["services"]["grafana"]
    provider = yaml.safe_load(model["configs"]["dashboards"]["content"])["providers"][0]
    there = {
        Path(volume["target"]).name
        for volume in grafana["volumes"]
        if volume["target"].startswith(provider["options"]["path"])
    }
    assert there == {path.name for path in rendered_dashboards()}
    (source,) = yaml.safe_load(model["configs"]["datasources"]["content"])["datasources"]
    assert (source["type"], source["url"], source["isDefault"]) == ("prometheus", "http://prometheus:9090", True)
    home = grafana["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
    assert home in {volume["target"] for volume in grafana["volumes"]}


def test_prometheus_takes_its_configuration(model: Model, tmp_path: Path) -> None:
    """With the rules at the place where they are mounted; the job is called what the alerts call it."""
    (tmp_path / "rules").mkdir()
    for volume in model["services"]["prometheus"]["volumes"]:
        if volume["type"] == "bind":
            (tmp_path / Path(volume["target"]).relative_to("/etc/prometheus")).symlink_to(volume["source"])
    file = tmp_path / "prometheus.yml"
    file.write_text(model["configs"]["prometheus"]["content"])
    promtool("check", "config", file)
    assert [job["job_name"] for job in yaml.safe_load(file.read_text())["scrape_configs"]] == ["keyline"]


@pytest.fixture
def daemon() -> Iterator[docker.DockerClient]:
    """A Docker daemon's."""
    with ExitStack() as stack:
        try:
            yield stack.enter_context(docker_daemon())
        except ToolMissingError as error:
            pytest.skip(str(error))


@pytest.mark.broker
def test_a_client_on_this_machine_sends_and_receives(model: Model, daemon: docker.DockerClient) -> None:
    """Through the gateway, of which it knows only the published port: the broker's is not published."""
    images = {"pulsar": ensure_pulsar(daemon, "4.2.4"), "gateway": build_keyline(daemon)}
    client_port, admin_port = free_ports(2)
    published = {CLIENT_PORT: (LOOPBACK, client_port), ADMIN_PORT: (LOOPBACK, admin_port)}
    with Network() as network, ExitStack() as ends:
        for name, ports in (("pulsar", {}), ("gateway", published)):
            container = daemon.containers.create(images[name], ports=ports, **described(model["services"][name]))
            ends.callback(container.remove, force=True)
            network.connect(str(container.id), [name])
            container.start()
        with httpx.Client(base_url=f"http://{LOOPBACK}:{admin_port}", trust_env=False, timeout=30) as admin:
            eventually(lambda: ready(admin), "a gateway that is ready", deadline_s=240)
            assert "keyline_gateway_ready 1" in admin.get("/metrics").text
            # What the file's health check waits for, which needs a program that an image built here lacks.
            eventually(lambda: "public/default" in passed_on(admin), "the broker's first namespace", deadline_s=240)
        client = pulsar.Client(f"pulsar://{LOOPBACK}:{client_port}", logger=QUIET)
        worker = client.subscribe("orders", "billing", consumer_type=pulsar.ConsumerType.KeyShared)
        client.create_producer("orders").send(b"order", partition_key="customer")
        assert worker.receive(30_000).data() == b"order"
        client.close()


def ready(admin: httpx.Client) -> bool:
    """Whether the gateway is, its broker included."""
    try:
        return admin.get("/readyz").is_success
    except httpx.TransportError:
        return False


def passed_on(admin: httpx.Client) -> str:
    """The broker's namespaces, by its admin API through the gateway's."""
    return admin.get("/admin/v2/namespaces/public").text


def described(service: Model) -> dict[str, Any]:
    """What the file says of a service, in the words of Docker's API."""
    return {
        "command": service.get("command"),
        "environment": service.get("environment"),
        "read_only": service.get("read_only", False),
        "cap_drop": service.get("cap_drop"),
        "security_opt": service.get("security_opt"),
        "mem_limit": service.get("mem_limit"),
    }


def test_it_builds_what_it_calls_by_the_name_that_make_image_gives(model: Model) -> None:
    """So one of the two suffices."""
    gateway = model["services"]["gateway"]
    assert gateway["image"] == os.environ.get("KEYLINE_IMAGE", "keyline:local")
    assert Path(gateway["build"]["context"]) == ROOT
