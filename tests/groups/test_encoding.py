"""Messages and records as bytes."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.groups.encoding import UnreadableError, decode_message, decode_record, encode
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    FromLeader,
    FromSession,
    KeepOrders,
    OfLeaders,
    OfReach,
    OfReplay,
)
from tests.groups.rig import ALICE

MESSAGES = (
    *get_args(FromSession),
    *get_args(FromLeader),
    *get_args(OfLeaders),
    *get_args(OfReplay),
    *get_args(OfReach),
    KeepOrders,
)


@cache
def values(*kinds: type[Any]) -> st.SearchStrategy[Any]:
    """Any of these, with anything in it that can be in it. To make it takes longer than to draw from it."""
    numbers = st.integers(-(1 << 63), (1 << 63) - 1)
    st.register_type_strategy(int, numbers)
    st.register_type_strategy(float, st.floats(allow_nan=False, allow_infinity=False))
    return st.one_of([st.from_type(kind) for kind in kinds])


@given(values(*MESSAGES))
def test_messages_come_back_as_they_went(message: FromSession | FromLeader) -> None:
    """All of them, with whatever is in them; none is taken for a record."""
    assert decode_message(encode(message)) == message
    with pytest.raises(UnreadableError, match="it should be one of GroupMemory"):
        decode_record(encode(message))


@given(values(GroupMemory))
def test_records_come_back_as_they_went(record: GroupMemory) -> None:
    """With whatever is in them."""
    assert decode_record(encode(record)) == record


@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_what_is_none_is_refused(data: bytes) -> None:
    """Whatever it is, with an error that shows some of it."""
    with pytest.raises(UnreadableError, match="is no message of a group"):
        decode_message(data)


@given(st.data())
def test_no_part_of_a_message_passes_for_one(data: st.DataObject) -> None:
    """A message that was cut off, or that lacks a field, is refused."""
    message = data.draw(values(*MESSAGES))
    whole = encode(message)
    with pytest.raises(UnreadableError):
        decode_message(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_a_newer_release_may_say_more() -> None:
    """A field that is not known is passed over; of a kind that is not known its name is told."""
    said = json.loads(encode(GroupMemory(3, "here", 4, 16, ((1, ALICE),))))
    said["body"]["colour"] = "green"
    assert decode_record(json.dumps(said).encode()) == GroupMemory(3, "here", 4, 16, ((1, ALICE),))
    said["kind"] = "ShardsRecord"
    with pytest.raises(UnreadableError, match="kind 'ShardsRecord': it should be one of"):
        decode_record(json.dumps(said).encode())


def test_an_older_release_may_say_less() -> None:
    """A record without who had the streams that nobody has: then nobody is known to have had them."""
    said = json.loads(encode(GroupMemory(3, "here", 4, 16, had=((1, ALICE),))))
    del said["body"]["had"]
    assert decode_record(json.dumps(said).encode()) == GroupMemory(3, "here", 4, 16)


def test_a_wrong_field_is_named() -> None:
    """With what it should be and what it is."""
    said = json.loads(encode(GroupMemory(3, "here")))
    said["body"]["epoch"] = "soon"
    with pytest.raises(UnreadableError, match=r"GroupMemory\.epoch: Input should be a valid integer.*'soon'"):
        decode_record(json.dumps(said).encode())
