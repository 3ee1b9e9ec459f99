"""Measures the cost of a message whose worker is connected to a replica that is not the owner.

One backlog is drained by turns with all workers at the owner and with all at another replica, which leads them there
by a leg. The owner of a subscription cannot be chosen: it is asked for, and the workers go where the turn wants them.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from integration.bench import backlog, mixed_backlog
from integration.bench.drain import perf_workers
from integration.bench.machine import note
from integration.bench.owners_stage import REPLICAS, SECTION, OwnersDrain, Replicas
from integration.bench.report import Row, Spread, differences

if TYPE_CHECKING:
    from collections.abc import Sequence

UNBATCHED: Final = "unbatched"
BATCHED: Final = "batches of 100 mixed keys"
SIDE_TARGET_US: Final = 2.0
"""Of the CPU of the replica at the workers' side, for each message."""


@dataclass(frozen=True, slots=True)
class Round:
    """The same backlog drained both ways, one after the other."""

    at_owner: OwnersDrain
    elsewhere: OwnersDrain
    owners: tuple[int, int]
    """The number of the owner in each: they are two subscriptions."""
    side: int
    """Where the workers of the second were."""


def measure(replicas: Replicas) -> list[Row]:
    """Unbatched messages, and default batching."""
    stage = replicas.stage
    sizes = stage.sizes
    topic = "persistent://public/default/owners-unbatched"
    backlog.fill(stage, topic, sizes.owner_messages, key_batched=False)
    mixed = mixed_backlog.Backlog("owners", sizes.owner_batched_messages)
    mixed_backlog.fill(stage, mixed)
    rows = []
    for kind, name, count in ((UNBATCHED, topic, sizes.owner_messages), (BATCHED, mixed.topic, mixed.messages)):
        rounds = [_round(replicas, kind, name, count, number) for number in range(sizes.warm_ups + sizes.repetitions)]
        rows += rows_of(kind, rounds[sizes.warm_ups :])
    return rows


def _round(replicas: Replicas, kind: str, topic: str, count: int, number: int) -> Round:
    at_owner, first, _ = _drained(replicas, topic, f"at-owner-{number}", count, 0)
    elsewhere, second, side = _drained(replicas, topic, f"elsewhere-{number}", count, 1)
    done = Round(at_owner, elsewhere, (first, second), side)
    note(
        f"  {kind} {number}: at the owner {at_owner.rate:,.0f}/s, {at_owner.cpu_us(first):.1f} us; elsewhere "
        f"{elsewhere.rate:,.0f}/s, owner {elsewhere.cpu_us(second):.1f} us, side {elsewhere.cpu_us(side):.1f} us; "
        f"others {elsewhere.usage.others_share:.0%}, reference {elsewhere.usage.reference_ns:.0f} ns"
    )
    return done


def _drained(replicas: Replicas, topic: str, subscription: str, count: int, away: int) -> tuple[OwnersDrain, int, int]:
    """By workers so many replicas away from the owner; with the owner, and where they were."""
    backlog.subscribe_all(replicas.stage, topic, [subscription])
    owner = replicas.owner(topic, subscription)
    side = (owner + away) % REPLICAS
    start, log = perf_workers(topic), replicas.stage.directory / f"owners-{subscription}.log"
    url = replicas.gateways[side].service_url
    done = replicas.drain("stats", topic, subscription, count, lambda: [start(url, subscription, log)])
    return done, owner, side


def rows_of(kind: str, rounds: Sequence[Round]) -> list[Row]:
    """CPU at either end, what the leg adds in all, and the rate beside that at the owner."""
    alone = [each.at_owner.cpu_us(each.owners[0]) for each in rounds]
    owner = [each.elsewhere.cpu_us(each.owners[1]) for each in rounds]
    side = Spread.of(each.elsewhere.cpu_us(each.side) for each in rounds)
    every = [each.at_owner.cpu_us() for each in rounds], [each.elsewhere.cpu_us() for each in rounds]
    rates = Spread.of(each.elsewhere.rate / each.at_owner.rate for each in rounds)
    behind = [asdict(each) for each in rounds]
    return [
        Row(SECTION, f"{kind}: owner's CPU per message, workers at it", "us", gateway=Spread.of(alone)),
        Row(
            SECTION,
            f"{kind}: owner's CPU per message, workers elsewhere",
            "us",
            gateway=Spread.of(owner),
            repetitions=behind,
        ).with_added(differences(alone, owner)),
        Row(SECTION, f"{kind}: CPU per message at the workers' replica", "us", gateway=side).with_limit(SIDE_TARGET_US),
        Row(
            SECTION, f"{kind}: all replicas' CPU per message, workers elsewhere", "us", gateway=Spread.of(every[1])
        ).with_added(differences(*every)),
        Row(SECTION, f"{kind}: rate with workers elsewhere : at the owner", "", gateway=rates),
    ]
