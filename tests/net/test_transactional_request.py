"""An acknowledgement inside a transaction that is sent again, to a broker that takes none just now."""

from __future__ import annotations

import pytest

from proxy.net.subscription.transactional_request import NOT_NOW
from proxy.net.subscription.transactions import ASK_S
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import FakeBrokerLink, T
from tests.net.test_subscription_transactions import LOOKS, ack, end, holding, sent_again


def refused_just_now(code: int) -> tuple[SubscriptionRig, Worker, FakeBrokerLink]:
    """Message 0's was lost with its connection, and then refused."""
    rig, worker, link = sent_again()
    link.refuse(T.ACK, code, "not now")
    return rig, worker, link


@pytest.mark.parametrize("code", sorted(NOT_NOW))
def test_a_broker_that_takes_none_just_now_may_have_the_one_before(code: int) -> None:
    """Else its message went to a worker while the transaction is open; it is sent until there is a word."""
    rig, worker, link = refused_just_now(code)
    rig.clock.advance(2 * ASK_S)
    link.refuse(T.ACK, code, "not now")
    assert worker.commands() == []
    rig.clock.advance(2 * ASK_S)
    link.refuse(T.ACK, pb.TransactionConflict, "in pending ack status")
    assert not worker.receipt().HasField("error")
    end(rig, committed=True)
    assert worker.entries() == []


def test_a_broker_that_refuses_the_first_one_does_not_have_it() -> None:
    """Its word reaches the client at once, and the message comes again."""
    rig, worker = holding(1)
    rig.link.refusals[T.ACK] = (pb.ServiceNotReady, "not now")
    ack(rig, worker, 0)
    assert worker.receipt().error == pb.ServiceNotReady
    assert worker.entries() == [0]


def test_another_refusal_is_the_last_word() -> None:
    """The broker judged the transaction, or the client: it will not take it later either."""
    rig, worker, link = refused_just_now(pb.ServiceNotReady)
    rig.clock.advance(2 * ASK_S)
    link.refuse(T.ACK, pb.InvalidTxnStatus, "it is aborting")
    assert worker.receipt().error == pb.InvalidTxnStatus
    assert worker.entries() == [0]


def test_it_is_not_sent_any_more_when_its_transaction_has_ended() -> None:
    """It would be pending at the broker for long."""
    rig, worker, link = refused_just_now(pb.ServiceNotReady)
    end(rig, committed=False)
    assert worker.receipt().error == pb.TransactionConflict
    assert worker.entries() == [0]
    link.log.clear()
    rig.clock.advance(LOOKS)
    assert link.sent(T.ACK) == []
