"""One topic whose subscription is cut into streams, beside others that have owners, or that are all so.

Every replica with workers of it has some of the streams, and delivers to its own workers only. The checkers of one
gateway look at all of them together: a key is at one worker of the whole deployment, and its order is that of the
topic. What is judged besides:

- a replica delivers of a stream only under its lease on it, beside no other that may, and consumes it;
- beside it no other consumes the stream's slots at the broker;
- where everything goes as planned, a stream's next replica has no excuse: what workers hold or have acknowledged
  stays so. Else it may have what the one before had not seen acknowledged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.wire import frames
from tests.sim.checkers import Model
from tests.sim.deployment.judge import OwnersModel
from tests.sim.deployment.replica import OneTopic
from tests.sim.gateway import Looked, WakeUps
from tests.sim.seats import Connection, Seat, Violation, numbers_in
from tests.sim.slots import range_slot, stream_of
from tests.sim.storage import bits_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.sim.deployment.replica import Replica


class StreamWakeUps(WakeUps):
    """G6 at one of its replicas, of the streams that this one may deliver."""

    def _seats(self, gateway: Looked) -> Iterable[Seat]:
        return [seat for seat in super()._seats(gateway) if seat.end.process is gateway.process]

    def _serves(self, gateway: Looked, key: str) -> bool:
        assert isinstance(gateway, OneTopic)
        return gateway.may_deliver_stream(stream_of(key))


class StreamsModel(OwnersModel):
    """The model of that topic, over all its replicas."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)
        self._consumers: dict[int, Any] = {}
        """Of each stream, who consumed it at its last delivery: one lease's consumer, whatever becomes of it."""
        self._late: dict[Seat, dict[tuple[int, int], list[int]]] = {}
        """What workers had of streams that moved: their acks may count at the broker still."""
        self.stream_moves = 0
        """How often a stream was delivered by another replica than before."""

    def _delivered(self, connection: Connection, frame: bytes) -> None:
        assert self._writing is not None
        replica = self.world.replica_of(self._writing)
        numbers, _ = numbers_in(frame[frames.payload_start(frame) :])
        for stream in sorted({self._stream(number) for number in numbers}):
            self._stream_delivers(replica, stream, numbers)
        Model._delivered(self, connection, frame)

    def _stream(self, number: int) -> int:
        return stream_of(self._storage.messages[number].key)

    def _stream_delivers(self, replica: Replica, stream: int, numbers: list[int]) -> None:
        key, told = self.topic.key, f"{replica.name} delivers {numbers} of stream {stream}"
        if not replica.may_deliver_stream(key, stream):
            raise Violation(f"streams: {told} without a lease")
        running = [each for each in self.world.live if not each.process.stopped]
        others = [each.name for each in running if each is not replica and each.may_deliver_stream(key, stream)]
        if others:
            raise Violation(f"streams: {told}, and {others} may do so")
        life = replica.subscription(key)
        consumer = None if life is None else life.consumers.get(stream)
        if consumer is None:
            raise Violation(f"streams: {told}, and does not consume it")
        slots = {range_slot(self._storage.messages[number].key) for number in numbers}
        for each in self.topic.cluster.consumers:
            harmless = each.probes or self._process(each) is replica.process
            if not harmless and any(each.slots[0] <= slot <= each.slots[1] for slot in slots):
                raise Violation(f"streams: {told}, and another consumes it at the broker")
        if consumer is not self._consumers.get(stream):
            self._moved(stream)
            self._consumers[stream] = consumer

    def _moved(self, stream: int) -> None:
        """Another replica delivers it than before, or the same that had given it back."""
        self.stream_moves += stream in self._consumers
        for number in [number for number in self.retry_at if self._stream(number) == stream]:
            del self.retry_at[number]
        if self.world.swarm.orderly:
            return
        self.acked_in_life = {number for number in self.acked_in_life if self._stream(number) != stream}
        for connection in self.connections.values():
            for seat in connection.seats.values():
                for place, numbers in list(seat.held.items()):
                    if any(number >= 0 and self._stream(number) == stream for number in numbers):
                        self._late.setdefault(seat, {})[place] = list(numbers)
                        self._release(seat, place)

    def _acked(self, seat: Seat, place: tuple[int, int], ack_set: list[int]) -> list[int]:
        late = self._late.get(seat, {}).get(place)
        if late is not None and place not in seat.held:
            left = bits_of(ack_set)
            self._acked_ever.update(n for bit, n in enumerate(late) if n >= 0 and not left >> bit & 1)
            return []
        return super()._acked(seat, place, ack_set)
