"""The topics that gateways write for themselves, as a broker keeps them: dead letters, the deployment's record, mail.

Producers are those of `tests.net.model_topic`, which is checked against real brokers: one alone, those that wait for
it, and one that takes it away. A topic that stores nothing gives what comes to those who read then, as far as they have
granted permits, and to nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.net.model_topic import Connection, ModelTopic

if TYPE_CHECKING:
    from tests.sim.broker import BrokerSession

T = pb.BaseCommand
LEDGER = 3
UINT64 = 1 << 64


@dataclass(eq=False)
class Reader:
    """A consumer of one of these topics."""

    topic: OwnTopic
    session: BrokerSession
    consumer_id: int
    subscription: str
    durable: bool
    next_entry: int
    permits: int = 0


class OwnTopic:
    """One of them; it outlives the broker's process if it is persistent."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stores = name.startswith("persistent://")
        self.entries: list[bytes] = []
        self.kept_from: dict[str, int] = {}
        """Of each durable subscription, the first entry that is not acknowledged."""
        self.readers: dict[str, Reader] = {}
        """By subscription: each has one consumer."""
        self._producers = ModelTopic()
        self._connections: dict[BrokerSession, Connection] = {}

    # ---- producers

    def produce(self, session: BrokerSession, command: pb.BaseCommand) -> None:
        """PRODUCER or CLOSE_PRODUCER; what it changes for others they are told."""
        self._producers.take(self._connections.setdefault(session, Connection()), command)
        self._tell()

    def may_send(self, session: BrokerSession, producer_id: int) -> bool:
        """Whether this producer stands: one that was fenced is not told so."""
        connection = self._connections.get(session)
        handle = None if connection is None else connection.producers.get(producer_id)
        return handle is not None and not handle.closed

    def refuses(self, tail: bytes) -> pb.ServerError | None:
        """The error with which this message, or the producer of any if it is empty, is refused; None if it is not."""
        _ = tail
        return None

    def publish(self, tail: bytes) -> tuple[int, int]:
        """Take a message; where it stands."""
        if self.stores:
            self.entries.append(tail)
            self.dispatch()
            return LEDGER, len(self.entries) - 1
        for reader in self.readers.values():
            if reader.permits > 0:
                send(reader, 0, tail)
        return LEDGER, 0

    # ---- consumers

    def subscribe(self, session: BrokerSession, body: pb.CommandSubscribe) -> Reader:
        """A consumer more, of a subscription without one."""
        begin = len(self.entries)
        if body.HasField("start_message_id"):
            begin = (body.start_message_id.entryId + 1) % UINT64
        elif body.initialPosition == pb.CommandSubscribe.Earliest:
            begin = 0
        if body.durable:
            begin = self.kept_from.setdefault(body.subscription, begin)
        reader = Reader(self, session, body.consumer_id, body.subscription, body.durable, begin)
        self.readers[body.subscription] = reader
        return reader

    def leave(self, reader: Reader) -> None:
        """It is closed, or its connection is gone."""
        if self.readers.get(reader.subscription) is reader:
            del self.readers[reader.subscription]

    def unsubscribe(self, reader: Reader) -> None:
        """Its subscription is deleted, and keeps nothing any more."""
        self.kept_from.pop(reader.subscription, None)

    def acknowledge(self, reader: Reader, body: pb.CommandAck) -> bytes:
        """Up to an entry; the answer, if one is wanted."""
        if reader.durable:
            self.kept_from[reader.subscription] = max(
                self.kept_from[reader.subscription], body.message_id[0].entryId + 1
            )
        return b""

    def last(self, request_id: int) -> bytes:
        """GET_LAST_MESSAGE_ID's answer."""
        answer = pb.CommandGetLastMessageIdResponse(request_id=request_id)
        answer.last_message_id.ledgerId = LEDGER if self.entries else UINT64 - 1
        answer.last_message_id.entryId = (len(self.entries) - 1) % UINT64
        kind = T.GET_LAST_MESSAGE_ID_RESPONSE
        return frames.encode_command(pb.BaseCommand(type=kind, getLastMessageIdResponse=answer))

    def dispatch(self) -> None:
        """Send what may go; what every durable subscription has acknowledged is gone."""
        gone = min(self.kept_from.values(), default=0)
        for reader in self.readers.values():
            reader.next_entry = max(reader.next_entry, gone)
            while reader.permits > 0 and reader.next_entry < len(self.entries):
                reader.next_entry += 1
                send(reader, reader.next_entry - 1, self.entries[reader.next_entry - 1])

    # ---- ends

    def begin(self) -> None:
        """Another process of the broker has it: nobody produces or reads."""
        self.readers.clear()
        names, self._producers = self._producers._names, ModelTopic()
        self._producers._names = names  # a cluster gives no name twice
        self._connections.clear()

    def unload(self) -> None:
        """Close it; of those that wait to produce only the first hears of it."""
        self._producers.unload()
        self._tell()
        for reader in list(self.readers.values()):
            reader.session.close_consumer(reader)

    def drop(self, session: BrokerSession) -> None:
        """A connection is gone."""
        for reader in [reader for reader in self.readers.values() if reader.session is session]:
            self.leave(reader)
        connection = self._connections.pop(session, None)
        if connection is not None:
            self._producers.drop(connection)
            self._tell()

    @property
    def used(self) -> bool:
        """Whether anybody produces or reads."""
        return bool(self._producers.shared or self.readers)

    def _tell(self) -> None:
        self._producers.come_to_rest()
        for session, connection in list(self._connections.items()):
            while connection.out:
                session.send(connection.out.popleft())


def send(reader: Reader, entry: int, tail: bytes) -> None:
    """A MESSAGE."""
    reader.permits -= 1
    command = pb.BaseCommand(type=T.MESSAGE)
    command.message.consumer_id = reader.consumer_id
    command.message.message_id.ledgerId, command.message.message_id.entryId = LEDGER, entry
    reader.session.send(frames.encode_message(command.SerializeToString(), tail))
