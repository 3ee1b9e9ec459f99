"""What replicas tell each other of topics that somebody waits for, as bytes: JSON, with a version.

Replicas of two releases talk to each other while one replaces the other: a field that is not known is ignored. The
version changes when what is said means something else; another version is an error that the caller counts and passes
over, and its replica's waiting producers are then as unknown as before there were announcements.
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
    """Bytes that are no announcement of ours; the text says where and why."""


@dataclass(frozen=True, slots=True)
class BestWaiting:
    """The first of those that wait for a topic at one replica."""

    priority: Annotated[int, Field(ge=PRIORITY_MIN, le=PRIORITY_MAX)]
    returning: bool
    """Whether it owned the topic before, and nobody there has since."""
    waited_s: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    """When this was said."""


@dataclass(frozen=True, slots=True)
class TopicNews:
    """One topic, as one replica sees it."""

    topic: str
    owned: bool
    """Whether somebody connected there owns it."""
    best: BestWaiting | None
    """None where nobody waits, or nobody does any more."""
    closures: Annotated[int, Field(ge=0)] = 0
    """How often a broker was seen there to close the topic: one that does forgets who waits for it."""
    epoch: int | None = None
    """With which somebody connected there owns it, if that is known."""
    fenced: int | None = None
    """The last epoch with which somebody there took the topic from whoever had it, whom the broker does not tell."""
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
