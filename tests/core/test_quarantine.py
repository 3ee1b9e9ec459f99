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
    assert len(known) == 0


def test_the_oldest_offences_are_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """Clients choose names."""
    monkeypatch.setattr(quarantine, "OFFENDERS_MAX", 3)
    known = Quarantine()
    for number in range(3):
        known.lost_lease(A._replace(name=str(number)), RULE, float(number), spared=False)
    known.lost_lease(A._replace(name="0"), RULE, 5.0, spared=False)
    known.lost_lease(A._replace(name="3"), RULE, 6.0, spared=False)
    assert len(known) == 3
    assert known.ends_at(A._replace(name="0"), 6.0) is not None
    assert not known.lost_lease(A._replace(name="1"), RULE, 7.0, spared=False)
