"""Chunked messages that a worker has begun and not finished.

A message of several entries can only be acknowledged whole, so the worker with its beginning must get the rest: any
other block of that worker (its slots moved away, its unacknowledged limit, a recent join, an operator's drain) would
otherwise last forever, because the beginning keeps it up. `Dispatcher.serve` sends the rest past the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from proxy.core.entry import Part
    from proxy.core.worker import Worker


_NO_SLOTS: Final[dict[int, int]] = {}


class _Begun:
    __slots__ = ("needed", "returned", "slot", "worker")

    def __init__(self, worker: Worker, slot: int, needed: int) -> None:
        self.worker = worker
        self.slot = slot
        self.needed = needed
        """Index of the chunk the worker needs next."""
        self.returned: set[int] = set()
        """Indexes of those that it had and gave back, and has not got again."""


class ChunkedMessages:
    """Who has begun which message, by the message's uuid; false while there are none."""

    __slots__ = ("_begun", "_slots")

    def __init__(self) -> None:
        """None yet."""
        self._begun: dict[str, _Begun] = {}
        self._slots: dict[Worker, dict[int, int]] = {}
        """How many each worker has begun of each slot: a producer may leave tens of thousands unfinished."""

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
            self._needs(worker, part, chunk.index + 1).returned.discard(chunk.index)
        else:
            self._forget(chunk.uuid)

    def came_back(self, worker: Worker, returned: Iterable[Part], unseen: Container[int] = ()) -> None:
        """The worker gave these back: of each message it needs the first of them again, or all from the beginning.

        From the beginning, too, if it gave back the chunk before that one earlier: then all wait, in their order.
        And if it needs an earlier one already, that has not changed. Nor if another does, to which the beginning went
        before the rest came back, as after an abort. `unseen` has object ids of what it never had.
        """
        chunks = [part for part in returned if part.chunk is not None]
        if not chunks:
            return
        pending = {(part.chunk.uuid, part.chunk.index) for part in worker.pending.values() if part.chunk is not None}
        for part in sorted(chunks, key=_index, reverse=True):
            chunk = part.chunk
            assert chunk is not None
            begun = self._begun.get(chunk.uuid)
            if begun is not None and begun.needed <= chunk.index:
                continue
            if chunk.index and (chunk.uuid, chunk.index - 1) in pending:
                self._needs(worker, part, chunk.index)
            else:
                self._forget(chunk.uuid)
        for part in chunks:
            assert part.chunk is not None
            begun = self._begun.get(part.chunk.uuid)
            if begun is not None and begun.worker is worker and id(part) not in unseen:
                begun.returned.add(part.chunk.index)

    def give_up(self, part: Part) -> bool:
        """Forget the rest of the part's message; False if none was awaited, or it is not a chunk."""
        return part.chunk is not None and self._forget(part.chunk.uuid)

    def forget_worker(self, worker: Worker) -> None:
        """It has gone, and with it all that it had begun."""
        if self._slots.pop(worker, None) is not None:
            self._begun = {uuid: begun for uuid, begun in self._begun.items() if begun.worker is not worker}

    def clear(self) -> None:
        """No message is begun: the subscription restarts."""
        self._begun.clear()
        self._slots.clear()

    def workers(self) -> list[Worker]:
        """Those who have begun something, each once."""
        return list(self._slots)

    def slots_of(self, worker: Worker) -> Collection[int]:
        """Slots of the messages that it has begun, each once, and looked up at once. They change with what is sent."""
        return self._slots.get(worker, _NO_SLOTS)

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

    def is_next(self, part: Part) -> bool:
        """Whether a worker needs exactly this chunk next."""
        begun = self._begun.get(part.chunk.uuid) if part.chunk is not None else None
        return begun is not None and part.chunk is not None and begun.needed == part.chunk.index

    def is_returned(self, part: Part) -> bool:
        """Whether the worker that needs the part gave it back, or one that comes before it."""
        assert part.chunk is not None
        return any(index <= part.chunk.index for index in self._begun[part.chunk.uuid].returned)

    def _needs(self, worker: Worker, part: Part, index: int) -> _Begun:
        """The worker needs this chunk next of the part's message."""
        chunk = part.chunk
        assert chunk is not None
        begun = self._begun.get(chunk.uuid)
        if begun is not None and begun.worker is worker and begun.slot == part.slot:
            begun.needed = index
            return begun
        self._forget(chunk.uuid)
        slots = self._slots.setdefault(worker, {})
        slots[part.slot] = slots.get(part.slot, 0) + 1
        begun = self._begun[chunk.uuid] = _Begun(worker, part.slot, index)
        return begun

    def _forget(self, uuid: str) -> bool:
        """Whether it was begun."""
        begun = self._begun.pop(uuid, None)
        if begun is None:
            return False
        slots = self._slots[begun.worker]
        slots[begun.slot] -= 1
        if not slots[begun.slot]:
            del slots[begun.slot]
            if not slots:
                del self._slots[begun.worker]
        return True


def _index(part: Part) -> int:
    assert part.chunk is not None
    return part.chunk.index
