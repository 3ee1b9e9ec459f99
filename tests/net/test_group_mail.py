"""Messages between replicas: an inbox for each and one for all; what is lost is lost, and no more than that."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from proxy.net.broker.connection import MESSAGE_BYTES_DEFAULT
from proxy.net.broker.consumer import PERMITS
from proxy.net.mail.group_mail import UNUSED_S_MAX, PulsarGroupMail
from proxy.net.mail.outbox import METADATA_BYTES_MAX, RETRY_S, UNSENT_MAX
from proxy.wire import pulsar_pb2 as pb
from tests.net.broker_fakes import T, success
from tests.net.gateway_rig import PlayedBroker, close_producer, delivery, producer_success

OWN = "non-persistent://public/default/keyline-groups-a"
ALL = "non-persistent://public/default/keyline-groups-all"


class Rig:
    """One replica's mail and its broker."""

    def __init__(self) -> None:
        self.broker = PlayedBroker()
        self.heard: list[bytes] = []
        self.mail = PulsarGroupMail("public/default", "a", self.broker, self.broker.clock, self.heard.append)

    def started(self) -> dict[str, int]:
        """Both inboxes stand; consumer ids by topic."""
        self.mail.start()
        subscribes = self.let_in()
        flows = self.broker.sent()
        assert [(one.type, one.flow.messagePermits) for one in flows] == [(T.FLOW, PERMITS)] * 2
        return {one.topic: one.consumer_id for one in subscribes}

    def let_in(self) -> list[pb.CommandSubscribe]:
        """The broker confirms what asks for a subscription; returns the requests."""
        subscribes = [command.subscribe for command in self.broker.sent()]
        self.broker.say(*[success(one.request_id) for one in subscribes])
        return subscribes


@pytest.fixture
def rig() -> Rig:
    """Nothing is heard yet."""
    return Rig()


def test_it_hears_what_is_for_it_and_for_all(rig: Rig) -> None:
    """A damaged frame is heard as nothing."""
    inboxes = rig.started()
    assert set(inboxes) == {OWN, ALL}
    damaged = bytearray(delivery(inboxes[OWN], 2, b"three"))
    damaged[-1] ^= 1
    rig.broker.say(delivery(inboxes[OWN], 0, b"one"), delivery(inboxes[ALL], 1, b"two"), bytes(damaged))
    assert rig.heard == [b"one", b"two", b""]


def test_permits_are_granted_again(rig: Rig) -> None:
    """Half of them each time."""
    inboxes = rig.started()
    for entry in range(PERMITS // 2):
        rig.broker.say(delivery(inboxes[OWN], entry, b"x"))
    flow = rig.broker.next(T.FLOW).flow
    assert (flow.consumer_id, flow.messagePermits) == (inboxes[OWN], PERMITS // 2)


def test_an_inbox_comes_back(rig: Rig) -> None:
    """After a break of the connection, for as long as the mail runs; under another name each time."""
    rig.mail.start()
    first = rig.let_in()
    rig.broker.lose()
    rig.broker.reconnect()
    rig.broker.clock.advance(RETRY_S)
    again = [one.subscribe for one in rig.broker.sent()]
    assert [one.topic for one in again] == [OWN, ALL]
    names = [(one.topic, one.subscription) for one in first + again]
    assert len(set(names)) == len(names), "brokers may send nothing to one in another's place"
    rig.mail.stop()
    rig.broker.lose()
    rig.broker.reconnect()
    rig.broker.clock.advance(2 * RETRY_S)
    assert rig.broker.sent() == []


def test_it_sends_to_one_and_to_all(rig: Rig) -> None:
    """What is said before the producer stands waits for it; each topic has one producer."""
    rig.mail.send("b", b"one")
    rig.mail.send("b", b"two")
    asked = rig.broker.next(T.PRODUCER)
    assert asked.producer.topic == "non-persistent://public/default/keyline-groups-b"
    assert asked.producer.producer_access_mode == pb.Shared
    rig.broker.grant(asked)
    assert [one.send.sequence_id for one in rig.broker.sent()] == [0, 1]
    rig.mail.send("b", b"three")
    assert rig.broker.next(T.SEND).send.sequence_id == 2
    rig.mail.send_all(b"four")
    assert rig.broker.next(T.PRODUCER).producer.topic == ALL


def test_a_producer_that_is_lost_is_made_again(rig: Rig) -> None:
    """What waited meanwhile is lost, what is said afterwards is not."""
    rig.mail.send("b", b"one")
    rig.broker.refuse(rig.broker.next(T.PRODUCER).producer.request_id)
    rig.mail.send("b", b"two")
    rig.broker.clock.advance(RETRY_S)
    producer_id = rig.broker.grant(rig.broker.next(T.PRODUCER))
    rig.broker.next(T.SEND)
    rig.broker.say(close_producer(producer_id))
    rig.broker.clock.advance(RETRY_S)
    rig.broker.grant(rig.broker.next(T.PRODUCER))
    assert rig.broker.sent() == []


def test_what_waits_is_bounded(rig: Rig) -> None:
    """Beyond, it is lost."""
    for _ in range(UNSENT_MAX + 3):
        rig.mail.send("b", b"one")
    rig.broker.grant(rig.broker.next(T.PRODUCER))
    assert len(rig.broker.sent()) == UNSENT_MAX


def test_what_the_broker_does_not_take_is_lost_and_costs_nothing_else(rig: Rig) -> None:
    """The broker would end the connection, which is not this mail's alone; one line says so."""
    most = MESSAGE_BYTES_DEFAULT - METADATA_BYTES_MAX
    with capture_logs() as lines:
        rig.mail.send("b", b"x" * (most + 1))
        rig.mail.send("b", b"one")
        rig.broker.grant(rig.broker.next(T.PRODUCER))
        assert [one.type for one in rig.broker.sent()] == [T.SEND]
        assert [line["event"] for line in lines] == ["replica message too long"]
        rig.mail.send("b", b"x" * (most + 1))
        rig.mail.send("b", b"x" * most)
        whole = rig.broker.bench.transport.take()
    assert most < len(whole) <= MESSAGE_BYTES_DEFAULT
    assert [(line["size_bytes"], line["most_bytes"]) for line in lines] == [(most + 1, most)] * 2


def test_a_producer_that_is_not_used_is_closed(rig: Rig) -> None:
    """And made again when somebody is written to once more."""
    rig.mail.start()
    rig.broker.sent()
    rig.mail.send("b", b"one")
    asked = rig.broker.next(T.PRODUCER).producer
    rig.broker.say(producer_success(asked.request_id))
    rig.broker.sent()
    rig.broker.live(2 * UNUSED_S_MAX)
    closes = [one.close_producer.producer_id for one in rig.broker.sent() if one.type == T.CLOSE_PRODUCER]
    assert closes == [asked.producer_id]
    rig.mail.send("b", b"two")
    rig.broker.next(T.PRODUCER)
