"""Sets of streams as a few characters: ``0-340,512`` instead of a number for each.

A replica of three has some 341 of 1,024 streams, mostly neighbours; a set without any neighbours is written no longer
than as a list.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from proxy.groups.streams import STREAMS_MAX

if TYPE_CHECKING:
    from collections.abc import Sequence

_RANGE: Final = re.compile(r"(\d{1,4})(?:-(\d{1,4}))?", re.ASCII)


def is_set(streams: Sequence[int]) -> bool:
    """Whether these are streams of a group, in order, each once: only such are written as a set."""
    if not streams:
        return True
    return streams[0] >= 0 and streams[-1] < STREAMS_MAX and all(left < right for left, right in pairwise(streams))


def written(streams: Sequence[int]) -> str:
    """Write what `is_set`."""
    assert is_set(streams), streams
    parts: list[str] = []
    start = 0
    for index, stream in enumerate(streams):
        if index + 1 < len(streams) and streams[index + 1] == stream + 1:
            continue
        first = streams[start]
        parts.append(str(first) if first == stream else f"{first}-{stream}")
        start = index + 1
    return ",".join(parts)


def read(text: str) -> tuple[int, ...]:
    """Read it. Raises ValueError for what is no set of streams, so that a few characters never become many numbers."""
    streams: list[int] = []
    for part in text.split(",") if text else ():
        match = _RANGE.fullmatch(part)
        if match is None:
            message = f"{part[:20]!r} is no range of streams"
            raise ValueError(message)
        first, last = int(match[1]), int(match[2] or match[1])
        if first > last or last >= STREAMS_MAX or (streams and first <= streams[-1]):
            message = f"{part!r} is no range of streams after {streams[-1] if streams else -1}, below {STREAMS_MAX}"
            raise ValueError(message)
        streams += range(first, last + 1)
    return tuple(streams)
