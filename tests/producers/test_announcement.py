"""What replicas tell each other, as bytes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.producers.announcement import VERSION, Announcement, BestWaiting, TopicNews, UnreadableError, decode, encode
from proxy.producers.waiting import PRIORITY_MAX, PRIORITY_MIN

BEST = st.builds(
    BestWaiting,
    priority=st.integers(PRIORITY_MIN, PRIORITY_MAX),
    returning=st.booleans(),
    waited_s=st.floats(0, 1e9, allow_nan=False),
)
NEWS = st.builds(
    TopicNews, topic=st.text(max_size=20), owned=st.booleans(), best=st.none() | BEST, closures=st.integers(0, 1 << 60)
)
ANNOUNCEMENTS = st.builds(
    Announcement, replica=st.text(max_size=9), number=st.integers(0, 1 << 60), topics=st.lists(NEWS).map(tuple)
)
WHOLE = Announcement("a-1", 7, (TopicNews("t", owned=False, best=BestWaiting(5, returning=True, waited_s=1.5)),))


@given(ANNOUNCEMENTS)
def test_announcements_come_back_as_they_went(announcement: Announcement) -> None:
    """With whatever is in them."""
    assert decode(encode(announcement)) == announcement


def test_this_is_how_they_look() -> None:
    """Replicas of two releases talk to each other: what is written here stays readable."""
    assert json.loads(encode(WHOLE)) == {
        "version": 1,
        "body": {
            "replica": "a-1",
            "number": 7,
            "topics": [
                {
                    "topic": "t",
                    "owned": False,
                    "best": {"priority": 5, "returning": True, "waited_s": 1.5},
                    "closures": 0,
                    "epoch": None,
                    "fenced": None,
                    "fenced_s": 0.0,
                }
            ],
        },
    }


def test_fields_to_come_are_ignored() -> None:
    """A newer release may say more."""
    said = json.loads(encode(WHOLE))
    said["later"] = said["body"]["later"] = said["body"]["topics"][0]["later"] = 1
    assert decode(json.dumps(said).encode()) == WHOLE


@given(
    st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(lambda x: json.dumps(x).encode())
)
def test_what_is_none_is_refused(data: bytes) -> None:
    """Whatever it is, in words that show some of it."""
    with pytest.raises(UnreadableError, match="is no announcement"):
        decode(data)


@given(st.data())
def test_no_part_of_one_is_read(data: st.DataObject) -> None:
    """However much of it is there."""
    whole = encode(data.draw(ANNOUNCEMENTS))
    with pytest.raises(UnreadableError):
        decode(whole[: data.draw(st.integers(0, len(whole) - 1))])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"priority": 1 << 31}, "best.priority"),
        ({"waited_s": -1}, "best.waited_s"),
        ({"waited_s": "long"}, "best.waited_s"),
        ({"returning": None}, "best.returning"),
    ],
)
def test_what_cannot_be_is_refused(change: dict[str, Any], text: str) -> None:
    """With the name of the field."""
    said = json.loads(encode(WHOLE))
    said["body"]["topics"][0]["best"] |= change
    with pytest.raises(UnreadableError, match=text):
        decode(json.dumps(said).encode())


def test_another_version_is_refused() -> None:
    """It may mean something else by the same words."""
    said = json.loads(encode(WHOLE)) | {"version": VERSION + 1}
    with pytest.raises(UnreadableError, match="version 2"):
        decode(json.dumps(said).encode())
