"""Quarantine: who lost how many leases lately, and who gets no keys until when."""

from __future__ import annotations

import pytest

from proxy.core import quarantine
from proxy.core.quarantine import Quarantine, QuarantineRule, WorkerName

A = WorkerName("t", "s", "a")
B = WorkerName("t", "s", "b")
RULE = QuarantineRule(after=2, lasts_s=100.0, lease_s=10.0)


def test_a_worker_is_quarantined_for_a_time_after_so_many_lost_leases() -> None:
    """Not before, and not longer; another name is none of its business."""
    known = Quarantine()
    assert not known.lost_lease(A, RULE, 0.0, spared=False)
    assert known.ends_at(A, 0.0) is None
    assert known.lost_lease(A, RULE, 10.0, spared=False)
    assert known.ends_at(A, 10.0) == 110.0
    assert known.ends_at(A, 109.9) == 110.0
    assert known.ends_at(A, 110.0) is None
    assert known.ends_at(B, 10.0) is None
    assert list(known.names_in("t", "s", 50.0)) == ["a"]
    assert list(known.names_in("t", "other", 50.0)) == []
    assert list(known.names_in("t", "s", 110.0)) == []


def test_a_worker_that_hangs_for_good_is_quarantined_again_at_its_next_lost_lease() -> None:
    """Its offences count until it has kept its leases for long enough."""
    known = Quarantine()
    known.lost_lease(A, RULE, 0.0, spared=False)
    assert known.lost_lease(A, RULE, 10.0, spared=False)
    assert known.lost_lease(A, RULE, 120.0, spared=False)
    assert known.ends_at(A, 121.0) == 220.0


def test_offences_are_forgotten_after_twice_the_lease_and_the_quarantine() -> None:
    """Then it is as if it had lost none."""
    known = Quarantine()
    known.lost_lease(A, RULE, 0.0, spared=False)
    assert not known.lost_lease(A, RULE, 220.0, spared=False)
    assert known.lost_lease(A, RULE, 439.9, spared=False)


def test_who_is_spared_is_not_quarantined_and_its_offence_counts() -> None:
    """The caller spares those without whom nobody would work."""
    known = Quarantine()
    known.lost_lease(A, RULE, 0.0, spared=False)
    assert not known.lost_lease(A, RULE, 10.0, spared=True)
    assert known.lost_lease(A, RULE, 20.0, spared=False)


def test_a_release_ends_a_quarantine_and_forgets_nothing() -> None:
    """The next lost lease brings it back."""
    known = Quarantine()
    known.lost_lease(A, RULE, 0.0, spared=False)
    known.lost_lease(A, RULE, 10.0, spared=False)
    known.release(A)
    known.release(B)
    assert known.ends_at(A, 11.0) is None
    assert known.lost_lease(A, RULE, 30.0, spared=False)


def test_a_rule_of_zero_counts_nothing() -> None:
    """It is off."""
    known = Quarantine()
    assert not known.lost_lease(A, QuarantineRule(0, 100.0, 10.0), 0.0, spared=False)
    assert known._count == 0


def test_the_oldest_offences_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose names."""
    monkeypatch.setattr(quarantine, "OFFENDERS_MAX", 3)
    known = Quarantine()
    for number in range(3):
        known.lost_lease(A._replace(name=str(number)), RULE, float(number), spared=False)
    known.lost_lease(A._replace(name="0"), RULE, 5.0, spared=False)
    known.lost_lease(A._replace(name="3"), RULE, 6.0, spared=False)
    assert known._count == 3
    assert known.ends_at(A._replace(name="0"), 6.0) is not None
    assert not known.lost_lease(A._replace(name="1"), RULE, 7.0, spared=False)


FLOODED: list[WorkerName] = [
    WorkerName("persistent://flood/x/t", "s", "{n}"),
    WorkerName("persistent://flood/x/t", "{n}", "w"),
    WorkerName("persistent://flood/x/{n}", "s", "w"),
]


@pytest.mark.parametrize("made", FLOODED, ids=["names", "subscriptions", "topics"])
def test_one_that_makes_up_names_is_forgotten_itself(made: WorkerName) -> None:
    """Whatever of the name it may choose: who offended in another namespace stays known, however long ago."""
    known = Quarantine()
    honest = [WorkerName("persistent://public/default/orders", "billing", f"w{number}") for number in range(20)]
    flood = [WorkerName(*(part.format(n=number) for part in made)) for number in range(2 * quarantine.OFFENDERS_MAX)]
    for who in [*flood[:5_000], *honest, *flood[5_000:]]:
        known.lost_lease(who, RULE, 1.0, spared=False)
    assert known._count <= quarantine.OFFENDERS_MAX
    assert all(known.lost_lease(who, RULE, 2.0, spared=False) for who in honest)


def test_a_flood_of_one_subscription_leaves_the_others_of_its_topic_alone() -> None:
    """They have fewer names."""
    known = Quarantine()
    honest = [A._replace(subscription="billing", name=f"w{number}") for number in range(20)]
    flood = [A._replace(name=str(number)) for number in range(2 * quarantine.OFFENDERS_MAX)]
    for who in [*flood[:5_000], *honest, *flood[5_000:]]:
        known.lost_lease(who, RULE, 1.0, spared=False)
    assert all(known.lost_lease(who, RULE, 2.0, spared=False) for who in honest)


def test_what_counts_no_more_makes_room_first() -> None:
    """Before anything that counts is forgotten."""
    known = Quarantine()
    for number in range(quarantine.OFFENDERS_MAX):
        known.lost_lease(A._replace(name=str(number)), RULE, 0.0, spared=False)
    known.lost_lease(B, RULE, 300.0, spared=False)
    assert known._count == 1
