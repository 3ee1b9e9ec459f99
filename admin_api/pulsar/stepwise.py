"""Long JSON, read and written in steps.

Problem: a topic with thousands of producers and consumers has megabytes of statistics. Python's decoder is quick, but
keeps the interpreter to itself until the last byte, in a thread as well, and the gateway's messages would wait. So the
outer levels are walked here, a pause behind each value, and only what is inside goes to the decoder in one piece.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Generator

ITEMS_AT_ONCE: Final = 200
_WHITESPACE: Final = re.compile(r"[ \t\n\r]*")
_CLOSING: Final = {"{": "}", "[": "]"}
_raw_decode = json.JSONDecoder().raw_decode
_encode = json.JSONEncoder(separators=(",", ":")).encode


def decoded(text: str, depth: int) -> Generator[None, None, Any]:
    """The value of a JSON text; the outer `depth` levels of objects and arrays in steps.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is nested too deeply.
    """
    value, end = yield from _value(text, _skip(text, 0), depth)
    if _skip(text, end) != len(text):
        raise ValueError(f"something follows the value at {end}")
    return value


def encoded(value: Any, depth: int, pieces: list[bytes]) -> Generator[None, None, None]:
    """Write a value as JSON, piece by piece; the outer `depth` levels in steps, and what is long right below them."""
    if depth == 0 and isinstance(value, list) and len(value) > ITEMS_AT_ONCE:
        opening = "["
        for start in range(0, len(value), ITEMS_AT_ONCE):
            pieces.append((opening + _encode(value[start : start + ITEMS_AT_ONCE])[1:-1]).encode("ascii"))
            opening = ","
            yield
        pieces.append(b"]")
    elif depth == 0 or not isinstance(value, dict | list) or not value:
        pieces.append(_encode(value).encode("ascii"))
        yield
    elif isinstance(value, dict):
        opening = "{"
        for name, member in value.items():
            pieces.append(f"{opening}{_encode(name)}:".encode("ascii"))
            yield from encoded(member, depth - 1, pieces)
            opening = ","
        pieces.append(b"}")
    else:
        opening = "["
        for item in value:
            pieces.append(opening.encode("ascii"))
            yield from encoded(item, depth - 1, pieces)
            opening = ","
        pieces.append(b"]")


def _value(text: str, at: int, depth: int) -> Generator[None, None, tuple[Any, int]]:
    closing = _CLOSING.get(text[at : at + 1])
    if depth == 0 or closing is None:
        found: tuple[Any, int] = _raw_decode(text, at)
        yield
        return found
    items: list[Any] = []
    names: list[str] = []
    at = _skip(text, at + 1)
    if text[at : at + 1] == closing:
        return ({} if closing == "}" else []), at + 1
    while True:
        if closing == "}":
            name, at = _raw_decode(text, at)
            at = _expect(text, _skip(text, at), ":")
            if not isinstance(name, str):
                raise ValueError(f"no name at {at}")
            names.append(name)
        item, at = yield from _value(text, at, depth - 1)
        items.append(item)
        at = _skip(text, at)
        if text[at : at + 1] == closing:
            return (dict(zip(names, items, strict=True)) if closing == "}" else items), at + 1
        at = _expect(text, at, ",")


def _expect(text: str, at: int, mark: str) -> int:
    """Where the next value begins, behind a mark that must be here."""
    if text[at : at + 1] != mark:
        raise ValueError(f"no {mark!r} at {at}")
    return _skip(text, at + 1)


def _skip(text: str, at: int) -> int:
    found = _WHITESPACE.match(text, at)
    return found.end() if found is not None else at
