"""Snapshots as JSON, without delaying messages.

pydantic's Rust serialiser writes dataclasses as they are, without a schema for each: a tenth of the time of
`dataclasses.asdict` and `json`. It holds the interpreter's lock meanwhile, so a thread would not help. Long
answers are gathered and written in pieces instead, with turns of the event loop in between.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from fastapi import Response
from pydantic_core import to_json

from admin_api.turns import SLICE_S, Turns

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence

    from admin_api.ports import Steps

T = TypeVar("T")

ITEMS_AT_ONCE = 200


async def in_slices(steps: Generator[Any, None, T]) -> T:
    """Run to the end, with turns of the loop in between."""
    turns = Turns(turn_s=SLICE_S)
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            answer: T = stop.value
            return answer
        if turns.over:
            await turns.next()


async def snapshot_response(snapshot: Any) -> Response:
    """Write a frozen snapshot as a JSON body."""
    pieces: list[bytes] = []
    await in_slices(_written(snapshot, pieces))
    return Response(b"".join(pieces), media_type="application/json")


async def steps_response(steps: Steps) -> Response:
    """Gather a snapshot and write it."""
    return await snapshot_response(await in_slices(steps))


def _written(snapshot: Any, pieces: list[bytes]) -> Generator[None, None, None]:
    for piece in _pieces(snapshot):
        pieces.append(piece)
        yield


def _pieces(value: Any) -> Iterator[bytes]:
    """JSON in small pieces: a dataclass field by field, a long list some items at a time."""
    if is_dataclass(value):
        opening = b"{"
        for field in fields(value):
            yield opening + to_json(field.name) + b":"
            yield from _pieces(getattr(value, field.name))
            opening = b","
        yield b"}" if opening == b"," else b"{}"
    elif isinstance(value, tuple) and (len(value) > ITEMS_AT_ONCE or any(map(is_dataclass, value))):
        yield from _long(value)
    else:
        yield to_json(value)


def _long(value: Sequence[Any]) -> Iterator[bytes]:
    opening = b"["
    if is_dataclass(value[0]) and any(isinstance(getattr(value[0], field.name), tuple) for field in fields(value[0])):
        for item in value:  # which may be long themselves
            yield opening
            yield from _pieces(item)
            opening = b","
    else:
        for start in range(0, len(value), ITEMS_AT_ONCE):
            yield opening + to_json(value[start : start + ITEMS_AT_ONCE])[1:-1]
            opening = b","
    yield b"]"
