"""What a client has asked of its owners and has no answer to: as much in all as it may ask of its broker.

A client that reads no answers is still read, and the legs to its owners are not, since what they bring would pile up
here. So nothing but this bounds what is written down of its requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from proxy.net.relay.requests import check_room
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterator

_ACK = pb.BaseCommand.ACK


class AskedConsumer:
    """One at the owner."""

    __slots__ = ("ready", "request_id")

    def __init__(self, request_id: int) -> None:
        """`request_id` is that of its SUBSCRIBE, which has no answer."""
        self.request_id = request_id
        self.ready = False
        """Whether that was answered."""


class Asked(NamedTuple):
    """A request of the client's without an answer."""

    kind: int
    body: Any
    consumer: AskedConsumer
    """Whom it is about: another may have that id by the time of the answer."""
    size_bytes: int
    """On the wire; 0 for an acknowledgement, of which hardly anything is kept."""


class RequestRoom:
    """Of one client, for all its legs together."""

    def __init__(self, requests_max: int) -> None:
        """Nothing is asked."""
        self._requests_max = requests_max
        self.requests = 0
        self.held_bytes = 0

    def check(self, size_bytes: int) -> None:
        """Raise `LimitExceeded` if there is none for one more of this size."""
        check_room(self.requests, self._requests_max, self.held_bytes, size_bytes)


class AskedRequests:
    """Of one leg."""

    def __init__(self, room: RequestRoom) -> None:
        """None yet; each takes its place in `room` until it is taken out."""
        self._room = room
        self._by_id: dict[int, Asked] = {}
        self.receipts = 0
        """How many are acknowledgements; while there is none, receipts are not looked for."""

    def __len__(self) -> int:
        """Count them."""
        return len(self._by_id)

    def __iter__(self) -> Iterator[int]:
        """Their ids, as they were asked."""
        return iter(self._by_id)

    def get(self, request_id: int) -> Asked | None:
        """The one of that id, if it has no answer."""
        return self._by_id.get(request_id)

    def add(self, request_id: int, asked: Asked) -> None:
        """One more, in the place of one that had its id. Whether there is room, the caller has checked."""
        self.take(request_id)
        self._by_id[request_id] = asked
        self._room.requests += 1
        self._room.held_bytes += asked.size_bytes
        self.receipts += asked.kind == _ACK

    def take(self, request_id: int) -> Asked | None:
        """Take it out, if it is there: it is answered, or will not be."""
        asked = self._by_id.pop(request_id, None)
        if asked is not None:
            self._room.requests -= 1
            self._room.held_bytes -= asked.size_bytes
            self.receipts -= asked.kind == _ACK
        return asked
