"""Measures what the record of a message costs inside one process, where 0.1 microseconds can be seen.

The event loop's part is the whole path of `path` with it and without, in turn; the thread's is to make files of what
that gathered. `journal` measures both at once on a real drain.
"""

from __future__ import annotations

import gc
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final

from integration.bench import frames_made
from integration.bench.path import GatewayPath
from integration.bench.report import Row, Spread, differences
from proxy.journal.digest import KeyDigests
from proxy.journal.journal import Journal
from proxy.journal.schema import DELIVERIES
from proxy.journal.segment import Segment
from proxy.journal.spool import Spool

if TYPE_CHECKING:
    from integration.bench.stage import Sizes

TRIES: Final = 25
AT_A_TIME: Final = 100
ROWS_PER_MESSAGE: Final = 2
SPOOL_BYTES: Final = 1 << 30


def measure(sizes: Sizes) -> list[Row]:
    """The event loop's part and the thread's."""
    tails = frames_made.single_tails(sizes.micro_messages)
    spool = Spool(SPOOL_BYTES)
    digests = KeyDigests(b"of the bench")
    journal = Journal("bench", spool, time.time_ns, time.monotonic, digests)
    paths = {"without": GatewayPath(), "with": GatewayPath(event_recorder=journal)}
    times: dict[str, list[float]] = {name: [] for name in paths}
    writing = []
    for _ in range(TRIES):
        for name, path in paths.items():
            gc.collect()
            before = path.spent_s
            delivered = path.pump(tails, AT_A_TIME)
            times[name].append((path.spent_s - before) / delivered * 1e6)
        journal.hand_in()
        writing.append(_write(spool))
    without, recorded = times["without"], times["with"]
    both = "whole path, unbatched, without and with a record of messages"
    return [
        Row("inside", both, "us", Spread.of(without), Spread.of(recorded)).with_added(differences(without, recorded)),
        Row("inside", "files of that record, a message, in a thread of their own", "us", gateway=Spread.of(writing)),
    ]


def _write(spool: Spool) -> float:
    """CPU for each message whose two rows are in it."""
    with TemporaryDirectory() as directory:
        began = time.process_time()
        segment = Segment(DELIVERIES, Path(directory), "bench", "", {})
        while chunk := spool.take(0.0):
            if chunk.table is DELIVERIES:  # and not that the workers have joined
                segment.write(chunk.batch())
            spool.done(chunk)
        segment.finish()
        assert not any(spool.dropped.values()), "the spool is too small"
        return (time.process_time() - began) * 1e6 * ROWS_PER_MESSAGE / segment.rows
