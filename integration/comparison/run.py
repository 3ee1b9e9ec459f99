"""One comparison: the load direct, then through a gateway in front of the same broker."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from integration.comparison.rolling import RollingWorkers
from integration.gateway import KeylineGateway
from integration.load.run import LoadRun

if TYPE_CHECKING:
    from pathlib import Path

    from integration.comparison.plan import Case, Load
    from integration.load.audit import AuditResult
    from integration.standalone import PulsarStandalone


@dataclass(frozen=True, slots=True)
class Comparison:
    """What the audit found on both sides."""

    case: Case
    direct: AuditResult
    gateway: AuditResult


def compare(broker: PulsarStandalone, case: Case, directory: Path) -> Comparison:
    """Run the load on both sides, each on a topic of its own, which must be new to the broker.

    Args:
        broker: a running broker of the case's version.
        case: what to run.
        directory: for records and logs.
    """
    topic = f"persistent://public/default/{case}"
    direct = _audited(directory / "direct", broker.service_url, f"{topic}-direct", case.load)
    with KeylineGateway(broker.service_url, broker.admin_url, directory / "gateway") as gateway:
        through = _audited(directory / "gateway", gateway.service_url, f"{topic}-gateway", case.load)
    return Comparison(case, direct, through)


def _audited(directory: Path, service_url: str, topic: str, load: Load) -> AuditResult:
    with LoadRun(directory, service_url, topic) as run:
        workers = RollingWorkers(run, load)
        workers.start()
        run.produce(
            count=load.messages,
            keys=load.keys,
            rate_per_s=load.rate_per_s,
            skew=load.skew,
            batching=load.batching,
        )
        workers.roll()
        return run.finish()
