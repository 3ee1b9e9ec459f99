"""Streams, times and memory: the values that groups are made of."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from proxy.groups.memory import GroupMemory
from proxy.groups.messages import SessionId
from proxy.groups.streams import STREAMS_MAX, hash_range
from proxy.groups.timing import GroupTiming


@pytest.mark.parametrize("streams_count", [1, 2, 3, 7, 16, 100, STREAMS_MAX])
def test_streams_cover_every_slot_once(streams_count: int) -> None:
    """From 0 to 65,535, and none is larger than another by more than one slot."""
    ranges = [hash_range(stream, streams_count) for stream in range(streams_count)]
    assert ranges[0].start == 0
    assert ranges[-1].end == 65_535
    assert all(left.end + 1 == right.start for left, right in pairwise(ranges))
    sizes = [each.slot_count for each in ranges]
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("stream", "count", "words"),
    [(0, 0, "0 streams"), (0, STREAMS_MAX + 1, "from 1 to 1024"), (-1, 4, "stream -1"), (4, 4, "from 0 to 3")],
)
def test_a_stream_that_there_is_not_is_an_error(stream: int, count: int, words: str) -> None:
    """Which says what would be right."""
    with pytest.raises(ValueError, match=words):
        hash_range(stream, count)


@pytest.mark.parametrize(
    ("times", "words"),
    [
        ({"drop_s": 5.0}, "drop_s is 5.0 s: it should be above lease_s, which is 5.0 s, or a stream would be leased"),
        ({"drain_s": 20.0}, "not_replaying_s is 20.0 s: it should be above drain_s"),
        ({"renew_s": 2.0}, "lease_s is 5.0 s: it should be above 3 times renew_s, which is 2.0 s, or one lost"),
        ({"heartbeat_s": 2.0}, "above 3 times heartbeat_s"),
        ({"idle_s": 0.0}, "idle_s is 0.0: it should be above 0"),
    ],
)
def test_times_that_do_not_fit_together_are_refused(times: dict[str, float], words: str) -> None:
    """Above all: a lease ends before the leader may give its streams to others."""
    with pytest.raises(ValueError, match=words):
        GroupTiming(**times)


def test_memory_is_the_last_record() -> None:
    """What an epoch that is over says late changes nothing."""
    first, second = GroupMemory(1, "a", 3), GroupMemory(2, "b")
    assert GroupMemory().then(first).then(second).then(first) == second
    assert second.then(GroupMemory(2, "b", 1)).number == 1


def test_a_group_keeps_its_cut_as_long_as_a_stream_may_be_somebodys() -> None:
    """Another configuration holds from when nobody has any."""
    memory = GroupMemory(1, "a", 1, 8, ((0, SessionId("a", 1)),))
    assert memory.cut(16) == 8
    assert replace(memory, owners=()).cut(16) == 16
    assert GroupMemory().cut(16) == 16
