"""What each worker is compared with: the others, however many there are."""

from __future__ import annotations

from statistics import median
from typing import TYPE_CHECKING

import pytest

from proxy.core.entry import Part
from proxy.core.steps import finished
from proxy.core.worker import Worker
from proxy.core.worker_health import Checkup, checkup_steps
from tests.core.test_dispatcher_rig import A, Rig
from tests.growth import growth

if TYPE_CHECKING:
    from collections.abc import Callable

NOW = 100.0


def working(name: str, acked: int) -> Worker:
    """A worker that acknowledged so many messages in 20 s, and holds one."""
    worker = Worker(name)
    worker.pace.note(0, 0.0, NOW - 20)
    worker.acked_messages = acked
    worker.pending[1] = Part(1, A, 1, b"x", 0, NOW)
    worker.pending[1].sent_at = NOW
    return worker


def checkup(*workers: Worker) -> Checkup:
    """Of these."""
    rig = Rig()
    rig.dispatcher.workers.update(enumerate(workers, 1))
    return finished(checkup_steps(rig.dispatcher, NOW))


@pytest.mark.parametrize("count", [1, 2, 3, 4, 7, 8])
def test_a_worker_is_compared_with_the_median_of_the_others(count: int) -> None:
    """Its own rate is left out, once, also where others have the same; who holds nothing counts for no one."""
    workers = [working(str(number), number * 7 % 5) for number in range(count)]
    idle = working("idle", 9)
    idle.pending.clear()
    found = checkup(*workers, idle).workers
    rates = {worker: worker.acked_messages / 20 for worker in workers}
    for worker in (*workers, idle):
        others = [rate for peer, rate in rates.items() if peer is not worker]
        assert found[worker].peers_acked_rate == (median(others) if others else None)


def test_thousands_of_workers_are_not_each_compared_with_all_others() -> None:
    """A client may have ten thousand on one connection, and a scrape of the metrics looks at all in one go."""

    def ready(count: int) -> Callable[[], object]:
        workers = [working(str(number), number * 7_919 % 1_000) for number in range(count)]
        return lambda: checkup(*workers)

    assert growth(ready, 500, 4_000) < 32  # 64, if each were compared with all
