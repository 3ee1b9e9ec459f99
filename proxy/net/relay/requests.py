"""A client's open state at its broker: unanswered requests, producers, consumers.

When the broker disconnects and the client stays, each of these must be notified: an unanswered request hangs until its
time-out, and a producer that was not closed sends in vain. So every relayed request is recorded here, and removed by
its answer. `lose` turns the rest into the frames that a client needs to start again.

A producer that was just closed may still have messages in flight to the gateway. A new upstream connection does not
know it, and a broker closes a connection that sends for an unknown producer: such producers are kept as stale until the
client opens them again.

A broker does not answer the PRODUCER of a waiting producer any more once it has confirmed its close, nor the SUBSCRIBE
of a consumer that it was still making: the answer to the close removes both. Else each such wait would leave a request
here for as long as the connection stands. An answer that comes all the same is the client's, and says nothing here.

A consumer has ended when its client closes it, as at a broker, which answers none of its acknowledgements from then on:
they would wait here for ever. A producer ends with the broker's answer, which may be that it is not known yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy.errors import LimitExceeded
from proxy.net.relay.book import Book
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import CLOSURES, REPLIES, body_of, close_frame, refusal_frame

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

_T = pb.BaseCommand

LOOKUPS: Final = frozenset({_T.LOOKUP, _T.PARTITIONED_METADATA, _T.GET_TOPICS_OF_NAMESPACE, _T.GET_SCHEMA})
"""Requests that C++ clients, and those built on them, number apart from all others: one id may be under way twice."""

OWN_REQUESTS: Final = 1 << 63
"""Request ids above this are the gateway's own: Java draws its ids below it, other clients count up from 0; else
the router refuses them."""

BYTES_MAX: Final = 32 << 20
"""Of the requests of one client without an answer; one alone may be larger. 100,000 lookups are half of that."""

BYTES_FULL: Final = f"{BYTES_MAX} bytes of requests of this connection wait for an answer, no more are taken"


def leaves_no_room(held_bytes: int, size_bytes: int) -> bool:
    """Whether a request of this size is too much beside what a client has without an answer; one alone never is."""
    return held_bytes > 0 and held_bytes + size_bytes > BYTES_MAX


def check_room(requests: int, requests_max: int, held_bytes: int, size_bytes: int) -> None:
    """Raise `LimitExceeded` if no more of a client's requests may wait for an answer, or none of this size."""
    if requests >= requests_max:
        message = f"{requests_max} requests of this connection wait for an answer, no more are taken"
        raise LimitExceeded(message)
    if leaves_no_room(held_bytes, size_bytes):
        raise LimitExceeded(BYTES_FULL)


_OPENINGS: Final = frozenset({_T.PRODUCER, _T.SUBSCRIBE})
_OF_PRODUCERS: Final = frozenset({_T.PRODUCER, _T.CLOSE_PRODUCER})
_OF_EITHER: Final = _OF_PRODUCERS | {_T.SUBSCRIBE, _T.CLOSE_CONSUMER, _T.UNSUBSCRIBE}
"""What begins or ends a producer or a consumer."""

_LOOKUP_REPLIES: Final = frozenset(
    {
        _T.LOOKUP_RESPONSE,
        _T.PARTITIONED_METADATA_RESPONSE,
        _T.GET_TOPICS_OF_NAMESPACE_RESPONSE,
        _T.GET_SCHEMA_RESPONSE,
    }
)


class Pending(NamedTuple):
    """A relayed request without an answer."""

    kind: int
    body: Any
    size_bytes: int = 0
    """On the wire; 0 for a lookup of the gateway's own."""
    number: int = 0
    """The higher, the later it was asked."""

    def has_ended(self, ended: pb.CommandEndTxnResponse) -> bool:
        """Whether this asked for the end of a transaction, and the coordinator answers that it has done so.

        A client may use a request id twice: the answer for its own transaction must not pass for that of another's.
        """
        return (
            self.kind == _T.END_TXN
            and not ended.HasField("error")
            and self.body.txnid_most_bits == ended.txnid_most_bits
            and self.body.txnid_least_bits == ended.txnid_least_bits
        )


class RelayedRequests:
    """Pure bookkeeping of one client's relay."""

    def __init__(self, requests_max: int) -> None:
        """`requests_max` bounds the requests without an answer."""
        self._requests_max = requests_max
        self._pending: dict[tuple[bool, int], Pending] = {}
        """By whether it is a lookup, and its request id."""
        self._bytes_held = 0
        self._asked = 0
        self._acks_pending = 0
        self._producers = Book()
        self._consumers = Book()
        self._stale_producers: set[int] = set()
        self._own = OWN_REQUESTS

    @property
    def acks_pending(self) -> bool:
        """Whether an acknowledgement waits for its receipt; else receipts need no look."""
        return self._acks_pending > 0

    @property
    def has_stale_producers(self) -> bool:
        """Whether messages must be looked at for their producer."""
        return bool(self._stale_producers)

    def is_stale(self, producer_id: int) -> bool:
        """Whether the client was told to close this producer and has not spoken of it since."""
        return producer_id in self._stale_producers

    def own_id(self) -> int:
        """A number for a request of the gateway's own, which no other of this client has or had."""
        self._own += 1
        return self._own

    def closing_frames(self, but: Container[int]) -> Iterator[bytes]:
        """Close everything open, except these producers; answers are not awaited."""
        for producer_id in self._producers.open:
            if producer_id not in but:
                yield commands.close_producer(producer_id, self.own_id())
        for consumer_id in self._consumers.open:
            yield commands.close_consumer(consumer_id, self.own_id())

    def consumer_ready(self, consumer_id: int) -> bool | None:
        """Whether a relayed consumer was answered; None when there is none of that id, or the client closes it."""
        return self._consumers.open.get(consumer_id)

    def waiting_lookup(self, request_id: int) -> Pending | None:
        """The lookup of that id, if it has no answer yet."""
        return self._pending.get((True, request_id))

    def asked(self, kind: int, body: Any, size_bytes: int = 0) -> None:
        """Write down a request that goes to the broker. Raises `LimitExceeded`, and then nothing was written.

        `size_bytes` is that of a client's frame: a broker that answers late, or never, leaves all of them here.

        Also for an id that another request has: the answer to one of them would be taken for the other's, as that a
        producer has its topic. The same may be sent again (a producer that has waited).
        """
        if body.request_id <= OWN_REQUESTS:
            check_room(len(self._pending), self._requests_max, self._bytes_held, size_bytes)
        key = kind in LOOKUPS, body.request_id
        before = self._pending.get(key)
        if before is not None and before[:2] != (kind, body) and not _same_producer(before, kind, body):
            message = f"another request of this connection with the id {body.request_id} waits for its answer"
            raise LimitExceeded(message)
        self._strike(key)
        self._asked += 1
        self._pending[key] = Pending(kind, body, size_bytes, self._asked)
        self._bytes_held += size_bytes
        if kind == _T.ACK:
            self._acks_pending += 1
        elif kind in _OPENINGS:
            book, name = self._named(kind, body)
            book.asked(name, body.request_id, self._asked)
        elif kind in CLOSURES:
            book, name = self._named(kind, body)
            book.closing(name, self._asked)
            if kind == _T.CLOSE_CONSUMER:
                book.open.pop(name, None)
        if kind in _OF_PRODUCERS:
            self._stale_producers.discard(body.producer_id)

    def opens(self, kind: int, body: Any) -> bool:
        """Whether what a closure names is open here or being opened, so that its turn comes after that."""
        if kind == _T.CLOSE_PRODUCER:
            return body.producer_id in self._producers.open
        return kind == _T.CLOSE_CONSUMER and body.consumer_id in self._consumers.open

    def forget_stale(self, producer_id: int) -> None:
        """Take note that the client has closed a stale producer."""
        self._stale_producers.discard(producer_id)

    def answered(self, command: pb.BaseCommand) -> Pending | None:
        """Remove the request that a broker's reply settles; None if there is none."""
        assert command.type in REPLIES
        body = body_of(command)
        waiting = command.type == _T.PRODUCER_SUCCESS and not body.producer_ready
        if waiting:  # the same request is answered again when the producer's turn has come
            return self._pending.get((False, body.request_id))
        key = command.type in _LOOKUP_REPLIES, body.request_id
        if command.type == _T.ACK_RESPONSE and (key not in self._pending or self._pending[key].kind != _T.ACK):
            return None  # of an ACK that was not read here; its client's id may be one of the gateway's own
        pending = self._strike(key)
        if pending is None and command.type == _T.ERROR:
            pending = self._strike((True, body.request_id))
        if pending is not None:
            self._settle(pending, succeeded=command.type != _T.ERROR)
        return pending

    def closed_by_broker(self, command: pb.BaseCommand) -> None:
        """Take note of a CLOSE_PRODUCER or CLOSE_CONSUMER from the broker."""
        if command.type == _T.CLOSE_PRODUCER:
            self._producers.closed(command.close_producer.producer_id)
        else:
            self._consumers.closed(command.close_consumer.consumer_id)

    def lose(self, reason: str) -> Iterator[bytes]:
        """Yield what the client must hear now that the broker is gone, and begin with an empty book.

        Of what the gateway asked by itself it hears nothing: not of a producer that was being taken back either.
        """
        self._stale_producers.update(self._producers.open)
        self._forget_own()
        pending, self._pending, self._acks_pending, self._bytes_held = self._pending, {}, 0, 0
        producers, self._producers = self._producers.open, Book()
        consumers, self._consumers = self._consumers.open, Book()
        for each in pending.values():
            if each.kind in CLOSURES:
                yield commands.success(each.body.request_id)
            else:
                yield refusal_frame(each.kind, each.body, reason)
        for producer_id, ready in producers.items():
            if ready:
                yield close_frame(_T.CLOSE_PRODUCER, producer_id)
        for consumer_id, ready in consumers.items():
            if ready:
                yield close_frame(_T.CLOSE_CONSUMER, consumer_id)

    def _forget_own(self) -> None:
        """Remove what the gateway asked by itself, and the producers that it was asking for or taking back."""
        for key, each in list(self._pending.items()):
            if each.body.request_id > OWN_REQUESTS:
                self._strike(key)
                if each.kind == _T.CLOSE_PRODUCER:
                    self._strike_closed(each)
                if each.kind in _OF_PRODUCERS:
                    self._producers.open.pop(each.body.producer_id, None)
                if each.kind == _T.PRODUCER:  # a question: no client sends by it
                    self._stale_producers.discard(each.body.producer_id)

    def _strike(self, key: tuple[bool, int]) -> Pending | None:
        pending = self._pending.pop(key, None)
        if pending is None:
            return None
        self._bytes_held -= pending.size_bytes
        if pending.kind == _T.ACK:
            self._acks_pending -= 1
        elif pending.kind in _OPENINGS:
            book, name = self._named(pending.kind, pending.body)
            book.struck(name, pending.body.request_id)
        return pending

    def _strike_closed(self, close: Pending) -> None:
        """Remove the requests for what this has closed, but not what was asked for anew behind it."""
        book, name = self._named(close.kind, close.body)
        for request_id in book.asked_before(name, close.number):
            self._strike((False, request_id))

    def _named(self, kind: int, body: Any) -> tuple[Book, int]:
        """Where the producer or consumer stands that a request is about, and its id."""
        if kind in _OF_PRODUCERS:
            return self._producers, body.producer_id
        assert kind in _OF_EITHER
        return self._consumers, body.consumer_id

    def _settle(self, pending: Pending, *, succeeded: bool) -> None:
        kind = pending.kind
        if kind not in _OF_EITHER:
            return
        book, name = self._named(kind, pending.body)
        if kind in _OPENINGS:
            book.answered(name, pending.number, succeeded=succeeded)
        elif succeeded:
            if kind in CLOSURES:
                self._strike_closed(pending)
            book.closed(name)


def _same_producer(before: Pending, kind: int, body: Any) -> bool:
    """Whether both ask for the same producer: an election may ask for it in another way."""
    if not before.kind == kind == _T.PRODUCER:
        return False
    return bool(before.body.producer_id == body.producer_id and before.body.topic == body.topic)
