"""Counts what passed the gateway during a drain: CPU, slices, and the bytes on either side.

The gateway's own count of bytes sent takes a slice for its share of the batch, so it cannot tell what cutting adds.
The kernel counts what each connection carried, and `ss` tells it.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import psutil

from integration.bench.machine import cpu_s
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from integration.bench.stage import Stage

SENT: Final = "bytes_sent"
RECEIVED: Final = "bytes_received"
ASK_S_MAX: Final = 10.0

Traffic = dict[str, int]
"""Bytes by connection, its two addresses in one text."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One drain, from before its workers came until the backlog was zero."""

    cpu_s: float
    sliced_deliveries: int
    bytes_from_broker: int
    """Zero where the machine has no `ss`."""
    bytes_to_workers: int


class PassageMeter:
    """Begun before the workers come, read before they go."""

    def __init__(self, stage: Stage) -> None:
        """Begin now."""
        self._stage = stage
        self._process = psutil.Process(stage.gateway.pid)
        self._cpu_s = cpu_s(self._process)
        self._from_broker, self._to_workers = self._traffic()

    def read(self, topic: str, subscription: str) -> Passage:
        """What was used and carried since.

        Raises:
            IntegrationError: the gateway does not know the subscription.
        """
        used_s = cpu_s(self._process) - self._cpu_s
        from_broker, to_workers = self._traffic()
        return Passage(
            used_s,
            self._sliced_deliveries(topic, subscription),
            grown(self._from_broker, from_broker),
            grown(self._to_workers, to_workers),
        )

    def _sliced_deliveries(self, topic: str, subscription: str) -> int:
        for found in self._stage.gateway.statistics()["subscriptions"]:
            if (found["topic"], found["subscription"]) == (topic, subscription):
                return int(found["sliced_deliveries"])
        raise IntegrationError(f"the gateway knows no subscription {subscription!r} of {topic}")

    def _traffic(self) -> tuple[Traffic, Traffic]:
        broker_port = int(self._stage.broker.service_url.rpartition(":")[2])
        return connections(f"dport = :{broker_port}", RECEIVED), connections(
            f"sport = :{self._stage.gateway.port}", SENT
        )


def connections(which: str, counter: str) -> Traffic:
    """One counter of each connection on this machine that fits."""
    program = shutil.which("ss")
    if program is None:
        return {}
    command = [
        program,
        "--tcp",
        "--info",
        "--numeric",
        "--no-header",
        "--oneline",
        "state",
        "established",
        f"( {which} )",
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ASK_S_MAX, check=True)
    return traffic_in(done.stdout, counter)


def traffic_in(text: str, counter: str) -> Traffic:
    """Read what `ss` wrote: two queues, two addresses and `name:value` pairs; a counter at zero is left out."""
    traffic = {}
    for line in text.splitlines():
        _, _, own, peer, *pairs = line.split()
        values = dict(pair.split(":", 1) for pair in pairs if ":" in pair)
        traffic[f"{own} {peer}"] = int(values.get(counter, "0"))
    return traffic


def grown(before: Traffic, now: Traffic) -> int:
    """How much all connections carried between two readings."""
    return sum(value - before.get(connection, 0) for connection, value in now.items())
