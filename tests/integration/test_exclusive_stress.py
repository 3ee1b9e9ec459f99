"""Many that want one topic at once come, close, break and fence, and all that they are told is judged.

Judged is only what clients know: when they asked, what they were told and when they read it. The gateway and the broker
run at their own pace, so the order in which answers are read says nothing by itself; that a request was made after an
answer was read does.

Two that fence at once may be given one epoch by a broker, and one that comes while the owner closes may stop a broker
for good: its threads wait for each other in `AbstractTopic.incrementTopicEpochIfNeeded` and `Producer.close` (4.0.7 and
4.2.4). A broker may also confirm the close of a producer that it is creating, and create it all the same: it then owns
the topic for as long as its connection stands (4.2.4). The gateway keeps apart what comes through it, so those clients
may do what they like. Where somebody is connected to the broker directly a fencer asks only while a known owner has the
topic and nobody leaves it, and all others wait for its answer; and the direct one closes only what was answered.
A broker may also tell a producer that it is fenced before it says that it waits (4.2.4): one that fences comes between
the two in `ServerCnx.buildProducerAndAddTopic`. The gateway tells its clients nothing after their last answer.
"""

from __future__ import annotations

import itertools
import random
import select
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from proxy.wire import pulsar_pb2 as pb
from tests.integration.conftest import StartGateway
from tests.integration.exclusive_rig import FENCE, QUEUED, READY, SUCCESS, WAIT, Told, TopicClient, told, views_of
from tests.integration.faults.line import bug_reports
from tests.integration.raw_client import T, frame

pytestmark = [pytest.mark.slow, pytest.mark.broker]

CLIENTS = 8
ROUNDS = 250
PRODUCERS_MAX = 4
"""Of one connection at a time."""
DRAIN_S = 120.0
LISTEN_S = 0.002
DRAIN_LISTEN_S = 0.05
OWNERS_TOLD = 3
ASKED_TOLD = 10
FENCED = "ProducerFenced"
CAREFUL = {"want": 50, "close": 38, "drop": 5, "fence": 3, "listen": 4}
FREE = {"want": 50, "close": 38, "drop": 4, "fence": 4, "listen": 4}


@dataclass(eq=False)
class Request:
    """One PRODUCER, and all that became of it."""

    direct: bool
    """Asked for at the broker, not through the gateway."""
    mode: int
    producer_id: int
    asked_at: int
    """All times are counts of what the test did and read: later is greater."""
    answers: list[Told] = field(default_factory=list)
    ready_at: int | None = None
    released_at: int | None = None
    """Closed, or its connection dropped, by us."""
    dropped: bool = False

    @property
    def epoch(self) -> int:
        """With which it owns the topic, or did."""
        (epoch,) = [answer.epoch for answer in self.answers if answer.word == READY]
        assert epoch is not None
        return epoch

    @property
    def last_words(self) -> list[str]:
        """Answers but the one that lets it wait."""
        return [answer.word for answer in self.answers if answer.word != QUEUED]


class Client:
    """One connection at a time, and what is open on it."""

    def __init__(self, url: str, topic: str, *, direct: bool) -> None:
        self.url = url
        self.direct = direct
        """Connected to the broker."""
        self.raw = TopicClient(url, topic)
        self.open: dict[int, Request] = {}
        """By request id: asked for, or ready."""
        self.by_request: dict[int, Request] = {}
        self.closes: dict[int, int] = {}
        """How often each CLOSE_PRODUCER was answered, by request id."""

    def closable(self) -> list[int]:
        """What it may close: through the gateway all, at a broker only what was answered."""
        return [request_id for request_id, each in self.open.items() if each.answers or not self.direct]


class Crowd:
    """Everybody, and the record of it all."""

    def __init__(
        self, gateway: KeylineGateway, broker: PulsarStandalone, direct_clients: int, topic: str, seed: int
    ) -> None:
        self.topic = topic
        self._gateway = gateway
        self._broker = broker
        self.careful = direct_clients > 0
        """Whether a fencer is to meet nobody."""
        self.random = random.Random(seed)  # noqa: S311 - to be repeated, not to be secret
        self.clients = [Client(gateway.service_url, topic, direct=False) for _ in range(CLIENTS)]
        self.clients += [Client(broker.service_url, topic, direct=True) for _ in range(direct_clients)]
        self.requests: list[Request] = []
        self.now = 0
        self._ids = 10_000

    # ---- what they do

    def act(self) -> None:
        """One of them does something."""
        client = self.random.choice(self.clients)
        chances = CAREFUL if self.careful else FREE
        (deed,) = self.random.choices(list(chances), list(chances.values()))
        self.now += 1
        if deed == "want" and len(client.open) < PRODUCERS_MAX:
            self.want(client, WAIT)
        elif deed == "fence":
            self.fence(client)
        elif deed == "close" and (closable := client.closable()):
            self.close(client, self.random.choice(closable))
        elif deed == "drop":
            self.drop(client)
        self.listen()

    def fence(self, client: Client) -> None:
        """Take the topic from its owner; who is careful does so only if somebody has it or comes to have it."""
        if not self.careful:
            self.want(client, FENCE)
            return
        if not self.settle():
            return
        fencer = self.want(client, FENCE)
        deadline = time.monotonic() + DRAIN_S
        while not fencer.last_words:
            assert time.monotonic() < deadline, self.found("a fencer is not answered")
            self.listen()

    def settle(self) -> bool:
        """Wait until the last owner is known, and has not begun to leave; whether there is one."""
        deadline = time.monotonic() + DRAIN_S
        while not self.settled:
            assert time.monotonic() < deadline, self.found("nobody owns the topic")
            if not any(client.open for client in self.clients):
                return False
            self.close_owners(but=self.last_owner)
            self.listen()
        return True

    @property
    def last_owner(self) -> Request | None:
        """Who was given the greatest epoch."""
        owners = [request for request in self.requests if request.ready_at is not None]
        return max(owners, key=lambda owner: owner.epoch, default=None)

    @property
    def settled(self) -> bool:
        """Whether the last owner is there, and every close was answered."""
        owner = self.last_owner
        unanswered = any(0 in client.closes.values() for client in self.clients)
        return owner is not None and owner.released_at is None and not unanswered

    def close_owners(self, but: Request | None = None) -> None:
        """Let all leave that were told to own the topic; most of them have been fenced."""
        for client in self.clients:
            owned = [each for each, request in client.open.items() if request.ready_at is not None]
            for request_id in owned:
                if client.open[request_id] is not but:
                    self.close(client, request_id)

    def want(self, client: Client, mode: int) -> Request:
        """Ask for the topic; the answer is read when it is there."""
        self._ids += 1
        request = Request(client.direct, mode, self._ids, self.now)
        priority = self.random.randint(-3, 3)
        request_id = client.raw.want(priority, mode=mode, producer_id=request.producer_id)
        client.open[request_id] = client.by_request[request_id] = request
        self.requests.append(request)
        return request

    def close(self, client: Client, request_id: int) -> None:
        """Close a producer, ready or not."""
        request = client.open.pop(request_id)
        request.released_at = self.now
        self._ids += 1
        client.closes[self._ids] = 0
        body = pb.CommandCloseProducer(producer_id=request.producer_id, request_id=self._ids)
        client.raw.send(frame(T.CLOSE_PRODUCER, body))

    def drop(self, client: Client) -> None:
        """Break the connection, and begin with a new one."""
        client.raw.close()
        for request in client.open.values():
            request.released_at, request.dropped = self.now, True
        for request in client.by_request.values():
            request.dropped = True
        self.clients[self.clients.index(client)] = Client(client.url, self.topic, direct=client.direct)

    def leave(self) -> None:
        """Break all connections."""
        for client in self.clients:
            client.raw.close()

    # ---- what they are told

    def listen(self, wait_s: float = LISTEN_S) -> bool:
        """Read what is there; whether there was anything."""
        sockets = {client.raw.socket: client for client in self.clients}
        readable, _, _ = select.select(list(sockets), [], [], wait_s)
        for each in readable:
            client = sockets[each]
            for command in client.raw.received():
                self.now += 1
                self.note(client, told(command))
        return bool(readable)

    def note(self, client: Client, answer: Told) -> None:
        """Write an answer down."""
        if answer.word == SUCCESS:
            client.closes[answer.request_id] += 1
            return
        request = client.by_request[answer.request_id]
        request.answers.append(answer)
        if answer.word == READY:
            request.ready_at = self.now
        elif answer.word != QUEUED:
            client.open.pop(answer.request_id, None)

    def drain(self) -> None:
        """Whoever owns the topic leaves, until nobody has anything open."""
        deadline = time.monotonic() + DRAIN_S
        while self.still_open() or any(0 in client.closes.values() for client in self.clients):
            assert time.monotonic() < deadline, self.found("still waiting")
            self.close_owners()
            self.listen(DRAIN_LISTEN_S)

    def still_open(self) -> list[Request]:
        """What has no last answer, or owns the topic."""
        return [request for client in self.clients for request in client.open.values()]

    def found(self, what: str) -> str:
        """What is wrong, with the latest that clients, broker and gateway know of it."""
        unanswered = [number for client in self.clients for number, count in client.closes.items() if not count]
        owners = sorted((each for each in self.requests if each.ready_at is not None), key=lambda each: each.epoch)
        lines = [
            f"{what}; it is {self.now}",
            *(f"open: {request}" for request in self.still_open()),
            f"closes without an answer, by request: {unanswered}",
            *(f"an owner of before: {request}" for request in owners[-OWNERS_TOLD:]),
            *(f"asked last: {request}" for request in self.requests[-ASKED_TOLD:]),
        ]
        return "\n".join([*lines, views_of(self.topic, self._broker, self._gateway)])

    # ---- what must be true of it

    def check(self) -> None:
        """Judge."""
        for request in self.requests:
            assert len(request.last_words) <= 1, request
            assert request.released_at is not None or len(request.last_words) == 1, request
            words = [answer.word for answer in request.answers]
            in_order = words[:-1] == [QUEUED] * (len(words) - 1)
            # The broker itself may say that one waits after it has said what came of it.
            assert in_order or (request.direct and words[1:] == [QUEUED]), request
        assert all(count == 1 for client in self.clients for count in client.closes.values())
        owners = [request for request in self.requests if request.ready_at is not None]
        owners.sort(key=lambda owner: owner.epoch)
        for older, newer in itertools.combinations(owners, 2):
            assert older.ready_at is not None
            assert newer.ready_at is not None
            assert newer.epoch > older.epoch, f"one epoch was given twice: {older} {newer}"
            assert older.asked_at < newer.ready_at, f"the epoch went back: {older} {newer}"
            left = older.released_at is not None and older.released_at < newer.ready_at
            assert left or self.fenced(older, newer), f"two owners: {older} {newer}"

    def fenced(self, older: Request, newer: Request) -> bool:
        """Whether somebody took the topic from the older one no later than the newer one owned it.

        Perhaps one that was gone before it heard of it: its epoch is then nobody's.
        """
        assert newer.ready_at is not None
        fencers = [each for each in self.requests if each.mode == FENCE]
        if any(older.epoch < each.epoch <= newer.epoch for each in fencers if each.ready_at is not None):
            return True
        untold = any(each.dropped and not each.last_words and each.asked_at < newer.ready_at for each in fencers)
        known = {each.epoch for each in self.requests if each.ready_at is not None}
        return untold and not known.issuperset(range(older.epoch, newer.epoch))


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("direct_clients", [0, 1])
def test_one_owner_at_a_time_and_one_answer_each(
    seed: int,
    direct_clients: int,
    broker: PulsarStandalone,
    start_gateway: StartGateway,
    new_topic: Callable[[str], str],
) -> None:
    """Epochs strictly increase, every request gets one last answer, and nobody waits for nobody."""
    gateway = start_gateway(broker)
    crowd = Crowd(gateway, broker, direct_clients, new_topic("stress"), seed)
    with ExitStack() as clients:
        clients.callback(crowd.leave)
        for _ in range(ROUNDS * len(crowd.clients)):
            crowd.act()
        crowd.drain()
    crowd.check()
    owners = [request for request in crowd.requests if request.ready_at is not None]
    assert len(owners) > ROUNDS / 4, "too little happened"
    assert not bug_reports(gateway.log), views_of(crowd.topic, broker, gateway)
