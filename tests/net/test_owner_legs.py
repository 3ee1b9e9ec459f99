"""Consumers of one client that other replicas own: led there, told of what they lose, never sent round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from structlog.testing import capture_logs

from proxy.errors import ClientError, OwnedElsewhere
from proxy.groups.bundles import bundle_of
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import SessionId
from proxy.limits import Limits
from proxy.net.group.holder_probes import Claim, HolderProbes
from proxy.net.owner.leg import UNUSED_S_MAX
from proxy.net.owner.legs import AGAIN_S, BROKER_AGAIN_S, HERE_S_MAX, OWNER_S_MAX, SUPERSEDED_S, ClientLegs
from proxy.net.owner.owners import Owners
from proxy.net.owner.pulses import ANSWERS, ASKS, Pulses
from proxy.net.owner.unreached import UnreachedOwners
from proxy.net.relay.requests import BYTES_MAX
from proxy.net.session.liveness import LIVENESS_S
from proxy.net.subscription.refusals import PASSING
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import error_frame
from tests.net.assignment_rig import NoBrokers
from tests.net.fakes import FakeClock, FakeConnector, FakeTransport
from tests.net.session_rig import (
    KEY_SHARED,
    SessionRig,
    T,
    ack,
    connect,
    connected,
    encode,
    flow,
    lookup,
    message,
    parse,
    producer,
    send,
    subscribe,
    success,
)

if TYPE_CHECKING:
    from proxy.groups.ownership import Owner
    from proxy.net.owner.proof import Told
    from proxy.net.ports import ElsewhereClient, Receiver, Transport

BUNDLES = 64
PULSE_S = 2.5
PEER = "192.0.2.7:50000"
CLOSED_BY_OWNER = 2**64 - 1


def topic_of(bundle: int) -> str:
    """A topic whose subscription ``s`` is in that bundle."""
    numbers = (f"persistent://public/default/t{number}" for number in range(100_000))
    return next(topic for topic in numbers if bundle_of(topic, "s", BUNDLES) == bundle)


class Held:
    """What this replica has."""

    def __init__(self) -> None:
        self.count = BUNDLES
        self.open: set[int] = set()

    def open_here(self, bundle: int) -> bool:
        """As the port says."""
        return bundle in self.open


class Probes(HolderProbes):
    """Which of them would be sent."""

    def __init__(self) -> None:
        super().__init__("a", NoBrokers(), FakeClock())
        self.probed: list[tuple[str, str]] = []

    def _probe(self, claimed: Claim) -> None:
        self.probed.append((claimed.topic, claimed.subscription))


class Unreached(UnreachedOwners):
    """Which owners are not reached, and what waits for whom."""

    def __init__(self) -> None:
        self.gone: set[str] = set()
        self.waiting: list[tuple[str, str]] = []

    def waits(self, owner: str, key: tuple[str, str]) -> None:
        """As the base says."""
        self.waiting.append((owner, key[0]))

    def ended(self, owner: str, key: tuple[str, str]) -> None:
        """As the base says."""
        self.waiting.remove((owner, key[0]))

    def lost(self, replica: str) -> None:
        """As the base says."""
        self.gone.add(replica)

    def found(self, replica: str) -> None:
        """As the base says."""
        self.gone.discard(replica)


class Rig(SessionRig):
    """A client at replica ``a``, whose bundles are at ``b`` and ``c`` as the test says."""

    def __init__(
        self, limits: Limits | None = None, *, of_replica: bool = False, pulse_s: float = math.inf, **said: object
    ) -> None:
        """Replicas are asked for a sign of life after `pulse_s`; `said` is more of the client's CONNECT."""
        self.held = Held()
        self.owners = Owners("a", self.held)
        self.relays = not of_replica
        self.probes = Probes()
        self.unreached = Unreached()
        super().__init__(limits, make_elsewhere=self.make_elsewhere, of_replica=of_replica)
        self.dialled = FakeConnector(self.clock)
        self.pulse_dialled = FakeConnector(self.clock)
        self.pulses = Pulses("a", self.clock, pulse_s, self.dial_pulse, self.probes.suspect)
        self.pulses.lost, self.pulses.found = self.unreached.lost, self.unreached.found
        self.connect(**said)

    def make_elsewhere(self, client: ElsewhereClient, connect: pb.CommandConnect, transport: Transport) -> ClientLegs:
        """As the gateway makes them."""
        _ = transport
        dial = self.dial if self.relays else None
        told = self.probes, self.pulses, self.unreached
        return ClientLegs(client, connect, self.owners, dial, self.clock, self.limits, *told, PEER)

    def dial_pulse(self, address: str, told: Told, receiver: Receiver) -> None:
        """Without the proof, too."""
        assert (told.teller, told.purpose) == ("a", "pulse")
        self.pulse_dialled.connect(address, receiver)

    def pulse(self) -> FakeTransport:
        """The owner that was dialled last takes the connection for signs of life."""
        return self.pulse_dialled.last.accept()

    def dial(self, owner: Owner, leg: Receiver) -> None:
        """Without the proof, which is another test's."""
        self.dialled.connect(owner.address, leg)

    def own(self, *owners: tuple[int, str], epoch: int = 1) -> None:
        """The group's record."""
        sessions = tuple((bundle, SessionId(replica, 1)) for bundle, replica in sorted(owners))
        addresses = tuple(sorted({(replica, f"pulsar://{replica}:6670") for _, replica in owners}))
        self.owners.learn(GroupMemory(epoch, "a", 1, BUNDLES, sessions, addresses=addresses))

    def subscribe(self, consumer_id: int, bundle: int, request_id: int | None = None) -> None:
        """The client subscribes to something in a bundle."""
        asked = 100 + consumer_id if request_id is None else request_id
        self.client.deliver(subscribe(consumer_id, asked, topic=topic_of(bundle)))

    def let_in(self) -> FakeTransport:
        """The owner that was dialled last lets the client in."""
        leg = self.dialled.last.accept()
        assert [command.type for command in parse(leg.take())] == [T.CONNECT]
        leg.deliver(connected())
        return leg

    def consumer(self, consumer_id: int, bundle: int) -> FakeTransport:
        """A consumer that stands at the owner of the bundle."""
        self.subscribe(consumer_id, bundle)
        attempt = self.dialled.last
        leg = attempt.transport if attempt.transport is not None and attempt.decided else self.let_in()
        assert leg is not None
        leg.take()
        leg.deliver(success(100 + consumer_id))
        assert [command.type for command in self.to_client()] == [T.SUCCESS]
        return leg


def close_consumer(consumer_id: int, request_id: int) -> bytes:
    """Build CLOSE_CONSUMER."""
    return encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=request_id))


def error(request_id: int, code: int) -> bytes:
    """Build ERROR."""
    return encode(T.ERROR, pb.CommandError(request_id=request_id, error=code, message="no"))  # type: ignore[arg-type]


def test_a_subscription_that_is_owned_here_stays_here() -> None:
    """Nobody is dialled, and its commands go to its worker."""
    rig = Rig()
    rig.held.open.add(3)
    rig.subscribe(1, 3)
    assert len(rig.directory.workers) == 1
    rig.client.deliver(flow(1, 5))
    assert rig.directory.workers[0].calls == [("flow", 5)]
    assert not rig.dialled.attempts


@pytest.mark.parametrize("of_replica", [False, True], ids=["its own client", "led here"])
def test_workers_of_streams_stay_where_they_connect(of_replica: bool) -> None:  # noqa: FBT001 - a case
    """No owner is waited for or asked, though the record names one; one that was led here is told of in the log."""
    rig = Rig(of_replica=of_replica)
    rig.own((3, "b"), (4, "b"))
    rig.owners.streamed = {(topic_of(3), "s")}
    with capture_logs() as lines:
        rig.subscribe(1, 3)
    assert len(rig.directory.workers) == 1
    assert not rig.dialled.attempts
    assert [(line["event"], line["topic"]) for line in lines] == (
        [("worker of streams led here", topic_of(3))] if of_replica else []
    )
    rig.own((3, "c"), (4, "c"), epoch=2)
    rig.clock.advance(OWNER_S_MAX)
    rig.client.deliver(flow(1, 5))
    assert rig.directory.workers[0].calls == [("flow", 5)], "another replica owns its bundle"
    rig.subscribe(2, 4)
    assert len(rig.directory.workers) == 1
    assert len(rig.dialled.attempts) == (0 if of_replica else 1), "others have an owner"


def test_a_subscription_that_is_owned_elsewhere_goes_there_as_the_client_said_it() -> None:
    """By a connection of its own, in the client's name; and all that names its consumer, byte for byte."""
    rig = Rig()
    rig.own((3, "b"))
    rig.client.deliver(subscribe(1, 101, topic=topic_of(3)))
    assert rig.dialled.last.address == "pulsar://b:6670"
    leg = rig.dialled.last.accept()
    assert leg.take() == connect()
    leg.deliver(connected())
    assert leg.take() == subscribe(1, 101, topic=topic_of(3))
    leg.deliver(success(101))
    assert rig.client.take() == success(101)
    for frame in (flow(1, 100), ack(1), ack(1, 7), close_consumer(1, 9)):
        rig.client.deliver(frame)
        assert leg.take() == frame
    leg.deliver(message(1, 4) + message(1, 5))
    assert rig.client.take() == message(1, 4) + message(1, 5)
    assert not rig.directory.workers
    assert not rig.broker.take()


def test_one_leg_carries_all_consumers_of_an_owner() -> None:
    """And each owner has its own."""
    rig = Rig()
    rig.own((3, "b"), (4, "b"), (5, "c"))
    first = rig.consumer(1, 3)
    assert rig.consumer(2, 4) is first
    rig.subscribe(3, 5)
    assert [attempt.address for attempt in rig.dialled.attempts] == ["pulsar://b:6670", "pulsar://c:6670"]


def test_what_is_not_of_such_a_consumer_goes_to_the_broker_as_ever() -> None:
    """Producers, lookups, other subscriptions, and consumers that nobody knows."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    shared = subscribe(2, 5, pb.CommandSubscribe.Shared)
    for frame in (producer(1, 4), lookup(6), shared, flow(2, 1), ack(9), send(1, 0)):
        rig.client.deliver(frame)
        assert rig.broker.take() == frame
    assert not leg.take()


def end_transaction(request_id: int) -> bytes:
    """Build END_TXN, a commit."""
    body = pb.CommandEndTxn(request_id=request_id, txnid_most_bits=0, txnid_least_bits=5, txn_action=pb.COMMIT)
    return encode(T.END_TXN, body)


def test_an_owner_that_has_no_room_for_connections_is_asked_again() -> None:
    """It says so as a broker does, whose clients connect again; a consumer that hears it gives up for good."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    rig.dialled.last.accept().deliver(error_frame(pb.NotAllowedError, "Reached the maximum number of connections"))
    assert rig.to_client() == []
    rig.clock.advance(AGAIN_S)
    rig.let_in().deliver(success(101))
    assert [command.success.request_id for command in rig.to_client()] == [101]


@pytest.mark.parametrize("refused", [False, True])
def test_owners_hear_of_the_transactions_that_their_clients_end(refused: bool) -> None:  # noqa: FBT001 - a parameter
    """And so does this replica; not before the coordinator has done it, nor if it did not."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(end_transaction(8))
    assert rig.broker.take() == end_transaction(8)
    assert not leg.take()
    answer = pb.CommandEndTxnResponse(request_id=8, txnid_most_bits=0, txnid_least_bits=5)
    if refused:
        answer.error = pb.InvalidTxnStatus
    rig.broker.deliver(encode(T.END_TXN_RESPONSE, answer))
    assert [command.type for command in rig.to_client()] == [T.END_TXN_RESPONSE]
    assert leg.take() == (b"" if refused else end_transaction(8))
    assert rig.directory.transactions == ([] if refused else [((0, 5), True)])


@pytest.mark.parametrize("kind", [T.END_TXN, T.ADD_PARTITION_TO_TXN])
def test_an_answer_for_one_transaction_is_no_end_of_another(kind: int) -> None:
    """A client that uses a request id twice must not have others' acknowledgements taken for committed."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    first = encode(T.END_TXN, pb.CommandEndTxn(request_id=8, txnid_least_bits=6, txn_action=pb.ABORT))
    rig.client.deliver(first)
    others = pb.CommandAddPartitionToTxn(request_id=8, txnid_least_bits=5)
    rig.client.deliver(end_transaction(8) if kind == T.END_TXN else encode(kind, others))
    assert len(rig.to_client()) == 1, "it is refused"
    rig.broker.deliver(encode(T.END_TXN_RESPONSE, pb.CommandEndTxnResponse(request_id=8, txnid_least_bits=6)))
    assert [command.type for command in rig.to_client()] == [T.END_TXN_RESPONSE]
    assert leg.take() == first
    assert rig.directory.transactions == [((0, 6), False)]


def test_an_owner_that_is_not_known_yet_is_waited_for() -> None:
    """A bundle that moves is somebody's again soon: then the consumer goes there, unseen by the client."""
    rig = Rig()
    rig.own((4, "b"))
    rig.subscribe(1, 3)
    rig.client.deliver(flow(1, 1))
    assert not rig.dialled.attempts
    rig.own((3, "c"), (4, "b"), epoch=2)
    assert rig.dialled.last.address == "pulsar://c:6670"
    assert not rig.client.take()
    assert not rig.broker.take()


def test_what_comes_here_meanwhile_is_served_here() -> None:
    """As if it had been here before."""
    rig = Rig()
    rig.subscribe(1, 3)
    rig.held.open.add(3)
    rig.owners.changed()
    assert len(rig.directory.workers) == 1
    rig.clock.advance(OWNER_S_MAX)
    assert not rig.client.take()


def test_a_consumer_that_is_about_to_be_served_here_is_led_to_the_next_owner() -> None:
    """Its bundle moved away before it was let in: it waits for the next owner, and the client hears nothing."""
    rig = Rig()
    rig.held.open.add(3)
    rig.subscribe(1, 3)
    former = rig.directory.workers[0]
    former.link.send(error(7, pb.ServiceNotReady))  # to a request of its, which came behind its SUBSCRIBE
    assert [command.error.request_id for command in rig.to_client()] == [7]
    rig.held.open.clear()
    former.link.refuse(OwnedElsewhere("it moves"))
    rig.client.deliver(flow(1, 5))
    rig.own((3, "b"))
    leg = rig.let_in()
    assert leg.take() == subscribe(1, 101, topic=topic_of(3))
    leg.deliver(success(101))
    assert rig.client.take() == success(101)
    assert former.calls == []
    assert len(rig.directory.workers) == 1


def test_a_consumer_of_a_client_that_has_gone_is_led_nowhere() -> None:
    """What is decided of it later changes nothing."""
    rig = Rig()
    rig.held.open.add(3)
    rig.subscribe(1, 3)
    rig.client.lose()
    rig.held.open.clear()
    rig.own((3, "b"))
    rig.directory.workers[0].link.refuse(OwnedElsewhere("it moves"))
    assert not rig.dialled.attempts


def test_only_who_may_be_served_elsewhere_is_led_on() -> None:
    """Whoever is refused for what it asks would be refused by every owner."""
    rig = Rig()
    rig.held.open.add(3)
    rig.subscribe(1, 3)
    rig.held.open.clear()
    rig.directory.workers[0].link.refuse(ClientError("not so", pb.NotAllowedError))
    rig.own((3, "b"))
    (told,) = rig.to_client()
    assert (told.error.request_id, told.error.error, told.error.message) == (101, pb.NotAllowedError, "not so")
    assert not rig.dialled.attempts


def test_a_client_does_not_wait_for_ever_for_an_owner() -> None:
    """It is told to try again, by the code that makes it do so."""
    rig = Rig()
    rig.subscribe(1, 3)
    rig.clock.advance(OWNER_S_MAX)
    (refusal,) = rig.to_client()
    assert (refusal.error.request_id, refusal.error.error) == (101, pb.ServiceNotReady)
    rig.held.open.add(3)
    rig.owners.changed()
    assert not rig.directory.workers
    rig.subscribe(1, 3)
    assert len(rig.directory.workers) == 1


def test_a_client_may_give_up_waiting() -> None:
    """And use the id anew; a request about a consumer that waits is answered, too."""
    rig = Rig()
    rig.subscribe(1, 3)
    rig.client.deliver(encode(T.SEEK, pb.CommandSeek(consumer_id=1, request_id=8, message_publish_time=1)))
    rig.subscribe(1, 3, request_id=9)
    rig.client.deliver(close_consumer(1, 10))
    first, second, third = rig.to_client()
    assert (first.error.request_id, first.error.error) == (8, pb.ServiceNotReady)
    assert (second.error.request_id, second.error.error) == (9, pb.ServiceNotReady)
    assert third.success.request_id == 10
    rig.held.open.add(3)
    rig.owners.changed()
    assert not rig.directory.workers


def test_a_lost_leg_closes_its_consumers_and_answers_what_is_asked() -> None:
    """So that the client subscribes again, and finds the next owner; a SUBSCRIBE that was closed has no answer."""
    rig = Rig()
    rig.own((3, "b"), (4, "b"))
    leg = rig.consumer(1, 3)
    rig.subscribe(2, 4)
    rig.client.deliver(encode(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=7)))
    rig.client.deliver(close_consumer(2, 8))
    leg.lose("reset by peer")
    asked, closed, gone = rig.to_client()
    assert (asked.error.request_id, asked.error.error) == (7, pb.ServiceNotReady)
    assert "b: reset by peer" in asked.error.message
    assert closed.success.request_id == 8
    assert (gone.close_consumer.consumer_id, gone.close_consumer.request_id) == (1, CLOSED_BY_OWNER)
    assert not rig.client.closing
    rig.own((3, "c"), epoch=2)
    rig.subscribe(1, 3)
    assert rig.dialled.last.address == "pulsar://c:6670"


def test_an_owner_that_does_not_let_go_of_what_is_anothers_is_given_up() -> None:
    """It stands still: all consumers that are at it come again, and what it says later reaches nobody."""
    rig = Rig()
    rig.own((3, "b"), (4, "b"), (5, "c"))
    frozen = rig.consumer(1, 3)
    rig.consumer(2, 4)
    rig.own((3, "c"), (4, "c"), (5, "c"), (6, "b"), epoch=2)
    rig.clock.advance(SUPERSEDED_S / 2)
    assert not rig.to_client(), "its CLOSE_CONSUMER may be on its way"
    rig.clock.advance(SUPERSEDED_S)
    closed = [command.close_consumer.consumer_id for command in rig.to_client()]
    assert closed == [1, 2]
    assert frozen.closing
    frozen.deliver(message(1, 5))
    assert not rig.to_client()
    rig.subscribe(1, 3, request_id=111)
    assert rig.dialled.last.address == "pulsar://c:6670"


def test_an_owner_that_was_dropped_is_given_up_at_once() -> None:
    """It stands still, or does not reach the broker: nothing of it is on its way."""
    rig = Rig()
    rig.own((3, "b"), (5, "c"))
    cut_off = rig.consumer(1, 3)
    rig.own((3, "c"), (5, "c"), epoch=2)
    assert [command.close_consumer.consumer_id for command in rig.to_client()] == [1]
    assert cut_off.closing


def test_an_owner_that_lets_go_in_time_keeps_its_other_consumers() -> None:
    """The record that names the next one came before its CLOSE_CONSUMER."""
    rig = Rig()
    rig.own((3, "b"), (4, "b"))
    leg = rig.consumer(1, 3)
    rig.consumer(2, 4)
    rig.own((3, "c"), (4, "b"), epoch=2)
    leg.deliver(close_consumer(1, CLOSED_BY_OWNER))
    rig.to_client()
    rig.clock.advance(2 * SUPERSEDED_S)
    assert not rig.to_client()
    leg.deliver(message(2, 5))
    assert [command.type for command in rig.to_client()] == [T.MESSAGE]


def test_each_bundle_that_moves_has_its_time() -> None:
    """One that moves shortly before an earlier one's time is up is not judged with that."""
    rig = Rig()
    rig.own((3, "b"), (4, "b"), (5, "b"))
    leg = rig.consumer(1, 3)
    rig.consumer(2, 4)
    rig.consumer(3, 5)
    rig.own((3, "c"), (4, "b"), (5, "b"), epoch=2)
    rig.clock.advance(0.9 * SUPERSEDED_S)
    leg.deliver(close_consumer(1, CLOSED_BY_OWNER))
    rig.own((3, "c"), (4, "c"), (5, "b"), epoch=3)
    rig.client.take()
    rig.clock.advance(0.9 * SUPERSEDED_S)
    assert not rig.to_client(), "the CLOSE_CONSUMER of the second may be on its way"
    rig.clock.advance(0.5 * SUPERSEDED_S)
    assert [command.close_consumer.consumer_id for command in rig.to_client()] == [2, 3]


def test_a_subscribe_that_waits_for_a_former_owner_goes_to_the_next() -> None:
    """At once: the former one stands still, and would not even refuse it."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    rig.dialled.last.accept()
    rig.own((3, "c"), epoch=2)
    assert rig.dialled.last.address == "pulsar://c:6670"
    assert not rig.to_client()


def test_a_subscribe_at_a_former_owner_that_lives_costs_no_other_consumer() -> None:
    """It refuses that itself, and is led on; only if it says nothing for long it is given up with all that it has."""
    for refuses in (True, False):
        rig = Rig()
        rig.own((3, "b"), (4, "b"))
        leg = rig.consumer(1, 3)
        rig.subscribe(2, 4)
        rig.own((3, "b"), (4, "c"), epoch=2)
        rig.clock.advance(SUPERSEDED_S / 2)
        if refuses:
            leg.deliver(error(102, pb.ServiceNotReady))
        rig.clock.advance(SUPERSEDED_S + 2 * AGAIN_S)
        assert rig.dialled.last.address == "pulsar://c:6670"
        closed = [command.close_consumer.consumer_id for command in rig.to_client()]
        assert closed == ([] if refuses else [1])


def test_a_consumer_whose_owner_is_unknown_stays() -> None:
    """Its bundle moves, and the former owner drains it."""
    rig = Rig()
    rig.own((3, "b"))
    rig.consumer(1, 3)
    rig.own(epoch=2)
    rig.clock.advance(2 * SUPERSEDED_S)
    assert not rig.to_client()


def test_what_is_owned_here_now_is_served_here() -> None:
    """Though the former owner says nothing."""
    rig = Rig()
    rig.own((3, "b"))
    rig.consumer(1, 3)
    rig.held.open.add(3)
    rig.owners.changed()
    rig.clock.advance(2 * SUPERSEDED_S)
    assert [command.close_consumer.consumer_id for command in rig.to_client()] == [1]


def test_an_owner_that_cannot_be_reached_is_tried_again_and_then_the_next() -> None:
    """Within the bound the client hears nothing of it; then it is told to try again."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    rig.dialled.last.refuse()
    rig.clock.advance(AGAIN_S)
    assert [attempt.address for attempt in rig.dialled.attempts] == ["pulsar://b:6670"] * 2
    rig.own((3, "c"), epoch=2)
    assert rig.dialled.last.address == "pulsar://c:6670"
    assert not rig.client.take()
    rig.clock.advance(OWNER_S_MAX)
    rig.dialled.last.refuse()
    (refusal,) = rig.to_client()
    assert (refusal.error.request_id, refusal.error.error) == (101, pb.ServiceNotReady)
    rig.subscribe(1, 3)
    assert len(rig.dialled.attempts) == 4


def test_a_subscribe_that_came_to_a_former_owner_is_led_to_the_next() -> None:
    """The record was late, or the lease: some clients never ask again of themselves, so that this hears nothing."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    former = rig.let_in()
    former.deliver(error(101, pb.ServiceNotReady))
    rig.own((3, "c"), epoch=2)
    rig.clock.advance(AGAIN_S)
    assert rig.dialled.last.address == "pulsar://c:6670"
    assert not rig.client.take()
    rig.let_in().deliver(success(101))
    assert rig.client.take() == success(101)
    rig.clock.advance(UNUSED_S_MAX)
    assert former.closing


def test_a_subscribe_that_the_client_has_given_up_is_led_nowhere_any_more() -> None:
    """It is refused where it was, and its close is answered."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    leg = rig.let_in()
    rig.client.deliver(close_consumer(1, 8))
    leg.deliver(error(101, pb.ServiceNotReady))
    assert rig.client.take() == error(101, pb.ServiceNotReady)
    rig.clock.advance(OWNER_S_MAX)
    assert len(rig.dialled.attempts) == 1


@pytest.mark.parametrize("met_by", [b"", close_consumer(1, CLOSED_BY_OWNER)], ids=["", "a close of the owner's"])
def test_a_subscribe_behind_a_close_makes_another_consumer(met_by: bytes) -> None:
    """It goes to the owner, as to a single gateway: what the owner says of the former one does not end it."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    asked = encode(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=8)) + close_consumer(1, 9)
    again = subscribe(1, 12, topic=topic_of(3))
    rig.client.deliver(asked + again)
    assert (rig.client.take(), leg.take()) == (b"", asked + again)
    leg.deliver(met_by + success(9) + success(8) + success(12))
    assert rig.client.take() == success(9) + success(8) + success(12)
    rig.client.deliver(flow(1, 10))
    assert leg.take() == flow(1, 10)
    leg.lose()
    assert [command.close_consumer.consumer_id for command in rig.to_client()] == [1]


def test_an_owner_closes_a_consumer_that_was_made_behind_a_close() -> None:
    """It may answer the close later than the SUBSCRIBE behind it."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(close_consumer(1, 9) + subscribe(1, 12, topic=topic_of(3)))
    for frame in (success(12), close_consumer(1, CLOSED_BY_OWNER), success(9)):
        leg.deliver(frame)
        assert rig.client.take() == frame
    leg.lose()
    assert not rig.to_client()


def test_a_consumer_that_is_being_closed_is_served_no_more() -> None:
    """As at a broker: its permits go nowhere, and its close succeeds if the owner is lost; it is closed once."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(close_consumer(1, 9) + flow(1, 5) + ack(1))
    assert leg.take() == close_consumer(1, 9)
    leg.lose()
    assert [(command.type, command.success.request_id) for command in rig.to_client()] == [(T.SUCCESS, 9)]


def test_an_id_that_is_used_anew_gets_nothing_of_a_consumer_that_another_owner_had() -> None:
    """What that one still sends would pass for the new one's: it is left, unless it has sent nothing yet."""
    for let_in in (True, False):
        rig = Rig()
        rig.own((3, "b"), (4, "b"), (5, "c"))
        former = rig.consumer(2, 4)
        rig.subscribe(1, 3)
        if let_in:
            former.deliver(success(101))
        rig.client.take()
        rig.client.deliver(close_consumer(1, 9))
        rig.subscribe(1, 5, 12)
        assert rig.dialled.last.address == "pulsar://c:6670"
        assert former.closing == let_in
        told = [command.type for command in rig.to_client()]
        assert told == ([T.SUCCESS, T.CLOSE_CONSUMER] if let_in else [])
        rig.let_in().deliver(success(12) + message(1, 4))
        assert rig.client.take() == success(12) + message(1, 4)


@pytest.mark.parametrize("next_owner", ["c", "here"])
def test_a_former_owners_close_does_not_end_a_consumer_that_stands_elsewhere(next_owner: str) -> None:
    """It let the former one of that id in, and lost the bundle, before it read that its client had closed that."""
    rig = Rig()
    rig.own((3, "b"), (4, "b"))
    former = rig.consumer(2, 4)
    rig.subscribe(1, 3)
    rig.client.deliver(close_consumer(1, 9))
    if next_owner == "c":
        rig.own((3, "c"), (4, "b"), epoch=2)
        rig.subscribe(1, 3, 12)
        rig.let_in().deliver(success(12))
    else:
        rig.own((4, "b"), epoch=2)
        rig.held.open.add(3)
        rig.owners.changed()
        rig.subscribe(1, 3, 12)
        rig.directory.workers[-1].link.subscribed()
    assert rig.client.take() == success(12)
    former.deliver(success(101) + close_consumer(1, CLOSED_BY_OWNER) + success(9))
    assert rig.client.take() == success(101) + success(9)


def test_a_close_with_the_request_id_of_its_subscribe_leaves_nothing() -> None:
    """A client may number as it likes."""
    rig = Rig()
    rig.own((3, "b"), (4, "b"))
    leg = rig.consumer(2, 4)
    for number in range(10, 20):
        rig.client.deliver(subscribe(number, 7, topic=topic_of(3)) + close_consumer(number, 7))
        leg.deliver(success(7))
    (owner_leg,) = rig.session._parts.elsewhere._legs.values()  # type: ignore[union-attr]
    assert (len(owner_leg._asked), owner_leg._closing) == (0, {})


def test_an_owner_that_has_confirmed_a_close_is_not_left_for_an_id_that_is_used_anew() -> None:
    """It sends no more of that; unless there was another of that id, which is being closed still."""
    for last_answered in (True, False):
        rig = Rig()
        rig.own((3, "b"), (5, "c"))
        leg = rig.consumer(1, 3)
        rig.client.deliver(close_consumer(1, 9) + subscribe(1, 12, topic=topic_of(3)))
        leg.deliver(success(12))
        rig.client.deliver(close_consumer(1, 13))
        leg.deliver(success(9) + (success(13) if last_answered else b""))
        rig.subscribe(1, 5, 14)
        assert leg.closing != last_answered


def test_a_subscribe_that_was_closed_before_its_answer_is_awaited_no_more() -> None:
    """The owner does not answer it: the leg is not asked for signs of life for it, and it is not answered twice."""
    rig = Rig(pulse_s=PULSE_S)
    rig.own((3, "b"), (4, "b"))
    leg = rig.consumer(2, 4)
    for number in range(3):
        rig.subscribe(1, 3, 20 + number)
        rig.client.deliver(close_consumer(1, 30 + number))
        leg.deliver(success(30 + number))
    pulse = rig.pulse()
    rig.client.take()
    leg.take()
    for _ in range(6):
        rig.clock.advance(PULSE_S)
        pulse.deliver(ANSWERS)
    assert leg.take() == b""
    rig.subscribe(1, 3, 12)
    leg.lose()
    assert [command.close_consumer.consumer_id for command in rig.to_client()] == [2], "the others wait for an owner"
    rig.own((3, "c"), (4, "c"), epoch=2)
    rig.clock.advance(AGAIN_S)
    again = rig.let_in()
    assert again.take() == subscribe(1, 12, topic=topic_of(3))
    again.deliver(success(12))
    assert rig.client.take() == success(12)


def test_a_subscribe_that_is_answered_though_it_was_closed_is_not_the_next_one() -> None:
    """The answers meet the close: the client hears them in their order, and the next one waits for its own."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    leg = rig.let_in()
    rig.client.deliver(close_consumer(1, 9))
    rig.subscribe(1, 3, 12)
    leg.deliver(success(101) + success(9))
    assert rig.client.take() == success(101) + success(9)
    rig.subscribe(1, 3, 13)
    (refusal,) = rig.to_client()
    assert (refusal.error.request_id, refusal.error.error) == (13, pb.ServiceNotReady), "it stands already"
    leg.deliver(success(12))
    assert rig.client.take() == success(12)


def test_who_is_not_let_in_by_the_owner_hears_why() -> None:
    """With the broker's code: to try again would be in vain."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    leg = rig.dialled.last.accept()
    leg.deliver(error(CLOSED_BY_OWNER, pb.AuthenticationError))
    (refusal,) = rig.to_client()
    assert (refusal.error.request_id, refusal.error.error) == (101, pb.AuthenticationError)


def test_a_consumer_that_the_owner_closes_may_come_again() -> None:
    """Its commands go nowhere meanwhile that would take them for a worker's."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    closing = close_consumer(1, CLOSED_BY_OWNER)
    leg.deliver(closing)
    assert rig.client.take() == closing
    rig.client.deliver(ack(1))
    assert not leg.take()
    rig.held.open.add(3)
    rig.subscribe(1, 3)
    assert len(rig.directory.workers) == 1


def test_a_consumer_that_the_owner_refuses_is_none() -> None:
    """The client hears the owner's words, where another owner would say the same."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    rig.let_in().deliver(error(101, pb.ConsumerBusy))
    assert rig.client.take() == error(101, pb.ConsumerBusy)
    rig.subscribe(1, 3)
    assert not rig.client.take(), "it was taken for one that is there"


def test_why_an_owner_ends_its_connection_is_not_the_clients() -> None:
    """An ERROR without a request would end the client's own connection."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    leg.deliver(error(CLOSED_BY_OWNER, pb.NotAllowedError))
    assert not rig.client.take()


def test_a_leg_that_nobody_uses_is_closed() -> None:
    """Some seconds after its last consumer; one that comes before keeps it."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    leg.deliver(close_consumer(1, CLOSED_BY_OWNER))
    rig.clock.advance(UNUSED_S_MAX - 1)
    rig.client.take()
    rig.consumer(1, 3)
    rig.clock.advance(UNUSED_S_MAX)
    used = leg.closing
    leg.deliver(close_consumer(1, CLOSED_BY_OWNER))
    rig.clock.advance(UNUSED_S_MAX)
    assert (used, leg.closing) == (False, True)
    rig.subscribe(1, 3)
    assert len(rig.dialled.attempts) == 2


def test_what_is_asked_of_a_leg_that_nobody_uses_is_answered() -> None:
    """By a slow owner while it is waited for, and then by a refusal."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(encode(T.GET_LAST_MESSAGE_ID, pb.CommandGetLastMessageId(consumer_id=1, request_id=7)))
    rig.client.deliver(encode(T.UNSUBSCRIBE, pb.CommandUnsubscribe(consumer_id=1, request_id=8)))
    leg.deliver(close_consumer(1, CLOSED_BY_OWNER))
    rig.clock.advance(1.5 * UNUSED_S_MAX)
    rig.client.take()
    leg.deliver(success(8))
    assert rig.client.take() == success(8)
    rig.clock.advance(0.5 * UNUSED_S_MAX)
    (refusal,) = rig.to_client()
    assert (refusal.error.request_id, refusal.error.error) == (7, pb.ServiceNotReady)
    assert leg.closing


def test_a_leg_that_had_no_room_for_its_first_consumer_is_closed() -> None:
    """Nobody else may come."""
    rig = Rig(Limits(queued_while_connecting_bytes=10))
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    assert [command.error.request_id for command in rig.to_client()] == [101]
    leg = rig.let_in()
    rig.clock.advance(UNUSED_S_MAX)
    assert leg.closing


def test_a_leg_that_was_lost_leaves_no_timer() -> None:
    """Though its SUBSCRIBE waits for another owner: nothing is left when the client has gone."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    rig.dialled.last.refuse()
    rig.clock.advance(AGAIN_S / 2)
    rig.client.lose()
    rig.clock.settle()
    assert rig.clock.waiting == 1, "all but that for signs of life, which this rig does not ask for"


def test_a_client_that_reads_nothing_is_sent_nothing_and_its_owners_are_not_read() -> None:
    """And one whose owner reads nothing is not read."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    read = [leg.reading]
    for writable in (False, True):
        rig.client.set_writable(writable)
        read.append(leg.reading)
    assert read == [True, False, True]
    read = []
    for writable in (False, True, False):
        leg.set_writable(writable)
        read.append(rig.client.reading)
    leg.lose()
    assert [*read, rig.client.reading] == [False, True, False, True]


def test_only_so_much_waits_for_a_leg() -> None:
    """More is refused, so that the client tries again."""
    rig = Rig(Limits(queued_while_connecting_bytes=200))
    rig.own((3, "b"))
    for consumer_id in range(5):
        rig.subscribe(consumer_id, 3)
    refused = rig.to_client()
    assert 0 < len(refused) < 5
    assert {refusal.error.error for refusal in refused} == {pb.ServiceNotReady}
    taken = parse(rig.dialled.last.accept().take())
    assert [command.type for command in taken] == [T.CONNECT]


def test_a_close_that_has_no_room_is_answered_and_leaves_no_consumer_behind() -> None:
    """What waited with it is asked anew, by another connection; the consumer that is closed is not among that."""
    rig = Rig(Limits(queued_while_connecting_bytes=len(subscribe(1, 101, topic=topic_of(3))) * 2))
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    rig.subscribe(2, 3)
    assert not rig.to_client()
    rig.client.deliver(close_consumer(1, 201))
    (answered,) = rig.to_client()
    assert answered.success.request_id == 201
    rig.clock.advance(AGAIN_S)
    assert len(rig.dialled.attempts) == 2
    asked = parse(rig.let_in().take())
    assert [command.subscribe.consumer_id for command in asked] == [2]


@pytest.mark.parametrize("code", sorted(PASSING))
def test_what_an_owner_s_broker_cannot_do_now_is_asked_for_again(code: int) -> None:
    """A client would wait until its time is up; a fault of the broker's is not asked about as often."""
    rig = Rig()
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    leg = rig.let_in()
    (first,) = parse(leg.take())
    refusal = pb.CommandError(request_id=first.subscribe.request_id, error=code, message="")  # type: ignore[arg-type]  # a plain number will do
    leg.deliver(encode(T.ERROR, refusal))
    assert not rig.to_client()
    rig.clock.advance(AGAIN_S)
    assert bool(leg.take()) == (code == pb.ServiceNotReady)
    rig.clock.advance(BROKER_AGAIN_S)
    assert bool(leg.take()) == (code != pb.ServiceNotReady)


@pytest.mark.parametrize("sent", [flow(2, 5), ack(2)], ids=["permits", "acknowledgement"])
def test_data_that_has_no_room_ends_its_consumer(sent: bytes) -> None:
    """Else it would wait for what it has asked for already, and the client would not know."""
    rig = Rig(Limits(queued_while_connecting_bytes=len(subscribe(1, 101, topic=topic_of(3))) * 2))
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    rig.subscribe(2, 3)
    rig.client.deliver(sent)
    refused = [command.error for command in rig.to_client()]
    assert [(refusal.request_id, refusal.error) for refusal in refused] == [
        (101, pb.TooManyRequests),
        (102, pb.TooManyRequests),
    ]
    assert {"too much waits" in refusal.message for refusal in refused} == {True}
    rig.clock.advance(OWNER_S_MAX)
    assert len(rig.dialled.attempts) == 1
    assert not rig.to_client()


def test_a_connection_has_only_so_many_legs_and_consumers(monkeypatch: pytest.MonkeyPatch) -> None:
    """More are refused."""
    monkeypatch.setattr("proxy.net.owner.legs.LEGS_MAX", few := 4)
    rig = Rig(Limits(workers_per_connection_max=few + 2))
    rig.held.count = BUNDLES
    rig.own(*((bundle % BUNDLES, f"r{bundle}") for bundle in range(BUNDLES)))
    for bundle in range(few):
        rig.subscribe(bundle, bundle)
    assert len(rig.dialled.attempts) == few
    rig.subscribe(1_000, few)
    (refusal,) = rig.to_client()
    assert refusal.error.error == pb.ServiceNotReady
    rig.subscribe(1_001, 1)
    rig.subscribe(1_002, 1)
    rig.subscribe(1_003, 1)
    assert [command.error.error for command in rig.to_client()] == [pb.ConsumerBusy]


def test_what_waits_for_an_owner_is_bounded() -> None:
    """A SUBSCRIBE may have megabytes; one that is closed, or answered, makes room."""
    rig = Rig()
    body = pb.CommandSubscribe(subscription="s", subType=pb.CommandSubscribe.Key_Shared)
    body.metadata.add(key="x", value="x" * (BYTES_MAX // 8))
    for number in range(8):
        body.topic, body.consumer_id, body.request_id = topic_of(number), number, number
        rig.client.deliver(encode(T.SUBSCRIBE, body))
    (refusal,) = rig.to_client()
    assert (refusal.error.request_id, refusal.error.error) == (7, pb.TooManyRequests)
    rig.client.deliver(encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=0, request_id=100)))
    rig.client.deliver(encode(T.SUBSCRIBE, body))
    assert [command.type for command in rig.to_client()] == [T.SUCCESS]


def test_a_challenge_of_an_owner_is_the_clients_to_answer() -> None:
    """At the handshake and later; the answer goes to the one who asked, and a later leg begins with it."""
    rig = Rig()
    rig.own((3, "b"), (5, "c"))
    challenge = encode(T.AUTH_CHALLENGE, pb.CommandAuthChallenge(server_version="x"))
    answer = encode(
        T.AUTH_RESPONSE,
        pb.CommandAuthResponse(response=pb.AuthData(auth_method_name="token", auth_data=b"fresh")),
    )
    rig.subscribe(1, 3)
    leg = rig.dialled.last.accept()
    leg.take()
    leg.deliver(challenge)
    assert rig.client.take() == challenge
    rig.client.deliver(answer)
    assert leg.take() == answer
    assert not rig.broker.take()
    rig.client.deliver(answer)
    assert rig.broker.take() == answer


def test_a_client_that_goes_takes_its_legs_with_it() -> None:
    """And waits for nothing any more."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.subscribe(2, 9)
    rig.client.lose()
    rig.clock.settle()
    assert leg.take().endswith(commands.client_gone())
    rig.held.open.add(9)
    rig.owners.changed()
    assert not rig.directory.workers


def test_a_broker_that_is_lost_does_not_end_a_client_with_consumers_at_owners() -> None:
    """They do not come by that connection."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.broker.lose()
    assert not rig.client.closing
    leg.deliver(message(1, 1))
    assert rig.client.take() == message(1, 1)


# ---- at the owner's side


def test_a_client_of_another_replica_is_served_what_is_here() -> None:
    """As any client."""
    rig = Rig(of_replica=True)
    rig.held.open.add(3)
    rig.subscribe(1, 3)
    rig.client.deliver(flow(1, 5))
    assert rig.directory.workers[0].calls == [("flow", 5)]


def test_a_client_of_another_replica_is_led_no_further() -> None:
    """What is elsewhere by now is refused at once: the replica at the client's side looks again."""
    rig = Rig(of_replica=True)
    rig.own((3, "b"))
    rig.subscribe(1, 3)
    assert not rig.dialled.attempts
    (refusal,) = rig.to_client()
    assert refusal.error.error == pb.ServiceNotReady


def test_a_client_of_another_replica_waits_for_a_lease_that_is_on_its_way() -> None:
    """The record says that it is here before the leader has said so; but not for long."""
    rig = Rig(of_replica=True)
    rig.own((3, "a"))
    rig.subscribe(1, 3)
    assert not rig.client.take()
    rig.held.open.add(3)
    rig.owners.changed()
    assert len(rig.directory.workers) == 1
    rig.own((4, "a"), epoch=2)
    rig.subscribe(2, 4)
    rig.clock.advance(HERE_S_MAX)
    (refusal,) = rig.to_client()
    assert (refusal.error.request_id, refusal.error.error) == (102, pb.ServiceNotReady)


@pytest.mark.parametrize(
    "frame",
    [producer(1, 2), lookup(3), send(1, 0), subscribe(1, 4, pb.CommandSubscribe.Shared), subscribe(1, 5, topic="non-persistent://a/b/c")],
    ids=["producer", "lookup", "send", "shared", "non-persistent"],
)  # fmt: skip
def test_nothing_else_is_served_between_replicas(frame: bytes) -> None:
    """Not even to one who knows the secret: the connection ends, and the broker hears nothing."""
    rig = Rig(of_replica=True)
    rig.client.deliver(frame)
    assert rig.cause == "unknown_command"
    assert not rig.broker.take()


def test_the_end_of_a_transaction_is_news_from_a_replica() -> None:
    """It has been carried out: the broker hears nothing of it, and nothing is answered."""
    rig = Rig(of_replica=True)
    rig.client.deliver(end_transaction(8))
    assert rig.directory.transactions == [((0, 5), True)]
    assert (rig.cause, rig.broker.take(), rig.client.take()) == (None, b"", b"")


def test_late_commands_of_a_consumer_that_has_ended_are_harmless() -> None:
    """As they are from any client."""
    rig = Rig(of_replica=True)
    rig.client.deliver(ack(1) + flow(1, 2))
    assert rig.cause is None


def test_an_owner_that_does_not_answer_is_probed_at_the_broker() -> None:
    """Each durable subscription that is consumed there, while the silence lasts and before its legs are given up."""
    rig = Rig(pulse_s=PULSE_S)
    rig.own((3, "b"), (4, "b"))
    leg = rig.consumer(1, 3)
    command = pb.CommandSubscribe(
        topic=topic_of(4), subscription="s", subType=KEY_SHARED, consumer_id=2, request_id=102, durable=False
    )
    rig.client.deliver(encode(T.SUBSCRIBE, command))
    leg.deliver(success(102))
    leg.take()
    pulse = rig.pulse()
    rig.clock.advance(PULSE_S * 1.7)
    assert pulse.take() == ASKS
    assert rig.probes.probed == []
    rig.clock.advance(PULSE_S * 0.4)
    assert set(rig.probes.probed) == {(topic_of(3), "s")}
    pulse.deliver(ANSWERS)
    probed = len(rig.probes.probed)
    rig.clock.advance(PULSE_S * 0.8)
    assert len(rig.probes.probed) == probed
    rig.probes.suspect("b")
    assert len(rig.probes.probed) == probed + 1, "the leader says so"
    rig.client.deliver(close_consumer(1, 301))
    leg.deliver(success(301))
    rig.probes.suspect("b")
    assert len(rig.probes.probed) == probed + 1


def test_an_owner_that_shows_no_sign_of_life_is_given_up_with_all_that_is_there() -> None:
    """Its consumers come again; what waited for it is led on, and the client hears nothing of that."""
    rig = Rig(pulse_s=PULSE_S)
    rig.own((3, "b"), (4, "b"))
    leg = rig.consumer(1, 3)
    rig.subscribe(2, 4)
    rig.pulse()
    rig.clock.advance(2.8 * PULSE_S)
    assert leg.closing
    assert [command.close_consumer.consumer_id for command in rig.to_client()] == [1]
    rig.own((4, "c"), epoch=2)
    rig.clock.advance(AGAIN_S)
    assert rig.dialled.last.address == "pulsar://c:6670"


def test_legs_that_have_ended_are_not_watched() -> None:
    """Neither those of a client that has gone nor those that were unused."""
    rig = Rig(pulse_s=PULSE_S)
    rig.own((3, "b"), (5, "c"))
    rig.consumer(1, 3).deliver(close_consumer(1, CLOSED_BY_OWNER))
    unused = rig.pulse()
    rig.clock.advance(PULSE_S)
    unused.deliver(ANSWERS)
    rig.client.take()
    rig.consumer(2, 5)
    left = rig.pulse()
    for _ in range(int(UNUSED_S_MAX / PULSE_S)):
        unused.deliver(ANSWERS)
        left.deliver(ANSWERS)
        rig.clock.advance(PULSE_S)
    assert (unused.closing, left.closing) == (True, False)
    rig.client.lose()
    rig.clock.settle()
    assert left.closing


@pytest.mark.parametrize("lives", [True, False])
def test_an_owner_that_asks_for_a_client_is_answered_by_the_client(*, lives: bool) -> None:
    """Not by this replica, which answers a PING at once; it is told of a client that is dead."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    leg.deliver(commands.ping())
    assert leg.take() == commands.pong()
    leg.deliver(commands.ask_client())
    assert leg.take() == b""
    assert rig.client.take() == commands.ping()
    if lives:
        rig.client.deliver(commands.pong())
        assert leg.take() == commands.client_lives()
    rig.clock.advance(LIVENESS_S)
    assert leg.take() == (b"" if lives else commands.client_gone())
    assert rig.cause == (None if lives else "silent")


def test_a_broker_that_asks_for_a_client_is_answered_as_for_a_ping() -> None:
    """It does not do that; only owners may ask."""
    rig = Rig()
    rig.broker.deliver(commands.ask_client())
    assert rig.broker.take() == commands.pong()
    assert rig.client.take() == b""
