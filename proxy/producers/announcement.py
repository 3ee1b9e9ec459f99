"""Announcements of waiting producers between replicas, as bytes: JSON, with a version.

Replicas of two releases exchange them during an upgrade: unknown fields are ignored. The version changes when the
meaning changes; another version is an error that the caller counts and ignores, and its replica's waiting producers are
then unknown here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from pydantic import Field, TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from proxy.producers.waiting import PRIORITY_MAX, PRIORITY_MIN

VERSION: Final = 1
TEXT_SHOWN: Final = 80
"""Characters of what could not be read that an error shows."""


class UnreadableError(ValueError):
    """Bytes that are not a valid announcement; the text has the place and the reason."""


@dataclass(frozen=True, slots=True)
class BestWaiting:
    """The first of those that wait for a topic at one replica."""

    priority: Annotated[int, Field(ge=PRIORITY_MIN, le=PRIORITY_MAX)]
    returning: bool
    """Whether it is the topic's last owner there."""
    waited_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """When this was said."""


@dataclass(frozen=True, slots=True)
class TopicNews:
    """One topic, as one replica sees it."""

    topic: str
    owned: bool
    """Whether a producer connected there owns it."""
    best: BestWaiting | None
    """None if its queue is empty."""
    closures: Annotated[int, Field(ge=0)] = 0
    """How often a broker was seen there to close the topic: it then forgets its waiting producers."""
    epoch: int | None = None
    """The epoch of an owner connected there, if known."""
    fenced: int | None = None
    """The last epoch of a fencing producer there; the broker does not inform the fenced owner."""
    fenced_s: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.0
    """How long ago that was, when this was said."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Some topics of one replica."""

    replica: str
    number: Annotated[int, Field(ge=0)]
    """Grows with each announcement of the replica."""
    topics: tuple[TopicNews, ...]


_ADAPTER: Final = TypeAdapter(Announcement)


def encode(announcement: Announcement) -> bytes:
    """Write one."""
    return to_json({"version": VERSION, "body": _ADAPTER.dump_python(announcement)})


def name_bytes(topic: str) -> int:
    """What a topic's name takes in one: up to six times its characters."""
    return len(to_json(topic))


def decode(data: bytes) -> Announcement:
    """Read one. Raises `UnreadableError`."""
    try:
        envelope = from_json(data, allow_inf_nan=False)
        version, body = envelope["version"], envelope["body"]
    except (ValueError, TypeError, KeyError) as error:
        message = f"{data[:TEXT_SHOWN]!r} is no announcement of waiting producers: {error}"
        raise UnreadableError(message) from error
    if version != VERSION:
        message = f"version {str(version)[:TEXT_SHOWN]} of announcements; this replica knows version {VERSION}"
        raise UnreadableError(message)
    try:
        return _ADAPTER.validate_python(body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = f"announcement.{where}: {first['msg']}; it is {str(first['input'])[:TEXT_SHOWN]!r}"
        raise UnreadableError(message) from error
