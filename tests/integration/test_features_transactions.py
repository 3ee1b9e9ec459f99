"""Transactions under load, with the tool of Java's client: `pulsar-perf transaction`.

Each of its transactions takes messages from one topic, acknowledges them and writes to another topic, through
the coordinator that the client looks up through the gateway.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pulsar
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from integration.tools import pulsar_perf
from tests.conftest import StartPulsar
from tests.integration.clients import RECEIVE_MS, numbered, send_all
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway

TRANSACTIONS = 20
EACH = 10
"""Messages that a transaction takes, and that it writes."""
SENT = 400
RUN_S_MAX = 180.0
BESIDE_MS = 3_000
"""In which nothing more may come."""
NewTopic = Callable[[str], str]

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Exchange:
    """A broker with a coordinator, a gateway before it, and the two topics of a run."""

    def __init__(self, broker: PulsarStandalone, gateway: KeylineGateway, new_topic: NewTopic, directory: Path) -> None:
        self._broker = broker
        self._gateway = gateway
        self._directory = directory
        self.source, self.target = new_topic("taken"), new_topic("written")
        client = pulsar.Client(gateway.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        client.subscribe(self.source, "s", consumer_type=pulsar.ConsumerType.Shared).close()
        client.subscribe(self.target, "reader").close()
        send_all(client.create_producer(self.source), numbered(["a", "b", "c"], SENT))
        client.close()

    def run(self, *arguments: str, kind: str = "Shared") -> str:
        """Run so many transactions through the gateway; what the client printed."""
        log = self._directory / "transactions.log"
        topics = ("--topics-c", self.source, "--topics-p", self.target, "-ss", "s", "-st", kind)
        amounts = ("-ntxn", str(TRANSACTIONS), "-nmc", str(EACH), "-nmp", str(EACH), "-q", str(EACH))
        run = pulsar_perf("transaction", *topics, *amounts, *arguments, service_url=self._gateway.service_url, log=log)
        run.wait(RUN_S_MAX)
        return log.read_text()

    def backlog(self) -> int:
        """Messages of the source that nobody has acknowledged for good."""
        path = self.source.replace("://", "/")
        url = f"{self._broker.admin_url}/admin/v2/{path}/stats"
        statistics: dict[str, Any] = httpx.get(url, trust_env=False, timeout=30).raise_for_status().json()
        backlog: int = statistics["subscriptions"]["s"]["msgBacklog"]
        return backlog

    def written(self, expected: int) -> int:
        """Messages of the target that a reader gets to see: those expected, whenever they come, and what is beside."""
        client = pulsar.Client(self._gateway.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        reader = client.subscribe(self.target, "reader")
        seen = 0
        try:
            while True:
                reader.acknowledge(reader.receive(timeout_millis=RECEIVE_MS if seen < expected else BESIDE_MS))
                seen += 1
        except pulsar.Timeout:
            return seen
        finally:
            client.close()


@pytest.fixture
def exchange(start_pulsar: StartPulsar, start_gateway: StartGateway, new_topic: NewTopic, tmp_path: Path) -> Exchange:
    """Everything started, nothing taken yet."""
    broker = start_pulsar(transactions=True)
    return Exchange(broker, start_gateway(broker), new_topic, tmp_path)


def test_committed_transactions_take_and_write_and_aborted_ones_do_neither(exchange: Exchange) -> None:
    """What was written by a commit is there, what was taken is gone; after aborts everything is as before."""
    exchange.run("-abort")
    assert exchange.written(0) == 0
    eventually(lambda: exchange.backlog() == SENT, "the whole backlog after aborts")
    exchange.run()
    assert exchange.written(TRANSACTIONS * EACH) == TRANSACTIONS * EACH
    eventually(lambda: exchange.backlog() <= SENT - TRANSACTIONS * EACH, "a smaller backlog after commits")


def test_key_shared_takes_part_in_transactions_as_shared_does(exchange: Exchange) -> None:
    """The client's load tool, many transactions one after another: aborts take nothing, commits what they say."""
    exchange.run("-abort", kind="Key_Shared")
    assert exchange.written(0) == 0
    eventually(lambda: exchange.backlog() == SENT, "the whole backlog after aborts")
    exchange.run(kind="Key_Shared")
    assert exchange.written(TRANSACTIONS * EACH) == TRANSACTIONS * EACH
    eventually(lambda: exchange.backlog() <= SENT - TRANSACTIONS * EACH, "a smaller backlog after commits")
