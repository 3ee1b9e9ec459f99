"""The last worker leaves with acks unconfirmed: the subscription stays until the broker has them, no longer (G4)."""

from __future__ import annotations

from proxy.core.positions import pack
from proxy.net.subscription.acks import RETRY_S
from proxy.net.subscription.closing import CLOSING_S_MAX
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, FakeBrokerLink, T, batch, single


def away(count: int = 2) -> tuple[SubscriptionRig, Worker]:
    """A worker that holds entries 0 to `count`, and a broker that cannot be found any more."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=count + 10)
    rig.link.deliver(*[(entry, single("k")) for entry in range(count)])
    worker.messages()
    rig.brokers.held = True
    rig.link.lose()
    return rig, worker


def closing() -> tuple[SubscriptionRig, Worker]:
    """The last worker closes; the broker has been sent its ack of entry 0 and has not answered."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, single("k")))
    rig.link.held.add(T.ACK)
    worker.ack(0)
    worker.close()
    return rig, worker


def back(rig: SubscriptionRig) -> FakeBrokerLink:
    """The broker can be found again, over a new connection."""
    link = rig.brokers.new_link()
    rig.brokers.held = False
    rig.clock.advance(0)
    rig.brokers.found()
    rig.clock.settle()
    return link


def test_acks_of_an_outage_reach_the_broker_though_every_worker_left() -> None:
    """First the acks, then the consumer is closed; what was not acknowledged goes back."""
    rig, worker = away()
    worker.ack(0)
    worker.close()
    assert worker.answers() == [T.SUCCESS], "nobody waits for an outage"
    assert rig.count == 1
    link = back(rig)
    assert [command.type for command in link.log if command.type != T.GET_LAST_MESSAGE_ID] == [
        T.SUBSCRIBE,
        T.CLOSE_CONSUMER,  # of the one that asked whether it is alone
        T.SUBSCRIBE,
        T.ACK,
        T.CLOSE_CONSUMER,
    ]
    assert link.acked() == [(LEDGER, 0)]
    assert rig.count == 0


def test_a_worker_that_was_cut_off_leaves_its_acks_likewise() -> None:
    """A client that is gone can be told nothing, and nothing is."""
    rig, worker = away()
    worker.ack(0, 1)
    worker.lose()
    assert back(rig).acked() == [(LEDGER, 0), (LEDGER, 1)]
    assert rig.count == 0


def test_without_acks_to_confirm_the_subscription_ends_at_once() -> None:
    """Broker away or not, there is nothing to stay for."""
    rig, worker = away()
    worker.close()
    assert worker.answers() == [T.SUCCESS]
    assert rig.count == 0


def test_the_consumer_is_closed_at_the_broker_when_the_acks_are_confirmed() -> None:
    """A close that overtook the broker's word would leave nobody to send the acks again."""
    rig, worker = closing()
    assert (worker.commands(), rig.link.sent(T.CLOSE_CONSUMER)) == ([], [])
    rig.link.answer(T.ACK)
    assert worker.answers() == [T.SUCCESS]
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1
    assert rig.count == 0


def test_a_connection_that_is_lost_before_the_acks_are_confirmed_is_made_up_for() -> None:
    """They may never have arrived: they go again over the next connection. Who closes waits no longer."""
    rig, worker = closing()
    rig.brokers.held = True
    rig.link.lose()
    assert worker.answers() == [T.SUCCESS]
    rig.clock.advance(1)
    assert back(rig).acked() == [(LEDGER, 0)]
    assert rig.count == 0


def test_a_broker_that_refuses_the_acks_is_asked_again() -> None:
    """Who closes does not wait for the second attempt."""
    rig, worker = closing()
    rig.link.refuse(T.ACK, pb.PersistenceError, "cursor is fenced")
    assert worker.answers() == [T.SUCCESS]
    rig.clock.advance(RETRY_S)
    rig.link.answer(T.ACK)
    assert rig.count == 0


def test_a_worker_that_comes_meanwhile_does_not_get_again_what_was_acknowledged() -> None:
    """It takes the subscription over as it is; the broker, which never heard of the ack, delivers in vain."""
    rig, worker = away()
    worker.ack(0)
    worker.close()
    later = rig.worker("b", permits=9)
    link = back(rig)
    link.deliver((0, single("k")), (1, single("k")))
    assert later.entries() == [1]
    assert rig.count == 1
    later.ack(1)
    later.close()
    assert rig.count == 0


def test_a_part_of_a_batch_is_not_forgotten_either() -> None:
    """Acks of single messages go with the others."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1")])))
    rig.brokers.held = True
    rig.link.lose()
    worker.ack(0, ack_set=[0b10])
    worker.close()
    acks = [place for command in back(rig).sent(T.ACK) for place in command.ack.message_id]
    assert [(place.entryId, list(place.ack_set)) for place in acks] == [(0, [0b10])]
    assert rig.count == 0


def test_a_part_of_a_batch_that_was_sent_is_not_forgotten_with_its_connection() -> None:
    """The broker may never have read the ack of a single message."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((0, batch([("k", b"0"), ("k", b"1")])))
    rig.link.held.add(T.ACK)
    worker.ack(0, ack_set=[0b10])
    worker.close()
    assert rig.link.sent(T.ACK)
    assert rig.count == 1
    rig.brokers.held = True
    rig.link.lose()
    acks = [place for command in back(rig).sent(T.ACK) for place in command.ack.message_id]
    assert [(place.entryId, list(place.ack_set)) for place in acks] == [(0, [0b10])]
    assert rig.count == 0


def test_a_broker_that_stays_away_is_not_waited_for_forever() -> None:
    """Past the bound the acks are given up, and nothing is asked for any more."""
    rig, worker = away()
    worker.ack(0)
    worker.close()
    rig.clock.advance(CLOSING_S_MAX)
    assert rig.count == 0
    assert back(rig).log == []
    rig.clock.advance(CLOSING_S_MAX)
    assert rig.clock.waiting == 0


def test_a_gateway_that_stops_waits_for_them_while_it_drains() -> None:
    """Draining ends with the broker's word, and closing ends the wait."""
    rig, worker = away()
    worker.ack(0)
    worker.close()
    drained: list[bool] = []
    rig.subscriptions.drain(lambda: drained.append(True))
    rig.clock.advance(1)
    assert drained == []
    assert rig.subscription.state.dispatcher.outstanding.unconfirmed == {pack(LEDGER, 0)}
    back(rig)
    rig.clock.advance(1)
    assert drained == [True]
    rig.subscriptions.close()
    assert rig.count == 0
