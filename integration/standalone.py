"""A real Pulsar broker as an object: bookie, metadata and broker in one process, on loopback.

Problem: guarantees about restarts, kills and stalls can only be shown on a broker that is really restarted, killed and
stalled. Rule kept: when `start` returns the broker serves clients, and when it raises nothing is left running.
"""

from __future__ import annotations

import shutil
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

import httpx

from integration import artifacts
from integration.errors import StartError
from integration.java import java, java_command
from integration.lifetime import Lifetime
from integration.logs import tail
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess
from integration.readiness import broker_answers, stays_registered
from integration.standalone_files import write_configuration

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

HEAP_MIB = 1024
DIRECT_MIB = 1024
START_S_MAX = 300.0
"""9-26 s were measured on two cores; a loaded runner may need several times that."""
STARTS_MAX = 5
"""For one after which the bookie keeps its registration, see `readiness`."""
STOP_S_MAX = 40.0
PROBE_INTERVAL_S = 0.2
PROBE_S_MAX = 5.0
ADMIN_S_MAX = 30.0


class PulsarStandalone(Lifetime):
    """One standalone broker. Use it as a context manager, or call `start` and `stop`.

    The object may be started again after `stop` or `kill`: with the same ports, settings and data. Data directories
    it made itself are removed when the block is left; one that was passed in is kept.
    """

    def __init__(
        self,
        version: str = artifacts.DEFAULT_VERSION,
        *,
        data: Path | None = None,
        port: int | None = None,
        web_port: int | None = None,
        settings: Mapping[str, str] | None = None,
        transactions: bool = False,
        heap_mib: int = HEAP_MIB,
        token: str | None = None,
        options: Sequence[str] = (),
    ) -> None:
        """Describe a broker; nothing is started or written yet.

        Args:
            version: of Pulsar, fetched into the cache when missing.
            data: directory of configuration, ledgers, metadata and log; by default a temporary one.
            port: of the binary protocol on loopback; by default a free one.
            web_port: of the admin API on loopback; by default a free one.
            settings: lines of `standalone.conf`, which override the defaults here.
            transactions: whether to run the transaction coordinator.
            heap_mib: largest heap of the virtual machine.
            token: of a superuser, for a broker that answers no other whether it is ready.
            options: further options of the virtual machine.
        """
        free = free_ports(3)
        self.version = version
        self.port = free[0] if port is None else port
        self.web_port = free[1] if web_port is None else web_port
        self._bookie_port = free[2]
        self._data_is_ours = data is None
        self.data = data.absolute() if data else Path(tempfile.mkdtemp(prefix=f"keyline-pulsar-{version}-"))
        self.settings = dict(settings or {})
        self.transactions = transactions
        self._heap_mib = heap_mib
        self._options = tuple(options)
        self.admin_headers = {"Authorization": f"Bearer {token}"} if token is not None else {}
        self._process: OwnedProcess | None = None

    @property
    def service_url(self) -> str:
        """What clients of the binary protocol connect to."""
        return f"pulsar://{LOOPBACK}:{self.port}"

    @property
    def admin_url(self) -> str:
        """Root of the admin API, without a slash at its end."""
        return f"http://{LOOPBACK}:{self.web_port}"

    @property
    def log(self) -> Path:
        """The broker's log; restarts append to it."""
        return self.data / "pulsar.log"

    @property
    def pid(self) -> int:
        """Id of the running process.

        Raises:
            StartError: it is not running.
        """
        if self._process is None or not self._process.running:
            msg = f"Pulsar {self.version} is not running; end of {self.log}:\n{tail(self.log)}"
            raise StartError(msg)
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the process lives, ready or not, paused or not."""
        return self._process is not None and self._process.running

    def start(self, timeout_s: float = START_S_MAX) -> Self:
        """Start the broker and return when it serves clients.

        Raises:
            ToolMissingError, DownloadError: the artifacts could not be fetched.
            StartError: it died or was not ready in time; the text has the end of its log, and it was killed. Or its
                bookie lost its registration again and again, at each of some starts.
        """
        if self.running:
            msg = f"Pulsar {self.version} is running already, as process {self.pid}"
            raise StartError(msg)
        libraries = artifacts.ensure(artifacts.broker(self.version))
        self.data.mkdir(parents=True, exist_ok=True)
        for _ in range(STARTS_MAX):
            already = self.log.stat().st_size if self.log.exists() else 0
            self._process = OwnedProcess(self._command(libraries), self.log, cwd=self.data)
            try:
                self.wait_ready(timeout_s)
            except BaseException:
                self.kill()
                raise
            if stays_registered(self.log, already):
                return self
            self.kill()
        raise StartError(f"the bookie of Pulsar {self.version} loses its registration again and again; see {self.log}")

    def wait_ready(self, timeout_s: float = START_S_MAX) -> None:
        """Return when the broker serves clients; also of use after `resume`.

        Raises:
            StartError: it died, or was not ready in time.
        """
        deadline = time.monotonic() + timeout_s
        with self.admin(PROBE_S_MAX) as http:
            while not broker_answers(http, transactions=self.transactions):
                if not self.running:
                    msg = f"Pulsar {self.version} ended while starting; end of {self.log}:\n{tail(self.log)}"
                    raise StartError(msg)
                if time.monotonic() > deadline:
                    msg = f"Pulsar {self.version} is not ready after {timeout_s:.0f} s; end of {self.log}:\n"
                    raise StartError(msg + tail(self.log))
                time.sleep(PROBE_INTERVAL_S)

    def admin(self, timeout_s: float = ADMIN_S_MAX) -> httpx.Client:
        """For the admin API, with a superuser's rights; to be closed by the caller."""
        # Proxies of the environment are for the world outside, never for loopback.
        return httpx.Client(base_url=self.admin_url, headers=self.admin_headers, timeout=timeout_s, trust_env=False)

    def stop(self, timeout_s: float = STOP_S_MAX) -> None:
        """End the broker as an operator would, killing it only when it takes too long. Its data stays."""
        if self._process is not None:
            self._process.stop(timeout_s)
            self._process = None

    def kill(self) -> None:
        """End the broker with SIGKILL, as a crash of its machine's memory would. Its data stays."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def release(self) -> None:
        """Let the running broker go on without us; this object then knows nothing of it any more."""
        if self._process is not None:
            self._process.release()
            self._process = None

    def restart(self, timeout_s: float = START_S_MAX) -> None:
        """Stop and start it again on the same ports with the data it has."""
        self.stop()
        self.start(timeout_s)

    def pause(self) -> None:
        """Freeze the broker: connections stay open and nothing answers. `resume`, `stop` and `kill` end it."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused broker go on."""
        self._signal(signal.SIGCONT)

    def close(self) -> None:
        """Stop the broker and remove its data directory, if it made that itself."""
        self.stop()
        if self._data_is_ours:
            shutil.rmtree(self.data, ignore_errors=True)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.signal(number)

    def _command(self, libraries: Path) -> list[str]:
        configuration, log4j = write_configuration(
            self.data,
            port=self.port,
            web_port=self.web_port,
            transactions=self.transactions,
            settings=self.settings,
        )
        classes = artifacts.broker(self.version).classes(java())
        drivers = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
        return java_command(
            "org.apache.pulsar.PulsarStandaloneStarter",
            libraries,
            *("--config", str(configuration), "--no-functions-worker", "--no-stream-storage"),
            *("--bookkeeper-dir", str(self.data / "bookkeeper"), "--metadata-dir", str(self.data / "metadata")),
            *("--bookkeeper-port", str(self._bookie_port)),
            heap_mib=self._heap_mib,
            direct_mib=DIRECT_MIB,
            options=(
                *((f"-XX:SharedArchiveFile={classes}",) if classes.exists() else ()),
                f"-Dlog4j2.configurationFile={log4j}",
                f"-Dbookkeeper.metadata.bookie.drivers={drivers}BookieDriver",
                f"-Dbookkeeper.metadata.client.drivers={drivers}ClientDriver",
                *self._options,
            ),
        )
