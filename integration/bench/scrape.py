"""How long Prometheus waits for `/metrics` of many subscriptions, and what that does to messages meanwhile.

One connection carries a consumer for each subscription, since what a scrape tells grows with subscriptions.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from integration.bench import frames_made
from integration.bench.beside import Calls, measure_beside
from integration.bench.raw_worker import RawWorker, kept_alive
from integration.bench.report import Row, Spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from integration.bench.stage import Stage

SCRAPES_PER_S: Final = 1
TARGET_S: Final = 1.0
TOPIC: Final = "persistent://public/default/scrape-latency"
CROWD_TOPIC: Final = "persistent://public/default/scrape-crowd"


def measure(stage: Stage) -> list[Row]:
    """Seconds with and without scrapes, in turns."""
    count = stage.sizes.scraped_subscriptions
    with _subscriptions(stage, count):
        calls = Calls("scrape", TOPIC, f"{stage.gateway.admin_url}/metrics", SCRAPES_PER_S)
        rows, took = measure_beside(stage, calls)
    whole = Row("scrape", f"/metrics of {count:,} subscriptions", "s", gateway=Spread.of(took))
    return [whole.with_limit(TARGET_S), *rows]


@contextmanager
def _subscriptions(stage: Stage, count: int) -> Iterator[None]:
    """So many subscriptions with a worker each, whose connection is kept alive."""
    with RawWorker(stage.gateway.service_url, CROWD_TOPIC, "s-0", "crowd", 1) as crowd:
        for number in range(2, count + 1):
            crowd.request(frames_made.subscribe(number, "crowd", CROWD_TOPIC, f"s-{number}"))
        with kept_alive(crowd):
            yield
