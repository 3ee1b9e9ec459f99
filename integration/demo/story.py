"""The events of the demo: a fixed round of workers that leave, die and join, repeated until its end.

Steps are told in sentences before they are done. Each step is quick to order; joining takes its own time, and the
next scene shows when it is done.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle
from typing import TYPE_CHECKING, Final

from integration.load.lives import Cause

if TYPE_CHECKING:
    from integration.demo.cluster import Cluster
    from integration.load.run import LoadRun

FIRST_WORKERS: Final = ("anna", "ben", "cleo")
ACK_DELAY_MS: Final = {"anna": 60.0, "ben": 500.0, "cleo": 120.0, "dora": 200.0}
"""How long each worker takes for a message. Ben is slow, so that one sees keys wait for him."""
RECEIVER_QUEUE_SIZE: Final = 100
PERIOD_S_MAX: Final = 5.0
"""Time between two steps when the demo runs long."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that happens to the workers."""

    words: str
    """`{owner}` in it is the replica that owns the subscription then."""
    act: Callable[[LoadRun, Cluster], object]

    @property
    def concerns_owner(self) -> bool:
        """Whether there has to be an owner for it."""
        return "{owner}" in self.words


def start(run: LoadRun, cluster: Cluster, name: str) -> None:
    """Start a worker; it joins in its own time."""
    url, delay_ms = cluster.next_url(), ACK_DELAY_MS[name]
    run.start_worker(name, service_url=url, receiver_queue_size=RECEIVER_QUEUE_SIZE, ack_delay_ms=delay_ms)


def first_workers(run: LoadRun, cluster: Cluster) -> None:
    """Start the three that are there from the beginning and wait until they have joined."""
    for name in FIRST_WORKERS:
        start(run, cluster, name)
    for name in FIRST_WORKERS:
        run.workers[name].wait_joined()


def leave(run: LoadRun, name: str) -> None:
    """Ask a worker to leave without waiting for it: the screen should go on."""
    run.release_worker(name)


def change_pace(run: LoadRun, name: str) -> None:
    """Make a worker slow, or quick again."""
    run.workers[name].change_pace()


def roll_owner(run: LoadRun, cluster: Cluster) -> None:
    """Restart the owner; those that are connected to it may get again what they have from the next one."""
    run.interruption(Cause.GATEWAY_STOPPED, workers=cluster.workers_at(cluster.owner))
    cluster.roll(cluster.owner)


def kill_owner(run: LoadRun, cluster: Cluster) -> None:
    """Kill the owner; what was under way at the workers, all of which it serves, is delivered again."""
    run.interruption(Cause.GATEWAY_KILLED, workers=frozenset(run.workers))
    cluster.kill(cluster.owner)


_ROUND: Final = (
    Step(
        "dora starts as a fourth worker. Some keys of the others become hers.",
        lambda run, cluster: start(run, cluster, "dora"),
    ),
    Step("anna slows down: each message takes her twenty times as long.", lambda run, _: change_pace(run, "anna")),
    Step(
        "ben leaves: he finishes his messages and closes. His keys go to the others.",
        lambda run, _: leave(run, "ben"),
    ),
    Step("anna is as quick as before.", lambda run, _: change_pace(run, "anna")),
    Step("ben comes back and gets exactly the keys he had.", lambda run, cluster: start(run, cluster, "ben")),
    Step("cleo is killed (kill -9) with messages in her hands.", lambda run, _: run.kill_worker("cleo")),
    Step("cleo is started again.", lambda run, cluster: start(run, cluster, "cleo")),
    Step("dora leaves.", lambda run, _: leave(run, "dora")),
)

_ROUND_OF_REPLICAS: Final = (
    Step("dora starts as a fourth worker, at whichever replica.", lambda run, cluster: start(run, cluster, "dora")),
    Step(
        "{owner}, the subscription's owner, which serves all workers, is restarted. It hands it over first.",
        roll_owner,
    ),
    Step("ben leaves: he finishes his messages and closes.", lambda run, _: leave(run, "ben")),
    Step("ben comes back, and gets exactly the keys he had.", lambda run, cluster: start(run, cluster, "ben")),
    Step(
        "{owner}, the owner now, is killed (kill -9). Another owns the subscription when it has certainly stopped.",
        kill_owner,
    ),
    Step("cleo is killed (kill -9) with messages in her hands.", lambda run, _: run.kill_worker("cleo")),
    Step("cleo is started again.", lambda run, cluster: start(run, cluster, "cleo")),
    Step("dora leaves.", lambda run, _: leave(run, "dora")),
)


def steps(*, shared: bool) -> Iterator[Step]:
    """Yield the steps, round after round; a round of its own where replicas share the work."""
    yield from cycle(_round(shared=shared))


def period_s(seconds: float | None, *, shared: bool) -> float:
    """Return the time between steps, such that a short demo still shows a whole round."""
    if seconds is None:
        return PERIOD_S_MAX
    return min(PERIOD_S_MAX, seconds / (steps_count(shared=shared) + 1))


def steps_count(*, shared: bool) -> int:
    """Return how many steps a round has."""
    return len(_round(shared=shared))


def _round(*, shared: bool) -> tuple[Step, ...]:
    return _ROUND_OF_REPLICAS if shared else _ROUND
