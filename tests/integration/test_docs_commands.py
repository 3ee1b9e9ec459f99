"""Every command in a block of the documentation is run, as it stands there, or is run by a test that is named here.

The gateway of the examples has topic `orders`, subscription `billing`, workers `worker-4` and `worker-5`, and messages
of key `customer-17`; placeholders and addresses of the examples become those of the test.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pulsar
import pytest

from integration import tools
from integration.errors import ToolMissingError
from integration.gateway import KeylineGateway
from integration.helm_tool import ensure_helm, run_helm
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess
from integration.standalone import PulsarStandalone
from proxy.cli.admin_client import AdminClient, subscription_path
from tests.docs_commands import PROGRAMS, ROOT, Shown, documents, elsewhere, shown
from tests.integration.clients import available
from tests.integration.conditions import eventually
from tests.integration.raw_client import RawClient
from tests.net.producer_rig import want

KEYLINE = str(Path(sys.executable).with_name("keyline"))
WORKERS = ("worker-4", "worker-5")
COMMAND_S_MAX = 240
WITHIN = {"http://gateway:8750": "{gateway}", "http://127.0.0.1:8750": "{gateway}"}

pytestmark = [pytest.mark.slow, pytest.mark.broker]


class Place:
    """Where the commands of one document run."""

    def __init__(
        self, broker: PulsarStandalone, gateway: KeylineGateway, workers: list[pulsar.Consumer], directory: Path
    ) -> None:
        self.broker = broker
        self.gateway = gateway
        self.workers = workers
        self.directory = directory
        self.environment: dict[str, str] = {}

    def run(self, command: Shown) -> None:
        """Run one; fails with what it said if it fails."""
        line = command.line
        for shown_address, ours in WITHIN.items():
            line = line.replace(shown_address, ours.format(gateway=self.gateway.admin_url))
        variables, words = Shown(command.document, line).parts
        self.environment |= variables
        runners = {
            "keyline": self._keyline,
            "export": self._export,
            "pulsar-admin": self._pulsar_admin,
            "helm": self._helm,
            "curl": self._curl,
        }
        assert runners.keys() == PROGRAMS
        runners[words[0].rpartition("/")[2]](words[1:])

    def _export(self, words: list[str]) -> None:
        name, value = words[0].split("=", 1)
        self.environment[name] = str(self.directory / value.lstrip("/")) if value.startswith("/") else value

    def _keyline(self, words: list[str]) -> None:
        if words[0] == "serve":
            self._serve(words)
            return
        if words[0] in {"redrive", "drop"}:
            self._park(words[1], words[2], words[words.index("--key") + 1])
        environment = {**os.environ, **self.environment, "KEYLINE_ADMIN_URL": self.gateway.admin_url}
        said: list[str] = []

        def done() -> bool:
            """A worker that was evicted comes back in a moment."""
            run = subprocess.run(
                [KEYLINE, *words],
                env=environment,
                cwd=self.directory,
                capture_output=True,
                text=True,
                timeout=COMMAND_S_MAX,
                check=False,
            )
            said[:] = [run.stdout + run.stderr]
            return run.returncode == 0

        try:
            eventually(done, f"keyline {' '.join(words)}", 60)
        except AssertionError as error:
            raise AssertionError(f"{error}: {said[0]}") from None

    def _park(self, topic: str, subscription: str, key: str) -> None:
        """Its worker refuses the key's message until it is parked, as `park_after` has it.

        It comes again, though a command before this one may have delivered or dropped it.
        """
        self.workers[0].seek(pulsar.MessageId.earliest)
        path = f"{subscription_path(topic, subscription)}/parked/messages"
        admin = AdminClient(self.gateway.admin_url)

        def refused() -> bool:
            for worker in self.workers:
                for message in available(worker):
                    if message.partition_key() == key:
                        worker.negative_acknowledge(message)
            return bool(admin.ask("GET", path, query={"key": key}))

        eventually(refused, f"key {key} is parked")

    def _serve(self, words: list[str]) -> None:
        """Start it beside the other, look whether it serves, and stop it."""
        port, admin_port = free_ports(2)
        (self.directory / "keyline.toml").write_text("# nothing\n")
        ours = {
            "KEYLINE_LISTEN": f"{LOOPBACK}:{port}",
            "KEYLINE_ADMIN_LISTEN": f"{LOOPBACK}:{admin_port}",
            "KEYLINE_BROKER_URL": self.broker.service_url,
            "KEYLINE_BROKER_ADMIN_URL": self.broker.admin_url,
        }
        process = OwnedProcess(
            [KEYLINE, *words], self.directory / "serve.log", cwd=self.directory, environment=self.environment | ours
        )
        try:
            eventually(lambda: _answers(f"http://{LOOPBACK}:{admin_port}/readyz"), f"keyline {' '.join(words)}")
            process.signal(signal.SIGTERM)
            assert process.process.wait(COMMAND_S_MAX) == 0
        finally:
            process.stop()

    def _pulsar_admin(self, words: list[str]) -> None:
        at_gateway = words[0] == "--admin-url"
        rest = words[2:] if at_gateway else words
        rest = rest[: rest.index("|")] if "|" in rest else rest
        tools.pulsar_admin(*rest, admin_url=words[1] if at_gateway else self.broker.admin_url)

    def _helm(self, words: list[str]) -> None:
        """Rendered instead of installed: there is no cluster. What is shown to be refused must be."""
        try:
            ensure_helm()
        except ToolMissingError as error:
            pytest.skip(str(error))
        arguments = [word.replace("helm/keyline", str(ROOT / "helm/keyline")) for word in words[1:]]
        done = run_helm("template", *arguments, "--kube-version", "1.33", home=self.directory)
        refused = "config.groups_enabled=false" in words
        assert (done.returncode != 0) == refused, done.stderr
        if refused:
            assert "there may be more than one replica" in done.stderr

    def _curl(self, words: list[str]) -> None:
        assert _answers(words[0])


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False, timeout=30).is_success
    except httpx.TransportError:
        return False


@pytest.fixture(params=documents())
def document(request: pytest.FixtureRequest) -> Path:
    """Each of them."""
    return ROOT / str(request.param)


@pytest.fixture
def place(document: Path, pulsar_current: PulsarStandalone, tmp_path: Path) -> Iterator[Place]:
    """The gateway of the examples; one of several where the document is about these."""
    settings = of_replicas(tmp_path) if document.name in {"groups.md", "streams.md"} else {}
    if document.name == "streams.md":
        settings["groups_mode"] = "streams"
    if document.name == "key-policies.md":
        settings["park_after"] = "1"
    broker = pulsar_current
    with broker.admin() as http:
        http.put("/admin/v2/persistent/public/default/invoices/partitions", json=2)
    with ExitStack() as stack:
        gateway = stack.enter_context(
            KeylineGateway(broker.service_url, broker.admin_url, tmp_path / "gateway", settings=settings)
        )
        client = pulsar.Client(gateway.service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn))
        stack.callback(client.close)
        workers = [
            client.subscribe(
                "orders",
                "billing",
                consumer_type=pulsar.ConsumerType.KeyShared,
                consumer_name=name,
                negative_ack_redelivery_delay_ms=50,
            )
            for name in WORKERS
        ]
        producer = client.create_producer("orders")
        for number in range(20):
            producer.send(b"", partition_key=f"customer-{number}")
        producer.close()
        owner = stack.enter_context(RawClient(gateway.service_url))
        owner.locate("persistent://public/default/orders").send(want(1, topic="persistent://public/default/orders"))
        yield Place(broker, gateway, workers, tmp_path)
        for worker in workers:
            worker.close()


def of_replicas(directory: Path) -> dict[str, str]:
    """What owner mode needs."""
    secret = directory / "replica-secret"
    secret.write_text("a secret of the replicas of this test\n")
    return {
        "groups_enabled": "true",
        "replica_listen": f"{LOOPBACK}:{free_ports(1)[0]}",
        "replica_secret_file": str(secret),
    }


@pytest.fixture(scope="module")
def pulsar_current(request: pytest.FixtureRequest) -> PulsarStandalone:
    """The shared broker; its fixture's name is the client's module here."""
    standalone = request.getfixturevalue("pulsar")
    assert isinstance(standalone, PulsarStandalone)
    return standalone


def test_commands_do_what_they_are_shown_to(document: Path, place: Place) -> None:
    """One after the other, as a reader would type them."""
    for command in shown(document):
        if not elsewhere(command):
            place.run(command)


def test_the_first_program_works(pulsar_current: PulsarStandalone, tmp_path: Path) -> None:
    """As it is shown to those who run the gateway for the first time."""
    (program,) = re.findall(
        r"^```python\n(.*?)^```$", (ROOT / "docs/run-locally.md").read_text(), re.MULTILINE | re.DOTALL
    )
    with KeylineGateway(pulsar_current.service_url, pulsar_current.admin_url, tmp_path) as gateway:
        own = program.replace("pulsar://127.0.0.1:6660", gateway.service_url).replace('"orders"', '"first-program"')
        done = subprocess.run(
            [sys.executable, "-c", own], capture_output=True, text=True, timeout=COMMAND_S_MAX, check=False
        )
    assert done.returncode == 0, done.stderr
    assert "customer-19 order 99" in done.stdout


def test_documents_have_commands() -> None:
    """A pattern that finds nothing would let everything pass."""
    assert len(documents()) > 6
