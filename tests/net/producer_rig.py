"""Client sessions that share their elections, and short words for what producers of theirs ask and are told."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.net.election.broker_queue import AWAKE_S_MIN
from proxy.net.election.elections import ElectionSettings, ProducerElections
from proxy.net.election.rivals import ProducerRivals
from proxy.net.events import Events
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock
from tests.net.session_rig import SessionRig, T, encode, success

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.limits import Limits
    from proxy.net.election.statistics import ElectionPage

TOPIC = "persistent://public/default/primary"
EXCLUSIVE, WAIT, FENCE = pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing


def want(
    request_id: int,
    priority: object = None,
    *,
    producer_id: int = 1,
    mode: int = WAIT,
    topic: str = TOPIC,
    name: str = "",
    chosen: bool = True,
    epoch: int | None = None,
    field: int | None = None,
) -> bytes:
    """Build PRODUCER; `priority` goes into the property, `field` into the command's own field.

    `chosen` says that the name is the client's, and was not the broker's before.
    """
    body = pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=request_id)
    body.producer_access_mode = mode  # type: ignore[assignment]  # a plain number will do
    if name:
        body.producer_name, body.user_provided_producer_name = name, chosen
    if epoch is not None:
        body.topic_epoch = epoch
    if priority is not None:
        body.metadata.add(key="keyline.queue-priority", value=str(priority))
    if field is not None:
        body.queue_priority = field
    return encode(T.PRODUCER, body)


def ready(request_id: int, *, name: str = "p", epoch: int | None = 0) -> bytes:
    """Build PRODUCER_SUCCESS of one that owns the topic."""
    body = pb.CommandProducerSuccess(request_id=request_id, producer_name=name, producer_ready=True)
    if epoch is not None:
        body.topic_epoch = epoch
    return encode(T.PRODUCER_SUCCESS, body)


def not_ready(request_id: int, *, name: str = "p") -> bytes:
    """Build PRODUCER_SUCCESS of one that waits."""
    body = pb.CommandProducerSuccess(request_id=request_id, producer_name=name, producer_ready=False)
    return encode(T.PRODUCER_SUCCESS, body)


def error(request_id: int, code: int = pb.ProducerBusy, message: str = "no") -> bytes:
    """Build ERROR."""
    return encode(T.ERROR, pb.CommandError(request_id=request_id, error=code, message=message))  # type: ignore[arg-type]


def close(request_id: int, producer_id: int = 1) -> bytes:
    """Build CLOSE_PRODUCER."""
    return encode(T.CLOSE_PRODUCER, pb.CommandCloseProducer(producer_id=producer_id, request_id=request_id))


class Exchange:
    """The topic that replicas share; each message waits until it is delivered, to each replica for itself."""

    def __init__(self) -> None:
        """Nobody is there."""
        self.under_way: dict[str, list[bytes]] = {}
        """By the replica that is to hear it."""
        self._hear: dict[str, Callable[[bytes], None]] = {}
        self._said: dict[str, list[bytes]] = {}

    def mail(self, replica: str) -> ExchangeMail:
        """Where a replica hears and speaks."""
        return ExchangeMail(self, replica)

    def join(self, replica: str, hear: Callable[[bytes], None]) -> None:
        """One more hears."""
        self._hear[replica] = hear
        self.under_way[replica] = []

    def leave(self, replica: str) -> None:
        """It hears nothing more."""
        self._hear.pop(replica, None)
        self.under_way.pop(replica, None)

    def say(self, data: bytes, replica: str = "") -> None:
        """Everybody hears at once what the test says; what a replica says, later."""
        self._said.setdefault(replica, []).append(data)
        for name, hear in list(self._hear.items()):
            if replica:
                self.under_way[name].append(data)
            else:
                hear(data)

    def take(self, replica: str) -> list[bytes]:
        """What a replica has said since the last look."""
        return self._said.pop(replica, [])

    def deliver(self, replica: str, place: int = 0) -> None:
        """One message comes, by default the one said first."""
        self._hear[replica](self.under_way[replica].pop(place))


class ExchangeMail:
    """Implements `producer_rivals.SharedMail`."""

    ready = True

    def __init__(self, exchange: Exchange, replica: str) -> None:
        """As `Exchange.mail` gives it."""
        self._exchange = exchange
        self._replica = replica

    def open(self, hear: Callable[[bytes], None]) -> None:
        """As the port says."""
        self._exchange.join(self._replica, hear)

    def send(self, data: bytes) -> None:
        """As the port says."""
        self._exchange.say(data, self._replica)

    def close(self) -> None:
        """As the port says."""
        self._exchange.leave(self._replica)


class ProducerRig:
    """Some clients, each with a broker connection of its own, and what they have in common."""

    def __init__(
        self,
        clients: int,
        *,
        exchange: Exchange | None = None,
        replica: str = "r1",
        clock: FakeClock | None = None,
        **settings: Any,
    ) -> None:
        """All are connected; the gateway has been up for long. With an exchange it is one of several replicas."""
        self.clock = clock or FakeClock()
        self.events = Events(self.clock.now)
        rivals = None if exchange is None else ProducerRivals(replica, exchange.mail(replica), self.clock)
        self.elections = ProducerElections(self.clock, self.events, ElectionSettings(**settings), rivals)
        self.elections.start()
        self.clock.advance(ElectionSettings(**settings).producer_return_grace_s)
        self.listener = self.events.listen(lambda: None)
        self.clients = [self.client() for _ in range(clients)]

    def client(self, limits: Limits | None = None) -> SessionRig:
        """One more."""
        return SessionRig(limits, clock=self.clock, elections=self.elections).connect()

    def owner(self, client: SessionRig, request_id: int = 10, *, name: str = "owner", epoch: int = 0) -> None:
        """Let this client own the topic."""
        client.client.deliver(want(request_id, name=name))
        client.broker.deliver(ready(request_id, name=name, epoch=epoch))
        client.take_all()

    def page(self) -> ElectionPage:
        """What is known of the topic."""
        page = self.elections.waiting(TOPIC, 0, 100)
        assert page is not None
        return page

    def show_awake(self, client: SessionRig) -> None:
        """The broker answers what the gateway asks on this client's connection before its producer fences."""
        ((kind, number),) = asked(client)
        assert kind == "CLOSE_PRODUCER"
        client.broker.deliver(success(number))
        assert asked(client) == []
        self.clock.advance(AWAKE_S_MIN)

    def kinds(self) -> list[str]:
        """Events since the last look."""
        return [event.kind for event in self.listener.take()[1]]


def answers(client: SessionRig) -> list[tuple[int, str]]:
    """Request id and what the client was told since the last look: ready, queued, an error's name, closed."""
    told: list[tuple[int, str]] = []
    for command in client.to_client():
        if command.type == T.PRODUCER_SUCCESS:
            success = command.producer_success
            told.append((success.request_id, "ready" if success.producer_ready else "queued"))
        elif command.type == T.ERROR:
            told.append((command.error.request_id, pb.ServerError.Name(command.error.error)))
        elif command.type == T.SUCCESS:
            told.append((command.success.request_id, "success"))
        elif command.type == T.CLOSE_PRODUCER:
            told.append((command.close_producer.producer_id, "closed"))
        else:
            told.append((-1, T.Type.Name(command.type)))
    return told


def asked(client: SessionRig) -> list[tuple[str, int]]:
    """What the broker was asked on this client's connection since the last look, each with its request id."""
    found = []
    for command in client.to_broker():
        name = T.Type.Name(command.type)
        body = command.producer if command.type == T.PRODUCER else command.close_producer
        found.append((name, body.request_id))
    return found


def taken_off(client: SessionRig) -> list[int]:
    """The broker closes what the gateway closes of a client that has gone; the ids of those producers."""
    bodies = [command.close_producer for command in client.to_broker() if command.type == T.CLOSE_PRODUCER]
    for body in bodies:
        client.broker.deliver(success(body.request_id))
    return [body.producer_id for body in bodies]
