"""Finds a Docker daemon: the machine's, or one started here if Docker is installed and does not run.

A daemon started here changes nothing at the machine: no firewall rule, no forwarding, published ports on loopback
only. What it keeps (layers of images) is in the cache, so that an image is built once.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import docker
from docker.errors import DockerException
from testcontainers.core.config import testcontainers_config

from integration import artifacts
from integration.errors import StartError, ToolMissingError
from integration.locks import exclusive_lock
from integration.logs import tail
from integration.ports import LOOPBACK
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Iterator

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"
START_S_MAX: Final = 180.0
STOP_S_MAX: Final = 60.0
"""It ends its containers first."""
INTERVAL_S: Final = 0.1
BRIDGE: Final = "keyline0"
BRIDGE_NETWORK: Final = "172.30.255.1/24"
"""Of the network that containers have by default; tests make networks of their own."""


@contextmanager
def docker_daemon() -> Iterator[docker.DockerClient]:
    """Give a client of a daemon that answers; one that was started for it ends with the block.

    The environment names it (DOCKER_HOST) as long as the block lasts, for what else asks a daemon.

    Raises:
        ToolMissingError: none answers and none can be started; the text is fit for a skip's reason.
        StartError: the daemon did not start; the text has the end of its log.
    """
    # The reaper is an image of a registry's; what we start ends with the block in any case.
    testcontainers_config.ryuk_disabled = True
    with ExitStack() as stack:
        if (client := _answering()) is None:
            stack.enter_context(_own())
            client = docker.from_env()
        stack.callback(client.close)
        yield client


def _answering() -> docker.DockerClient | None:
    path = os.environ.get("DOCKER_HOST", DEFAULT_HOST).removeprefix("unix://")
    # A client that cannot connect leaves its socket to the collector, which is why it is not made then.
    if path.startswith("/") and not _listens(path):
        return None
    try:
        return docker.from_env()
    except DockerException:
        return None


def _listens(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


@contextmanager
def _own() -> Iterator[None]:
    program = shutil.which("dockerd")
    if program is None or os.geteuid() != 0:
        why = "`dockerd` is not installed (docker.io)" if program is None else "only root may start one"
        raise ToolMissingError(f"containers need a Docker daemon: none answers, and {why}")
    data = artifacts.cache_root() / "docker"
    data.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        # Its socket's path must be short.
        run = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="keyline-docker-")))
        stack.enter_context(exclusive_lock(data / "lock", "another process runs a Docker daemon here; waiting"))
        stack.enter_context(_bridge())
        before = os.environ.get("DOCKER_HOST")
        os.environ["DOCKER_HOST"] = f"unix://{run}/docker.sock"
        stack.callback(_restore, before)
        process = OwnedProcess(_command(program, data / "data", run), run / "log")
        stack.callback(process.stop, STOP_S_MAX)
        _wait(process)
        yield


def _command(program: str, data: Path, run: Path) -> list[str]:
    return [
        *(program, "--data-root", str(data), "--exec-root", str(run / "exec"), "--pidfile", str(run / "pid")),
        *("--host", f"unix://{run}/docker.sock", "--ip", LOOPBACK, "--bridge", BRIDGE),
        *("--iptables=false", "--ip6tables=false", "--ip-forward=false", "--ip-masq=false"),
    ]


@contextmanager
def _bridge() -> Iterator[None]:
    """A bridge of another name than the usual, which another daemon may need."""
    ip = shutil.which("ip")
    if ip is None:
        raise ToolMissingError("to start a Docker daemon, `ip` (iproute2) is needed")
    subprocess.run([ip, "link", "delete", BRIDGE], capture_output=True, check=False)  # of one that was killed
    try:
        for words in (["link", "add", BRIDGE, "type", "bridge"], ["address", "add", BRIDGE_NETWORK, "dev", BRIDGE]):
            subprocess.run([ip, *words], capture_output=True, check=True)
        subprocess.run([ip, "link", "set", BRIDGE, "up"], capture_output=True, check=True)
    except subprocess.CalledProcessError as error:
        raise ToolMissingError(f"a Docker daemon needs a network bridge: {error.stderr.decode().strip()}") from None
    try:
        yield
    finally:
        subprocess.run([ip, "link", "delete", BRIDGE], capture_output=True, check=False)


def _restore(before: str | None) -> None:
    if before is None:
        del os.environ["DOCKER_HOST"]
    else:
        os.environ["DOCKER_HOST"] = before


def _wait(process: OwnedProcess) -> None:
    deadline = time.monotonic() + START_S_MAX
    while (client := _answering()) is None:
        if not process.running:  # it looks at once whether its host lets it do what it must
            raise ToolMissingError(f"a Docker daemon cannot run here:\n{tail(process.log, 5)}")
        if time.monotonic() > deadline:
            raise StartError(f"dockerd did not answer; end of its log:\n{tail(process.log)}")
        time.sleep(INTERVAL_S)
    client.close()
