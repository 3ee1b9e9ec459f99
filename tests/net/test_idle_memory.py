"""What workers and subscriptions take of the memory while nothing happens: thousands may be there at once.

Counted by `tracemalloc`, which does not see what protobuf takes; `make bench ARGS='--only memory-idle'` measures all.
"""

from __future__ import annotations

import gc
import tracemalloc
from typing import TYPE_CHECKING

import pytest

from integration.bench import frames_made
from integration.bench.path import GatewayPath
from proxy.net import events
from tests.interpreted import interpreted_only

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTLED = 20
"""So many come before, for what is made once."""


@pytest.fixture(autouse=True)
def few_events(monkeypatch: pytest.MonkeyPatch) -> None:
    """The events that are kept are few in any deployment, but more than all else in a small one."""
    monkeypatch.setattr(events, "KEPT_MAX", 1)


@interpreted_only
def test_an_idle_worker_takes_less_than_six_kilobytes() -> None:
    """Its points on the ring would be as much again, and twice that where they collide, as Python's numbers."""
    assert _bytes_of_each(frames_made.subscribe(number, f"w-{number}") for number in range(2, 402)) < 6_000


@interpreted_only
def test_an_idle_subscription_takes_less_than_twenty_four_kilobytes() -> None:
    """With its worker."""
    assert _bytes_of_each(frames_made.subscribe(number, "w", f"t-{number}", "s") for number in range(2, 202)) < 24_000


def _bytes_of_each(subscribes: Iterable[bytes]) -> float:
    path = GatewayPath(0)
    client = path.new_client()
    frames = list(subscribes)
    for frame in frames[:SETTLED]:
        path.tell(client, frame)
    gc.collect()
    tracemalloc.start()
    try:
        for frame in frames[SETTLED:]:
            path.tell(client, frame)
        client.take()
        gc.collect()
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return taken / (len(frames) - SETTLED)
