"""Sets of streams in a few characters, and what they make of messages and records of 1,024 streams."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.groups import stream_sets
from proxy.groups.bundles import BUNDLES_DEFAULT, DEPLOYMENT
from proxy.groups.encoding import UnreadableError, decode_message, decode_record, encode
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import FindLeader, Report, SessionId
from proxy.groups.streams import STREAMS_MAX, StreamState
from tests.groups.rig import ALICE, BOB, CAROL
from tests.groups.test_encoding import MESSAGES, values

STREAMS = st.sets(st.integers(0, STREAMS_MAX - 1)).map(sorted)
KIB = 1024


@given(STREAMS)
def test_a_set_comes_back_as_it_went(streams: list[int]) -> None:
    """Any set of streams that there are."""
    assert stream_sets.read(stream_sets.written(streams)) == tuple(streams)


@pytest.mark.parametrize(
    ("streams", "text"), [([], ""), ([5], "5"), ([0, 1], "0-1"), ([0, 1, 2, 7, 9, 10], "0-2,7,9-10")]
)
def test_neighbours_are_written_as_a_range(streams: list[int], text: str) -> None:
    """And whoever has no neighbour stands alone."""
    assert stream_sets.written(streams) == text


@pytest.mark.parametrize("text", ["-", "3-1", "1,1", "2,1", "0-4,4", "1024", "0-1024", "0-9999", "x", "1,", "٣", "1 "])
def test_what_is_no_set_is_refused(text: str) -> None:
    """Above all what a few characters would make very long."""
    with pytest.raises(ValueError, match="is no range of streams"):
        stream_sets.read(text)


@pytest.mark.parametrize("streams", [[1, 0], [1, 1], [-1], [STREAMS_MAX]])
def test_what_is_not_in_order_is_not_written_as_a_set(streams: list[int]) -> None:
    """It would come back as something else."""
    assert not stream_sets.is_set(streams)


@given(st.data())
def test_the_compact_form_says_the_same(data: st.DataObject) -> None:
    """Of every message and record, whatever is in it."""
    message = data.draw(values(*MESSAGES))
    assert decode_message(encode(message, DEPLOYMENT)) == message
    record = data.draw(values(GroupMemory))
    assert decode_record(encode(record, DEPLOYMENT)) == record


@given(STREAMS, st.data())
def test_the_compact_form_says_the_same_of_streams_in_order(streams: list[int], data: st.DataObject) -> None:
    """As they are written by those that lead and those that follow."""
    owners = tuple((stream, data.draw(st.sampled_from([ALICE, BOB, CAROL]))) for stream in streams)
    states = tuple(
        StreamState(stream, finished=data.draw(st.booleans()), pending_count=data.draw(st.integers(0, 1)))
        for stream in streams
    )
    record = GroupMemory(1, "a", 1, STREAMS_MAX, owners, states, addresses=(("a", "10.0.0.1:6670"),))
    assert decode_record(encode(record, DEPLOYMENT)) == record
    question = FindLeader(Report(DEPLOYMENT, ALICE, 1, 1), states)
    assert decode_message(encode(question, DEPLOYMENT)) == question


def test_a_record_of_all_bundles_is_small() -> None:
    """Three replicas that share them, also after a while of moves; any other group is written as ever."""
    sessions = [SessionId(f"keyline-{number}-0123abcd", 1) for number in range(3)]
    addresses = tuple((session.replica, "10.0.0.1:6670") for session in sessions)
    even = tuple((bundle, sessions[bundle * 3 // BUNDLES_DEFAULT]) for bundle in range(BUNDLES_DEFAULT))
    mixed = tuple((bundle, sessions[bundle % 3]) for bundle in range(BUNDLES_DEFAULT))
    for owners, size_max in ((even, 1 * KIB), (mixed, 6 * KIB)):
        record = GroupMemory(9, sessions[0].replica, 9, BUNDLES_DEFAULT, owners, addresses=addresses)
        assert len(encode(record, DEPLOYMENT)) < size_max < len(encode(record))


def test_the_question_for_the_leader_is_small() -> None:
    """By a replica that has a third of all bundles still."""
    question = FindLeader(Report(DEPLOYMENT, ALICE, 1, 1), tuple(StreamState(bundle) for bundle in range(341)))
    assert len(encode(question, DEPLOYMENT)) < KIB < len(encode(question))


@pytest.mark.parametrize(
    "owners",
    [{}, {"sets": 7}, {"sets": [["a", 1]]}, {"sets": [["a", 1, "0-4"], ["b", 1, "4"]]}, {"sets": [["a", 1, "5-4"]]}],
)
def test_owners_that_cannot_be_are_refused(owners: object) -> None:
    """Above all a stream with two owners."""
    said = json.loads(encode(GroupMemory(3, "here"), DEPLOYMENT))
    said["body"]["owners"] = owners
    with pytest.raises(UnreadableError, match="GroupMemory"):
        decode_record(json.dumps(said).encode())


@pytest.mark.parametrize(
    "held",
    [
        {},
        {"untold": "0", "finished": "0", "told": []},
        {"untold": "", "finished": "", "told": [{}]},
        {"untold": "", "finished": "", "told": [{"stream": "x"}]},
        {"untold": "", "finished": "", "told": 5},
    ],
)
def test_states_that_cannot_be_are_refused(held: object) -> None:
    """With the kind of message that they stand in."""
    said = json.loads(encode(FindLeader(Report(DEPLOYMENT, ALICE, 1, 1), ()), DEPLOYMENT))
    said["body"]["held"] = held
    with pytest.raises(UnreadableError, match="FindLeader"):
        decode_message(json.dumps(said).encode())


def test_a_record_of_an_older_release_has_no_addresses() -> None:
    """Then none is known, and all else is."""
    said = json.loads(encode(GroupMemory(3, "here", 4, 16, ((1, ALICE),), addresses=(("a", "there"),))))
    del said["body"]["addresses"]
    assert decode_record(json.dumps(said).encode()) == GroupMemory(3, "here", 4, 16, ((1, ALICE),))
