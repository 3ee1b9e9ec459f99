"""Chunked messages that a worker has begun and not finished.

A message of several entries can only be acknowledged whole, so the worker with its beginning must get the rest: any
other block of that worker (its slots moved away, its unacknowledged limit, a recent join, an operator's drain) would
otherwise last forever, because the beginning keeps it up. `Dispatcher.serve` sends the rest past the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.entry import Part
    from proxy.core.worker import Worker


class _Begun:
    __slots__ = ("needed", "slot", "worker")

    def __init__(self, worker: Worker, slot: int, needed: int) -> None:
        self.worker = worker
        self.slot = slot
        self.needed = needed
        """Index of the chunk the worker needs next."""


class ChunkedMessages:
    """Who has begun which message, by the message's uuid; false while there are none."""

    __slots__ = ("_begun",)

    def __init__(self) -> None:
        """None yet."""
        self._begun: dict[str, _Begun] = {}

    def __len__(self) -> int:
        """How many are begun."""
        return len(self._begun)

    def __bool__(self) -> bool:
        """Whether one is begun."""
        return bool(self._begun)

    def sent(self, worker: Worker, part: Part) -> None:
        """The part, a chunk, went to the worker."""
        chunk = part.chunk
        assert chunk is not None
        if chunk.index + 1 < chunk.total:
            self._begun[chunk.uuid] = _Begun(worker, part.slot, chunk.index + 1)
        else:
            self._begun.pop(chunk.uuid, None)

    def came_back(self, worker: Worker, returned: Iterable[Part]) -> None:
        """The worker gave these back: of each message it needs the first of them again, or all from the beginning.

        From the beginning, too, if it gave back the chunk before that one earlier: then all wait, in their order.
        And if it needs an earlier one already, that has not changed.
        """
        chunks = [part for part in returned if part.chunk is not None]
        for part in sorted(chunks, key=_index, reverse=True):
            chunk = part.chunk
            assert chunk is not None
            begun = self._begun.get(chunk.uuid)
            if begun is not None and begun.worker is worker and begun.needed <= chunk.index:
                continue
            if chunk.index and _holds(worker, chunk.uuid, chunk.index - 1):
                self._begun[chunk.uuid] = _Begun(worker, part.slot, chunk.index)
            else:
                self._begun.pop(chunk.uuid, None)

    def give_up(self, part: Part) -> bool:
        """Forget the rest of the part's message; False if none was awaited, or it is not a chunk."""
        return part.chunk is not None and self._begun.pop(part.chunk.uuid, None) is not None

    def forget_worker(self, worker: Worker) -> None:
        """It has gone, and with it all that it had begun."""
        self._begun = {uuid: begun for uuid, begun in self._begun.items() if begun.worker is not worker}

    def clear(self) -> None:
        """No message is begun: the subscription restarts."""
        self._begun.clear()

    def workers(self) -> list[Worker]:
        """Those who have begun something, each once."""
        return list({begun.worker.index: begun.worker for begun in self._begun.values()}.values())

    def slots_of(self, worker: Worker) -> list[int]:
        """Slots of the messages that it has begun, each once."""
        return list(dict.fromkeys(begun.slot for begun in self._begun.values() if begun.worker is worker))

    def needed_by(self, part: Part) -> Worker | None:
        """Who needs the part to finish a message.

        A chunk beyond the next one counts too: what lies between never comes, and the worker can only give the message
        up when it sees that.
        """
        chunk = part.chunk
        begun = self._begun.get(chunk.uuid) if chunk is not None else None
        if begun is None or chunk is None or chunk.index < begun.needed:
            return None
        return begun.worker


def _index(part: Part) -> int:
    assert part.chunk is not None
    return part.chunk.index


def _holds(worker: Worker, uuid: str, index: int) -> bool:
    """Whether this chunk is pending at the worker. Walks its pending acks: chunks come back seldom."""
    chunks = (part.chunk for part in worker.pending.values() if part.chunk is not None)
    return any(chunk.uuid == uuid and chunk.index == index for chunk in chunks)
