"""The broker of a deployment: several topics with workers, each consumed by one owner, and the gateways' own topics.

What it adds to the broker of one gateway is what owners and streams rely on. Beside a consumer of a hash range, the
whole one or a stream's, it lets in no other that has some of it, nor beside the consumer of an exclusive subscription;
but first it looks whether that one's connection lives: if nothing comes from it for 5 s it is closed, and the newcomer
has its place (`connectionLivenessCheckTimeoutMillis`).
A producer that was fenced is not told; what it sends ends its connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from tests.sim.broker import Broker, BrokerSession, receipt
from tests.sim.cluster import Cluster, Consumer
from tests.sim.own_topics import OwnTopic, Reader
from tests.sim.slots import SLOTS
from tests.sim.worker import SUBSCRIPTION

if TYPE_CHECKING:
    from tests.sim.machine import Process
    from tests.sim.transactions import Coordinator

T = pb.BaseCommand
LIVENESS_S = 5.0
"""Pulsar's default."""

Occupant: TypeAlias = "Consumer | Reader"


class DeploymentSession(BrokerSession):
    """One connection at the broker."""

    broker: DeploymentBroker

    def __init__(self, broker: DeploymentBroker) -> None:
        super().__init__(broker)
        self._consumers: dict[int, Occupant] = {}
        self._looking: dict[int, Callable[[], None]] = {}
        """Who waits for a sign of life of this connection, by number: what to do when there is none."""
        self._looks = 0
        self._alive: dict[int, Callable[[], None]] = {}
        """And what to do when there is one."""
        self._over = False
        self._coming: dict[int, int] = {}
        """Consumers that wait for another's sign of life: the request of each."""

    # ---- ports.Receiver

    def received(self, data: bytes) -> None:
        """As the port says."""
        alive, self._alive = self._alive, {}
        self._looking.clear()
        for found in alive.values():
            found()
        self._heard = True
        for frame in self._feed(data):
            if frames.frame_type(frame) == T.SEND:
                self._sent(frame)
            else:
                self._take(frames.parse_command(frame))

    def closed(self, reason: str) -> None:
        """As the port says. Acknowledgements that have arrived count, though their answers arrive nowhere."""
        for command in self._requests:
            if command.type == T.ACK:
                self._ack(command.ack)
        super().closed(reason)
        self._gone()

    # ---- whether it lives

    def look(self, alive: Callable[[], None], dead: Callable[[], None]) -> None:
        """Call one of these: a sign of life comes within `LIVENESS_S`, or the connection is given up."""
        if self._over:
            dead()
            return
        self._looks += 1
        number = self._looks
        self._alive[number], self._looking[number] = alive, dead
        self.send(commands.ping())
        self.broker.process.call_later(LIVENESS_S, lambda: self._look_over(number))

    def _look_over(self, number: int) -> None:
        if number in self._looking:
            assert self._transport is not None
            self._transport.abort()
            self._gone()

    def _gone(self) -> None:
        """Nothing of it is left."""
        if self._over:
            return
        self._over = True
        self._requests.clear()
        for occupant in list(self._consumers.values()):
            self._leave(occupant)
        for topic in self.broker.own_topics.values():
            topic.drop(self)
        looking, self._looking, self._alive = self._looking, {}, {}
        for dead in looking.values():
            dead()

    # ---- what it asks

    def _sent(self, frame: bytes) -> None:
        body = frames.parse_command(frame).send
        topic = self._produced.get(body.producer_id)
        if topic is None or not topic.may_send(self, body.producer_id):
            assert self._transport is not None
            self._transport.abort()
            return
        self.send(receipt(topic, body, frame[frames.payload_start(frame) :]))

    def _subscribe(self, body: Any) -> bytes:
        if body.read_compacted and body.subType == pb.CommandSubscribe.Shared:
            return commands.error(body.request_id, pb.NotAllowedError, "readCompacted contradicts this type")
        if self._over or body.consumer_id in self._consumers:
            return commands.success(body.request_id)
        occupant = self._occupant(body)
        if occupant is None:
            return self._let_in(body)

        def refuse() -> None:
            self._coming.pop(body.consumer_id, None)
            code = pb.ConsumerAssignError if body.subType == pb.CommandSubscribe.Key_Shared else pb.ConsumerBusy
            self.send(commands.error(body.request_id, code, "another consumer is there"))

        def try_again() -> None:
            if self._coming.pop(body.consumer_id, None) == body.request_id:  # else it was closed meanwhile
                self.send(self._subscribe(body))

        self._coming[body.consumer_id] = body.request_id
        occupant.session.look(refuse, try_again)  # type: ignore[attr-defined]
        return b""

    def _occupant(self, body: Any) -> Occupant | None:
        """Who has the place that a SUBSCRIBE asks for."""
        cluster = self.broker.cluster_of(body)
        if cluster is not None:
            shares, (first, last) = _shares(body), _slots(body)
            among = (each for each in cluster.consumers if each.slots[0] <= last and first <= each.slots[1])
            return next((each for each in among if not (shares and each.shares)), None)
        return self.broker.topic_of(body).readers.get(body.subscription)

    def _let_in(self, body: Any) -> bytes:
        cluster = self.broker.cluster_of(body)
        if cluster is None:
            self._consumers[body.consumer_id] = self.broker.topic_of(body).subscribe(self, body)
        else:
            consumer = Consumer(cluster, self, body.consumer_id)
            consumer.probes = body.consumer_name.endswith("-probe")
            consumer.shares = _shares(body)
            consumer.slots = _slots(body)
            cluster.let_in(consumer)
            self._consumers[body.consumer_id] = consumer
        return commands.success(body.request_id)

    def _ack(self, body: Any) -> bytes:
        reader = self._consumers.get(body.consumer_id)
        if isinstance(reader, Reader):
            return reader.topic.acknowledge(reader, body)
        return super()._ack(body)

    def _close_consumer(self, body: Any) -> bytes:
        self._coming.pop(body.consumer_id, None)
        occupant = self._consumers.get(body.consumer_id)
        if occupant is not None:
            self._leave(occupant)
        return commands.success(body.request_id)

    def _seek(self, body: Any) -> bytes:
        occupant = self._consumers.get(body.consumer_id)
        if not isinstance(occupant, Consumer):
            return commands.error(body.request_id, pb.MetadataError, "Consumer not found")
        cluster = occupant.cluster
        cluster.seek(body.message_id.ledgerId, body.message_id.entryId)
        self.broker.close_consumers(cluster)
        return commands.success(body.request_id)

    def _unsubscribe(self, body: Any) -> bytes:
        """As the base says; also of a reader."""
        occupant = self._consumers.get(body.consumer_id)
        if isinstance(occupant, Reader):
            self._leave(occupant)
            occupant.topic.unsubscribe(occupant)
            return commands.success(body.request_id)
        return super()._unsubscribe(body)

    def _last_message_id(self, body: Any) -> bytes:
        occupant = self._consumers.get(body.consumer_id)
        if occupant is None:
            return commands.error(body.request_id, pb.MetadataError, "Consumer not found")
        if isinstance(occupant, Reader):
            return occupant.topic.last(body.request_id)
        return self._last_of(occupant.cluster.storage, body.request_id)

    _HANDLERS: ClassVar[dict[int, Callable[[Any, Any], bytes]]] = {
        **BrokerSession._HANDLERS,
        T.SUBSCRIBE: _subscribe,
        T.ACK: _ack,
        T.CLOSE_CONSUMER: _close_consumer,
        T.GET_LAST_MESSAGE_ID: _last_message_id,
        T.SEEK: _seek,
        T.UNSUBSCRIBE: _unsubscribe,
    }

    # ---- within

    def _coordinator(self, body: Any) -> Coordinator:
        coordinators = (cluster.coordinator for cluster in self.broker.clusters.values())
        return next(each for each in coordinators if each is not None and each.number == body.txnid_most_bits)

    def _asked_where(self, consumer_id: int, *, told: bool) -> None:
        consumer = self._consumers.get(consumer_id)
        if isinstance(consumer, Consumer):
            consumer.cluster.asked_where(told=told)

    def _consumer(self, consumer_id: int) -> Any:
        return self._consumers.get(consumer_id)

    def _remove(self, gone: Callable[[Consumer], bool]) -> None:
        """Those that a connection had: see `_gone`."""
        _ = gone

    def close_consumer(self, occupant: Occupant) -> None:
        """The broker wants it no more."""
        self._leave(occupant)
        self.send(commands.close_consumer(occupant.consumer_id, 0))

    def _leave(self, occupant: Occupant) -> None:
        self._consumers.pop(occupant.consumer_id, None)
        if isinstance(occupant, Reader):
            occupant.topic.leave(occupant)
            return
        occupant.returned()
        if occupant in occupant.cluster.consumers:
            occupant.cluster.consumers.remove(occupant)
        self.broker.dispatch_soon()


class DeploymentBroker(Broker):
    """One broker with everything."""

    def __init__(
        self, process: Process, address: str, clusters: dict[str, Cluster], own_topics: dict[str, OwnTopic]
    ) -> None:
        """`clusters` are the topics that workers consume, by name; `own_topics` what the gateways have."""
        super().__init__(process, address, next(iter(clusters.values())))
        self.clusters = clusters
        self.own_topics = own_topics
        for topic in own_topics.values():
            topic.begin()

    def own_topic(self, name: str) -> OwnTopic:
        """One of the gateways' own, made when it is asked for."""
        return self.own_topics.setdefault(name, OwnTopic(name))

    def cluster_of(self, body: Any) -> Cluster | None:
        """What a SUBSCRIBE is for, if that is the subscription of workers."""
        return self.clusters.get(body.topic) if body.subscription == SUBSCRIPTION else None

    def topic_of(self, body: Any) -> OwnTopic:
        """And if not: a topic of the gateways', or the sentinel's subscription of one that workers consume."""
        return self.own_topic(sentinel_of(body.topic) if body.topic in self.clusters else body.topic)

    def unload(self, name: str) -> None:
        """Close a topic; it is loaded again when somebody asks for it."""
        cluster = self.clusters.get(name)
        if cluster is None:
            self.own_topics[name].unload()
            return
        cluster.storage.store_cursor()
        self.close_consumers(cluster)
        self.own_topic(sentinel_of(name)).unload()
        cluster.load()

    def close_consumers(self, cluster: Cluster) -> None:
        """As the base says."""
        cluster.on_close()
        for consumer in list(cluster.consumers):
            consumer.session.close_consumer(consumer)  # type: ignore[arg-type]  # a deployment's session

    def accept(self, peer: str) -> DeploymentSession:
        """As the base says."""
        _ = peer
        return DeploymentSession(self)

    def _dispatch(self) -> None:
        self._due = False
        for cluster in self.clusters.values():
            if cluster.consumers:
                cluster.dispatch()
        for topic in self.own_topics.values():
            if topic.stores:
                topic.dispatch()


def sentinel_of(topic: str) -> str:
    """The part of a topic that sentinels consume; it has no message for them."""
    return f"sentinels of {topic}"


def _shares(body: Any) -> bool:
    """Whether a consumer has slots that the broker gives it, not the whole range that it names itself."""
    return bool(body.keySharedMeta.keySharedMode != pb.STICKY)


def _slots(body: Any) -> tuple[int, int]:
    """Those that a consumer names, in one range; all if it names none."""
    named = body.keySharedMeta.hashRanges
    return (named[0].start, named[0].end) if named else (0, SLOTS - 1)
