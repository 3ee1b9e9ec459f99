"""A broker with a memory, and checkers outside the code under test, for random walks through a subscription's life.

The broker carries requests out in the order they came, may lose its answers, closes consumers, drops connections and
forgets acknowledgements. The checkers watch what workers receive and hold the guarantees against it.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from proxy.errors import UpstreamError, UpstreamUnavailable
from proxy.net.subscription.acks import bits_of, words_of
from proxy.net.subscription.subscription import Subscription
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import Delivered, SubscriptionRig, Worker
from tests.net.subscription_rig_broker import FakeBrokerLink, T, batch, single

KEYS = [f"key-{number}" for number in range(12)]
ALL_REQUESTS = {
    T.SUBSCRIBE,
    T.ACK,
    T.SEEK,
    T.UNSUBSCRIBE,
    T.CLOSE_CONSUMER,
    T.GET_LAST_MESSAGE_ID,
    T.ADD_SUBSCRIPTION_TO_TXN,
}


@dataclass
class Entry:
    """One entry of the topic: the numbers of its messages, which rise over the whole topic."""

    tail: bytes
    numbers: list[int]
    unacked: int


@dataclass
class BrokerConsumer:
    """A consumer as the broker sees it."""

    link: FakeBrokerLink
    consumer_id: int
    exclusive: bool
    permits: int = 0
    next_entry: int = 0


class BrokerModel:
    """One topic with one subscription."""

    def __init__(self, rig: SubscriptionRig, dice: random.Random) -> None:
        self._rig = rig
        self._dice = dice
        self.entries: list[Entry] = []
        self.key_of: list[str] = []
        """Key of each message by its number."""
        self.consumers: list[BrokerConsumer] = []
        self.forgotten: set[int] = set()
        """Messages whose acknowledgement it forgot: they may come when it likes, though newer ones came before."""
        rig.link.held |= ALL_REQUESTS

    def publish(self) -> None:
        """One message, or a batch with some keys."""
        keys = self._dice.choices(KEYS, k=self._dice.choice((1, 1, 1, 2, 5)))
        first = len(self.key_of)
        numbers = list(range(first, first + len(keys)))
        self.key_of += keys
        bodies = [(key, str(number).encode()) for key, number in zip(keys, numbers, strict=True)]
        tail = single(*bodies[0]) if len(keys) == 1 else batch(bodies)
        self.entries.append(Entry(tail, numbers, (1 << len(keys)) - 1))

    def is_acked(self, number: int) -> bool:
        """Whether the broker will not send this message again."""
        entry = next(entry for entry in self.entries if number in entry.numbers)
        return not entry.unacked >> entry.numbers.index(number) & 1

    def dispatch(self, most: int) -> None:
        """Send what is not acknowledged, from where the consumer's reading stands, while it has permits."""
        self._count_flows()
        for consumer in self.consumers:
            for _ in range(most):
                if consumer.permits <= 0 or consumer.exclusive or consumer.next_entry >= len(self.entries):
                    break
                number = consumer.next_entry
                consumer.next_entry += 1
                entry = self.entries[number]
                if not entry.unacked:
                    continue
                consumer.permits -= entry.unacked.bit_count()
                if consumer.consumer_id in consumer.link.consumers:
                    whole = (1 << len(entry.numbers)) - 1
                    ack_set = () if entry.unacked == whole else words_of(entry.unacked)
                    consumer.link.deliver((number, entry.tail), ack_set=ack_set, to=consumer.consumer_id)

    def process(self, *, lose_answer: bool = False, refuse: bool = False) -> None:
        """Carry out the oldest request of the current connection, and answer it, unless the answer gets lost."""
        link = self._rig.link
        self._count_flows()
        if not link.waiting:
            return
        asked = link.waiting.pop(0)
        reply: pb.BaseCommand | Exception
        if refuse and asked.command.type != T.CLOSE_CONSUMER:  # a close is carried out always, in the end
            reply = UpstreamError("not now", pb.ServiceNotReady)
        else:
            reply = self._carry_out(link, asked.command) or link.right_answer(asked.command)
        if lose_answer:
            reply = UpstreamUnavailable("no answer came")
        asked.answered(reply)
        self._rig.clock.settle()

    def _carry_out(self, link: FakeBrokerLink, command: pb.BaseCommand) -> Exception | None:
        if command.type == T.SUBSCRIBE:
            body = command.subscribe
            exclusive = body.subType == pb.CommandSubscribe.Exclusive
            if self.consumers and (exclusive or any(consumer.exclusive for consumer in self.consumers)):
                return UpstreamError("Exclusive consumer is already connected", pb.ConsumerBusy)
            self.consumers.append(BrokerConsumer(link, body.consumer_id, exclusive))
        elif command.type == T.CLOSE_CONSUMER:
            self._remove(link, command.close_consumer.consumer_id)
        elif command.type == T.ACK:
            for place in command.ack.message_id:
                self.entries[place.entryId].unacked &= bits_of(place.ack_set)
        elif command.type == T.SEEK:
            for entry in self.entries:
                entry.unacked = (1 << len(entry.numbers)) - 1
            self.disconnect_all()
        elif command.type == T.UNSUBSCRIBE:
            self._remove(link, command.unsubscribe.consumer_id)
            for entry in self.entries:  # the next one begins with the earliest message
                entry.unacked = (1 << len(entry.numbers)) - 1
        return None

    def _remove(self, link: FakeBrokerLink, consumer_id: int) -> None:
        self.consumers = [item for item in self.consumers if (item.link, item.consumer_id) != (link, consumer_id)]

    def disconnect_all(self) -> None:
        """Close every consumer: a seek, an unload."""
        consumers, self.consumers = self.consumers, []
        for consumer in consumers:
            if consumer.consumer_id in consumer.link.consumers:
                consumer.link.close_consumer(consumer.consumer_id)

    def lose(self, *, forget: int = 0) -> None:
        """The connection breaks; a broker that was killed has forgotten its latest acknowledgements too."""
        old, new = self._rig.link, self._rig.brokers.new_link()
        new.held |= ALL_REQUESTS
        self.consumers = [consumer for consumer in self.consumers if consumer.link is not old]
        for entry in [entry for entry in self.entries if not entry.unacked][-forget:] if forget else ():
            entry.unacked = (1 << len(entry.numbers)) - 1
            self.forgotten.update(entry.numbers)
        old.lose()

    def _count_flows(self) -> None:
        for command in self._rig.link.taken(T.FLOW):
            for consumer in self.consumers:
                if (consumer.link, consumer.consumer_id) == (self._rig.link, command.flow.consumer_id):
                    consumer.permits += command.flow.messagePermits


@dataclass
class Client:
    """A worker with what it holds, and the bookkeeping of its requests."""

    worker: Worker
    granted: int = 0
    received: int = 0
    held: dict[int, Delivered] = field(default_factory=dict)
    """Message number to the delivery it came in."""
    asked: set[int] = field(default_factory=set)
    unsubscribes: set[int] = field(default_factory=set)
    """Requests whose success ends the consumer without another word."""
    joined: bool = False
    ended: bool = False


class Checker:
    """Holds G1, G2, G4 and G5 against everything a worker receives, and that no request is answered twice."""

    def __init__(self, rig: SubscriptionRig, broker: BrokerModel) -> None:
        self._rig = rig
        self._broker = broker
        self.clients: list[Client] = []
        self._life: Subscription | None = None
        self._acked: set[int] = set()
        """Messages acknowledged by workers of this life of the subscription."""
        self.may_repeat = False
        """The broker closed our consumer, or a request's outcome is unknown: it means what it sends."""

    def look(self) -> None:
        """Read what everybody was sent."""
        lives = list(self._rig.subscriptions._subscriptions.values())
        life = lives[0] if lives else None
        if life is not self._life:
            self._life, self.may_repeat = life, False
            self._acked.clear()
        for client in self.clients:
            for command in client.worker.commands():
                self._answer(client, command)
        for client in self.clients:
            for delivered in client.worker.messages():
                self._delivery(client, delivered)

    def acked(self, client: Client, numbers: list[int]) -> None:
        """The client acknowledged these messages that it held."""
        for number in numbers:
            del client.held[number]
            self._acked.add(number)

    def _answer(self, client: Client, command: pb.BaseCommand) -> None:
        if command.type == T.CLOSE_CONSUMER:
            assert client.joined, "a consumer that never was is closed"
            self._end(client)
            return
        body = getattr(command, T.DESCRIPTOR.fields_by_number[command.type].name)
        assert body.request_id in client.asked, f"nobody waits for {command}"
        client.asked.remove(body.request_id)
        if command.type == T.SUCCESS and body.request_id in client.unsubscribes:
            self._end(client)
        if body.request_id == client.worker.request_id:
            client.joined = command.type == T.SUCCESS
            if not client.joined:
                self._end(client)

    def _end(self, client: Client) -> None:
        client.ended = True
        client.held.clear()

    def _delivery(self, client: Client, delivered: Delivered) -> None:
        if client.ended:
            return  # on its way when the consumer was closed
        for key, body in delivered.messages:
            number = int(body)
            assert self._broker.key_of[number] == key
            assert client.joined, "a message before Success"
            assert number not in self._acked or self.may_repeat, f"message {number} was acknowledged already"
            for other in self.clients:
                assert number not in other.held, f"message {number} is at a worker already"
                if other is not client:
                    rivals = [held for held in other.held if self._broker.key_of[held] == key]
                    assert not rivals, f"{key} is at two workers: {number} and {rivals}"
            client.held[number] = delivered
            client.received += 1
            overtaken = [
                earlier
                for earlier in range(number)
                if self._broker.key_of[earlier] == key
                and earlier not in self._acked
                and earlier not in client.held
                and earlier not in self._broker.forgotten
                and not self._broker.is_acked(earlier)
            ]
            assert not overtaken, f"message {number} of {key} overtakes {overtaken}"
        assert client.received <= client.granted, "more than was granted"
