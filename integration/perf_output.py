"""Parses the output of load clients: Java's `pulsar-perf` and Go's `perf`.

Both print a line every ten seconds; the Java one also prints totals at its end. The clients' own statistics
(`ProducerStatsRecorderImpl`) are left out: they repeat the same numbers at another pace.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds: producers until the receipt, Java's consumer from publishing to receiving."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    p99_9_ms: float
    max_ms: float
    mean_ms: float | None = None
    """Go does not print it."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One interval of a run, or the whole of it."""

    messages_per_s: float
    mbit_per_s: float
    """Mebibits, as both tools count."""
    message_count: int | None = None
    """Messages so far; Go does not print it."""
    latency: Latency | None = None
    """Missing from Go's consumer."""
    is_total: bool = False
    """Whether it sums up the run, as Java's tools do once when they end."""


_NUMBER = r"\s*(\d+(?:\.\d+)?)\s*"
_JAVA_LATENCY = re.compile(
    rf"Latency: mean:{_NUMBER}ms - med:{_NUMBER}- 95pct:{_NUMBER}- 99pct:{_NUMBER}"
    rf"- 99\.9pct:{_NUMBER}-.* Max:{_NUMBER}"
)
_JAVA_INTERVAL = re.compile(rf"Throughput (?:produced|received):{_NUMBER}msg ---{_NUMBER}msg/s ---{_NUMBER}Mbit/s")
_JAVA_TOTAL = re.compile(
    rf"Aggregated throughput stats ---{_NUMBER}records (?:sent|received) ---{_NUMBER}msg/s ---{_NUMBER}Mbit/s"
)
_JAVA_TOTAL_LATENCY = "Aggregated latency stats"
_GO_INTERVAL = re.compile(rf"Stats - (?:Publish|Consume) rate:{_NUMBER}msg/s -{_NUMBER}Mbps")
_GO_LATENCY = re.compile(
    rf"Latency ms: 50%{_NUMBER}-\s*95%{_NUMBER}-\s*99%{_NUMBER}-\s*99\.9%{_NUMBER}-\s*max{_NUMBER}"
)


def parse(text: str) -> list[Sample]:
    """Return the samples in a tool's output, in its order, but for the total, if there is one: it comes last."""
    samples: list[Sample] = []
    for line in text.splitlines():
        if sample := _java(line) or _go(line):
            # Java's tools print intervals by a thread of their own, which may come after the total.
            samples.insert(len(samples) - bool(samples and samples[-1].is_total), sample)
        elif _JAVA_TOTAL_LATENCY in line and samples and samples[-1].is_total:
            # The total's latency has a line of its own, after the total.
            samples[-1] = replace(samples[-1], latency=_java_latency(line))
    return samples


def _java(line: str) -> Sample | None:
    total = _JAVA_TOTAL.search(line)
    match = total or _JAVA_INTERVAL.search(line)
    if match is None:
        return None
    return Sample(float(match[2]), float(match[3]), int(match[1]), _java_latency(line), total is not None)


def _java_latency(line: str) -> Latency | None:
    match = _JAVA_LATENCY.search(line)
    if match is None:
        return None
    mean_ms, p50_ms, p95_ms, p99_ms, p99_9_ms, max_ms = map(float, match.groups())
    return Latency(p50_ms, p95_ms, p99_ms, p99_9_ms, max_ms, mean_ms)


def _go(line: str) -> Sample | None:
    match = _GO_INTERVAL.search(line)
    if match is None:
        return None
    latency = _GO_LATENCY.search(line)
    return Sample(float(match[1]), float(match[2]), latency=Latency(*map(float, latency.groups())) if latency else None)
