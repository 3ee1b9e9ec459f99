"""The gateway in front of each shared broker, and what a load test needs beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import httpx
import pulsar
import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.gateway import KeylineGateway
from integration.load.audit import AuditResult
from integration.load.report import audit_lines
from integration.logs import tail
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from tests.integration.busy_replicas import settle
from tests.integration.side_by_side import CaseOf, Outcomes, side_by_side

LOG_LINES = 80
LOG_LINE_MAX = 400


class StartGateway(Protocol):
    """What the `start_gateway` fixture gives."""

    def __call__(self, broker: PulsarStandalone, **settings: str) -> KeylineGateway:
        """Start a gateway of the test's own in front of a broker; settings by their names in the configuration."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the ends of the logs of a failed test's servers: what failed once on another machine may not come again."""
    report = yield
    if report.failed and isinstance(item, pytest.Function):
        for name, given in item.funcargs.items():
            for server in given if isinstance(given, list) else [given]:
                if isinstance(server, KeylineGateway | PulsarStandalone) and server.log.exists():
                    report.sections.append((f"end of the log of {name}, {server.log}", end_of(server.log)))
    return report


@pytest.fixture
def start_gateway(tmp_path: Path) -> Iterator[StartGateway]:
    """Start gateways that a test may do anything to; they end with the test."""
    gateways: list[KeylineGateway] = []

    def start(broker: PulsarStandalone, **settings: str) -> KeylineGateway:
        directory = tmp_path / f"gateway-{len(gateways)}"
        gateway = KeylineGateway(broker.service_url, broker.admin_url, directory, settings=settings)
        gateways.append(gateway)
        return gateway.start()

    yield start
    for gateway in gateways:
        gateway.close()


@pytest.fixture(scope="module")
def module_broker_settings() -> dict[str, str]:
    """Settings of `module_broker` and `module_pulsar`; a module that needs others has a fixture of this name."""
    return {}


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def module_broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, module_broker_settings: dict[str, str]
) -> Iterator[PulsarStandalone]:
    """A broker of each version for one module alone, whose tests may restart or kill it if they start it again."""
    data = tmp_path_factory.mktemp("module-pulsar")
    with PulsarStandalone(request.param, data=data, settings=module_broker_settings) as standalone:
        yield standalone


@pytest.fixture(scope="module")
def module_pulsar(
    tmp_path_factory: pytest.TempPathFactory, module_broker_settings: dict[str, str]
) -> Iterator[PulsarStandalone]:
    """As `module_broker`, of the current version only."""
    with PulsarStandalone(data=tmp_path_factory.mktemp("module-pulsar"), settings=module_broker_settings) as standalone:
        yield standalone


@pytest.fixture(scope="module")
def outcomes(
    request: pytest.FixtureRequest, case_of: CaseOf, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outcomes]:
    """What becomes of the cases of a module that run beside each other; its fixture `case_of` describes them."""
    with side_by_side(request, case_of, tmp_path_factory.mktemp("cases")) as running:
        yield running


@pytest.fixture(scope="session")
def gateway(
    broker: PulsarStandalone, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[KeylineGateway]:
    """A gateway shared by all tests on one broker that leave it alone; with `--replicas`, one of several."""
    count: int = request.config.getoption("--replicas")
    if count > 1:
        with ExitStack() as stack:
            replicas = Replicas(stack, broker, tmp_path_factory.mktemp("replicas"))
            first = replicas.start(count)
            settle(replicas.gateways)
            yield first
        return
    with KeylineGateway(broker.service_url, broker.admin_url, tmp_path_factory.mktemp("gateway")) as shared:
        yield shared


@pytest.fixture(scope="session")
def topic_statistics(broker: PulsarStandalone) -> Callable[[str], dict[str, Any]]:
    """Ask the broker itself for a topic's statistics."""

    def ask(topic: str) -> dict[str, Any]:
        path = topic.replace("://", "/")
        answer = httpx.get(f"{broker.admin_url}/admin/v2/{path}/stats", trust_env=False, timeout=30)
        values: dict[str, Any] = answer.raise_for_status().json()
        return values

    return ask


def explain(result: AuditResult, *gateways: KeylineGateway) -> str:
    """Say what the audit found, and what the gateways knew and logged, for the message of a failed assertion."""
    now = datetime.now(UTC).isoformat()
    lines = [*audit_lines(result), f"(the audit's clock is at {time.monotonic():.4f}, the logs' at {now})"]
    for gateway in gateways:
        if gateway.running:
            lines.append(json.dumps(gateway.statistics())[:4_000])
        lines += [f"end of {gateway.log}:", end_of(gateway.log)]
    return "\n".join(lines)


def end_of(log: Path) -> str:
    """Read the last lines of a log, shortened."""
    return "\n".join(line[:LOG_LINE_MAX] for line in tail(log, LOG_LINES).splitlines())


@pytest.fixture
def client(gateway: KeylineGateway) -> Iterator[pulsar.Client]:
    """An official client whose service URL is the gateway's."""
    connected = pulsar.Client(gateway.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
    yield connected
    connected.close()
