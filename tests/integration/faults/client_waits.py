"""Which part of a message's wait clients cause, that have gone to a replica which hangs.

Problem: a client that has lost its consumer looks its topic up at the next address of its service URL. If the replica
there hangs, the client waits until its own time for that is over, and no other replica hears of it. If all clients of a
subscription do, its messages wait though every other replica does what it can. Rule: a wait counts only while at least
one worker's client is at a replica that does not hang: its consumer is there, or is asked for there, since that replica
has answered the lookup. How long answering a lookup takes is not judged.

The official client tells where it is in its log only.
"""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from integration.load.waits import Way

_TIME_LENGTH: Final = len("2026-11-27 12:06:04,840")
_THERE: Final = re.compile(r"(?:Lookup response for .* from|Created consumer on broker) \[\S+ -> \S+:(\d+)\]")
"""The port of the replica that has answered."""
_NOWHERE: Final = re.compile(r"Schedule reconnection|Getting connection from pool")
"""Its consumer is lost, or it begins to look the topic up."""


class Span(NamedTuple):
    """Of the monotonic clock, without its end."""

    since_ns: int
    until_ns: int


class Hung(NamedTuple):
    """A replica that hangs for a while."""

    port: int
    span: Span


def counted_ns(way: Way, reached: Iterable[Span]) -> int:
    """How long a message waited while a client was at a replica that does not hang; `reached` do not overlap."""
    parts = (min(each.until_ns, way.at_ns) - max(each.since_ns, way.sent_ns) for each in reached)
    return sum(part for part in parts if part > 0)


def reached(logs: Iterable[Path], hung: Hung, until_ns: int) -> list[Span]:
    """When a client of these workers was at a replica that does not hang; any time before and after it hung counts."""
    found = [Span(0, hung.span.since_ns), Span(hung.span.until_ns, until_ns)]
    for log in logs:
        found += [span for port, span in _stays(log, until_ns) if port != hung.port]
    return _merged(found)


def _stays(log: Path, until_ns: int) -> Iterator[tuple[int, Span]]:
    """At which port a client was, and when."""
    ahead_s = time.time() - time.monotonic()
    moves = [(0, 0), *_moves(log.read_text().splitlines(), ahead_s), (until_ns, 0)]
    for (since_ns, port), (next_ns, _) in itertools.pairwise(moves):
        if port:
            yield port, Span(since_ns, next_ns)


def _moves(lines: Collection[str], ahead_s: float) -> Iterator[tuple[int, int]]:
    """When a client went to which port, 0 for none; `ahead_s` is the log's clock before the monotonic one."""
    for line in lines:
        there = _THERE.search(line)
        if there or _NOWHERE.search(line):
            at_s = datetime.fromisoformat(line[:_TIME_LENGTH]).timestamp() - ahead_s
            yield int(at_s * 1e9), int(there[1]) if there else 0


def _merged(spans: Iterable[Span]) -> list[Span]:
    merged: list[Span] = []
    for span in sorted(spans):
        if merged and span.since_ns <= merged[-1].until_ns:
            merged[-1] = Span(merged[-1].since_ns, max(span.until_ns, merged[-1].until_ns))
        else:
            merged.append(span)
    return merged
