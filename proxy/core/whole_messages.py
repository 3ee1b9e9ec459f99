"""Chunks of one message keep together when they come back.

Problem: a chunked message is several entries, and neither a worker nor a reader of the dead letter topic can do
anything with some of them. Clients do not name them all: those of C++ up to 4.2, and Python's over them, ask for the
last chunk alone when their application gives the message back, and throw it away when it comes alone. Rule kept: who
wants one chunk again gets all that it has of the message again, from the first on.

What the attempts of a message are, `attempts` says; `Diversions.stored`, when its originals are acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from proxy.core.entry import Part
    from proxy.core.worker import Worker

Name: TypeAlias = "tuple[str, int, bool]"
"""Of a chunked message: its uuid, its slot, and whether it was parked."""


def message_of(part: Part) -> Name:
    """The message that a part is a chunk of."""
    assert part.chunk is not None
    return part.chunk.uuid, part.slot, part.foreign


def is_of_one_message(part: Part, other: Part) -> bool:
    """Whether both are chunks of the same message."""
    return part.chunk is not None and other.chunk is not None and message_of(part) == message_of(other)


def by_message(parts: Iterable[Part]) -> dict[Name, list[Part]]:
    """Those of the parts that are chunks, by their message."""
    found: dict[Name, list[Part]] = {}
    for part in parts:
        if part.chunk is not None:
            found.setdefault(message_of(part), []).append(part)
    return found


def rest_of(worker: Worker, keys: Collection[int]) -> list[int]:
    """Keys of the other chunks that the worker has of the messages of which these are chunks.

    Not for chunks that are about to be sent to it once more: it means an earlier delivery of the message.
    """
    asked = by_message(part for part in map(worker.pending.get, keys) if part is not None)
    if not asked:
        return []
    named = {id(part) for parts in asked.values() for part in parts}
    if worker.outbox:
        unsent = {id(part) for part in worker.outbox}
        asked = {name: parts for name, parts in asked.items() if not unsent.issuperset(map(id, parts))}
    chunks = ((key, part) for key, part in worker.pending.items() if part.chunk is not None)
    return [key for key, part in chunks if id(part) not in named and message_of(part) in asked]


def is_whole(chunks: Collection[Part]) -> bool:
    """Whether these are all chunks of their message."""
    indexes = {part.chunk.index for part in chunks if part.chunk is not None}
    return all(part.chunk is not None and len(indexes) >= part.chunk.total for part in chunks)
