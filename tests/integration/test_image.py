"""The gateway's image, built from this checkout, as an orchestrator runs it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import docker
import pulsar
import pytest
from testcontainers.core.network import Network

from integration.certificates import Authority
from integration.containers.daemon import docker_daemon
from integration.containers.images import build_keyline, ensure_pulsar
from integration.containers.keyline import AS_DEPLOYED, KeylineContainer
from integration.containers.pulsar import PulsarContainer
from integration.errors import ToolMissingError
from integration.secured import KEY_BYTES, SUPERUSER, signed_token, token_settings

QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
RECEIVE_MS = 60_000
FOREIGN = ("cc", "gcc", "g++", "make", "pip", "pip3", "java")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def client() -> Iterator[docker.DockerClient]:
    """A Docker daemon's."""
    with ExitStack() as stack:
        try:
            yield stack.enter_context(docker_daemon())
        except ToolMissingError as error:
            pytest.skip(str(error))


@pytest.fixture(scope="module")
def image(client: docker.DockerClient) -> str:
    """The image's name."""
    return build_keyline(client)


@pytest.fixture(scope="module")
def network(client: docker.DockerClient) -> Iterator[Network]:
    """For brokers and gateways."""
    assert client.ping()
    with Network() as made:
        yield made


def said(client: docker.DockerClient, image: str, *command: str, **options: object) -> str:
    """What a command says in a container of its own."""
    chosen = {**AS_DEPLOYED, "remove": True, "stderr": True, **options}
    output = client.containers.run(image, list(command), **chosen)
    return str(output.decode())


def shell(client: docker.DockerClient, image: str, script: str) -> str:
    """What a shell says there."""
    return said(client, image, "-c", script, entrypoint="sh")


def test_it_is_nobody_and_cannot_write(client: docker.DockerClient, image: str) -> None:
    """Uid 10000, on a root file system that is only read."""
    assert shell(client, image, "id -u; id -g").split() == ["10000", "10000"]
    written = shell(client, image, "touch /x /opt/keyline/x /tmp/x 2>&1; true")
    assert written.count("Read-only file system") == 3


def test_it_has_nothing_to_build_or_install_with(client: docker.DockerClient, image: str) -> None:
    """No compiler, no package manager of Python's."""
    found = shell(client, image, f"for name in {' '.join(FOREIGN)}; do command -v $name; done; python3 -m pip; true")
    assert "No module named pip" in found
    assert [line for line in found.splitlines() if line.startswith("/") and "python3" not in line] == []


def test_its_command_is_the_gateway(client: docker.DockerClient, image: str) -> None:
    """Any of its commands, with the configuration that it has."""
    assert re.fullmatch(r"keyline \S+ \(compiled\)\n", said(client, image, "--version"))
    assert re.search(r"^listen +0\.0\.0\.0:6660 +file$", said(client, image, "check-config"), re.MULTILINE)


def test_it_says_what_is_wrong_with_its_configuration(client: docker.DockerClient, image: str) -> None:
    """Exit code 2, and what would be right."""
    with pytest.raises(docker.errors.ContainerError) as refused:
        said(client, image, "serve", environment={"KEYLINE_LISTEN": "everywhere"})
    assert refused.value.exit_status == 2
    assert "host:port" in str(refused.value.stderr)


@pytest.mark.broker
def test_it_lives_and_is_ready_and_stops(client: docker.DockerClient, image: str, network: Network) -> None:
    """With a broker behind it; its health check looks at whether it lives."""
    with (
        PulsarContainer(ensure_pulsar(client, "4.2.4"), network, version="4.2.4") as broker,
        KeylineContainer(image, network, broker) as gateway,
    ):
        assert gateway.execute("python3", "-m", "keyline_gateway.health") == (0, "")
        broker.kill()
        assert gateway.execute("python3", "-m", "keyline_gateway.health") == (0, ""), "it lives without a broker"
        assert gateway.stop() == 0
        assert "gateway stopped" in gateway.output()


@pytest.mark.broker
def test_tokens_and_tls_reach_through_both(
    client: docker.DockerClient, image: str, network: Network, tmp_path: Path
) -> None:
    """A broker that asks for tokens, TLS between it and the gateway; a client without a token is refused."""
    key = secrets.token_bytes(KEY_BYTES)
    token = signed_token(key, SUPERUSER)
    authority = Authority(tmp_path)
    signed = authority.sign("broker", "secured", "localhost")
    settings = {
        "broker_url": "pulsar+ssl://secured:6651",
        "broker_token": token,
        "broker_tls_ca_file": "/run/authority.pem",
    }
    with (
        PulsarContainer(
            ensure_pulsar(client, "4.2.4"),
            network,
            version="4.2.4",
            alias="secured",
            settings=token_settings(key),
            token=token,
            tls=signed,
        ) as broker,
        KeylineContainer(
            image, network, broker, alias="gateway", settings=settings, files={authority.file: "/run/authority.pem"}
        ) as gateway,
    ):
        for name, url in (("direct", broker.tls_url), ("gateway", gateway.service_url)):
            known = pulsar.Client(
                url, pulsar.AuthenticationToken(token), tls_trust_certs_file_path=str(authority.file), logger=QUIET
            )
            worker = known.subscribe("secured", name, consumer_type=pulsar.ConsumerType.KeyShared)
            known.create_producer("secured").send(b"through", partition_key="k")
            assert worker.receive(RECEIVE_MS).data() == b"through"
            known.close()
        stranger = pulsar.Client(gateway.service_url, logger=QUIET)
        with pytest.raises(pulsar.PulsarException):
            stranger.subscribe("secured", "stranger", consumer_type=pulsar.ConsumerType.KeyShared)
        stranger.close()
