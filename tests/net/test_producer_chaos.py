"""Producers that come, close, break, fence and fail in any order, the broker's and the network's pace drawn as well.

The clients are sessions of one gateway; the broker is a model of what brokers do, its defects included. Judged is what
clients were told and what the topic went through.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.limits import Limits
from proxy.net.election.back_off import EXPECTED_S_MAX
from proxy.net.election.elections import ElectionSettings
from proxy.net.relay.closing import BROKEN_S
from proxy.wire import pulsar_pb2 as pb
from tests.lives import lives
from tests.net.model_topic import Connection, ModelTopic
from tests.net.producer_rig import TOPIC, Exchange, ProducerRig, close, want
from tests.net.session_rig import T, parse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from proxy.net.election.statistics import ElectionSummary
    from tests.net.session_rig import SessionRig

CLIENTS = 4
TAKERS = (pb.Exclusive, pb.ExclusiveWithFencing)
GRACE_S = ElectionSettings().producer_return_grace_s
ROUNDS_MAX = 400
"""Of waiting for holds to end: everybody may be tried several times."""
LIMITS = Limits(keep_alive_s=1e6)
"""Who says nothing is not given up: that is not what this is about."""
SETTLED_S = 2 * EXPECTED_S_MAX
"""After so long nothing is held any more."""


class Client:
    """A client as its application sees it."""

    def __init__(self, rig: SessionRig) -> None:
        self.rig = rig
        self.broker = Connection()
        self.to_broker: deque[pb.BaseCommand] = deque()
        self.waiting: dict[int, int] = {}
        """Request id of each producer that has no last answer, by producer id."""
        self.owned: dict[int, tuple[str, int]] = {}
        """Name and epoch of each that was told it is ready."""
        self.last_words: dict[int, int] = defaultdict(int)
        """How often each request was answered for good."""
        self.shared: set[int] = set()
        """Producers that want the topic for nobody alone."""
        self.alive = True

    def write(self) -> list[pb.BaseCommand]:
        """What the gateway wrote to the broker is on its way."""
        written = parse(self.rig.broker.take())
        self.to_broker += written
        return written

    def read(self) -> None:
        """Take note of what the gateway says."""
        for command in self.rig.to_client():
            if command.type == T.PRODUCER_SUCCESS and command.producer_success.producer_ready:
                self._ready(command.producer_success)
            elif command.type == T.ERROR:
                self._answered(command.error.request_id)
            elif command.type == T.CLOSE_PRODUCER:
                self.owned.pop(command.close_producer.producer_id, None)

    def _ready(self, success: pb.CommandProducerSuccess) -> None:
        producer_id = self._answered(success.request_id)
        if producer_id is not None and success.HasField("topic_epoch"):
            self.owned[producer_id] = success.producer_name, success.topic_epoch

    def _answered(self, request_id: int) -> int | None:
        self.last_words[request_id] += 1
        found = next((each for each, asked in self.waiting.items() if asked == request_id), None)
        if found is not None:
            del self.waiting[found]
        return found


class Lives(RuleBasedStateMachine):
    """Rules are what clients, the broker and the network may do."""

    def __init__(self) -> None:
        super().__init__()
        self.rigs = self.new_rigs()
        self.rig = self.rigs[0]
        self.topic = ModelTopic()
        self.requests = 100
        self.under_way: dict[tuple[Client, int], bool] = {}
        """Changes of the topic's owner that the broker has not answered, by who asked: whether it takes the topic."""
        self.broken_until = 0.0
        """When the broker has taken off what it had from the last connection that broke."""
        self.clients = [Client(self.rigs[number % len(self.rigs)].client(LIMITS)) for number in range(CLIENTS)]
        self.parting: list[Client] = []
        """Those that have gone, and whose producers the gateway is closing."""
        self.direct = Connection(direct=True)
        """Somebody who is connected to the broker itself."""

    def new_rigs(self) -> list[ProducerRig]:
        """Make the gateways; one is enough here."""
        return [ProducerRig(0)]

    def hear_each_other(self) -> None:
        """All that replicas have said comes."""

    def some(self, data: st.DataObject) -> Client:
        """One of those that are connected."""
        return data.draw(st.sampled_from([client for client in self.clients if client.alive]))

    def say(self, client: Client, frame: bytes) -> None:
        """Let a client speak, and everybody hear what comes of it."""
        client.rig.client.deliver(frame)
        self.hear()

    def hear(self) -> None:
        """Collect what the gateway wrote on all sides."""
        for client in self.connected:
            client.read()
            for command in client.write():
                self.goes_to_broker(client, command)
        self.part()

    @property
    def connected(self) -> list[Client]:
        """Whose connection to the broker stands."""
        return [*(client for client in self.clients if client.alive), *self.parting]

    def part(self) -> None:
        """The gateway closes the connections of those of whom nothing is left, or for whom it waits no longer."""
        for client in [each for each in self.parting if each.rig.broker.closing]:
            self.parting.remove(client)
            self.take_off(client)

    def goes_to_broker(self, client: Client, command: pb.BaseCommand) -> None:
        """Who takes the topic meets nobody: a broker may lock itself up."""
        body: Any = command.producer if command.type == T.PRODUCER else command.close_producer
        mode = body.producer_access_mode if command.type == T.PRODUCER else None
        if mode == pb.Shared or (mode is None and body.producer_id in client.shared):
            client.shared.add(body.producer_id)
            return
        taking = mode in TAKERS and not body.HasField("topic_epoch")
        if len(self.rigs) == 1:  # what goes through several is not kept apart
            assert not self.under_way or not (taking or any(self.under_way.values())), "they met"
            assert not taking or self.rig.clock.now() >= self.broken_until, "it met a connection that is taken off"
        self.under_way[client, body.request_id] = taking

    def want(self, client: Client, priority: int, mode: int, former: tuple[str, int] | None = None) -> None:
        """Let a client create a producer."""
        self.requests += 1
        producer_id = self.requests
        name, epoch = former if former is not None else ("", None)
        client.waiting[producer_id] = self.requests
        frame = want(self.requests, priority, producer_id=producer_id, mode=mode, name=name, epoch=epoch)
        self.say(client, frame)

    # ---- clients

    @rule(data=st.data(), priority=st.integers(-3, 3))
    def wait(self, data: st.DataObject, priority: int) -> None:
        """One more that waits."""
        self.want(self.some(data), priority, pb.WaitForExclusive)

    @rule(data=st.data(), mode=st.sampled_from([pb.Exclusive, pb.ExclusiveWithFencing, pb.Shared]))
    def take(self, data: st.DataObject, mode: int) -> None:
        """One that does not wait."""
        self.want(self.some(data), 0, mode)

    @rule(data=st.data())
    def close(self, data: st.DataObject) -> None:
        """Any producer, ready or not."""
        client = self.some(data)
        producers = [*client.waiting, *client.owned]
        if producers:
            producer_id = data.draw(st.sampled_from(producers))
            self.requests += 1
            client.waiting.pop(producer_id, None)
            client.owned.pop(producer_id, None)
            self.say(client, close(self.requests, producer_id))

    @rule(data=st.data(), back=st.booleans())
    def lose_client(self, data: st.DataObject, *, back: bool) -> None:
        """A connection breaks; its client may come back with a new one, and with what it owned."""
        self.break_client(self.some(data), back=back)

    def break_client(self, client: Client, *, back: bool = False) -> None:
        """The client's side of it."""
        client.alive = False
        self.parting.append(client)
        client.rig.client.lose()
        self.hear()
        self.come_back(client, back=back)

    @rule(data=st.data(), back=st.booleans())
    def lose_leg(self, data: st.DataObject, *, back: bool) -> None:
        """The connection to the broker breaks, and the client's with it."""
        client = self.some(data)
        if not self.takes_unheard(client):
            self.break_leg(client, back=back)

    def break_leg(self, client: Client, *, back: bool = False) -> None:
        """The broker's side of it."""
        client.alive = False
        client.rig.broker.lose()
        self.take_off(client)
        self.hear()
        self.come_back(client, back=back)

    @rule(data=st.data())
    @precondition(lambda self: self.parting)
    def lose_parting_leg(self, data: st.DataObject) -> None:
        """The same of one whose client has gone before."""
        client = data.draw(st.sampled_from(self.parting))
        if self.takes_unheard(client):
            return
        self.parting.remove(client)
        client.rig.broker.lose()
        self.take_off(client)
        self.hear()

    def takes_unheard(self, client: Client) -> bool:
        """Whether it may fence somebody of another gateway, and nobody will ever hear that it has."""
        return len(self.rigs) > 1 and any(taking for asked, taking in self.under_way.items() if asked[0] is client)

    def take_off(self, client: Client) -> None:
        """The broker notices, after what it had read already."""
        if self.topic.owner is not None and self.topic.owner.connection is client.broker:
            self.broken_until = self.rig.clock.now() + BROKEN_S
        self.under_way = {asked: taking for asked, taking in self.under_way.items() if asked[0] is not client}
        for command in client.to_broker:
            self.take_in(client, command)
        self.topic.drop(client.broker)
        self.promote_at_once()

    def take_in(self, client: Client, command: pb.BaseCommand) -> None:
        """The broker reads a command."""
        fences = command.producer.producer_access_mode == pb.ExclusiveWithFencing
        assert not fences or self.topic.promoting is None, "who fences met whom the broker promotes by itself"
        self.topic.take(client.broker, command)
        self.promote_at_once()

    def promote_at_once(self) -> None:
        """What goes through several gateways, or past them, is not kept apart from the broker's promotions."""
        if len(self.rigs) > 1 or self.direct.producers:
            self.topic.come_to_rest()

    def come_back(self, former: Client, *, back: bool) -> None:
        """A new connection, in the place of the other."""
        place = self.clients.index(former)
        client = self.clients[place] = Client(self.rigs[place % len(self.rigs)].client(LIMITS))
        if back:
            for owned in former.owned.values():
                self.want(client, 0, pb.WaitForExclusive, owned)

    @rule(mode=st.sampled_from([pb.Exclusive, pb.WaitForExclusive, pb.Shared]))
    @precondition(lambda self: not self.direct.producers)
    def go_past_the_gateway(self, mode: int) -> None:
        """Somebody produces at the broker itself."""
        self.requests += 1
        body = pb.CommandProducer(topic=TOPIC, producer_id=1, request_id=self.requests)
        body.producer_access_mode = mode  # type: ignore[assignment]  # a plain number will do
        self.topic.take(self.direct, T(type=T.PRODUCER, producer=body))
        self.promote_at_once()

    @rule()
    @precondition(lambda self: self.direct.producers)
    def leave_past_the_gateway(self) -> None:
        """It is gone again."""
        self.topic.drop(self.direct)
        self.topic.come_to_rest()

    # ---- the broker and the network

    @rule(data=st.data())
    def broker_reads(self, data: st.DataObject) -> None:
        """One command, of any connection."""
        due = [client for client in self.connected if client.to_broker]
        if due:
            client = data.draw(st.sampled_from(due))
            self.take_in(client, client.to_broker.popleft())

    @rule()
    @precondition(lambda self: self.topic.promoting is not None)
    def broker_promotes(self) -> None:
        """It has written the epoch of whom it promotes out of its queue."""
        self.topic.promote()

    @rule(data=st.data())
    def gateway_reads(self, data: st.DataObject) -> None:
        """One answer, from any connection."""
        due = [client for client in self.connected if client.broker.out]
        if due:
            client = data.draw(st.sampled_from(due))
            self.answer(client)

    def answer(self, client: Client) -> None:
        """The next answer reaches the gateway."""
        frame = client.broker.out.popleft()
        (command,) = parse(frame)
        body = getattr(command, T.DESCRIPTOR.fields_by_number[command.type].name)
        self.under_way.pop((client, body.request_id), None)
        client.rig.broker.deliver(frame)
        self.hear()

    @rule(code=st.sampled_from([pb.ServiceNotReady, pb.MetadataError, pb.ProducerBusy, pb.ProducerFenced]))
    def trouble(self, code: int) -> None:
        """The next one is refused, for whatever reason."""
        self.topic.troubles.append(code)

    @rule()
    @precondition(lambda self: all(each.closed or each.connection.direct for each in list(self.topic.queue)[1:]))
    def unload(self) -> None:
        """Not while one of ours waits behind another: a broker forgets it without a word."""
        self.topic.unload()

    @rule(seconds=st.sampled_from([0.06, 0.3, 3.1]))
    def pass_time(self, seconds: float) -> None:
        """Holds end; the broker sees a connection close when it is closed."""
        for _ in self.moments(seconds):
            self.hear()

    def moments(self, seconds: float) -> Iterator[None]:
        """Let time pass, and stop whenever something is due: the network takes it before the next is due."""
        clock = self.rig.clock
        end_s = clock.now() + seconds
        while clock.now() < end_s:
            self.topic.come_to_rest()
            clock.advance_to_next(end_s)
            yield

    @rule()
    def settle(self) -> None:
        """Everything under way arrives and every hold ends: then nobody waits for nothing."""
        self.topic.troubles.clear()
        self.run_dry()
        for _ in range(ROUNDS_MAX):
            for _ in self.moments(GRACE_S):
                self.hear_each_other()
                self.hear()
                self.run_dry()
            summaries = [summary for rig in self.rigs for summary in rig.elections.summaries()]
            if all(summary.held == "none" and not self.gives_way_to_nobody(summary) for summary in summaries):
                break
        else:
            raise AssertionError("held for ever")
        waiting = sum(len(client.waiting) for client in self.clients)
        assert waiting == sum(rig.elections.summary().waiting_count for rig in self.rigs)
        if waiting:
            holders = [self.topic.owner, *self.topic.shared]
            assert any(holder is not None for holder in holders), "they wait for nobody"

    def gives_way_to_nobody(self, summary: ElectionSummary) -> bool:
        """Whether it waits for a rival although nobody owns the topic: its patience is to end."""
        return summary.outranked and not any([self.topic.owner, *self.topic.shared])

    def run_dry(self) -> None:
        """Until nobody has anything to read."""
        while any(client.to_broker or client.broker.out for client in self.connected) or self.topic.promoting:
            self.topic.come_to_rest()
            for client in self.connected:
                while client.to_broker:
                    self.take_in(client, client.to_broker.popleft())
                while client.broker.out:
                    self.answer(client)

    # ---- what must hold at every moment

    @invariant()
    def every_request_has_one_last_answer(self) -> None:
        """Ready or an error, once."""
        for client in self.clients:
            assert all(count == 1 for count in client.last_words.values())

    @invariant()
    def epochs_never_go_back(self) -> None:
        """They grow with each owner, and stay only for one that resumes."""
        for (before, older, _), (after, newer, _) in zip(self.topic.owners, self.topic.owners[1:], strict=False):
            assert newer > older or (newer == older and before == after)

    @invariant()
    def one_of_ours_at_most_waits_at_the_broker(self) -> None:
        """Alive, that is."""
        ours = [handle.connection for handle in self.topic.queue if not handle.connection.direct and not handle.closed]
        for number in range(len(self.rigs)):
            connected = [client.broker for client in self.clients[number :: len(self.rigs)]]
            assert sum(connection in connected for connection in ours) <= 1

    def teardown(self) -> None:
        """Nothing is kept of what has ended."""
        for client in self.clients:
            client.rig.client.lose()
        self.rig.clock.advance(SETTLED_S)
        for rig in self.rigs:
            summary = rig.elections.summary()
            assert (summary.topics_count, summary.owners_count, summary.waiting_count, summary.waiting_bytes) == (
                0,
                0,
                0,
                0,
            )
            assert summary.rivals_count == 0


TestLives = Lives.TestCase
TestLives.settings = lives(150, 60)


@pytest.mark.parametrize("back", [True, False])
def test_a_close_that_had_to_wait_for_its_turn_is_answered_in_time(*, back: bool) -> None:
    """A network that took what is due three seconds late would have the gateway give the close up, and others meet."""
    life = Lives()
    owner, taker, last = life.clients[:3]
    life.want(owner, 0, pb.Exclusive)
    life.settle()
    life.want(taker, 0, pb.Exclusive)
    life.break_client(owner, back=back)
    life.break_leg(taker)
    life.want(last, 0, pb.Exclusive)
    life.settle()
    assert not life.parting
    life.teardown()


def test_who_fences_does_not_meet_whom_the_broker_promotes_when_an_owner_and_a_waiter_part() -> None:
    """The waiter that left has its turn first, and the next is promoted later than the owner's close is confirmed."""
    life = Lives()
    owner, waiter, taker = life.clients[:3]
    for client, mode in ((owner, pb.Exclusive), (owner, pb.WaitForExclusive), (waiter, pb.WaitForExclusive)):
        life.want(client, 0, mode)
        life.settle()
    life.break_client(owner)
    for client in (waiter, *[owner] * 2):
        life.take_in(client, client.to_broker.popleft())
        life.answer(client)
    life.topic.promote()
    life.want(taker, 0, pb.ExclusiveWithFencing)
    assert not taker.to_broker, "it would meet a promotion"
    life.settle()
    assert [epoch for _, epoch, _ in life.topic.owners] == [0, 1, 2, 3]
    life.teardown()


class ReplicaLives(Lives):
    """The same with two gateways, which hear each other late, or not."""

    def new_rigs(self) -> list[ProducerRig]:
        """Two."""
        self.exchange = Exchange()
        first = ProducerRig(0, exchange=self.exchange)
        return [first, ProducerRig(0, exchange=self.exchange, replica="r2", clock=first.clock)]

    def hear_each_other(self) -> None:
        """In order."""
        for replica, under_way in self.exchange.under_way.items():
            while under_way:
                self.exchange.deliver(replica)

    @rule(data=st.data(), lost=st.booleans())
    def mail(self, data: st.DataObject, *, lost: bool) -> None:
        """One message comes, whichever, or never."""
        replica = data.draw(st.sampled_from(sorted(self.exchange.under_way)))
        under_way = self.exchange.under_way[replica]
        if under_way:
            place = data.draw(st.integers(0, len(under_way) - 1))
            if lost:
                del under_way[place]
            else:
                self.exchange.deliver(replica, place)
            self.hear()

    @rule()
    def all_mail(self) -> None:
        """All of it comes."""
        self.hear_each_other()
        self.hear()


TestReplicaLives = ReplicaLives.TestCase
TestReplicaLives.settings = lives(100, 60)
