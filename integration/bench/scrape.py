"""Measures how long `/metrics` of many subscriptions takes, and how it delays messages.

One connection carries a consumer for each subscription, since what a scrape tells grows with subscriptions; the first
of them has 200 more, so many as `metrics_workers_max` lets have metrics of their own. The gateway of the drain shows no
worker and histograms of each subscription, so each choice of the histograms has a gateway of its own.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import httpx
import psutil

from integration.bench import frames_made
from integration.bench.beside import Calls, measure_beside
from integration.bench.machine import cpu_s
from integration.bench.raw_worker import RawWorker, kept_alive
from integration.bench.report import Row, Spread
from integration.gateway import KeylineGateway

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.bench.stage import Stage

SCRAPES_PER_S: Final = 1
TARGET_S: Final = 0.3
ADDED_TARGET_MS: Final = 5.0
SCRAPE_S_MAX: Final = 60.0
SCRAPES_ALONE: Final = 10
WORKERS_SHARE: Final = 5
"""Subscriptions are so many times more than workers that have metrics of their own: 1,000 and 200."""
HISTOGRAMS: Final = ("subscription", "namespace", "gateway")
TOPIC: Final = "persistent://public/default/scrape-latency"
CROWD_TOPIC: Final = "persistent://public/default/scrape-crowd"


def measure(stage: Stage) -> list[Row]:
    """Seconds with and without scrapes, in turns, and bytes of a scrape, for each choice of histograms."""
    return [row for histograms in HISTOGRAMS for row in _measure(stage, histograms)]


def _measure(stage: Stage, histograms: str) -> list[Row]:
    count = stage.sizes.scraped_subscriptions
    workers = count // WORKERS_SHARE
    with ExitStack() as ends:
        settings = {"metrics_histograms": histograms, "metrics_workers_max": str(workers)}
        directory = stage.directory / f"scraped-{histograms}"
        gateway = KeylineGateway(stage.broker.service_url, stage.broker.admin_url, directory, settings=settings)
        scraped = replace(stage, gateway=ends.enter_context(gateway))
        ends.enter_context(_subscriptions(scraped, count, workers))
        calls = Calls("scrape", f"{TOPIC}-{histograms}", f"{gateway.admin_url}/metrics", SCRAPES_PER_S, ADDED_TARGET_MS)
        rows, took = measure_beside(scraped, calls)
        size, used_s = _alone(calls.url, gateway.pid)
    what = f"/metrics of {count:,} subscriptions, {workers:,} workers; histograms: {histograms}"
    time = Row("scrape", what, "s", gateway=Spread.of(took)).with_limit(TARGET_S)
    length = Row("scrape", f"{what}, before compression", "MB", gateway=Spread.of([size / 1e6]))
    cpu = Row("scrape", f"{what}, gateway CPU", "s", gateway=Spread.of(used_s))
    return [time, cpu, length, *(replace(row, measured=f"{row.measured}; histograms: {histograms}") for row in rows)]


def _alone(url: str, gateway_pid: int) -> tuple[int, list[float]]:
    """Scrape while no message passes: bytes before compression, and the gateway's CPU for each scrape."""
    gateway = psutil.Process(gateway_pid)
    size, used = 0, []
    with httpx.Client(trust_env=False, timeout=SCRAPE_S_MAX) as http:
        for _ in range(SCRAPES_ALONE):
            before = cpu_s(gateway)
            size = len(http.get(url).content)
            used.append(cpu_s(gateway) - before)
    return size, used


@contextmanager
def _subscriptions(stage: Stage, count: int, workers: int) -> Iterator[None]:
    """So many subscriptions with a worker each, and so many workers more; their connection is kept alive."""
    with RawWorker(stage.gateway.service_url, CROWD_TOPIC, "s-0", "crowd", 1) as crowd:
        for number in range(2, count + 1):
            crowd.request(frames_made.subscribe(number, "crowd", CROWD_TOPIC, f"s-{number}"))
        for number in range(count + 1, count + workers + 1):
            crowd.request(frames_made.subscribe(number, f"crowd-{number}", CROWD_TOPIC, "s-0"))
        with kept_alive(crowd):
            yield
