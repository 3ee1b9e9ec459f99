"""The OpenTelemetry collector's own OTLP receiver, built from its Go modules, with a file behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx

from integration import artifacts
from integration.building import run_build
from integration.errors import StartError
from integration.go_tool import require_go
from integration.locks import exclusive_lock
from integration.logs import tail
from integration.ports import LOOPBACK, free_ports
from integration.processes import OwnedProcess

SOURCES: Final = Path(__file__).parent / "otlp"
BUILD_S_MAX: Final = 900.0
START_S_MAX: Final = 120.0
PROBE_INTERVAL_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class CollectedTraces:
    """A running one."""

    url: str
    """For traces over HTTP."""
    file: Path

    def spans(self) -> list[dict[str, Any]]:
        """All that it got so far, as OTLP's JSON has them."""
        lines = self.file.read_text().splitlines() if self.file.exists() else []
        return [
            span
            for line in lines
            for resource in json.loads(line)["resourceSpans"]
            for scope in resource["scopeSpans"]
            for span in scope["spans"]
        ]


def receiver_program() -> Path:
    """Built on first use, and again when its source or Go says so.

    Raises:
        ToolMissingError: Go is missing or too old.
        DownloadError: its modules could not be fetched or built.
    """
    root = artifacts.cache_root()
    program = root / "otlp-receiver"
    root.mkdir(parents=True, exist_ok=True)
    command = [require_go("the OTLP receiver"), "build", "-C", str(SOURCES), "-o", str(program), "."]
    with exclusive_lock(root / "otlp-receiver.lock", "another process is building the OTLP receiver; waiting"):
        run_build(command, "building the OTLP receiver", BUILD_S_MAX)
    return program


@contextmanager
def collecting(directory: Path) -> Iterator[CollectedTraces]:
    """Run one until the block ends.

    Raises:
        StartError: it ended, or did not listen in time.
    """
    directory.mkdir(parents=True, exist_ok=True)
    grpc, http = (f"{LOOPBACK}:{port}" for port in free_ports(2))
    file, url = directory / "spans.jsonl", f"http://{http}/v1/traces"
    with OwnedProcess([str(receiver_program()), grpc, http, str(file)], directory / "receiver.log") as process:
        _wait_ready(process, url)
        yield CollectedTraces(url, file)


def _wait_ready(process: OwnedProcess, url: str) -> None:
    deadline = time.monotonic() + START_S_MAX
    while process.running and time.monotonic() < deadline:
        try:
            httpx.get(url, trust_env=False, timeout=30)
        except httpx.TransportError:
            time.sleep(PROBE_INTERVAL_S)
        else:
            return
    raise StartError(f"the OTLP receiver does not listen; end of {process.log}:\n{tail(process.log)}")
