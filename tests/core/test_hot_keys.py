"""The keys with the most messages: found among many, by few samples, in bounded memory, and forgotten in time."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest

from proxy.core.hot_keys import HALF_LIFE_S, KEY_BYTES_MAX, KEYS_MAX, SAMPLES_PER_S, HotKeys, Sampling


class Stream:
    """Entries that come at a steady rate, each with messages of one key."""

    def __init__(self) -> None:
        self.now = 0.0
        self.hot = HotKeys()
        self.samples = 0
        self._sampling = Sampling()
        self._left = self._sampling.left

    def take(self, keys: Iterable[bytes], per_s: float, per_entry: int = 1) -> None:
        """One entry after another."""
        for key in keys:
            self._left -= per_entry
            if self._left <= 0:
                points = self._sampling.points(per_entry, self._left, self.now)
                assert all(0 <= index < per_entry for index, _ in points)
                self._left = self._sampling.left
                self.samples += len(points)
                self.hot.add(key, 1, sum(messages for _, messages in points), self.now)
            self.now += per_entry / per_s

    def rates(self, limit: int = KEYS_MAX) -> dict[bytes, float]:
        """Of each key shown."""
        return {each.key: each.per_s for each in self.hot.top(limit, self.now)}


def skewed(count: int, seed: int = 1) -> list[bytes]:
    """A tenth of one key, a twentieth of another, the rest of a million others."""
    dice = random.Random(seed)  # noqa: S311 - a test's dice

    def key() -> bytes:
        draw = dice.random()
        return b"first" if draw < 0.1 else b"second" if draw < 0.15 else b"%d" % dice.randrange(1_000_000)

    return [key() for _ in range(count)]


@pytest.mark.parametrize(("per_s", "per_entry"), [(50, 1), (1_000, 1), (50_000, 1), (2_000, 50), (50_000, 50)])
def test_the_hot_keys_among_a_million_are_found_with_their_rates(per_s: int, per_entry: int) -> None:
    """Whatever the rate and the size of batches: rates are those of samples, so a quarter too much or too little."""
    stream = Stream()
    stream.take(skewed(max(min(per_s * 120, 200_000) // per_entry, 4_000)), per_s, per_entry)
    first, second = stream.hot.top(2, stream.now)
    assert (first.key, second.key) == (b"first", b"second")
    if stream.samples > 5_000:
        assert first.per_s == pytest.approx(per_s / 10, rel=0.25)
        assert second.per_s == pytest.approx(per_s / 20, rel=0.35)
        assert stream.hot.per_s(stream.now) == pytest.approx(per_s, rel=0.1)


def test_every_message_of_a_slow_subscription_is_counted() -> None:
    """Below the rate of samples nothing is guessed."""
    stream = Stream()
    stream.take([b"a", b"b", b"a", b"c"] * 500, SAMPLES_PER_S / 2)
    assert stream.samples == 2_000
    steady = SAMPLES_PER_S / 2
    assert stream.rates() == pytest.approx({b"a": steady / 2, b"b": steady / 4, b"c": steady / 4}, rel=0.02)


def test_no_more_is_looked_at_of_a_fast_one() -> None:
    """After the first second, in which its rate is not known, about as many samples a second as are wanted."""
    stream = Stream()
    stream.take([b"k"] * 50_000, 50_000)
    stream.samples = 0
    stream.take([b"k"] * 250_000, 50_000)
    assert 5 * SAMPLES_PER_S * 0.7 < stream.samples < 5 * SAMPLES_PER_S * 1.4


@pytest.mark.parametrize("period", [2, 64, 100, 1_000])
def test_keys_that_come_in_turn_are_counted_alike(period: int) -> None:
    """The distances of samples are not in step with the keys: none of them looks hot."""
    stream = Stream()
    stream.take([b"%d" % (number % period) for number in range(300_000)], 30_000)
    highest = next(iter(stream.rates().values()))
    assert highest < 30_000 / period * 2 + 300


def test_what_was_hot_fades() -> None:
    """A half life without messages halves; the table forgets what has none left."""
    stream = Stream()
    stream.take([b"old"] * 3_000, 100)
    before = stream.rates()[b"old"]
    stream.now += HALF_LIFE_S
    assert stream.rates()[b"old"] == pytest.approx(before / 2, rel=0.35)
    stream.take([b"new"] * 60_000, 100)
    assert stream.rates() == pytest.approx({b"new": 100}, rel=0.02)


@pytest.mark.parametrize("later_s", [0.0, HALF_LIFE_S / 3])
def test_a_key_that_was_rare_first_gives_no_place_to_a_rarer_one(later_s: float) -> None:
    """What the counters were is not what they are."""
    hot = HotKeys()
    hot.add(b"grows", 1, 1, 0.0)
    for number in range(KEYS_MAX - 1):
        hot.add(b"steady-%d" % number, 1, 2, 0.0)
    hot.add(b"grows", 1, 1_000, later_s)
    for number in range(10 * KEYS_MAX):
        hot.add(b"once-%d" % number, 1, 1, later_s)
    assert hot.top(1, later_s)[0].key == b"grows"


def test_clients_that_choose_many_long_keys_use_no_more_memory() -> None:
    """As many counters as there may be, each with the beginning of its key; what is hot stays found."""
    stream = Stream()
    flood = [b"%d" % number + b"x" * 10_000 for number in range(5_000)]
    stream.take([key for each in flood for key in (each, b"hot")], 100)
    shown = stream.hot.top(2 * KEYS_MAX, stream.now)
    assert len(shown) == KEYS_MAX
    assert max(len(each.key) for each in shown) == KEY_BYTES_MAX
    assert (shown[0].key, shown[0].shortened, shown[1].shortened) == (b"hot", False, True)
    assert shown[0].per_s == pytest.approx(50, rel=0.05)
    assert shown[1].per_s < 1


def test_a_rate_is_never_more_than_the_key_can_have() -> None:
    """A key that takes a counter over is not shown with what that one had counted."""
    stream = Stream()
    stream.take([b"%d" % number for number in range(10_000)], 100)
    assert max(stream.rates().values()) < 0.1
    stream.now += HALF_LIFE_S
    stream.take([b"last"], 100)
    assert min(stream.rates().values()) >= 0


def test_an_entry_that_could_not_be_looked_at_in_time_stands_for_those_before_it() -> None:
    """Messages are weighed by how many came since the last sample, so none is left out of the sum."""
    sampling = Sampling()
    ((index, weight),) = sampling.points(1, sampling.left - 1 - 40, 0.0)
    assert (index, weight) == (0, 41)


def test_nothing_is_shown_of_nothing() -> None:
    """Before the first message."""
    hot = HotKeys()
    assert hot.top(10, 5.0) == []
    assert hot.per_s(5.0) == 0


def weigh(entries: list[int], points: Callable[[int, int, float], list[tuple[int, int]]], sampling: Sampling) -> int:
    """What all samples of these entries stand for."""
    left, total = sampling.left, 0
    for number, messages in enumerate(entries):
        left -= messages
        if left <= 0:
            total += sum(weight for _, weight in points(messages, left, number * 0.01))
            left = sampling.left
    return total


@pytest.mark.parametrize("seed", range(20))
def test_samples_stand_for_all_messages(seed: int) -> None:
    """But for those after the last sample: whatever the sizes of the entries."""
    dice = random.Random(seed)  # noqa: S311 - a test's dice
    entries = [dice.choice((1, 1, 7, 100, 3_000)) for _ in range(3_000)]
    sampling = Sampling()
    total = weigh(entries, sampling.points, sampling)
    assert 0 <= sum(entries) - total <= 3_000 + 2_000
