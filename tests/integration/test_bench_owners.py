"""The rows of several replicas: whose CPU is whose, and which subscriptions a crowd has."""

from __future__ import annotations

from integration.bench import cli, owners
from integration.bench.machine import Usage
from integration.bench.owners_idle import PER_TOPIC, names
from integration.bench.owners_legs import Round, rows_of
from integration.bench.owners_stage import OwnersDrain

MESSAGES = 1_000


def _drain(*cpu_us: float, seconds: float = 1.0) -> OwnersDrain:
    """Replicas that spent so much on each message."""
    return OwnersDrain(MESSAGES, seconds, tuple(each * MESSAGES / 1e6 for each in cpu_us), Usage(1.0, {}, 0.0, 100.0))


def test_what_a_leg_costs_is_told_apart_although_each_round_has_other_owners() -> None:
    """A replica that had no part in a drain counts for neither end, and for the sum in both turns."""
    rounds = [
        Round(_drain(10, 1, 1), _drain(1, 11, 3), (0, 1), 2),
        Round(_drain(1, 12, 1), _drain(5, 1, 14, seconds=2.0), (1, 2), 0),
    ]
    rows = rows_of("kind", rounds)
    medians = [round(row.gateway.median, 3) for row in rows if row.gateway is not None]
    assert medians == [11, 12.5, 4, 17.5, 0.75]
    assert [row.compared for row in rows[1:4:2]] == ["added 1.50 (1.00 - 2.00)", "added 4.50 (3.00 - 6.00)"]
    assert (rows[2].target, rows[2].met) == ("<= 2", False)


def test_every_idle_subscription_is_another_one() -> None:
    """Two workers on one subscription would halve what is measured."""
    assert len({names(1_000, number) for number in range(1_000)}) == 1_000
    assert len({names(1_000, number)[0] for number in range(1_000)}) == 1_000 / PER_TOPIC


def test_owners_stands_for_all_of_its_sections() -> None:
    """They can be run one by one: together they take longer than one wants to wait on a busy machine."""
    assert cli.sections("owners") == tuple(owners.SECTIONS)
    assert cli.sections("owners-idle, mixed") == ("mixed", "mixed-latency", "owners-idle")
