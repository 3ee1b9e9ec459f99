"""Pulsar's own command line tools and Go's load client, run against any service URL, a gateway's included.

They stand for "unmodified clients": two independent implementations that were not written by us. The Java tools run
from the published artifacts by plain `java -cp`, since their start scripts are not published; Go's client is built
by `go install` into the cache.

A load run is a `LoadRun`: an `OwnedProcess`, so it ends with us, whose log is parsed on request.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from integration import artifacts, perf_output
from integration.errors import IntegrationError
from integration.go_tool import ensure_go_program
from integration.java import java_command
from integration.logs import tail
from integration.processes import OwnedProcess
from integration.standalone_files import LOG4J

PERF_CLASS = "org.apache.pulsar.testclient.PulsarPerfTestTool"
ADMIN_CLASS = "org.apache.pulsar.admin.cli.PulsarAdminTool"
GO_PERF_MODULE = "github.com/apache/pulsar-client-go/perf@latest"
"""From here on Go fetches by itself the newer toolchain that a module asks for."""
TOOL_HEAP_MIB = 512
ADMIN_S_MAX = 180.0


class LoadRun(OwnedProcess):
    """A running load client. Its log holds everything it printed."""

    def samples(self) -> list[perf_output.Sample]:
        """Return what it has measured so far; the total comes last, once it has ended by itself."""
        return perf_output.parse(self.log.read_text(errors="replace"))

    def wait(self, timeout_s: float) -> list[perf_output.Sample]:
        """Wait until it ends by itself and return its samples.

        Raises:
            IntegrationError: it failed or took longer, in which case it was killed; the text ends with its log.
        """
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            msg = f"{self.log.name} did not end within {timeout_s:.0f} s:\n{tail(self.log)}"
            raise IntegrationError(msg) from None
        self.kill()
        if code:
            msg = f"{self.log.name} ended with exit code {code}:\n{tail(self.log)}"
            raise IntegrationError(msg)
        return self.samples()


def pulsar_perf(
    command: str, *arguments: str, service_url: str, log: Path, admin_url: str = "", heap_mib: int = TOOL_HEAP_MIB
) -> LoadRun:
    """Start Java's `pulsar-perf`, for example `pulsar_perf("consume", "-st", "Key_Shared", topic, ...)`.

    Args:
        command: `produce`, `consume`, `read` and so on.
        arguments: its own; `-time` or `-m` let it end by itself.
        service_url: of a broker or a gateway.
        log: file for its output.
        admin_url: needed only by the few commands that ask the admin API.
        heap_mib: its largest heap; a consumer with large queues may need more.
    """
    files = _configuration(service_url, admin_url, log.parent, log.stem)
    # Some of its commands leave histograms where they run.
    return LoadRun(_java_tool(PERF_CLASS, files, heap_mib, command, *arguments), log, cwd=log.absolute().parent)


def pulsar_admin(*arguments: str, admin_url: str) -> str:
    """Run `pulsar-admin`, for example `pulsar_admin("topics", "stats", topic, ...)`, and return what it printed.

    Raises:
        IntegrationError: it failed or took longer than 180 s; the text has what it said.
    """
    with tempfile.TemporaryDirectory(prefix="keyline-admin-") as directory:
        files = _configuration("", admin_url, Path(directory), "admin")
        # A command that lives for seconds is not worth the optimizing compiler's time.
        command = _java_tool(ADMIN_CLASS, files, TOOL_HEAP_MIB, *arguments, options=("-XX:TieredStopAtLevel=1",))
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=ADMIN_S_MAX, check=False)
        except subprocess.TimeoutExpired:
            msg = f"pulsar-admin {' '.join(arguments)} took longer than {ADMIN_S_MAX:.0f} s"
            raise IntegrationError(msg) from None
    if done.returncode:
        msg = f"pulsar-admin {' '.join(arguments)} failed: {done.stderr.strip() or done.stdout.strip()}"
        raise IntegrationError(msg)
    return done.stdout


def pulsar_admin_json(*arguments: str, admin_url: str) -> Any:
    """Like `pulsar_admin`, for commands that answer in JSON."""
    return json.loads(pulsar_admin(*arguments, admin_url=admin_url))


def go_perf(command: str, *arguments: str, service_url: str, log: Path) -> LoadRun:
    """Start Go's load client: `produce` or `consume`; the topic is the last argument. It runs until it is stopped.

    Subscription types are numbers there (`--subscription-type 3` is Key_Shared), and its producer sets no keys.

    Raises:
        ToolMissingError, DownloadError: as `ensure_go_perf`.
    """
    program = str(ensure_go_perf())
    # Its metrics would occupy a fixed port, so that a second one could not start.
    return LoadRun([program, command, "--service-url", service_url, "--metrics", "-1", *arguments], log)


def ensure_go_perf() -> Path:
    """Return Go's load client, built into the cache on first use. Raises as `ensure_go_program`."""
    return ensure_go_program("perf", GO_PERF_MODULE, "Go's load client")


def _java_tool(
    main_class: str, files: tuple[Path, Path], heap_mib: int, *arguments: str, options: tuple[str, ...] = ()
) -> list[str]:
    configuration, log4j = files
    return java_command(
        main_class,
        artifacts.ensure(artifacts.TOOLS),
        str(configuration),
        *arguments,
        heap_mib=heap_mib,
        direct_mib=heap_mib,
        # The output is parsed, so numbers must not depend on where it runs.
        options=(f"-Dlog4j2.configurationFile={log4j}", "-Duser.language=en", *options),
    )


def _configuration(service_url: str, admin_url: str, directory: Path, name: str) -> tuple[Path, Path]:
    """Write the client configuration that the tools want as their first argument, and one for their log."""
    directory = directory.absolute()
    directory.mkdir(parents=True, exist_ok=True)
    configuration = directory / f"{name}.client.conf"
    configuration.write_text(f"webServiceUrl={admin_url}\nbrokerServiceUrl={service_url}\n")
    log4j = directory / f"{name}.log4j2.properties"
    log4j.write_text(LOG4J)
    return configuration, log4j
