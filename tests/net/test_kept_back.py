"""Batches that the broker sends without what is in transactions of an earlier life: how they are acknowledged."""

from __future__ import annotations

import pytest

from proxy.net.subscription.acks import bits_of
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import T, batch
from tests.net.test_subscription_transactions import LOOKS


def acked_but_for(rig: SubscriptionRig) -> list[tuple[int, int]]:
    """Acknowledgements outside transactions since the last look: entry, and the bits of what they leave over."""
    acks = [command.ack for command in rig.link.taken(T.ACK) if not command.ack.HasField("txnid_most_bits")]
    return [(place.entryId, bits_of(place.ack_set)) for each in acks for place in each.message_id]


@pytest.mark.parametrize("with_indexes", [True, False])
def test_a_transaction_from_before_a_kill_loses_nothing(with_indexes: bool) -> None:  # noqa: FBT001 - a parameter
    """The broker keeps a message back that it has in one: the batch is acknowledged without it, and it may come."""
    rig = SubscriptionRig(upstream_batch_index_ack=with_indexes)
    worker = rig.worker("a", permits=9)
    tail = batch([("k", b"0"), ("k", b"1"), ("k", b"2")])
    rig.link.deliver((0, tail), ack_set=(0b110,))
    (first,) = worker.messages()
    assert first.payloads == [b"1", b"2"]
    worker.ack(first, ack_set=(0b10,))
    rig.clock.advance(1.0)
    assert acked_but_for(rig) == ([(0, 0b101)] if with_indexes else [])
    worker.ack(first)
    assert acked_but_for(rig) == [(0, 0b001)]
    rig.link.deliver((0, tail), ack_set=(0b001,), redeliveries=1)
    (again,) = worker.messages()
    assert again.payloads == [b"0"]
    assert acked_but_for(rig) == []
    worker.ack(again)
    assert acked_but_for(rig) == [(0, 0)]


def test_what_is_kept_back_stays_so_in_acknowledgements_after_a_lost_connection() -> None:
    """Of entries that are done and unconfirmed, and of those that are acknowledged in part."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    for entry in range(2):
        rig.link.deliver((entry, batch([("k", b"0"), ("k", b"1"), ("k", b"2")])), ack_set=(0b110,))
    done, partly = worker.messages()
    rig.link.held.add(T.ACK)
    worker.ack(done)
    worker.ack(partly, ack_set=(0b10,))
    rig.link.lose()
    rig.brokers.new_link()
    rig.clock.advance(LOOKS)
    assert acked_but_for(rig) == [(0, 0b001), (1, 0b101)]
