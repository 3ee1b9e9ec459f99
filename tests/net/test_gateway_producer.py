"""A producer of the gateway's own: made once, lost once, and never left behind at the broker."""

from __future__ import annotations

import pytest

from proxy.net.broker.producer import GatewayProducer, State
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import T, success
from tests.net.gateway_rig import PlayedBroker, close_producer, producer_success, receipt, send_error

TOPIC = "persistent://public/default/own"


class Owner:
    """Writes down what it hears."""

    def __init__(self) -> None:
        self.journal: list[tuple[object, ...]] = []

    def producer_ready(self, producer: GatewayProducer) -> None:
        """As it says."""
        assert producer.state is State.READY
        self.journal.append(("ready",))

    def producer_stored(self, producer: GatewayProducer, sequence_id: int) -> None:
        """As it says."""
        assert producer.topic == TOPIC
        self.journal.append(("stored", sequence_id))

    def producer_lost(self, producer: GatewayProducer, reason: str) -> None:
        """As it says."""
        assert producer.state is State.OVER
        self.journal.append(("lost", reason))


@pytest.fixture
def broker() -> PlayedBroker:
    """A broker that does what the test says."""
    return PlayedBroker()


@pytest.fixture
def owner() -> Owner:
    """Whose it is."""
    return Owner()


@pytest.fixture
def producer(broker: PlayedBroker, owner: Owner) -> GatewayProducer:
    """One that waits for an exclusive topic, opened."""
    mode = pb.ProducerAccessMode.WaitForExclusive
    return GatewayProducer(TOPIC, mode, broker, broker.clock, owner).open()


def test_it_is_made_and_sends(broker: PlayedBroker, owner: Owner, producer: GatewayProducer) -> None:
    """Access mode, key, sequence ids and receipts are those of the protocol."""
    asked = broker.next(T.PRODUCER)
    assert (asked.producer.topic, asked.producer.producer_access_mode) == (TOPIC, pb.WaitForExclusive)
    producer_id = broker.grant(asked)
    assert [producer.send(b"one", "key"), producer.send(b"two")] == [0, 1]
    sent = broker.sent()
    assert [(one.type, one.send.producer_id, one.send.sequence_id) for one in sent] == [
        (T.SEND, producer_id, 0),
        (T.SEND, producer_id, 1),
    ]
    broker.say(receipt(producer_id, 0), receipt(producer_id, 1), receipt(99, 0))
    assert owner.journal == [("ready",), ("stored", 0), ("stored", 1)]


def test_it_waits_for_its_turn_however_long(broker: PlayedBroker, owner: Owner, producer: GatewayProducer) -> None:
    """The broker said that it waits: no time-out ends that, the second answer does."""
    del producer
    request_id = broker.next(T.PRODUCER).producer.request_id
    broker.say(producer_success(request_id, ready=False))
    broker.live(2_000.0)
    assert owner.journal == []
    broker.say(producer_success(request_id))
    assert owner.journal == [("ready",)]


def test_a_broker_without_an_answer_is_told_to_close(
    broker: PlayedBroker, owner: Owner, producer: GatewayProducer
) -> None:
    """It may carry the request out yet."""
    producer_id = broker.next(T.PRODUCER).producer.producer_id
    broker.live(40.0)
    assert [kind for kind, *_ in owner.journal] == ["lost"]
    closes = [one for one in broker.sent() if one.type == T.CLOSE_PRODUCER]
    assert [one.close_producer.producer_id for one in closes] == [producer_id]
    assert producer.state is State.OVER


@pytest.mark.parametrize("how", ["unreachable", "refused", "connection lost"])
def test_it_cannot_be_made(broker: PlayedBroker, owner: Owner, how: str) -> None:
    """Its owner hears so once, whatever the cause."""
    broker.unreachable = how == "unreachable"
    GatewayProducer(TOPIC, pb.Exclusive, broker, broker.clock, owner).open()
    sent = broker.sent()
    if how == "refused":
        broker.refuse(sent[0].producer.request_id, "somebody has it")
    elif how == "connection lost":
        broker.lose()
    ((kind, reason),) = owner.journal
    assert kind == "lost"
    assert {"unreachable": "no broker", "refused": "somebody has it", "connection lost": "lost"}[how] in str(reason)


@pytest.mark.parametrize("how", ["closed by the broker", "connection lost", "a message refused"])
def test_it_is_lost(broker: PlayedBroker, owner: Owner, producer: GatewayProducer, how: str) -> None:
    """Once; what comes later is not heard of."""
    producer_id = broker.grant(broker.next(T.PRODUCER))
    producer.send(b"one")
    broker.sent()
    if how == "closed by the broker":
        broker.say(close_producer(producer_id))
    elif how == "connection lost":
        broker.lose()
    else:
        broker.say(send_error(producer_id, 0))
        assert broker.next(T.CLOSE_PRODUCER).close_producer.producer_id == producer_id
    if how != "connection lost":
        broker.say(receipt(producer_id, 0), close_producer(producer_id))
    assert [kind for kind, *_ in owner.journal] == ["ready", "lost"]


def test_one_that_goes_on_for_another_has_its_name_and_uses_no_sequence_id_again(
    broker: PlayedBroker, owner: Owner, producer: GatewayProducer
) -> None:
    """A broker refuses the name while it has the other, and would take a sequence id of the same name for sent."""
    asked = broker.next(T.PRODUCER)
    assert not asked.producer.HasField("producer_name")
    producer_id = broker.grant(asked)
    assert producer.send(b"one") == 0
    broker.say(close_producer(producer_id))
    broker.sent()
    mode = pb.ProducerAccessMode.Shared
    successor = GatewayProducer(TOPIC, mode, broker, broker.clock, owner, former=producer).open()
    asked = broker.next(T.PRODUCER)
    assert (asked.producer.producer_name, asked.producer.user_provided_producer_name) == ("p-1", False)
    broker.grant(asked)
    assert successor.send(b"two") == 1


def test_closed_while_it_is_asked_for(broker: PlayedBroker, owner: Owner, producer: GatewayProducer) -> None:
    """It is given back when it comes, and its owner hears nothing."""
    asked = broker.next(T.PRODUCER)
    producer.close()
    assert broker.sent() == []
    producer_id = broker.grant(asked)
    assert broker.next(T.CLOSE_PRODUCER).close_producer.producer_id == producer_id
    assert owner.journal == []
    assert producer.state is State.OVER


def test_closed_before_the_broker_was_found(broker: PlayedBroker, owner: Owner, producer: GatewayProducer) -> None:
    """Nothing is asked for."""
    producer.close()
    assert broker.sent() == []
    assert owner.journal == []


def test_closed(broker: PlayedBroker, owner: Owner, producer: GatewayProducer) -> None:
    """The broker is told, and nothing is heard any more, not even of a break."""
    producer_id = broker.grant(broker.next(T.PRODUCER))
    producer.close()
    closing = broker.next(T.CLOSE_PRODUCER).close_producer
    assert closing.producer_id == producer_id
    broker.say(success(closing.request_id))
    broker.lose()
    assert owner.journal == [("ready",)]


def test_taken_off_while_it_waits_and_granted_all_the_same(
    broker: PlayedBroker, owner: Owner, producer: GatewayProducer
) -> None:
    """Nobody keeps what came too late."""
    asked = broker.next(T.PRODUCER).producer
    broker.say(producer_success(asked.request_id, ready=False), close_producer(asked.producer_id))
    assert [kind for kind, *_ in owner.journal] == ["lost"]
    broker.say(producer_success(asked.request_id))
    assert broker.next(T.CLOSE_PRODUCER).close_producer.producer_id == asked.producer_id
    assert [kind for kind, *_ in owner.journal] == ["lost"]
    assert producer.state is State.OVER
