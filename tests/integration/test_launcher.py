"""Real brokers, really started: what the other tests, the demo and the bench take for granted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import httpx
import psutil
import pulsar as pulsar_client
import pytest

from integration import pulsar as command
from integration.errors import StartError
from integration.ports import LOOPBACK, free_ports
from integration.standalone import PulsarStandalone
from tests.conftest import StartPulsar

RECEIVE_MS = 60_000
pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarStandalone]:
    """A broker with settings of its own that these tests may pause, restart and kill; one start serves them all."""
    settings = {"subscriptionKeySharedUseConsistentHashing": "false"}
    with PulsarStandalone(data=tmp_path_factory.mktemp("own"), settings=settings, transactions=True) as standalone:
        yield standalone


def ask(broker: PulsarStandalone, path: str, timeout_s: float = 60.0) -> httpx.Response:
    """The admin API's answer."""
    return httpx.get(f"{broker.admin_url}{path}", timeout=timeout_s, trust_env=False)


def send(broker: PulsarStandalone, topic: str, data: bytes) -> None:
    """Publish one message and wait for its receipt."""
    logger = pulsar_client.ConsoleLogger(pulsar_client.LoggerLevel.Error)
    with closing(pulsar_client.Client(broker.service_url, logger=logger)) as client:
        client.create_producer(topic).send(data)


def receive_all(broker: PulsarStandalone, topic: str, count: int) -> list[bytes]:
    """Read the topic from its beginning without acknowledging anything."""
    logger = pulsar_client.ConsoleLogger(pulsar_client.LoggerLevel.Error)
    with closing(pulsar_client.Client(broker.service_url, logger=logger)) as client:
        reader = client.create_reader(topic, pulsar_client.MessageId.earliest)
        return [reader.read_next(RECEIVE_MS).data() for _ in range(count)]


def test_a_broker_is_of_the_version_asked_for(broker: PulsarStandalone) -> None:
    """No test claims a version that does not run."""
    assert ask(broker, "/admin/v2/brokers/version").text == broker.version


def test_a_broker_listens_on_loopback_only(broker: PulsarStandalone) -> None:
    """Binary protocol, admin API and bookie: nothing that a test starts is reachable from outside."""
    connections = psutil.Process(broker.pid).net_connections("tcp")
    listening = [connection.laddr for connection in connections if connection.status == psutil.CONN_LISTEN]
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {LOOPBACK}
    assert {broker.port, broker.web_port} < {address.port for address in listening}


def test_both_versions_run_side_by_side(pulsar: PulsarStandalone, pulsar_4_0: PulsarStandalone) -> None:
    """A test can compare them in one go."""
    assert pulsar.running
    assert pulsar_4_0.running
    assert not {pulsar.port, pulsar.web_port} & {pulsar_4_0.port, pulsar_4_0.web_port}
    assert pulsar.version != pulsar_4_0.version


def test_settings_and_transactions_reach_the_broker(own: PulsarStandalone) -> None:
    """A setting that is passed wins, one that is not has our default, and the coordinator runs on request."""
    running = ask(own, "/admin/v2/brokers/configuration/runtime").json()
    assert running["subscriptionKeySharedUseConsistentHashing"] == "false"
    assert running["acknowledgmentAtBatchIndexLevelEnabled"] == "true"
    assert running["brokerDeleteInactiveTopicsEnabled"] == "false"
    coordinators = ask(own, "/admin/v3/transactions/coordinators").json()
    assert [coordinator["id"] for coordinator in coordinators] == list(range(len(coordinators)))
    assert coordinators


def test_a_paused_broker_accepts_and_says_nothing(own: PulsarStandalone) -> None:
    """It is the stall that a dead machine behind a live network shows; afterwards all goes on."""
    own.pause()
    try:
        assert own.running
        with pytest.raises(httpx.ReadTimeout):
            ask(own, "/admin/v2/clusters", timeout_s=0.5)
    finally:
        own.resume()
    own.wait_ready()


@pytest.mark.slow
def test_data_survives_a_stop_and_a_kill(own: PulsarStandalone, new_topic: Callable[[str], str]) -> None:
    """A receipt given is a message kept, on the same ports, by another process."""
    topic = new_topic("kept")
    send(own, topic, b"before the stop")
    pid, service_url = own.pid, own.service_url
    own.restart()
    assert own.pid != pid
    assert own.service_url == service_url
    send(own, topic, b"before the kill")
    own.kill()
    assert not own.running
    own.start()
    assert receive_all(own, topic, 2) == [b"before the stop", b"before the kill"]


def test_a_broker_that_cannot_start_says_why(start_pulsar: StartPulsar) -> None:
    """The error ends with the log of the start that failed."""
    with pytest.raises(StartError, match="ended while starting") as caught:
        start_pulsar(settings={"brokerServicePort": "no number"})
    assert "no number" in str(caught.value)


def test_a_broker_that_is_not_ready_in_time_is_killed(tmp_path: Path) -> None:
    """A time limit is an error with the log's end, not a broker that comes up later."""
    broker = PulsarStandalone(data=tmp_path)
    started_at = time.monotonic()
    with pytest.raises(StartError, match="not ready after 1 s"):
        broker.start(timeout_s=1.0)
    assert time.monotonic() - started_at < 180.0
    assert not broker.running
    with pytest.raises(StartError, match="is not running"):
        _ = broker.pid


@pytest.mark.slow
def test_the_background_broker_is_started_described_and_stopped(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make pulsar` twice gives one broker, another on its port is refused, and a stop ends just that process."""
    port, web_port = free_ports(2)
    where = ["--data", str(tmp_path / "one"), "--port", str(port), "--web-port", str(web_port)]
    try:
        assert command.main(["start", *where]) == 0
        assert command.main(["start", *where]) == 0
        assert "runs already" in capsys.readouterr().out
        assert command.main(["status", *where]) == 0
        assert f"pulsar://{LOOPBACK}:{port}" in capsys.readouterr().out
        assert command.main(["start", *where, "--data", str(tmp_path / "two")]) == 1
        assert f"port {port} of {LOOPBACK} is taken" in capsys.readouterr().err
    finally:
        assert command.main(["stop", *where]) == 0
    assert command.main(["status", *where]) == 1


def test_a_record_of_another_process_is_not_believed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Process ids come back after a reboot: `stop` must not end whoever has it now."""
    (tmp_path / command.RECORD).write_text(json.dumps({"pid": psutil.Process().pid}))
    assert command.main(["status", "--data", str(tmp_path)]) == 1
    assert command.main(["stop", "--data", str(tmp_path)]) == 0
    assert "no Pulsar runs" in capsys.readouterr().out
