"""The order of those that wait, against a sorted list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.producers.waiting import PRIORITY_MAX, PRIORITY_MIN, Rank, WaitingProducers, rank_of

priorities = st.one_of(
    st.sampled_from([0, 0, 1, -1, PRIORITY_MIN, PRIORITY_MAX]), st.integers(PRIORITY_MIN, PRIORITY_MAX)
)


@given(st.lists(st.one_of(priorities, st.none()), max_size=60), st.randoms(use_true_random=False))
def test_the_next_is_who_has_the_highest_priority_and_came_first(arrivals: list[int | None], chance: object) -> None:
    """Whoever joins and leaves, and wherever in the queue it stood; None is a departure."""
    queue: WaitingProducers[int] = WaitingProducers()
    model: list[Rank] = []
    for arrival, priority in enumerate(arrivals):
        if priority is not None:
            queue.add(rank_of(priority, arrival), arrival)
            model.append((1, -priority, arrival))
        elif model:
            gone = chance.choice(model)  # type: ignore[attr-defined]
            queue.remove(gone)
            model.remove(gone)
        model.sort()
        assert list(queue) == [rank[-1] for rank in model]
        assert queue.first() == ((model[0], model[0][-1]) if model else None)
        assert len(queue) == len(model)


def test_without_priorities_it_is_first_come_first_served() -> None:
    """As it has always been."""
    queue: WaitingProducers[str] = WaitingProducers()
    for arrival, name in enumerate("abc"):
        queue.add(rank_of(0, arrival), name)
    assert list(queue) == ["a", "b", "c"]


def test_who_owned_the_topic_is_before_all_others() -> None:
    """However high their priorities are."""
    returning = rank_of(PRIORITY_MIN, 9, returning=True)
    assert returning < rank_of(PRIORITY_MAX, 0) < rank_of(PRIORITY_MAX, 1) < rank_of(0, 0)


@pytest.mark.parametrize("priority", [PRIORITY_MIN - 1, PRIORITY_MAX + 1])
def test_a_priority_fits_into_32_bits(priority: int) -> None:
    """Signed; anything else is told with what would be right."""
    with pytest.raises(ValueError, match="from -2147483648 to 2147483647"):
        rank_of(priority, 0)
