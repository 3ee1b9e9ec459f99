"""Acks: what is refused, what reaches the broker in which words, and when a worker gets its receipt."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.net.subscription.acks import ACKS_PER_COMMAND_MAX, INDEX_ACKS_S, bits_of, words_of
from proxy.wire import pulsar_pb2 as pb
from tests.growth import growth
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, FakeBrokerLink, T, batch, single

if TYPE_CHECKING:
    from collections.abc import Callable


def ready(count: int, **settings: object) -> tuple[SubscriptionRig, Worker]:
    """A worker that holds the messages 0 to `count`, all of one key."""
    rig = SubscriptionRig(**settings)
    worker = rig.worker("a", permits=count)
    rig.link.deliver(*[(entry, single("k")) for entry in range(count)])
    assert worker.entries() == list(range(count))
    rig.link.log.clear()
    return rig, worker


def index_acks(link: FakeBrokerLink) -> list[tuple[int, int]]:
    """Acks of single messages since the last look, as (entry, bits still unacknowledged)."""
    places = [place for command in link.taken(T.ACK) for place in command.ack.message_id]
    return [(place.entryId, bits_of(place.ack_set)) for place in places if place.ack_set]


# ---- to the broker ---------------------------------------------------------------------------------------------------


def test_the_acks_of_one_turn_leave_as_one_command() -> None:
    """Acks of many workers and commands are gathered; each carries a request id, to know when it was confirmed."""
    rig, worker = ready(3)
    for entry in range(3):
        command = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Individual)
        command.message_id.add(ledgerId=LEDGER, entryId=entry)
        worker.port.ack(command)
    rig.clock.settle()
    (sent,) = rig.link.sent(T.ACK)
    assert sent.ack.HasField("request_id")
    assert sent.ack.ack_type == pb.CommandAck.Individual
    assert rig.link.acked() == [(LEDGER, 0), (LEDGER, 1), (LEDGER, 2)]


def test_many_acks_are_cut_into_commands_that_a_broker_takes() -> None:
    """No command exceeds the bound, and a receipt waits for the last of them."""
    count = ACKS_PER_COMMAND_MAX + 5
    rig, worker = ready(count)
    rig.link.held.add(T.ACK)
    worker.ack(*range(count), request_id=7)
    assert [len(command.ack.message_id) for command in rig.link.sent(T.ACK)] == [ACKS_PER_COMMAND_MAX, 5]
    rig.link.answer(T.ACK)
    assert worker.commands() == []
    rig.link.answer(T.ACK)
    assert worker.receipt().request_id == 7


def test_acks_of_what_a_worker_does_not_hold_reach_nobody() -> None:
    """Foreign, unknown, impossible and repeated positions: counted, not sent, and the connection stays."""
    rig, worker = ready(2)
    other = rig.worker("b")
    other.ack(0)
    worker.ack(99)
    worker.ack((1 << 63) - 1)
    worker.ack((1 << 64) - 1)
    worker.ack((1 << 40) - 1)
    assert rig.link.acked() == []
    worker.ack(0)
    worker.ack(0)
    assert rig.link.acked() == [(LEDGER, 0)]
    by_name = {item.name: item for item in rig.statistics().subscriptions[0].dispatcher.workers}
    assert (by_name["b"].unknown_acks, by_name["a"].unknown_acks) == (1, 5)


@pytest.mark.parametrize("request_id", [None, 8])
def test_a_cumulative_ack_is_refused(request_id: int | None) -> None:
    """It would acknowledge other workers' messages. The broker ignores it; we say no to who asks for a receipt."""
    rig, worker = ready(2)
    command = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Cumulative)
    command.message_id.add(ledgerId=LEDGER, entryId=1)
    if request_id is not None:
        command.request_id = request_id
    worker.port.ack(command)
    rig.clock.settle()
    assert rig.link.acked() == []
    if request_id is None:
        assert worker.commands() == []
    else:
        receipt = worker.receipt()
        assert (receipt.request_id, receipt.error) == (8, pb.NotAllowedError)
        assert "cumulative" in receipt.message
    assert rig.statistics().subscriptions[0].acks_refused == 1


# ---- single messages of a batch --------------------------------------------------------------------------------------


def test_acks_of_single_messages_are_passed_on_and_the_last_one_acknowledges_the_entry() -> None:
    """The broker's word is the set still unacknowledged, lowest bit first."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((4, batch([("k", b"0"), ("k", b"1"), ("k", b"2")])))
    worker.ack(4, ack_set=[0b101])
    rig.clock.advance(INDEX_ACKS_S)
    assert index_acks(rig.link) == [(4, 0b101)]
    worker.ack(4, ack_set=[0b001])
    rig.clock.advance(INDEX_ACKS_S)
    assert index_acks(rig.link) == [(4, 0b001)]
    worker.ack(4)
    assert rig.link.acked() == [(LEDGER, 4)]


def test_acks_of_a_slice_are_mapped_to_the_entrys_indexes() -> None:
    """A slice is numbered from 0; upstream the numbers are those of the whole batch."""
    rig = SubscriptionRig()
    first, second = rig.worker("a", permits=9), rig.worker("b", permits=9)
    mine, other = rig.key_for("a"), rig.key_for("b")
    rig.link.deliver((4, batch([(other, b"0"), (mine, b"1"), (other, b"2"), (mine, b"3")])))
    (slice_,) = first.messages()
    assert slice_.payloads == [b"1", b"3"]
    first.ack(slice_, ack_set=[0b10])
    rig.clock.advance(INDEX_ACKS_S)
    assert index_acks(rig.link) == [(4, 0b1101)]
    first.ack(slice_)
    rig.clock.advance(INDEX_ACKS_S)
    assert index_acks(rig.link) == [(4, 0b0101)]
    (rest,) = second.messages()
    second.ack(rest)
    assert rig.link.acked() == [(LEDGER, 4)]


def test_acks_of_single_messages_are_gathered_and_a_batch_done_meanwhile_needs_none() -> None:
    """Each taker acknowledges at another moment; the broker is told once what is done by then, and nothing twice."""
    rig = SubscriptionRig()
    first, second = rig.worker("a", permits=9), rig.worker("b", permits=9)
    mixed = batch([(rig.key_for("a"), b"0"), (rig.key_for("b"), b"1")])
    rig.link.deliver((4, mixed), (5, mixed))
    mine, others = first.messages(), second.messages()
    first.ack(mine[0])
    first.ack(mine[1])
    rig.clock.advance(INDEX_ACKS_S / 2)
    assert rig.link.taken(T.ACK) == []
    second.ack(others[0])
    assert rig.link.acked() == [(LEDGER, 4)]
    rig.clock.advance(INDEX_ACKS_S / 2)
    assert index_acks(rig.link) == [(5, 0b10)]
    rig.clock.advance(60)
    assert rig.link.taken(T.ACK) == []


def test_a_receipt_sends_the_acks_of_single_messages_at_once() -> None:
    """A worker that waits for the broker's word does not wait for other workers' acks."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((4, batch([("k", b"0"), ("k", b"1")])))
    worker.ack(4, ack_set=[0b10], request_id=3)
    assert index_acks(rig.link) == [(4, 0b10)]
    assert worker.receipt().request_id == 3


def test_the_last_worker_leaves_no_ack_of_a_single_message_behind() -> None:
    """The subscription ends here with it, and with that whatever would have sent them later."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=9)
    rig.link.deliver((4, batch([("k", b"0"), ("k", b"1")])))
    worker.ack(4, ack_set=[0b10])
    worker.port.close(9)
    rig.clock.settle()
    assert index_acks(rig.link) == [(4, 0b10)]


def test_a_batch_beyond_64_messages_takes_more_than_one_word() -> None:
    """Words are signed on the wire; the highest bit of one is not lost."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=200)
    rig.link.deliver((4, batch([("k", b"x")] * 70)))
    unacked = (1 << 63) | (1 << 69)
    worker.ack(4, ack_set=words_of(unacked))
    rig.clock.advance(INDEX_ACKS_S)
    assert index_acks(rig.link) == [(4, unacked)]


def test_late_acks_of_what_is_to_be_sent_again_are_looked_up_together() -> None:
    """A client may ask for all it has again, and acknowledge it in the same breath: none of it is sent again."""

    def ready(acked: int) -> Callable[[], None]:
        rig, count = SubscriptionRig(), 4 * acked
        worker = rig.worker("a", permits=2 * count)
        for start in range(0, count, 1_000):
            rig.link.deliver(*((entry, single("k")) for entry in range(start, min(start + 1_000, count))))
        assert len(worker.entries()) == count
        worker.port.redeliver(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=worker.consumer_id))
        ids = [pb.MessageIdData(ledgerId=LEDGER, entryId=entry) for entry in range(count - acked, count)]
        ack = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Individual, message_id=ids)

        def acknowledge() -> None:
            worker.port.ack(ack)
            rig.clock.settle()
            assert worker.entries() == list(range(count - acked))

        return acknowledge

    assert growth(ready, 125, 1_000) < 28  # 64, if each were looked for


def test_the_words_of_many_bits_are_cut_out_once() -> None:
    """An ack command has room for millions, in any frame of a client."""

    def ready(count: int) -> Callable[[], object]:
        bits = (1 << 64 * count) - 1
        assert words_of(bits) == [-1] * count
        return lambda: words_of(bits)

    assert growth(ready, 1 << 10, 1 << 14) < 64  # 256, if the rest were moved for each


@pytest.mark.parametrize("bits", [0, 1, 1 << 63, (1 << 64) - 1, 1 << 64, (1 << 200) - 1])
def test_bits_survive_the_wires_words(bits: int) -> None:
    """Signed 64-bit words, lowest first; zero is one word, since no word at all means the whole entry."""
    words = words_of(bits)
    assert words
    assert all(-(1 << 63) <= word < 1 << 63 for word in words)
    assert bits_of(words) == bits


def test_without_batch_index_acks_at_the_broker_only_whole_entries_are_sent() -> None:
    """A broker that does not store them would ignore them; the worker's receipt does not wait for what is not sent."""
    rig = SubscriptionRig(upstream_batch_index_ack=False)
    worker = rig.worker("a", permits=9)
    rig.link.deliver((4, batch([("k", b"0"), ("k", b"1")])))
    worker.ack(4, ack_set=[0b10], request_id=3)
    assert rig.link.sent(T.ACK) == []
    assert worker.receipt().request_id == 3
    worker.ack(4)
    assert rig.link.acked() == [(LEDGER, 4)]
