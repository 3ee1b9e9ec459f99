"""Measures owner mode: what a leg adds to a message, what more replicas carry, and what idle replicas cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from integration.bench import owners_idle, owners_legs, owners_spread
from integration.bench.owners_stage import Replicas, replicas_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from integration.bench.report import Row
    from integration.bench.stage import Stage


def _with_replicas(measure: Callable[[Replicas], list[Row]]) -> Callable[[Stage], list[Row]]:
    def measured(stage: Stage) -> list[Row]:
        with replicas_of(stage) as replicas:
            return measure(replicas)

    return measured


SECTIONS: Final = {
    "owners-legs": _with_replicas(owners_legs.measure),
    "owners-spread": _with_replicas(owners_spread.measure),
    "owners-idle": _with_replicas(owners_idle.measure),
}
"""Each with replicas of its own."""
