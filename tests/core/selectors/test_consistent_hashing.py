"""The ring against facts computed independently from the broker's construction (facts 2.2)."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.core.hash_ranges import HashRange
from proxy.core.selectors import consistent_hashing
from proxy.core.selectors.consistent_hashing import (
    DEFAULT_POINTS_PER_WORKER,
    LOOKUPS_BEFORE_TABLE,
    ConsistentHashing,
    ring_points,
)
from proxy.core.sticky_key import consistent_slot, murmur31, range_slot
from tests.core.selectors.workers import FakeWorker, changed_slots, moved_slots, owners_by_slot, same_owners, share

COLLIDING_POINT = 34_919
KEY_OWNERS = ["c2", "c2", "c3", "c2", "c1", "c3", "c2", "c2", "c3", "c2"]


def ring_of(*workers: FakeWorker) -> ConsistentHashing[FakeWorker]:
    """Return a ring they joined in this order."""
    ring: ConsistentHashing[FakeWorker] = ConsistentHashing()
    for worker in workers:
        ring.add(worker)
    return ring


def three() -> tuple[FakeWorker, FakeWorker, FakeWorker]:
    """Return workers c1, c2 and c3."""
    return FakeWorker("c1"), FakeWorker("c2"), FakeWorker("c3")


def busy(ring: ConsistentHashing[FakeWorker]) -> ConsistentHashing[FakeWorker]:
    """Return the ring after enough lookups to make it write its owners out."""
    for _ in range(LOOKUPS_BEFORE_TABLE):
        ring.select(1)
    assert ring._table is not None
    return ring


def test_three_workers_have_the_brokers_shares() -> None:
    """c1, c2 and c3 with 100 points each own 20340, 21396 and 23799 slots."""
    workers = three()
    ring = ring_of(*workers)
    assert [share(ring.ranges(worker)) for worker in workers] == [20_340, 21_396, 23_799]


def test_ten_keys_go_to_the_brokers_workers() -> None:
    """The owners of keys 0 to 9 among c1, c2 and c3."""
    ring = ring_of(*three())
    owners = [ring.select(ring.slot(murmur31(str(number).encode()))) for number in range(10)]
    assert [owner.name for owner in owners if owner] == KEY_OWNERS


def test_the_ring_starts_at_the_brokers_points() -> None:
    """The smallest points are 1031 of c1, 1424 of c2, 1478 of c3 and 1551 of c1."""
    ring = ring_of(*three())
    owners = [owner.name for owner in map(ring.select, ring._points[:4]) if owner]
    assert list(zip(ring._points[:4], owners, strict=True)) == [
        (1_031, "c1"),
        (1_424, "c2"),
        (1_478, "c3"),
        (1_551, "c1"),
    ]


def test_a_colliding_point_stays_with_the_first_and_goes_to_the_next_in_line() -> None:
    """c1 keeps 34919 although c3 has it too; when c1 leaves, c3 has it; when c1 returns, it waits behind c3."""
    c1, c2, c3 = three()
    assert COLLIDING_POINT in ring_points("c1", 0, 100)
    assert COLLIDING_POINT in ring_points("c3", 0, 100)
    ring = ring_of(c1, c2, c3)
    assert ring.select(COLLIDING_POINT) is c1
    ring.remove(c1)
    assert ring.select(COLLIDING_POINT) is c3
    ring.add(c1)
    assert ring.select(COLLIDING_POINT) is c3
    ring.remove(c3)
    assert ring.select(COLLIDING_POINT) is c1


def test_a_worker_that_leaves_while_waiting_for_a_point_is_skipped() -> None:
    """c3 waits for c1's point and leaves; when c1 leaves too, the point is gone with it."""
    c1, c2, c3 = three()
    ring = ring_of(c1, c2, c3)
    ring.remove(c3)
    assert ring.select(COLLIDING_POINT) is c1
    ring.remove(c1)
    assert ring.select(COLLIDING_POINT) is c2
    assert COLLIDING_POINT not in ring._points


def test_the_tail_belongs_to_the_first_point_and_is_a_range_of_its_own() -> None:
    """The slots above the last point are reported apart and end at 65535."""
    workers = three()
    ring = ring_of(*workers)
    first_owner, last_point = workers[0], ring._points[-1]
    assert ring.ranges(first_owner)[0] == HashRange(1, 1_031)
    tail = ring.ranges(first_owner)[-1]
    assert tail.end == 65_535
    assert tail.start <= last_point + 1
    assert ring.select(65_535) is first_owner


def test_a_worker_alone_owns_one_range() -> None:
    """A hundred pieces of one owner are one range over the whole space."""
    worker = FakeWorker("c1")
    ring: ConsistentHashing[FakeWorker] = ConsistentHashing()
    moves = ring.add(worker)
    assert [(move.start, move.end, move.before, move.after) for move in moves] == [(1, 65_535, None, worker)]
    assert ring.ranges(worker) == [HashRange(1, 65_535)]


def test_a_worker_that_returns_gets_its_points_back() -> None:
    """Leaving frees the lowest index of the name, so a reconnect changes nothing in the end."""
    namesakes = [FakeWorker("same") for _ in range(3)]
    ring = ring_of(*namesakes)
    before = ring.ranges(namesakes[1])
    ring.remove(namesakes[1])
    returned = FakeWorker("same")
    ring.add(returned)
    assert ring.ranges(returned) == before


def test_namesakes_have_different_points() -> None:
    """The index among namesakes is part of the hashed bytes, so each gets a share of its own."""
    namesakes = [FakeWorker("same") for _ in range(4)]
    ring = ring_of(*namesakes)
    assert all(10_000 < share(ring.ranges(worker)) < 24_000 for worker in namesakes)


@given(st.permutations(["a", "b", "d", "e", "f"]))
@settings(max_examples=20, deadline=None)
def test_the_order_of_joins_shows_at_colliding_points_only(names: list[str]) -> None:
    """Two rings with the same workers differ in no slot but those below a point that two of them share."""
    points = [point for name in names for point in ring_points(name, 0, 100)]
    colliding = {point for point in points if points.count(point) > 1}
    workers = {name: FakeWorker(name) for name in names}
    one = owners_by_slot(ring_of(*(workers[name] for name in sorted(names))))
    other = owners_by_slot(ring_of(*(workers[name] for name in names)))
    ends = sorted(set(points))
    below_collision = set[int]()
    for lower, upper in itertools.pairwise([0, *ends]):
        if upper in colliding:
            below_collision.update(range(lower + 1, upper + 1))
    assert changed_slots(one, other).keys() <= below_collision


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 7)), max_size=20))
@settings(max_examples=20, deadline=None)
def test_a_busy_ring_answers_as_a_quiet_one(script: list[tuple[bool, int]]) -> None:
    """The owners written out follow every join and leave."""
    quiet: ConsistentHashing[FakeWorker] = ConsistentHashing(20)
    loud = busy(ConsistentHashing(20))
    present = dict[int, FakeWorker]()
    for joins, number in script:
        if joins and number not in present:
            present[number] = FakeWorker(f"c{number % 3}")
            assert moved_slots(quiet.add(present[number])) == moved_slots(loud.add(present[number]))
        elif not joins and number in present:
            leaver = present.pop(number)
            assert moved_slots(quiet.remove(leaver)) == moved_slots(loud.remove(leaver))
        owners = owners_by_slot(quiet)
        assert all(loud.select(slot) is owner for slot, owner in owners.items())
        assert list(loud.select_each(owners)) == list(owners.values())
    assert loud._table is not None
    assert len(loud._table.workers) <= 1 + 8


def test_a_ring_that_becomes_busy_keeps_its_owners() -> None:
    """Writing the owners out changes no answer."""
    ring = ring_of(*three())
    before = owners_by_slot(ring)
    busy(ring)
    assert same_owners({slot: owner for slot in before if (owner := ring.select(slot)) is not None}, before)


def test_three_hundred_workers_share_the_whole_space() -> None:
    """With 30,000 points joins and leaves still move exactly what changed."""
    ring = ring_of(*(FakeWorker(f"worker-{number}") for number in range(300)))
    before = owners_by_slot(ring)
    newcomer = FakeWorker("newcomer")
    moves = ring.add(newcomer)
    after = owners_by_slot(ring)
    assert len(after) == 65_535
    assert moved_slots(moves) == changed_slots(before, after)
    assert all(move.after is newcomer for move in moves)
    ring.remove(newcomer)
    assert same_owners(owners_by_slot(ring), before)


def test_a_removed_worker_leaves_nothing_behind() -> None:
    """After everybody left the ring is as new: no points, queues, names or owners."""
    workers = [*three(), FakeWorker("c1")]
    ring = busy(ring_of(*workers))
    for worker in workers:
        ring.remove(worker)
    assert (ring._points.tolist(), ring._owners.tolist(), ring._workers, ring._free) == ([], [0], [None], [])
    assert (ring._queued_points.tolist(), ring._queued.tolist()) == ([], [])
    assert (ring._members, ring._indexes) == ({}, {})
    assert ring.select(1) is None


def test_a_ring_may_take_keys_in_the_space_of_ranges() -> None:
    """A group cuts its streams there: keys have the broker's slots of that space, workers their points as ever."""
    ring, other = ConsistentHashing[FakeWorker](slot=range_slot), ring_of()
    for member in three():
        ring.add(member)
        other.add(member)
    assert [ring.slot(murmur31(key)) for key in (b"key1", b"key2", b"NONE_KEY", b"")] == [293, 14_772, 48_803, 1]
    assert ring.copy().slot is range_slot
    assert same_owners(owners_by_slot(ring), owners_by_slot(other))
    assert ring.select(65_535) is not None
    assert ring_of().slot is consistent_slot


@pytest.mark.parametrize("members", [10, 300, 1_000])
def test_a_join_or_leave_looks_up_the_workers_own_points_alone(members: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many are on the ring: beside the look-ups it only copies memory, once."""
    ring = ring_of(*(FakeWorker(f"member-{number}") for number in range(members)))
    looked_up: list[int] = []

    def counted(points: Sequence[int], point: int, first: int = 0) -> int:
        looked_up.append(point)
        return bisect_left(points, point, first)

    monkeypatch.setattr(consistent_hashing, "bisect_left", counted)
    newcomer = FakeWorker("newcomer")
    ring.add(newcomer)
    assert len(looked_up) <= DEFAULT_POINTS_PER_WORKER
    looked_up.clear()
    ring.remove(newcomer)
    assert len(looked_up) <= 3 * DEFAULT_POINTS_PER_WORKER + 1, "each point, who waits for it and who has its piece now"
