"""Permits for the broker: enough for those who starve, never more than the bytes left hold."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from proxy.core.entry import PART_BYTES
from proxy.core.upstream_window import FIRST_GRANT_MESSAGES, MESSAGE_OVERHEAD_BYTES, MESSAGES_MAX, UpstreamWindow

MIB = 1 << 20


def window(*, budget_bytes: int = 64 * MIB, per_worker: int = 1_000, total: int = 5_000) -> UpstreamWindow:
    """A window with these bounds."""
    return UpstreamWindow(budget_bytes=budget_bytes, look_ahead_per_worker=per_worker, look_ahead_total=total)


def grant(
    upstream: UpstreamWindow, *, workers: int = 1, free: int = 1_000, waiting: int = 0, bytes_held: int = 0
) -> int:
    """What is granted in this state."""
    return upstream.grant(workers=workers, free_permits=lambda: free, waiting_messages=waiting, bytes_held=bytes_held)


def known(**bounds: int) -> UpstreamWindow:
    """A window that has seen a message of 100 bytes, and has nothing outstanding."""
    upstream = window(**bounds)
    upstream.outstanding = 1
    upstream.received(1, 100)
    return upstream


def test_without_workers_nothing_is_granted() -> None:
    """There would be nobody to hold the messages for."""
    assert grant(window(), workers=0) == 0


def test_the_first_grant_is_small() -> None:
    """Nothing is known of the messages' size yet."""
    upstream = window()
    assert grant(upstream) == FIRST_GRANT_MESSAGES
    assert grant(upstream) == 0


def test_the_window_is_free_permits_and_look_ahead_less_what_waits() -> None:
    """Look-ahead grows with the workers up to its total."""
    assert grant(known(), workers=2, free=300, waiting=100) == 300 + 2_000 - 100
    assert grant(known(), workers=50, free=300) == 300 + 5_000
    assert grant(known(), workers=1, free=0, waiting=999) == 1
    assert grant(known(), workers=1, free=0, waiting=1_000) == 0


def test_batches_that_wait_whole_keep_bytes_for_being_taken_message_by_message() -> None:
    """Cut up, each of their messages is a part: those have room in the budget before anything else is asked for."""
    upstream = known(budget_bytes=100 * (PART_BYTES + 1_000), total=100_000, per_worker=100_000)
    assert grant(upstream, free=1, waiting=100, bytes_held=100_000) == 0
    assert grant(upstream, free=1, waiting=99, bytes_held=100_000) == 0
    assert grant(upstream, free=1, waiting=98, bytes_held=100_000) == 2 * PART_BYTES // (MESSAGE_OVERHEAD_BYTES + 100)


def test_what_is_on_its_way_counts() -> None:
    """Granted messages that have not arrived use up the window; a repeated call grants nothing."""
    upstream = known()
    assert grant(upstream) == 2_000
    assert grant(upstream) == 0
    upstream.received(1_999, 199_900)
    assert upstream.outstanding == 1
    assert grant(upstream) == 1_999


def test_small_refills_are_saved_up() -> None:
    """Half the window at a time while something is on its way; all of it when nothing is."""
    upstream = known()
    grant(upstream)
    upstream.received(900, 90_000)
    assert grant(upstream) == 0
    upstream.received(100, 10_000)
    assert grant(upstream) == 1_000


def test_the_workers_are_looked_at_only_where_that_matters() -> None:
    """While more than half of all that may ever be on its way is, what they would take decides nothing."""
    asked: list[int] = []

    def free() -> int:
        asked.append(upstream.outstanding)
        return MESSAGES_MAX

    upstream = known(budget_bytes=1 << 40)
    granted = 0
    for _ in range(10 * MESSAGES_MAX // 100):
        granted += upstream.grant(workers=400, free_permits=free, waiting_messages=0, bytes_held=0)
        upstream.received(100, 10_000)
    assert asked == [0] + [MESSAGES_MAX // 2] * (len(asked) - 1)
    assert len(asked) == 20
    assert granted == 10 * MESSAGES_MAX + MESSAGES_MAX // 2


def test_a_starving_worker_is_never_refused_for_saving() -> None:
    """With nothing on its way even a single permit is passed on."""
    upstream = known(per_worker=0)
    assert grant(upstream, free=1) == 1


def test_a_batch_larger_than_the_grant_is_owed() -> None:
    """The broker sends whole batches: what it overshot is taken off the next grant, as at the broker."""
    upstream = known(per_worker=0)
    assert grant(upstream, free=1) == 1
    upstream.received(10, 1_000)
    assert upstream.outstanding == -9
    assert grant(upstream, free=5) == 14
    assert upstream.outstanding == 5


def test_the_bytes_left_bound_the_window() -> None:
    """At the size messages have had lately; none is granted beyond the budget, and that is counted."""
    each = 100 + MESSAGE_OVERHEAD_BYTES
    assert grant(known(budget_bytes=10 * each), bytes_held=0) == 10
    assert grant(known(budget_bytes=10 * each), bytes_held=7 * each) == 3
    full = known(budget_bytes=10 * each)
    assert grant(full, bytes_held=10 * each) == 0
    assert grant(full, bytes_held=20 * each) == 0
    assert full.budget_stops == 2


def test_what_is_owed_is_paid_when_something_may_be_on_its_way_again() -> None:
    """Permits that leave the broker without any would bring nothing: none are sent, and none are lost."""
    each = 100 + MESSAGE_OVERHEAD_BYTES
    upstream = known(budget_bytes=10 * each)
    assert grant(upstream, bytes_held=8 * each) == 2
    upstream.received(5, 500)
    assert grant(upstream, bytes_held=10 * each) == 0
    assert grant(upstream, bytes_held=11 * each) == 0
    assert grant(upstream, free=0, waiting=1_001) == 0
    assert (upstream.outstanding, upstream.budget_stops) == (-3, 2)
    assert grant(upstream, bytes_held=9 * each) == 4
    assert upstream.outstanding == 1


def test_the_mean_follows_growth_at_once_and_shrinking_slowly() -> None:
    """One large message makes the next grants small; it takes many small ones to forget it."""
    upstream = known(budget_bytes=10 * MIB)
    assert grant(upstream) == 2_000
    upstream.received(2_000, 2_000 * MIB)
    assert grant(upstream) == 9
    upstream.received(9, 900)
    assert grant(upstream) < 20
    for _ in range(500):
        upstream.received(1, 100)
    upstream.outstanding = 0
    assert grant(upstream) == 2_000


def test_a_new_upstream_consumer_starts_from_nothing() -> None:
    """The broker forgot our permits; the size of messages is still known."""
    upstream = known()
    grant(upstream)
    upstream.reconnected()
    assert grant(upstream) == 2_000


@given(
    steps=st.lists(
        st.tuples(st.integers(0, 100_000), st.integers(0, 3_000), st.integers(0, 2 * MIB), st.integers(1, 50)),
        max_size=50,
    )
)
@example(steps=[(0, 951, 0, 50), (0, 0, MIB + 1, 1)])
@example(steps=[(0, 999, 0, 11), (0, 1_005, 0, 1)])
@example(steps=[(1_760, 2_759, 0, 1)])
def test_it_never_grants_beyond_any_bound(steps: list[tuple[int, int, int, int]]) -> None:
    """Whatever happened before: no more on its way than the window, the maximum, and the bytes left."""
    upstream = known(budget_bytes=MIB)
    for free, waiting, other, arrived in steps:
        held = other + waiting  # what waits holds bytes
        granted = grant(upstream, free=free, waiting=waiting, bytes_held=held)
        assert granted >= 0
        if granted:
            assert upstream.outstanding > 0, "the broker sends nothing for them"
            assert upstream.outstanding <= min(MESSAGES_MAX, free + 1_000 - waiting)
            left = MIB - held - waiting * PART_BYTES
            assert upstream.outstanding * (10 + MESSAGE_OVERHEAD_BYTES) <= left
        upstream.received(arrived, arrived * 10)


def test_a_message_larger_than_the_budget_is_read_alone() -> None:
    """An operator may have lowered the budget; without a grant no smaller message would ever come."""
    window = UpstreamWindow(budget_bytes=1_000, look_ahead_per_worker=10, look_ahead_total=10)
    window.grant(workers=1, free_permits=lambda: 0, waiting_messages=0, bytes_held=0)
    window.received(1, 5_000)
    window.reconnected()
    assert window.grant(workers=1, free_permits=lambda: 0, waiting_messages=0, bytes_held=0) == 1
    assert window.grant(workers=1, free_permits=lambda: 0, waiting_messages=1, bytes_held=5_000) == 0
