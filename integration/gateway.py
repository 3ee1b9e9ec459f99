"""The gateway as a user runs it: the installed `keyline serve` in a process of its own, on loopback.

Rule kept, as for the broker: when `start` returns it serves, when it raises nothing is left running. A restart keeps
the ports, since clients come back to where they were.
"""

from __future__ import annotations

import signal
import ssl
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

import httpx

from integration.asked_gateway import FRESH, AskedGateway
from integration.errors import StartError
from integration.lifetime import Lifetime
from integration.logs import tail
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

START_S_MAX: Final = 120.0
STOP_S_MAX: Final = 45.0
"""More than the gateway's own deadline for draining."""
PROBE_INTERVAL_S: Final = 0.05
PROBE_S_MAX: Final = 5.0
ANSWER_S_MAX: Final = 30.0
"""For what takes milliseconds, or seconds where others leave little of the machine to the gateway."""


class Served(Protocol):
    """A gateway, wherever it runs."""

    @property
    def port(self) -> int:
        """For clients, on loopback."""


def service_url_of(gateways: Sequence[Served], first: int = 0) -> str:
    """What clients of several connect to, as one Service would show them: all, beginning with one of them."""
    turned = [*gateways[first:], *gateways[:first]]
    return "pulsar://" + ",".join(f"{LOOPBACK}:{gateway.port}" for gateway in turned)


class KeylineGateway(AskedGateway, Lifetime):
    """One gateway. Use it as a context manager, or call `start` and `stop`."""

    def __init__(
        self,
        broker_url: str,
        broker_admin_url: str,
        directory: Path,
        *,
        port: int | None = None,
        admin_port: int | None = None,
        settings: Mapping[str, str] | None = None,
        program: Sequence[str] | None = None,
        authorities: Path | None = None,
    ) -> None:
        """Describe a gateway; nothing is started yet.

        Args:
            broker_url: service URL of the broker behind it.
            broker_admin_url: that broker's admin API.
            directory: where its log goes; made if missing.
            port: for clients; by default a free one.
            admin_port: of its admin API; by default a free one.
            settings: further settings by their names in the configuration, `ordering_mode` for instance.
            program: the command line before `serve`; by default the installed `keyline`.
            authorities: PEM file of whom to believe where the admin API has TLS.
        """
        free = free_ports(2)
        self.port = free[0] if port is None else port
        self.admin_port = free[1] if admin_port is None else admin_port
        self.log = directory / "keyline.log"
        directory.mkdir(parents=True, exist_ok=True)
        values = {
            "broker_url": broker_url,
            "broker_admin_url": broker_admin_url,
            "listen": f"{LOOPBACK}:{self.port}",
            "admin_listen": f"{LOOPBACK}:{self.admin_port}",
            "replica_name": "keyline",
            **(settings or {}),
        }
        self._environment = {f"KEYLINE_{name.upper()}": value for name, value in values.items()}
        self._program = [str(Path(sys.executable).with_name("keyline"))] if program is None else list(program)
        self._process: OwnedProcess | None = None
        self._admin_scheme = "https" if values.get("admin_tls") == "true" else "http"
        verify = ssl.create_default_context(cafile=authorities)
        # Proxies of the environment are for the world outside, never for loopback.
        self._http = httpx.Client(
            base_url=self.admin_url, timeout=ANSWER_S_MAX, trust_env=False, verify=verify, limits=FRESH
        )

    @property
    def service_url(self) -> str:
        """What clients connect to instead of the broker."""
        return f"pulsar://{LOOPBACK}:{self.port}"

    @property
    def admin_url(self) -> str:
        """Root of its admin API, without a slash at its end."""
        return f"{self._admin_scheme}://{LOOPBACK}:{self.admin_port}"

    @property
    def running(self) -> bool:
        """Whether the process lives, ready or not, paused or not."""
        return self._process is not None and self._process.running

    @property
    def pid(self) -> int:
        """Id of the running process.

        Raises:
            StartError: it is not running.
        """
        if self._process is None or not self._process.running:
            raise StartError(f"the gateway is not running; end of {self.log}:\n{tail(self.log)}")
        return self._process.pid

    def start(self, timeout_s: float = START_S_MAX) -> Self:
        """Start it and return when it is ready.

        Raises:
            StartError: it died or was not ready in time; the text has the end of its log, and it was killed.
        """
        if self.running:
            raise StartError(f"the gateway is running already, as process {self.pid}")
        self._process = OwnedProcess([*self._program, "serve"], self.log, environment=self._environment)
        try:
            self._wait_ready(timeout_s)
        except BaseException:
            self.kill()
            raise
        return self

    def stop(self, timeout_s: float = STOP_S_MAX) -> int | None:
        """End it as an operator would and return its exit code; it is killed only when it takes too long."""
        if self._process is None:
            return None
        self._process.stop(timeout_s)
        code = self._process.process.returncode
        self._process = None
        return code

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def restart(self, timeout_s: float = START_S_MAX) -> None:
        """Stop it, if it runs, and start it again on the same ports."""
        self.stop()
        self.start(timeout_s)

    def configure(self, **settings: str) -> None:
        """Change settings, from the next start on."""
        self._environment.update({f"KEYLINE_{name.upper()}": value for name, value in settings.items()})

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing moves."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop it and let go of the connection to its admin API."""
        self.stop()
        self._http.close()

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.signal(number)

    def _wait_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while not self._ready():
            if not self.running:
                raise StartError(f"the gateway ended while starting; end of {self.log}:\n{tail(self.log)}")
            if time.monotonic() > deadline:
                raise StartError(f"the gateway is not ready after {timeout_s:.0f} s:\n{tail(self.log)}")
            time.sleep(PROBE_INTERVAL_S)

    def _ready(self) -> bool:
        try:
            return self._http.get("/readyz", timeout=PROBE_S_MAX).is_success
        except httpx.TransportError:
            return False
