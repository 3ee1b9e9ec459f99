"""Messages are delivered again in owner mode as with one gateway: by a worker's seek, and by Pulsar's own tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pulsar as pulsar_client
import pytest
from typer.testing import CliRunner

from integration.gateway import KeylineGateway
from integration.load.options import SUBSCRIPTION
from integration.ports import LOOPBACK, free_ports
from integration.standalone import PulsarStandalone
from proxy.cli.main import app
from tests.integration.busy_replicas import settle
from tests.integration.clients import Workers, by_key, key_shared, numbered, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway

KEYS = [f"key-{number}" for number in range(20)]
MESSAGES = 60
REPLICAS = 2

pytestmark = [pytest.mark.slow, pytest.mark.broker]


@pytest.fixture
def gateways(pulsar: PulsarStandalone, start_gateway: StartGateway, tmp_path: Path) -> list[KeylineGateway]:
    """Two replicas in owner mode."""
    secret = tmp_path / "secret"
    secret.write_text("a secret of the replicas of this test\n")
    shared = {"groups_enabled": "true", "replica_secret_file": str(secret)}
    started = [
        start_gateway(pulsar, replica_name=f"replica-{number}", replica_listen=f"{LOOPBACK}:{port}", **shared)
        for number, port in enumerate(free_ports(REPLICAS))
    ]
    settle(started)
    return started


@pytest.fixture
def workers(gateways: list[KeylineGateway], new_topic: Callable[[str], str]) -> Iterator[tuple[str, Workers]]:
    """A worker at each, and what was sent is acknowledged."""
    topic = new_topic("owners-replay")
    with ExitStack() as clients:
        joined = Workers({})
        for number, gateway in enumerate(gateways):
            client = pulsar_client.Client(gateway.service_url)
            clients.callback(client.close)
            joined.consumers |= key_shared(client, topic, f"w{number}", subscription_name=SUBSCRIPTION).consumers
        sender = pulsar_client.Client(gateways[0].service_url)
        clients.callback(sender.close)
        send_all(sender.create_producer(topic), numbered(KEYS, MESSAGES))
        joined.receive(MESSAGES)
        joined.received.clear()
        yield topic, joined


def acknowledged(broker: PulsarStandalone, topic: str) -> bool:
    """Whether the broker knows that everything is."""
    path = f"{topic.replace('://', '/')}/stats"
    stats = httpx.get(f"{broker.admin_url}/admin/v2/{path}", trust_env=False, timeout=30).raise_for_status().json()
    return int(stats["subscriptions"][SUBSCRIPTION]["msgBacklog"]) == 0


def test_a_worker_seeks(pulsar: PulsarStandalone, workers: tuple[str, Workers]) -> None:
    """Whichever replica it is connected to."""
    topic, joined = workers
    for name in joined.consumers:
        eventually(lambda: acknowledged(pulsar, topic), "all acknowledgements")
        joined.consumers[name].seek(pulsar_client.MessageId.earliest)
        joined.received.clear()
        assert sum(map(len, by_key(joined.receive(MESSAGES)).values())) == MESSAGES


def test_an_operator_moves_the_cursor_at_the_broker(pulsar: PulsarStandalone, workers: tuple[str, Workers]) -> None:
    """As `pulsar-admin topics reset-cursor` does."""
    topic, joined = workers
    eventually(lambda: acknowledged(pulsar, topic), "all acknowledgements")
    path = f"{topic.replace('://', '/')}/subscription/{SUBSCRIPTION}/resetcursor/0"
    httpx.post(f"{pulsar.admin_url}/admin/v2/{path}", trust_env=False, timeout=30).raise_for_status()
    assert sum(map(len, by_key(joined.receive(MESSAGES)).values())) == MESSAGES


def test_keyline_replay_names_both(gateways: list[KeylineGateway], workers: tuple[str, Workers]) -> None:
    """Instead of a half of it."""
    topic, _ = workers
    asked = ["replay", topic, SUBSCRIPTION, "--from", "earliest", "--admin-url", gateways[0].admin_url]
    refused = CliRunner().invoke(app, asked)
    told = " ".join(refused.output.split())
    assert refused.exit_code == 1
    assert "let a worker seek" in told
    assert "pulsar-admin topics reset-cursor" in told
