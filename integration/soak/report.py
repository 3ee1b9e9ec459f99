"""The result of a soak, and whether it passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from integration.soak.histogram import Histogram
from integration.soak.measure import MIB, Footprint, slope_mib_per_minute
from integration.soak.plan import Plan

DESCRIPTORS_SPARE: Final = 40
"""Connections that come and go while we look: each takes two descriptors of the gateway."""


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over all helpers at the end."""

    sent: int
    delivered: int
    duplicates: int
    violations: int
    examples: tuple[str, ...]
    lost: tuple[str, ...]
    """Keys that did not get all their messages."""
    restarts: int
    losses: tuple[str, ...]
    """Workers that lost their connection, and why."""
    refusals: int
    unasked: int


@dataclass(frozen=True, slots=True)
class SoakResult:
    """One soak."""

    plan: Plan
    joined_s: float
    """What it took all workers to join."""
    looks: tuple[Footprint, ...]
    """From the moment all had joined to the end of the load."""
    descriptors_before: int
    """Before the first client."""
    descriptors_after: int
    """When the last had gone."""
    latencies: tuple[Histogram, ...]
    """One for each interval of the plan, in their order."""
    tally: Tally
    complaints: Mapping[str, int]

    @property
    def steady(self) -> Sequence[Footprint]:
        """Looks after the warm-up, which is the first fifth."""
        return self.looks[len(self.looks) // 5 :]

    def third(self, number: int) -> Histogram:
        """Latencies of a third of the run, 0 to 2."""
        size = max(len(self.latencies) // 3, 1)
        chosen = self.latencies[number * size : (number + 1) * size]
        total = Histogram()
        for histogram in chosen:
            total.merge(histogram)
        return total

    @property
    def failures(self) -> list[str]:
        """Why it is not good enough; nothing if it is."""
        tally, found = self.tally, []
        if tally.violations:
            found.append(f"{tally.violations} keys out of order or at two workers: {'; '.join(tally.examples)}")
        if tally.lost or tally.delivered != tally.sent:
            found.append(f"{tally.sent - tally.delivered} messages lost: {'; '.join(tally.lost[:5])}")
        if self.descriptors_after > self.descriptors_before + DESCRIPTORS_SPARE:
            found.append(f"descriptors leaked: {self.descriptors_before} before, {self.descriptors_after} after")
        if self.looks[-1].descriptors > self.looks[0].descriptors + DESCRIPTORS_SPARE:
            found.append(f"descriptors grew: {self.looks[0].descriptors} to {self.looks[-1].descriptors}")
        if any(what.startswith(("error", "critical", "not JSON")) for what in self.complaints):
            found.append("the gateway logged failures of its own")
        return found

    def lines(self) -> list[str]:
        """For a person; what the log never said has no line."""
        plan, tally, looks = self.plan, self.tally, self.looks
        minutes = (looks[-1].at - looks[0].at) / 60
        cpu = (looks[-1].cpu_s - looks[0].cpu_s) / (looks[-1].at - looks[0].at)
        health = sorted(look.health_ms for look in looks)
        slope = slope_mib_per_minute(self.steady)
        rows = [
            (
                "workers",
                f"{plan.idle_workers:,} idle, {plan.active_workers:,} active; {plan.subscriptions:,} subscriptions",
                f"all joined in {self.joined_s:.0f} s",
            ),
            (
                "load",
                f"{minutes:.1f} min, {tally.sent:,} messages ({tally.sent / minutes / 60:,.0f}/s)",
                f"{tally.restarts:,} workers restarted",
            ),
            (
                "memory",
                f"{looks[0].resident_bytes / MIB:.0f} MiB at first, {looks[-1].resident_bytes / MIB:.0f} at the end",
                f"{slope:+.2f} MiB/min after the warm-up",
            ),
            (
                "descriptors",
                f"{looks[0].descriptors:,} at the start of the load, {looks[-1].descriptors:,} at its end",
                f"{self.descriptors_before} before the first client, {self.descriptors_after} after the last",
            ),
            ("CPU", f"{cpu:.0%} of a core"),
            ("/livez", f"{health[len(health) // 2]:.1f} ms at the median, {health[-1]:.1f} at worst"),
            *(
                (
                    "latency",
                    f"{name} third: p50 {third.quantile_ms(0.5):.1f} ms",
                    f"p99 {third.quantile_ms(0.99):.1f} ms",
                )
                for name, third in (("first", self.third(0)), ("last", self.third(2)))
            ),
            (
                "audit",
                f"{tally.delivered:,} delivered, {tally.sent - tally.delivered:,} lost",
                f"{tally.violations:,} out of order or at two workers, {tally.duplicates:,} again after a restart",
            ),
            (
                "clients",
                f"{len(tally.losses):,} connections lost, {tally.refusals:,} refusals",
                f"{tally.unasked:,} commands unasked for",
            ),
            *(("lost", loss) for loss in tally.losses[:5]),
            *(("gateway's log", f"{count:,} x {what}") for what, count in sorted(self.complaints.items())),
            *(("FAILED", what) for what in self.failures),
        ]
        return [f"{name:15} {'; '.join(parts)}" for name, *parts in rows]
