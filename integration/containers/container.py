"""One container as a server: started, stopped, killed, and started again with its data."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Self

from testcontainers.core.container import DockerContainer

from integration.errors import StartError
from integration.lifetime import Lifetime
from integration.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from docker.models.containers import Container as Running
    from testcontainers.core.network import Network

START_S_MAX = 300.0
"""As of a broker that is a process."""
STOP_S_MAX = 60
PROBE_INTERVAL_S = 0.1
LOG_CHARACTERS = 3_000


class Container(Lifetime):
    """A container whose ports on loopback stay the same, and which is gone when it is closed."""

    def __init__(
        self,
        image: str,
        ports: Sequence[int],
        ready: Callable[[], bool],
        *,
        network: Network,
        alias: str,
        command: Sequence[str] | None = None,
        environment: Mapping[str, str] | None = None,
        files: Mapping[Path, str] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Describe it; nothing is started yet.

        Args:
            image: its name.
            ports: of its servers, inside.
            ready: whether it serves.
            network: that it joins.
            alias: the host's name that it has there.
            command: instead of the image's.
            environment: of its process.
            files: of this machine, with their paths inside; read-only there.
            options: further ones of the Docker SDK's `run`.
        """
        self.alias = alias
        self._ready = ready
        self._described = DockerContainer(image, command=list(command) if command else None)  # type: ignore[arg-type]
        self._described.with_envs(**(environment or {}))
        self._described.with_network(network).with_network_aliases(alias)
        self._described.with_kwargs(**(options or {}))
        self.ports = dict(zip(ports, free_ports(len(ports)), strict=True))
        for inside, outside in self.ports.items():
            # On loopback: its own `with_bind_ports` knows no address.
            self._described.ports[f"{inside}/tcp"] = (LOOPBACK, outside)  # type: ignore[assignment]
        for here, there in (files or {}).items():
            self._described.with_volume_mapping(str(here), there, "ro")
        self._made: Running | None = None

    @property
    def running(self) -> bool:
        """Whether its process lives."""
        if self._made is None:
            return False
        self._made.reload()
        return bool(self._made.status == "running")

    def output(self) -> str:
        """All that it said, in all its lives."""
        return self._made.logs().decode(errors="replace") if self._made is not None else ""

    def execute(self, *command: str) -> tuple[int, str]:
        """Run a command in it; returns exit code and output."""
        assert self._made is not None
        code, said = self._made.exec_run(list(command), stream=False, socket=False)
        assert code is not None
        assert isinstance(said, bytes)
        return code, said.decode(errors="replace")

    def start(self, timeout_s: float = START_S_MAX) -> Self:
        """Start it, again or for the first time, and return when it serves.

        Raises:
            StartError: it ended, or does not serve in time; the text has the end of what it said.
        """
        if self._made is None:
            self._described.start()
            self._made = self._described.get_wrapped_container()
        else:
            self._made.start()
        self.wait_ready(timeout_s)
        return self

    def wait_ready(self, timeout_s: float = START_S_MAX) -> None:
        """Return when it serves. Raises as `start`."""
        deadline = time.monotonic() + timeout_s
        while not self._ready():
            if not self.running or time.monotonic() > deadline:
                what = "does not serve in time" if self.running else "ended while starting"
                raise StartError(f"container {self.alias} {what}:\n{self.output()[-LOG_CHARACTERS:]}")
            time.sleep(PROBE_INTERVAL_S)

    def stop(self, timeout_s: int = STOP_S_MAX) -> int | None:
        """End it as an orchestrator does, with SIGTERM, and return its exit code; what it has stays."""
        if self._made is None or not self.running:
            return None
        self._made.stop(timeout=timeout_s)
        return int(self._made.wait()["StatusCode"])

    def kill(self) -> None:
        """End it with SIGKILL; what it has stays."""
        if self._made is not None and self.running:
            self._made.kill()
            self._made.wait()

    def restart(self, timeout_s: float = START_S_MAX) -> None:
        """Stop it and start it again."""
        self.stop()
        self.start(timeout_s)

    def close(self) -> None:
        """Remove it with all it has."""
        self._made = None
        self._described.stop()
