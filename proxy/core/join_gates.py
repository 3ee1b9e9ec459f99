"""Join gates (PIP-282): a worker that joined gets nothing behind its join position until all up to it is acknowledged.

Problem: each entry that is done, and each that comes late, counts for all gates at or behind it, and ten thousand
workers may have one each. Rule kept: gates stand in the order of their positions, workers with one position share
theirs, and each counts only the entries above the gate before it. So an entry concerns one gate, found by bisection,
and only the first gate can open, with those behind it that have nothing of their own to wait for.

Functions of a dispatcher's `gated`, a plain list, because each message asks whether it is empty. The first gate in it
has always something to wait for.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING

from proxy.core.worker import JoinGate

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.worker import Worker


def add(gated: list[JoinGate], worker: Worker, position: int, outstanding: Iterable[int]) -> None:
    """Hold the worker to its join position, unless none of the `outstanding` positions is at or below it."""
    at = bisect_left(gated, position, key=_position)
    if at < len(gated) and gated[at].position == position:
        gate = gated[at]
    else:
        below = gated[at - 1].position if at else -1
        entries = sum(below < each <= position for each in outstanding)
        if not entries and not at:
            return
        gate = JoinGate(position, entries)
        gated.insert(at, gate)
        if at + 1 < len(gated):
            gated[at + 1].entries -= entries
    gate.workers[worker] = None
    worker.join_gate = gate


def remove(gated: list[JoinGate], worker: Worker) -> None:
    """The worker leaves; harmless without a gate."""
    gate = worker.join_gate
    if gate is None:
        return
    worker.join_gate = None
    del gate.workers[worker]
    if gate.workers:
        return
    at = bisect_left(gated, gate.position, key=_position)
    del gated[at]
    if at < len(gated):
        gated[at].entries += gate.entries


def came(gated: list[JoinGate], position: int) -> None:
    """An entry is outstanding now, which may be an old one."""
    at = bisect_left(gated, position, key=_position)
    if at < len(gated):
        gated[at].entries += 1


def done(gated: list[JoinGate], position: int) -> list[Worker]:
    """An entry is outstanding no more; returns the workers whose gates have opened."""
    at = bisect_left(gated, position, key=_position)
    if at == len(gated):
        return []
    gated[at].entries -= 1
    if at or gated[0].entries:
        return []
    return open_first(gated, next((index for index, gate in enumerate(gated) if gate.entries), len(gated)))


def open_first(gated: list[JoinGate], count: int) -> list[Worker]:
    """Take so many gates away; returns the workers whose they were."""
    opened = workers(gated[:count])
    del gated[:count]
    for worker in opened:
        worker.join_gate = None
    return opened


def workers(gated: Iterable[JoinGate]) -> list[Worker]:
    """Those with a gate, by position, and then in join order."""
    return [worker for gate in gated for worker in gate.workers]


def outstanding_up_to(gated: list[JoinGate], gate: JoinGate) -> int:
    """How many entries keep the gate shut."""
    return sum(each.entries for each in gated if each.position <= gate.position)


def _position(gate: JoinGate) -> int:
    return gate.position
