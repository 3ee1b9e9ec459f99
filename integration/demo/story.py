"""What happens in the demo and when: a fixed round of workers that leave, die and come, repeated as long as it runs.

Steps are told in sentences before they are done. Each step is quick to order; joining takes its own time, and the
next scene shows when it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from integration.load.run import LoadRun

FIRST_WORKERS: Final = ("anna", "ben", "cleo")
LATE_WORKER: Final = "dora"
ACK_DELAY_MS: Final = {"anna": 60.0, "ben": 500.0, "cleo": 120.0, "dora": 200.0}
"""How long each worker takes for a message. Ben is slow, so that one sees keys wait for him."""
RECEIVER_QUEUE_SIZE: Final = 100
PERIOD_S_MAX: Final = 5.0
"""Time between two steps when the demo runs long."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens to the workers."""

    words: str
    act: Callable[[LoadRun], object]


def start(run: LoadRun, name: str) -> None:
    """Start a worker; it joins in its own time."""
    run.start_worker(name, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=ACK_DELAY_MS[name])


def first_workers(run: LoadRun) -> None:
    """Start the three that are there from the beginning and wait until they have joined."""
    for name in FIRST_WORKERS:
        start(run, name)
    for name in FIRST_WORKERS:
        run.workers[name].wait_joined()


_ROUND: Final = (
    Step("dora starts as a fourth worker. Some keys of the others become hers.", lambda run: start(run, "dora")),
    Step("ben leaves: he finishes his messages and closes. His keys go to the others.", lambda run: leave(run, "ben")),
    Step("ben comes back and gets exactly the keys he had.", lambda run: start(run, "ben")),
    Step("cleo is killed (kill -9) with messages in her hands.", lambda run: run.kill_worker("cleo")),
    Step("cleo is started again.", lambda run: start(run, "cleo")),
    Step("dora leaves.", lambda run: leave(run, "dora")),
)


def leave(run: LoadRun, name: str) -> None:
    """Ask a worker to leave without waiting for it: the screen should go on."""
    run.release_worker(name)


def steps() -> Iterator[Step]:
    """Yield the steps, round after round."""
    for index in count():
        yield _ROUND[index % len(_ROUND)]


def period_s(seconds: float | None) -> float:
    """Return the time between steps, such that a short demo still shows a whole round."""
    if seconds is None:
        return PERIOD_S_MAX
    return min(PERIOD_S_MAX, seconds / (len(_ROUND) + 1))
