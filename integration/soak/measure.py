"""Measures the gateway's process from outside: memory, descriptors, health, and warnings in its log."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import httpx
import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from integration.gateway import KeylineGateway

MIB: Final = 1 << 20
COMPLAINTS: Final = frozenset({"warning", "error", "critical"})
HEALTH_S_MAX: Final = 10.0


@dataclass(frozen=True, slots=True)
class Footprint:
    """One look."""

    at: float
    resident_bytes: int
    descriptors: int
    cpu_s: float
    health_ms: float
    """What /livez took."""


class Watch:
    """Looks at one gateway."""

    def __init__(self, gateway: KeylineGateway) -> None:
        """It runs."""
        self._process = psutil.Process(gateway.pid)
        self._http = httpx.Client(base_url=gateway.admin_url, timeout=HEALTH_S_MAX, trust_env=False)

    def look(self) -> Footprint:
        """Look once."""
        before = time.monotonic()
        self._http.get("/livez").raise_for_status()
        health_ms = (time.monotonic() - before) * 1e3
        with self._process.oneshot():
            times = self._process.cpu_times()
            return Footprint(
                time.monotonic(),
                self._process.memory_info().rss,
                self._process.num_fds(),
                times.user + times.system,
                health_ms,
            )

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()


def slope_mib_per_minute(looks: Sequence[Footprint]) -> float:
    """How fast resident memory grew, by least squares; 0 for fewer than three looks."""
    if len(looks) < 3:  # noqa: PLR2004 - two points make any line
        return 0.0
    minutes = [look.at / 60 for look in looks]
    sizes = [look.resident_bytes / MIB for look in looks]
    mean_at, mean_size = sum(minutes) / len(minutes), sum(sizes) / len(sizes)
    spread = sum((at - mean_at) ** 2 for at in minutes)
    return sum((at - mean_at) * (size - mean_size) for at, size in zip(minutes, sizes, strict=True)) / spread


def complaints(log: Path) -> dict[str, int]:
    """Every kind of warning and error in a gateway's log, and how often it came; what is no JSON counts as an error."""
    found: Counter[str] = Counter()
    for line in log.read_text().splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            found[f"not JSON: {line[:80]}"] += 1
            continue
        if entry.get("level") in COMPLAINTS:
            found[f"{entry['level']}: {entry.get('event')}"] += 1
    return dict(found)
