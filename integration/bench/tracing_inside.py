"""What following sampled messages costs inside one process, beside the same path without it.

Spans are made in a thread; what they cost is a row of its own, a message of the sample.
"""

from __future__ import annotations

import gc
import time
from typing import TYPE_CHECKING, Final

from integration.bench import frames_made
from integration.bench.path import GatewayPath, StillClock
from integration.bench.report import Row, Spread, differences
from proxy.tracing.spans import SpanMaker
from proxy.tracing.tracer import Tracing

if TYPE_CHECKING:
    from integration.bench.stage import Sizes
    from proxy.tracing.passage import Passage

TRIES: Final = 25
AT_A_TIME: Final = 100
SAMPLES: Final = (0.001, 1.0)


def measure(sizes: Sizes) -> list[Row]:
    """The event loop's part at the default sample and with all messages, and the thread's."""
    tails = frames_made.single_tails(sizes.micro_messages)
    passages: list[Passage] = []
    paths = {"without": GatewayPath()}
    for sample in SAMPLES:
        paths[f"{sample:g}"] = GatewayPath(tracers=Tracing(sample, StillClock(), passages.append))
    times: dict[str, list[float]] = {name: [] for name in paths}
    for _ in range(TRIES):
        for name, path in paths.items():
            gc.collect()
            passages.clear()
            before = path.spent_s
            delivered = path.pump(tails, AT_A_TIME)
            times[name].append((path.spent_s - before) / delivered * 1e6)
    without = times.pop("without")
    what = "whole path, unbatched, without traces and with a sample of"
    rows = [
        Row("inside", f"{what} {name}", "us", Spread.of(without), Spread.of(traced)).with_added(
            differences(without, traced)
        )
        for name, traced in times.items()
    ]
    cost = "spans of a traced message, in a thread of their own"
    return [*rows, Row("inside", cost, "us", gateway=Spread.of(_span_times(passages)))]


def _span_times(passages: list[Passage]) -> list[float]:
    """CPU for each of the passages."""
    maker = SpanMaker("bench", "0", lambda: 0)
    found = []
    for passage in passages[:1_000]:
        began = time.process_time()
        maker.spans(passage)
        found.append((time.process_time() - began) * 1e6)
    return found
