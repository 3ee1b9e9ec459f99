"""A topic at a broker as producers that want it alone meet it, its defects included: who owns it, who waits, the epoch.

Written after `AbstractTopic` and `ServerCnx` of Pulsar 4.0 and 4.2, and checked against both (see
`tests/integration/test_exclusive_model.py`): one that waits and is closed stays in the queue, is promoted, costs an
epoch and is found dead then; a promotion out of the queue takes time, and meets who fences meanwhile; it does not look
at the epoch that a producer brings along; an unload fails the first of those that wait and forgets the others.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from proxy.wire import pulsar_pb2 as pb
from tests.net.producer_rig import error, not_ready, ready
from tests.net.session_rig import T, encode, success

UNASKED = 2**64 - 1


@dataclass(eq=False)
class Connection:
    """A broker's end of one."""

    out: deque[bytes] = field(default_factory=deque)
    producers: dict[int, Handle] = field(default_factory=dict)
    direct: bool = False
    """It does not come through the gateway."""


@dataclass(eq=False)
class Handle:
    """One producer."""

    connection: Connection
    producer_id: int
    request_id: int
    name: str
    epoch: int | None
    decided: bool = False
    """Its request was answered for good, or it was closed before that."""
    closed: bool = False


class ModelTopic:
    """One persistent topic. Replies are put on their connections' `out`."""

    def __init__(self) -> None:
        """Nobody produces."""
        self.owner: Handle | None = None
        self.shared: set[Handle] = set()
        self.queue: deque[Handle] = deque()
        self.promoting: tuple[Handle, int] | None = None
        """Who is promoted out of the queue, and the epoch that is being written for it."""
        self.epoch = -1
        self.owners: list[tuple[str, int, bool]] = []
        """All there have been: name, epoch, and whether it was alive when it was promoted."""
        self.troubles: deque[int] = deque()
        """What the next requests to become the owner are answered with, at their admission."""
        self._names = 0

    # ---- commands

    def take(self, connection: Connection, command: pb.BaseCommand) -> None:
        """One command of a client, or of the gateway in its name."""
        if command.type == T.PRODUCER:
            self._producer(connection, command.producer)
        else:
            assert command.type == T.CLOSE_PRODUCER
            self._close(connection, command.close_producer)

    def drop(self, connection: Connection) -> None:
        """Its peer is gone."""
        handles, connection.producers = connection.producers, {}
        for handle in handles.values():
            self._leave(handle)

    def unload(self) -> None:
        """Close the topic: its owner is told, the first of those that wait is refused, the others never hear of it."""
        self.come_to_rest()
        owners = [*self.shared, *([self.owner] if self.owner is not None else [])]
        self.owner = None
        for handle in owners:
            if not handle.closed:
                handle.closed = True
                handle.connection.producers.pop(handle.producer_id, None)
                close = pb.CommandCloseProducer(producer_id=handle.producer_id, request_id=UNASKED)
                handle.connection.out.append(encode(T.CLOSE_PRODUCER, close))
        if owners and self.queue:
            first = self.queue.popleft()
            self.epoch += 1
            self._refuse(first, pb.ServiceNotReady)
        self.queue.clear()
        self.shared.clear()

    def promote(self) -> None:
        """The epoch of whom is promoted out of the queue is written."""
        assert self.promoting is not None
        (handle, epoch), self.promoting = self.promoting, None
        self._owns(handle, epoch)

    def come_to_rest(self) -> None:
        """Finish all promotions."""
        while self.promoting is not None:
            self.promote()

    @property
    def free(self) -> bool:
        """Whether nobody has it or is about to."""
        return self.owner is None and self.promoting is None and not self.shared

    # ---- within

    def _producer(self, connection: Connection, body: pb.CommandProducer) -> None:
        known = connection.producers.get(body.producer_id)
        if known is not None:
            answer = ready(body.request_id, name=known.name, epoch=None)
            connection.out.append(answer if known.decided else error(body.request_id, pb.ServiceNotReady, "present"))
            return
        self._names += 1
        epoch = body.topic_epoch if body.HasField("topic_epoch") else None
        name = body.producer_name or f"standalone-0-{self._names}"
        handle = Handle(connection, body.producer_id, body.request_id, name, epoch)
        connection.producers[body.producer_id] = handle
        mode = body.producer_access_mode
        if self.troubles and mode != pb.Shared:
            self._refuse(handle, self.troubles.popleft())
        elif mode == pb.Shared:
            self._join(handle)
        elif mode == pb.ExclusiveWithFencing:
            self._fence(handle)
        elif self.free and (mode == pb.WaitForExclusive or not self.queue):
            self._admit(handle)
        elif mode == pb.WaitForExclusive:
            self.queue.append(handle)
            connection.out.append(not_ready(body.request_id, name=name))
        else:
            self._refuse(handle, pb.ProducerFenced)

    def _close(self, connection: Connection, body: pb.CommandCloseProducer) -> None:
        handle = connection.producers.pop(body.producer_id, None)
        connection.out.append(success(body.request_id))
        if handle is not None:
            self._leave(handle)

    def _join(self, handle: Handle) -> None:
        taken = any(each.name == handle.name for each in self.shared)
        if taken or self.owner is not None or self.promoting is not None or self.queue:
            self._refuse(handle, pb.ProducerBusy)
        else:
            self.shared.add(handle)
            handle.decided = True
            handle.connection.out.append(ready(handle.request_id, name=handle.name, epoch=None))

    def _fence(self, handle: Handle) -> None:
        waiting, self.queue = self.queue, deque()
        for waiter in waiting:
            self._refuse(waiter, pb.ProducerFenced)
        if self.owner is not None:
            self.owner.closed = True
        self.owner = None
        self.shared.clear()
        self._admit(handle)

    def _admit(self, handle: Handle) -> None:
        if handle.epoch is not None and handle.epoch < self.epoch:
            self._refuse(handle, pb.ProducerFenced)
            return
        self._owns(handle, self._epoch_of(handle))

    def _epoch_of(self, handle: Handle) -> int:
        return self.epoch + 1 if handle.epoch is None else handle.epoch

    def _owns(self, handle: Handle, epoch: int) -> None:
        self.epoch = epoch
        self.owners.append((handle.name, epoch, not handle.closed))
        if handle.closed:
            self._next()
            return
        self.owner = handle
        handle.decided = True
        handle.connection.out.append(ready(handle.request_id, name=handle.name, epoch=self.epoch))

    def _leave(self, handle: Handle) -> None:
        handle.closed = True
        self.shared.discard(handle)
        if self.owner is handle:
            self.owner = None
            self._next()
        elif self.free:
            self._next()

    def _next(self) -> None:
        if self.queue:
            first = self.queue.popleft()
            self.promoting = first, self._epoch_of(first)

    def _refuse(self, handle: Handle, code: int) -> None:
        handle.connection.producers.pop(handle.producer_id, None)
        if not handle.closed:
            handle.closed = True
            handle.connection.out.append(error(handle.request_id, code))
