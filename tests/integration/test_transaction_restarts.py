"""Transactions with a restart in their middle, or an end that the gateway does not see, with clients of two languages.

A worker acknowledges a key's first message in a transaction and leaves; another has the key by then. Whatever happens
before the end, it gets nothing of the key until then, and after an abort the first message first. A gateway that was
killed asks the broker; one that may not loses nothing, and does not know the order.
"""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import httpx
import pulsar
import pytest

from integration import artifacts
from integration.artifacts import PULSAR_VERSIONS
from integration.compatibility.clients import go_program
from integration.errors import ToolMissingError
from integration.gateway import KeylineGateway, service_url_of
from integration.java import java
from integration.replicas import Replicas
from integration.standalone import PulsarStandalone
from tests.conftest import StartPulsar
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway

PROGRAM = Path(__file__).parent / "java" / "TransactionalWorker.java"
WORD_S = 120.0

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def java_worker() -> list[str]:
    """Its command."""
    libraries = artifacts.ensure(artifacts.TOOLS)
    return [str(java()), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{libraries}/*", str(PROGRAM)]


def go_worker() -> list[str]:
    """Likewise; without Go there is none, and the test is skipped."""
    try:
        return [*go_program(), "worker"]
    except ToolMissingError as missing:
        pytest.skip(str(missing))


WORKERS = {"java": java_worker, "go": go_worker}
"""By client: programs that obey the same orders."""


class ToldWorker:
    """One of them in a process of its own."""

    def __init__(self, client: str, service_url: str, topic: str, coordinator_url: str) -> None:
        """Start it; transactions are begun and ended by way of `coordinator_url`."""
        self._process = subprocess.Popen(
            [*WORKERS[client](), service_url, topic, coordinator_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._said: queue.Queue[str] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def __enter__(self) -> Self:
        """It is running."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, however the test went."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def do(self, *orders: str) -> list[str]:
        """Let it do these, one after another; what it said to each."""
        assert self._process.stdin is not None
        for order in orders:
            print(order, file=self._process.stdin, flush=True)
        return [self._said.get(timeout=WORD_S) for _ in orders]

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self._said.put(json.loads(line)["said"])


class Scene:
    """A broker with a coordinator, a gateway or several, and two workers of one topic."""

    def __init__(
        self,
        broker: PulsarStandalone,
        *gateways: KeylineGateway,
        stack: ExitStack,
        unseen: bool = False,
        client: str = "java",
    ) -> None:
        """With `unseen`, transactions end past the gateway."""
        self.broker, self.gateways = broker, gateways
        self.topic = "persistent://public/default/restarts"
        url = service_url_of(gateways)
        coordinator = broker.service_url if unseen else url
        made = (ToldWorker(client, url, self.topic, coordinator) for _ in range(2))
        self.first, self.second = map(stack.enter_context, made)

    def send(self, *texts: str, key: str = "k") -> None:
        """Messages of a key."""
        client = pulsar.Client(self.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        producer = client.create_producer(self.topic)
        for text in texts:
            producer.send(text.encode(), partition_key=key)
        client.close()

    def send_batch(self, *texts: str) -> None:
        """One batch of a key's messages."""
        client = pulsar.Client(self.broker.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
        producer = client.create_producer(self.topic, batching_enabled=True, batching_max_publish_delay_ms=60_000)
        for text in texts:
            producer.send_async(text.encode(), None, partition_key="k")
        producer.flush()
        client.close()

    def subscription(self) -> dict[str, Any]:
        """What the gateway tells of it; nothing if it has none."""
        url = f"{next(each for each in self.gateways if each.running).admin_url}/api/v1/subscriptions"
        told: list[dict[str, Any]] = (
            httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()["subscriptions"]
        )
        return told[0] if told else {}

    def backlog(self) -> int:
        """Entries that the broker does not have as acknowledged whole."""
        path = self.topic.replace("://", "/")
        url = f"{self.broker.admin_url}/admin/v2/{path}/stats?getPreciseBacklog=true"
        told = httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()
        return int(told["subscriptions"]["s"]["msgBacklog"])

    def begin(self) -> None:
        """The first message is in a transaction, its worker has left, and newer ones wait for the second."""
        assert self.first.do("join", "begin") == ["joined", "begun"]
        self.send("0")
        assert self.first.do("receive", "ack") == ["0", "acknowledged"]
        assert self.second.do("join") == ["joined"]
        assert self.first.do("leave") == ["left"]
        self.send("1", "2")
        assert self.second.do("soon") == ["nothing"]

    def ends_in_order(self, end: str) -> None:
        """Nothing is delivered before the end, which is told; then what was aborted comes first."""
        eventually(lambda: self.subscription().get("takeover_transactions") == 1, "an open transaction to be known")
        verdict = self.subscription()["dispatcher"]["verdict"]
        assert verdict["state"] == "open_transactions"
        assert "waits for 1 transaction that was open when it took the subscription over" in verdict["says"]
        assert self.second.do("soon") == ["nothing"]
        assert self.first.do(end)[0] in {"aborted", "committed"}
        wanted = ["0", "1", "2"] if end == "abort" else ["1", "2"]
        assert self.second.do(*["receive", "plain"] * len(wanted))[::2] == wanted
        assert self.second.do("soon") == ["nothing"]
        assert self.subscription()["takeovers_at_risk"] == 0


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What ends with the test."""
    with ExitStack() as made:
        yield made


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_a_broker_is_killed_in_the_middle(
    end: str, start_pulsar: StartPulsar, start_gateway: StartGateway, stack: ExitStack
) -> None:
    """It keeps what is pending, and so does the gateway."""
    broker = start_pulsar(transactions=True)
    scene = Scene(broker, start_gateway(broker), stack=stack)
    scene.begin()
    broker.kill()
    broker.start()
    assert scene.second.do("soon") == ["nothing"]
    assert scene.first.do(end)[0] in {"aborted", "committed"}
    wanted = ["0", "1", "2"] if end == "abort" else ["1", "2"]
    assert scene.second.do(*["receive", "plain"] * len(wanted))[::2] == wanted
    assert scene.second.do("soon") == ["nothing"]


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_an_end_past_the_gateway_is_seen_at_the_broker(
    end: str, start_pulsar: StartPulsar, start_gateway: StartGateway, stack: ExitStack
) -> None:
    """Also a commit that an older message, unacknowledged, hides below the mark-delete position."""
    broker = start_pulsar(transactions=True)
    scene = Scene(broker, start_gateway(broker), stack=stack, unseen=True)
    scene.send("older", key="other")
    assert scene.first.do("join", "receive", "begin") == ["joined", "older", "begun"]
    scene.send("0")
    assert scene.first.do("receive", "ack") == ["0", "acknowledged"]
    assert scene.second.do("join") == ["joined"]
    assert scene.first.do("leave") == ["left"]
    assert scene.second.do("receive") == ["older"]
    scene.send("1", "2")
    assert scene.second.do("soon") == ["nothing"]
    scene.first.do(end)
    wanted = ["0", "1", "2"] if end == "abort" else ["1", "2"]
    assert scene.second.do(*["receive"] * len(wanted)) == wanted


@pytest.mark.parametrize("end", ["abort", "commit"])
@pytest.mark.parametrize(
    ("version", "client"), [*((version, "java") for version in PULSAR_VERSIONS), (PULSAR_VERSIONS[0], "go")]
)
def test_a_gateway_is_killed_in_the_middle(
    end: str, version: str, client: str, start_pulsar: StartPulsar, start_gateway: StartGateway, stack: ExitStack
) -> None:
    """The next one waits."""
    broker = start_pulsar(version, transactions=True)
    gateway = start_gateway(broker)
    scene = Scene(broker, gateway, stack=stack, client=client)
    scene.begin()
    gateway.kill()
    gateway.start()
    scene.ends_in_order(end)


@pytest.mark.parametrize("end", ["abort", "commit"])
def test_an_owner_is_killed_in_the_middle(
    end: str, start_pulsar: StartPulsar, tmp_path: Path, stack: ExitStack
) -> None:
    """The replica that takes the subscription over waits."""
    broker = start_pulsar(transactions=True)
    replicas = Replicas(stack, broker, tmp_path)
    replicas.start(2)
    scene = Scene(broker, *replicas.gateways, stack=stack)
    scene.begin()
    owner = next(each for each in replicas.gateways if each.workers(scene.topic, "s"))
    owner.kill()
    scene.ends_in_order(end)


def test_a_killed_gateway_loses_nothing(
    start_pulsar: StartPulsar, start_gateway: StartGateway, stack: ExitStack
) -> None:
    """One that does not ask does not know what is in transactions: what is aborted comes, and behind newer ones."""
    broker = start_pulsar(transactions=True)
    gateway = start_gateway(broker, takeover_wait_s="0")
    scene = Scene(broker, gateway, stack=stack)
    scene.begin()
    gateway.kill()
    gateway.start()
    assert scene.second.do("receive", "plain", "receive", "plain")[::2] == ["1", "2"]
    assert scene.first.do("abort") == ["aborted"]
    assert scene.second.do("receive", "plain") == ["0", "acknowledged"]


@pytest.mark.parametrize("end", ["abort", "commit"])
@pytest.mark.parametrize("version", PULSAR_VERSIONS)
def test_a_batch_of_which_a_transaction_has_some_is_not_acknowledged_whole(
    end: str, version: str, start_pulsar: StartPulsar, start_gateway: StartGateway, stack: ExitStack
) -> None:
    """The gateway that was killed knew of it; workers acknowledge the rest through the next one before the end."""
    broker = start_pulsar(version, transactions=True)
    gateway = start_gateway(broker, takeover_wait_s="0")
    scene = Scene(broker, gateway, stack=stack)
    assert scene.first.do("join", "begin") == ["joined", "begun"]
    scene.send_batch("0", "1", "2")
    assert scene.first.do("receive", "ack") == ["0", "acknowledged"]
    gateway.kill()
    gateway.start()
    assert scene.second.do("join") == ["joined"]
    assert scene.first.do("leave") == ["left"]
    assert scene.second.do("receive", "plain", "receive", "plain")[::2] == ["1", "2"]
    eventually(lambda: scene.subscription()["dispatcher"]["unconfirmed_acks"] == 0, "the broker to have the acks")
    assert scene.second.do("soon") == ["nothing"]
    assert scene.first.do(end)[0] in {"aborted", "committed"}
    wanted = ["0"] if end == "abort" else []
    assert scene.second.do(*["receive", "plain"] * len(wanted))[::2] == wanted
    assert scene.second.do("soon") == ["nothing"]
    eventually(lambda: scene.backlog() == 0, "the batch to be done at the broker")
