"""The written-out owners: indexes are reused, and freed slots have no owner."""

from __future__ import annotations

from proxy.core.hash_ranges import RangeMove
from proxy.core.selectors.owner_table import OwnerTable
from tests.core.selectors.workers import FakeWorker


def owners(table: OwnerTable[FakeWorker]) -> list[FakeWorker | None]:
    """Return the owner of each slot."""
    return [table.workers[index] for index in table.indexes]


def test_owners_are_written_up_to_each_bound() -> None:
    """Bounds are inclusive; a bound that repeats adds nothing; no owner is None."""
    a, b = FakeWorker("a"), FakeWorker("b")
    table = OwnerTable([1, 3, 4, 4], [a, None, b, a])
    assert [owner and owner.name for owner in owners(table)] == ["a", "a", None, None, "b"]


def test_moves_are_followed() -> None:
    """A move rewrites its slots and no others."""
    a, b = FakeWorker("a"), FakeWorker("b")
    table = OwnerTable([5], [a])
    table.apply([RangeMove(1, 2, a, b), RangeMove(5, 5, a, None)])
    assert [owner and owner.name for owner in owners(table)] == ["a", "b", "b", "a", "a", None]


def test_workers_coming_and_going_reuse_indexes() -> None:
    """A thousand reconnects leave as many places as there are workers at a time."""
    resident = FakeWorker("resident")
    table = OwnerTable([5], [resident])
    for number in range(1_000):
        guest = FakeWorker(f"guest {number}")
        table.apply([RangeMove(0, 2, resident, guest)])
        assert owners(table)[2] is guest
        table.apply([RangeMove(0, 2, guest, resident)])
        table.forget(guest)
    assert len(table.workers) == 3
    assert all(owner is resident for owner in owners(table))


def test_forgetting_a_worker_that_owned_nothing_changes_nothing() -> None:
    """A worker whose points all collide has no slot and no index."""
    table = OwnerTable([5], [FakeWorker("a")])
    table.forget(FakeWorker("b"))
    assert len(table.workers) == 2
