"""What a busy machine does to replicas in owner mode, so that tests wait for it or allow it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import httpx

from integration.asked_gateway import AskedGateway
from integration.gateway import KeylineGateway
from integration.load.lives import Cause
from integration.load.run import LoadRun
from integration.logs import lines
from proxy.cli.admin_client import Unanswered
from tests.integration.conditions import eventually

STOOD_STILL: Final = "process stood still"
"""The event of a replica that had no CPU for so long that it gave its legs up."""
TOLD_LATE_S: Final = 1.0
"""Around what a replica says of itself: its clients hear of it later, and it rounds."""


def patiently(condition: Callable[[], object], what: str) -> None:
    """As `eventually`, of replicas that may be too busy to answer, or have just stood still: they are asked again."""

    def holds() -> object:
        try:
            return condition()
        except (httpx.TransportError, Unanswered):
            return False

    eventually(holds, what)


def settle(gateways: Sequence[AskedGateway]) -> None:
    """Return when each has its share of all bundles, and knows it of the others: none moves any more.

    Replicas are ready before that, and who owns something then may be another one in a moment.
    """
    patiently(lambda: all(_knows_equal_shares(each, len(gateways)) for each in gateways), "equal shares of bundles")


def _knows_equal_shares(gateway: AskedGateway, replicas: int) -> bool:
    told = gateway.deployment()
    bundles = [row["bundles"] for row in told["replicas"]]
    return len(bundles) == replicas and sum(bundles) == told["bundles_count"] and max(bundles) - min(bundles) <= 1


def leader_of(gateways: Sequence[KeylineGateway]) -> KeylineGateway:
    """The replica that leads, as soon as one says so of itself."""
    found: list[KeylineGateway] = []

    def leads() -> bool:
        told = [(each, each.deployment()) for each in gateways if each.running]
        found[:] = [each for each, one in told if one["leader"] == one["replica"]]
        return len(found) == 1

    patiently(leads, "one replica that leads")
    return found[0]


def standstills(*logs: Path) -> list[dict[str, Any]]:
    """What the gateways that write these logs tell of the times when they stood still."""
    return [line for log in logs for line in lines(log) if line["event"] == STOOD_STILL]


def note_standstills(run: LoadRun, *logs: Path) -> set[Cause]:
    """Let the audit know when replicas stood still, by their own word; the causes of what that may bring again."""
    ahead_s = time.time() - time.monotonic()
    still = standstills(*logs)
    for line in still:
        over_s = datetime.fromisoformat(line["time"]).timestamp() - ahead_s
        since_s, until_s = over_s - line["seconds"] - TOLD_LATE_S, over_s + TOLD_LATE_S
        run.was_paused(Cause.GATEWAY_PAUSED, int(since_s * 1e9), int(until_s * 1e9))
    return {Cause.GATEWAY_PAUSED, Cause.CLIENT_QUEUE} if still else set()
