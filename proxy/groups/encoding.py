"""Messages and records as bytes: JSON, each with its kind.

Replicas of two releases exchange messages during an upgrade. So unknown fields are ignored, missing ones take their
default if there is one, and an unknown kind is an error that the caller counts and ignores: the sender repeats the
rest.

A group that no release knew before `compact` is written in that form, and both forms are always read.

Source: design section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json, to_json

from proxy.groups import compact
from proxy.groups.bundles import is_deployment
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import FromLeader, FromSession, KeepOrders, OfLeaders, OfReach, OfReplay

if TYPE_CHECKING:
    from proxy.groups.streams import GroupId

Message: TypeAlias = FromSession | FromLeader | OfLeaders | OfReplay | OfReach | KeepOrders
RECORD_KEY: Final = "group"
"""The key of every record in its topic: the last one is all that counts, to a compaction too."""
TEXT_SHOWN: Final = 80
"""Characters of what could not be read that an error shows."""

_MESSAGES: Final = get_args(Message)


class UnreadableError(ValueError):
    """Bytes that are not a valid message or record; the text has the place and the reason."""


_ADAPTERS: Final[dict[str, TypeAdapter[Any]]] = {kind.__name__: TypeAdapter(kind) for kind in (*_MESSAGES, GroupMemory)}


def encode(value: Message | GroupMemory, group: GroupId | None = None) -> bytes:
    """Write a message or a record of a group."""
    kind = type(value).__name__
    body = _ADAPTERS[kind].dump_python(value)
    if group is not None and is_deployment(group):
        body = compact.compacted(body)
    return to_json({"kind": kind, "body": body})


def decode_message(data: bytes) -> Message:
    """Read a message. Raises `UnreadableError`."""
    message: Message = _decode(data, {kind.__name__ for kind in _MESSAGES})
    return message


def decode_record(data: bytes) -> GroupMemory:
    """Read a record of a group's topic. Raises `UnreadableError`."""
    record: GroupMemory = _decode(data, {GroupMemory.__name__})
    return record


def _decode(data: bytes, kinds: set[str]) -> Any:
    kind, body = _envelope(data)
    if kind not in kinds:
        message = f"kind {kind[:TEXT_SHOWN]!r}: it should be one of {', '.join(sorted(kinds))}"
        raise UnreadableError(message)
    try:
        return _ADAPTERS[kind].validate_python(_expanded(kind, body))
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = f"{kind}.{where}: {first['msg']}; it is {str(first['input'])[:TEXT_SHOWN]!r}"
        raise UnreadableError(message) from error


def _expanded(kind: str, body: Any) -> Any:
    if not isinstance(body, dict):
        return body
    try:
        return compact.expanded(body)
    except ValueError as error:
        message = f"{kind}: {error}"
        raise UnreadableError(message) from error


def _envelope(data: bytes) -> tuple[str, Any]:
    try:
        envelope = from_json(data)
        return str(envelope["kind"]), envelope["body"]
    except (ValueError, TypeError, KeyError) as error:
        message = f"{data[:TEXT_SHOWN]!r} is no message of a group: {error}"
        raise UnreadableError(message) from error
