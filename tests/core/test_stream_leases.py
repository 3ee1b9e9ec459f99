"""Streams and their slots, against the leader's way of cutting; what is open, and until when."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.core.stream_leases import StreamLeases
from proxy.groups.streams import STREAMS_MAX, hash_range


@pytest.mark.parametrize("few", [range(1, 18), (100, 127, 128, 1_000, STREAMS_MAX)])
def test_every_slot_is_in_the_stream_whose_range_has_it(few: range | tuple[int, ...]) -> None:
    """Slot by slot, over the whole space."""
    for streams_count in few:
        leases = StreamLeases(streams_count)
        found = [leases.stream_of(slot) for slot in range(65_536)]
        expected: list[int] = []
        for stream in range(streams_count):
            span = hash_range(stream, streams_count)
            expected += [stream] * (span.end + 1 - span.start)
        assert found == expected


def test_ranges_are_those_of_the_leader_for_every_count_of_streams() -> None:
    """With both ends of each range in the stream; as streams ascend with slots, so is what lies between."""
    for streams_count in range(1, STREAMS_MAX + 1):
        leases = StreamLeases(streams_count)
        for stream in range(streams_count):
            span = hash_range(stream, streams_count)
            assert leases.range_of(stream) == span
            assert leases.stream_of(span.start) == leases.stream_of(span.end) == stream


@given(streams_count=st.integers(1, STREAMS_MAX), slot=st.integers(0, 65_535))
def test_a_slot_is_in_the_range_of_its_stream(streams_count: int, slot: int) -> None:
    """`range_of` and `stream_of` are each other's inverse."""
    leases = StreamLeases(streams_count)
    start, end = leases.range_of(leases.stream_of(slot))
    assert start <= slot <= end


def test_at_first_nothing_is_allowed() -> None:
    """No stream is open, and the leases have run out since ever."""
    leases = StreamLeases(16)
    assert leases.until == -inf
    assert leases.lapsed(0.0)
    assert not any(leases.is_open(stream) for stream in range(16))
    assert not leases.allows(1, 0.0)


def test_an_open_stream_is_allowed_before_the_end_of_the_leases() -> None:
    """At that moment it is not, and another stream never is."""
    leases = StreamLeases(2)
    leases.until = 5.0
    leases.open(1)
    assert leases.allows(32_768, 4.9)
    assert not leases.allows(32_767, 4.9)
    assert not leases.allows(32_768, 5.0)
    assert leases.covers(32_768), "the end is another question"
    assert not leases.lapsed(4.9)
    assert leases.lapsed(5.0)


def test_opening_and_closing_twice_is_once() -> None:
    """A message that comes twice changes nothing."""
    leases = StreamLeases(2)
    leases.open(0)
    leases.open(0)
    assert leases.is_open(0)
    leases.close(0)
    leases.close(0)
    assert not leases.is_open(0)


@pytest.mark.parametrize("stream", [-1, 2])
def test_a_stream_that_there_is_not_is_a_bug(stream: int) -> None:
    """Whoever names one has counted wrongly."""
    leases = StreamLeases(2)
    for call in (leases.open, leases.close, leases.is_open, leases.range_of):
        with pytest.raises(AssertionError):
            call(stream)


@pytest.mark.parametrize("slot", [-1, 65_536])
def test_a_slot_that_there_is_not_is_a_bug(slot: int) -> None:
    """No key has it."""
    with pytest.raises(AssertionError):
        StreamLeases(2).stream_of(slot)


@pytest.mark.parametrize("streams_count", [0, 65_537])
def test_a_count_of_streams_that_cannot_be_is_a_bug(streams_count: int) -> None:
    """None, or some without a slot."""
    with pytest.raises(AssertionError):
        StreamLeases(streams_count)
