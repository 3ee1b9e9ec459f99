"""What a deployment owes its workers, held against every byte between them and between replicas.

The checkers of one gateway (`tests.sim.checkers`) look at the owner's connections: with workers that are there, and
with replicas that lead workers there. So G1 to G5 hold for each owner as for a gateway alone. What is judged besides:

- a replica delivers only under its lease, beside no other that may, and beside no other's consumer at the broker;
- when another has delivered, the one before never does again;
- where everything goes as planned, the next owner has no excuse: what workers hold or have acknowledged stays so;
- what a replica passes on to its workers is not old: the broker has it for unacknowledged still;
- what is parked is delivered, or deleted by order, and nothing else becomes of it (`lot`);
- an owner that has asked what is in open transactions lets nothing overtake it, whichever owner it was acknowledged to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from proxy.net.owner.door import Knock
from proxy.net.owner.legs import ClientLegs
from proxy.net.owner.proof import ANSWER_BYTES, HELLO_BYTES, LENGTH_BYTES, PROOF_BYTES
from proxy.net.session.session import ClientSession
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from tests.sim.checkers import Model
from tests.sim.connection import End, Tap
from tests.sim.machine import ORIGIN_S
from tests.sim.seats import FRAME_BYTES_MAX, Connection, Seat, Violation, numbers_in
from tests.sim.storage import bits_of

if TYPE_CHECKING:
    from proxy.net.subscription.subscription import Subscription
    from tests.sim.deployment.replica import Replica
    from tests.sim.deployment.world import Deployment, Topic

T = pb.BaseCommand
BEGUN_S = 15.0
"""By then a new deployment has owners and workers."""
WAIT_S_MAX = 12.0
"""From a message until its acknowledgement, whatever becomes of one replica: the drop time and 3 s, and what clients
take to come back."""
TOLD_START = HELLO_BYTES + PROOF_BYTES
"""Of a leg's bytes: where the length of what is told stands."""


class OwnersModel(Model):
    """The model of one topic, over all its owners."""

    topic: Topic
    world: Deployment
    _life: Subscription | None = None
    """Of the owner that delivered last."""

    def __init__(self, *args: object, **options: object) -> None:
        super().__init__(*args, **options)  # type: ignore[arg-type]
        self._taken: set[int] = set()
        """Messages of a consumer that was closed, which may be on their way to its client still."""
        self._with_broker: dict[Seat, dict[tuple[int, int], list[int]]] = {}
        """What workers have of the broker itself."""
        self._past: list[Subscription] = []
        self._writing: End | None = None
        self._reading: End | None = None

    def wrote(self, end: End, data: bytes) -> None:
        """As the base says."""
        self._writing = end
        super().wrote(end, data)

    def _delivered(self, connection: Connection, frame: bytes) -> None:
        assert self._writing is not None
        consumer_id = frames.parse_command(frame).message.consumer_id
        if _is_led(self._writing, consumer_id):
            seat = connection.seats.get(consumer_id)
            if seat is not None:  # else the client has closed it, and the owner does not know yet
                self._passed_on(seat, frame)
            return
        if self.world.is_replica(self._writing.process):
            self._owner_delivers(self.world.replica_of(self._writing))
            super()._delivered(connection, frame)
        else:
            self._broker_delivers(connection, frame)

    def _answered(self, connection: Connection, command: pb.BaseCommand) -> None:
        if command.type == T.CLOSE_CONSUMER:
            seat = connection.seats.get(command.close_consumer.consumer_id)
            held = [] if seat is None else [number for each in seat.held.values() for number in each if number >= 0]
            self._taken.update(held)
            if seat is not None and held and self.world.swarm.orderly:
                raise Violation(f"owners: {seat.name} has {held}, and is closed though there was time")
        super()._answered(connection, command)

    def arrives(self, end: End, data: bytes) -> None:
        """As the base says."""
        self._reading = end
        super().arrives(end, data)

    def _end_asked(self, number: int) -> None:
        """Another replica's word that it was done, unless a client asks for it."""
        end = self._reading
        if self.claims is not None and end is not None and self.world.are_replicas(end) and self._is_owner(end):
            self.claims.told(number)

    def _transaction_ended(self, answer: pb.CommandEndTxnResponse) -> None:
        if self._writing is not None and self._is_owner(self._writing):  # else the owner hears of it later
            super()._transaction_ended(answer)

    def _is_owner(self, end: End) -> bool:
        return self.owned_by(self.world.replica_of(end))

    @property
    def knows_transactions(self) -> bool:
        """Whether the owner that delivered last has waited until nothing was open that it does not know."""
        return self._life is not None and not self._life.state.counters.takeovers_at_risk

    def _others_than(self, seat: Seat) -> list[Seat] | None:
        end = self._reading
        if end is None or _is_led(end, seat.consumer_id):
            return None
        here = [other for other in super()._others_than(seat) or () if other.end.process is end.process]
        return [other for other in here if not _is_led(other.end, other.consumer_id)]

    def done(self, number: int) -> None:
        """As the base says. In a calm world it must not have waited for long."""
        super().done(number)
        now_s, published_s = self._now(), self.topic.published_s[number]
        if self.world.swarm.calm and published_s >= ORIGIN_S + BEGUN_S:
            waited_s = now_s - published_s
            self.world.longest_wait_s = max(self.world.longest_wait_s, waited_s)
            if waited_s > WAIT_S_MAX:
                raise Violation(f"stall: message {number} of {self.topic.name} was done {waited_s:.1f} s after it came")

    # ---- at the owner

    def owned_by(self, replica: Replica) -> bool:
        """Whether the owner that delivered last is here still."""
        return self._life is not None and replica.subscription(self.topic.key) is self._life

    def _owner_delivers(self, replica: Replica) -> None:
        key, cluster = self.topic.key, self.topic.cluster
        life = replica.subscription(key)
        if life is None:
            raise Violation(f"owners: {replica.name} delivers what it does not serve")
        if not replica.may_deliver(key):
            raise Violation(f"owners: {replica.name} delivers without a lease")
        if not replica.consumes(key):
            raise Violation(f"owners: {replica.name} delivers while its consumer at the broker is lost")
        running = [each for each in self.world.live if not each.process.stopped and each.may_deliver(key)]
        if running != [replica]:
            raise Violation(f"owners: {[each.name for each in running]} may deliver at once")
        others = [each for each in cluster.consumers if not each.probes and self._process(each) is not replica.process]
        if others and not self.world.swarm.migrating:
            raise Violation(f"owners: {replica.name} delivers, and another consumes at the broker")
        if life is not self._life:
            self._begin(life)

    def _process(self, consumer: object) -> object:
        transport = consumer.session._transport  # type: ignore[attr-defined]
        return None if transport is None or transport.other is None else transport.other.process

    def _begin(self, life: Subscription) -> None:
        if any(each is life for each in self._past):
            raise Violation("owners: one delivers again after another has")
        self._past.append(life)
        self._life = life
        self.world.moves += len(self._past) > 1
        self.topic.standing.delivers(life)
        if self.lot is not None:
            self.lot.another_owner()
        if not self.world.swarm.orderly:
            self.new_life()
            for connection in self.connections.values():
                for seat in connection.seats.values():
                    for place in list(seat.held):
                        self._release(seat, place)

    # ---- at a worker of the broker's own, in a migration

    def _broker_delivers(self, connection: Connection, frame: bytes) -> None:
        """What the broker sends counts where all goes as planned; else an owner that was cut off may have it still."""
        message = frames.parse_command(frame).message
        seat, place = connection.seats[message.consumer_id], (message.message_id.ledgerId, message.message_id.entryId)
        entry = self._storage.by_place[place]
        left = message.ack_set[0] if message.ack_set else entry.whole
        numbers = [number if left >> bit & 1 else -1 for bit, number in enumerate(entry.numbers)]
        self.world.not_moved += sum(number >= 0 for number in numbers)
        if not self.world.swarm.orderly:
            self._with_broker.setdefault(seat, {})[place] = numbers
            self._storage.astray.update(entry.numbers)
            return
        for number in numbers:
            if number >= 0:
                self._check_delivery(seat, number, opaque=False)
                self.holder[number] = seat
                self.by_key.setdefault(self._storage.messages[number].key, set()).add(number)
        seat.held[place] = numbers

    def _acked(self, seat: Seat, place: tuple[int, int], ack_set: list[int]) -> list[int]:
        numbers = self._with_broker.get(seat, {}).get(place)
        if numbers is None:
            return super()._acked(seat, place, ack_set)
        left = bits_of(ack_set)
        done = [number for bit, number in enumerate(numbers) if number >= 0 and not left >> bit & 1]
        for number in done:
            numbers[numbers.index(number)] = -1
            OwnersModel.done(self, number)
            self.acked_in_life.discard(number)  # which the owner cannot know
        return done

    # ---- at the worker's side

    def _passed_on(self, seat: Seat, frame: bytes) -> None:
        numbers, opaque = numbers_in(frame[frames.payload_start(frame) :])
        if not seat.joined:
            raise Violation(f"{numbers} are passed on to {seat.name}, which has not joined")
        if seat.permits < (1 if opaque else len(numbers)):
            raise Violation(f"G5: {len(numbers)} messages are passed on to {seat.name}, which granted {seat.permits}")
        seat.received += len(numbers)
        self.world.passed_on += len(numbers)
        for number in numbers:
            entry = self._storage.messages[number].entry
            parked = self.lot is not None and self.lot.has(number)
            taken = parked or number in self._taken or self.seek_asked
            if not (opaque or taken or entry.unacked >> entry.numbers.index(number) & 1):
                raise Violation(f"G4: message {number} is passed on to {seat.name}, and was acknowledged long ago")


def _is_led(end: End, consumer_id: int) -> bool:
    """Whether another replica serves this consumer of a client that is connected here, or does not know of its end."""
    receiver = end.receiver
    if not isinstance(receiver, ClientSession) or receiver._parts is None:
        return False
    elsewhere = receiver._parts.elsewhere
    if not isinstance(elsewhere, ClientLegs):
        return False
    return consumer_id in elsewhere or any(leg.closes(consumer_id) for leg in elsewhere._legs.values())


@dataclass
class Leg:
    """A connection between replicas, at the one that accepted it: what is said before the client's bytes."""

    incoming: bytes = b""
    outgoing_bytes: int = 0
    begun: bool = False
    """Whether all that follows is the client's."""
    clients: bool = True
    """Else it is a question of an operator's, or of a replica that stops, or for signs of life."""
    splitter: frames.FrameSplitter = field(default_factory=lambda: frames.FrameSplitter(FRAME_BYTES_MAX))
    model: OwnersModel | None = None
    early: bytes = b""
    """What the client's side said before it was known which topic it is about."""


class Edges(Tap):
    """Watches all replicas' connections with workers and with each other."""

    def __init__(self, world: Deployment) -> None:
        self._world = world
        self._workers: dict[End, OwnersModel] = {}
        self._legs: dict[End, Leg] = {}

    def opened(self, end: End) -> None:
        """As the base says."""
        assert end.other is not None
        if isinstance(end.receiver, Knock):
            self._legs[end] = Leg()
            return
        topic = self._world.topic_of_worker(end.other.process)
        if topic is not None:
            self._workers[end] = topic.model
            topic.model.opened(end)

    def wrote(self, end: End, data: bytes) -> None:
        """As the base says."""
        model = self._workers.get(end)
        if model is not None:
            model.wrote(end, data)
            return
        leg = self._legs.get(end)
        if leg is None:
            return
        skipped = max(min(ANSWER_BYTES - leg.outgoing_bytes, len(data)), 0)
        leg.outgoing_bytes += len(data)
        if leg.model is not None and data[skipped:]:
            leg.model.wrote(end, data[skipped:])

    def arrives(self, end: End, data: bytes) -> None:
        """As the base says."""
        model = self._workers.get(end)
        if model is not None:
            model.arrives(end, data)
            return
        leg = self._legs.get(end)
        if leg is None:
            return
        if not leg.begun:
            data = _after_preamble(leg, data)
        if leg.model is not None:
            leg.model.arrives(end, data)
        elif data and leg.clients:
            self._find_topic(end, leg, data)

    def ended(self, end: End) -> None:
        """As the base says."""
        model = self._workers.pop(end, None)
        leg = self._legs.pop(end, None)
        if leg is not None:
            model = leg.model
        if model is not None:
            model.ended(end)

    def _find_topic(self, end: End, leg: Leg, data: bytes) -> None:
        """By the first SUBSCRIBE: a client has one topic here."""
        leg.early += data
        for frame in leg.splitter.feed(data):
            if frames.frame_type(frame) == T.SUBSCRIBE:
                topic = self._world.topics[frames.parse_command(frame).subscribe.topic]
                leg.model = topic.model
                leg.model.opened(end)
                leg.model.arrives(end, leg.early)
                return


def _after_preamble(leg: Leg, data: bytes) -> bytes:
    leg.incoming += data
    if len(leg.incoming) < TOLD_START + LENGTH_BYTES:
        return b""
    begin = TOLD_START + LENGTH_BYTES
    begin += int.from_bytes(leg.incoming[TOLD_START:begin], "big")
    if len(leg.incoming) < begin:
        return b""
    leg.begun = True
    leg.clients = b'"purpose":"client"' in leg.incoming[:begin]
    return leg.incoming[begin:]
