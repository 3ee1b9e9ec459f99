"""The broker closed our consumer: it unloaded the topic, or somebody moved the cursor, and it does not say which."""

from __future__ import annotations

import pytest

from proxy.net.subscription.cursor import IDLE_S, LEDGER_MADE_S
from proxy.wire import pulsar_pb2 as pb
from tests.net.stream_rig import StreamRig, key_in
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, T, single
from tests.net.test_subscription_transactions import ack as acknowledge_in_transaction
from tests.net.test_subscription_transactions import end as end_transaction
from tests.net.test_subscription_upstream import holding

COUNT = 6


def all_acknowledged() -> tuple[SubscriptionRig, Worker]:
    """Entries 0 to 5 were delivered, acknowledged and confirmed, and the broker has stored that."""
    rig, worker = holding(COUNT)
    worker.ack(*range(COUNT))
    rig.clock.advance(LEDGER_MADE_S)
    rig.link.acked()
    return rig, worker


def close(rig: SubscriptionRig, mark_delete: int) -> None:
    """The broker closes our consumer; when we are back, its cursor stands there."""
    rig.link.mark_delete = (LEDGER, mark_delete)
    rig.link.close_consumer()
    rig.clock.advance(1.0)


def send_again(rig: SubscriptionRig, worker: Worker, first: int = 0) -> list[int]:
    """What the worker gets if the broker sends everything again from there on."""
    rig.link.deliver(*[(entry, single("k")) for entry in range(first, COUNT)])
    return worker.entries()


@pytest.mark.parametrize("mark_delete", [-1, 2, 3, COUNT - 1])
def test_what_is_sent_after_the_cursor_was_moved_is_delivered(mark_delete: int) -> None:
    """Wherever to, and whatever a worker holds: a broker that unloaded the topic would have stored its cursor."""
    rig, worker = holding(COUNT)
    worker.ack(0, 1, 4, 5)
    rig.clock.advance(LEDGER_MADE_S)
    close(rig, mark_delete)
    assert send_again(rig, worker) == [0, 1, 4, 5], "2 and 3 are at the worker still"


def test_a_cursor_that_is_moved_again_while_a_worker_holds_something_is_seen() -> None:
    """The first message that came again takes its time."""
    rig, worker = all_acknowledged()
    close(rig, 2)
    assert send_again(rig, worker, 3) == [3, 4, 5]
    worker.ack(4, 5)
    rig.clock.advance(LEDGER_MADE_S)
    close(rig, -1)
    assert send_again(rig, worker) == [0, 1, 2, 4, 5]


def unloaded(rig: SubscriptionRig) -> None:
    """The topic is unloaded, with everything stored that is acknowledged but the last two entries."""
    close(rig, COUNT - 3)


def held_back() -> tuple[SubscriptionRig, Worker]:
    """Everything but the last two entries is acknowledged, and the topic was unloaded and loaded again."""
    rig, worker = holding(COUNT)
    worker.ack(*range(COUNT - 2))
    rig.clock.advance(LEDGER_MADE_S)
    unloaded(rig)
    return rig, worker


@pytest.mark.parametrize("answered", [True, False])
def test_what_a_broker_loses_in_an_early_unload_is_not_delivered(answered: bool) -> None:  # noqa: FBT001
    """The first acks after a topic was loaded are lost if it is unloaded at once, confirmed or not."""
    rig, worker = held_back()
    if not answered:
        rig.link.held.add(T.ACK)
    worker.ack(4, 5)
    rig.link.held.clear()
    unloaded(rig)
    assert send_again(rig, worker, COUNT - 2) == []


def test_what_is_acknowledged_while_the_broker_is_asked_says_nothing() -> None:
    """It told where the cursor stood before."""
    rig, worker = held_back()
    rig.link.held.add(T.GET_LAST_MESSAGE_ID)
    worker.ack(4)
    close(rig, 3)
    worker.ack(5)
    rig.link.answer(T.GET_LAST_MESSAGE_ID)
    assert send_again(rig, worker, 4) == []


def test_what_was_acknowledged_long_before_is_lost_with_it() -> None:
    """The cursor alone is back where it was: what was acknowledged one by one above it is not known any more."""
    rig, worker = holding(COUNT)
    worker.ack(0, 1, 4, 5)
    rig.clock.advance(LEDGER_MADE_S)
    close(rig, 1)
    worker.ack(2)
    close(rig, 1)
    rig.link.acked()
    assert send_again(rig, worker, 2) == [], "3 is at the worker still"
    assert rig.link.acked() == [(LEDGER, 2), (LEDGER, 4), (LEDGER, 5)]


def test_what_was_lost_is_known_until_it_came_again() -> None:
    """The topic is unloaded once more, before the broker has sent anything."""
    rig, worker = held_back()
    worker.ack(4, 5)
    unloaded(rig)
    rig.link.acked()
    unloaded(rig)
    unloaded(rig)
    assert send_again(rig, worker, COUNT - 2) == []
    rig.clock.advance(LEDGER_MADE_S)
    unloaded(rig)
    assert send_again(rig, worker, COUNT - 2) == [4, 5], "now it was moved there"


def test_a_cursor_that_is_moved_long_after_a_loss_is_seen() -> None:
    """Nothing came again meanwhile, as there was nothing: the worker holds what stands in the way."""
    rig, worker = holding(COUNT)
    worker.ack(0, 1, 4)
    rig.clock.advance(LEDGER_MADE_S)
    close(rig, 1)
    worker.ack(5)
    close(rig, 1)
    rig.clock.advance(IDLE_S)
    close(rig, 1)
    assert send_again(rig, worker, 2) == [4, 5]


@pytest.mark.parametrize("told", [True, False])
def test_a_commit_does_not_hide_what_is_lost_behind_it(told: bool) -> None:  # noqa: FBT001
    """A broker loses no commit: its cursor stands there, as if nothing had been lost."""
    rig, worker = holding(COUNT)
    worker.ack(0)
    rig.clock.advance(LEDGER_MADE_S)
    close(rig, 0)
    acknowledge_in_transaction(rig, worker, 1)
    worker.ack(3)
    if told:
        end_transaction(rig, committed=True)
    close(rig, 1)
    assert send_again(rig, worker, 2) == [], "2, 4 and 5 are at the worker still"


def test_a_connection_that_is_lost_at_once_after_an_unload_changes_nothing() -> None:
    """The topic is loaded since the consumer before, and goes back to where it stood then."""
    rig, worker = held_back()
    worker.ack(4, 5)
    old, new = rig.link, rig.brokers.new_link()
    new.mark_delete = (LEDGER, COUNT - 1)
    old.lose()
    rig.clock.advance(LEDGER_MADE_S / 2)
    unloaded(rig)
    assert send_again(rig, worker, COUNT - 2) == []


def test_what_is_lost_since_a_broker_was_restarted_at_once_after_an_unload_is_not_delivered() -> None:
    """It had stored what was acknowledged before, and goes back to there: to where its cursor stands all the time."""
    rig, worker = holding(COUNT)
    worker.ack(0)
    rig.clock.advance(LEDGER_MADE_S)
    close(rig, 0)
    worker.ack(1)
    old, new = rig.link, rig.brokers.new_link()
    new.mark_delete = (LEDGER, 1)
    old.lose()
    rig.clock.advance(0)
    worker.ack(3, 4, 5)
    close(rig, 1)
    assert send_again(rig, worker, 2) == [], "2 is at the worker still"


def test_what_is_lost_in_an_early_unload_while_the_connection_is_away_is_not_delivered() -> None:
    """Nothing tells of it but the connection's loss at such a time: what was acknowledged one by one comes again."""
    rig, worker = holding(COUNT)
    worker.ack(0, 1, 4)
    rig.clock.advance(LEDGER_MADE_S)
    close(rig, 1)
    worker.ack(5)
    old, new = rig.link, rig.brokers.new_link()
    new.mark_delete = (LEDGER, 1)
    new.held.add(T.GET_LAST_MESSAGE_ID)
    old.lose()
    rig.clock.advance(0)
    assert new.permits(), "a lost connection asks no question"
    assert send_again(rig, worker, 2) == [], "2 and 3 are at the worker still"


def test_nothing_is_asked_for_before_the_broker_told_where_the_cursor_stands() -> None:
    """What came before the answer could be taken for neither."""
    rig, worker = held_back()
    worker.ack(4, 5)
    rig.link.held.add(T.GET_LAST_MESSAGE_ID)
    rig.link.permits()
    close(rig, 1)
    assert rig.statistics().subscriptions[0].upstream_state == "ready"
    assert not rig.link.permits()
    rig.link.answer(T.GET_LAST_MESSAGE_ID)
    assert rig.link.permits()
    assert send_again(rig, worker, 2) == [2, 3, 4, 5]


@pytest.mark.parametrize("silent", [True, False])
def test_a_broker_that_does_not_tell_is_believed(silent: bool) -> None:  # noqa: FBT001
    """Rather something twice than something that is wanted again and does not come."""
    rig, worker = held_back()
    worker.ack(4, 5)
    rig.link.held.add(T.GET_LAST_MESSAGE_ID)
    unloaded(rig)
    if silent:
        rig.link.time_out(T.GET_LAST_MESSAGE_ID)
    else:
        rig.link.refuse(T.GET_LAST_MESSAGE_ID, pb.UnknownError, "no")
    assert rig.link.permits()
    assert send_again(rig, worker, 4) == [4, 5]


def test_a_cursor_that_is_moved_back_further_than_a_broker_goes_is_seen_at_once() -> None:
    """Nothing that was stored when the topic was loaded is lost."""
    rig, worker = held_back()
    worker.ack(4, 5)
    close(rig, 1)
    assert send_again(rig, worker, 2) == [2, 3, 4, 5]


def test_a_cursor_that_is_moved_twice_at_once_is_seen_twice() -> None:
    """Back to the same place, before a second is over."""
    rig, worker = all_acknowledged()
    for _ in range(2):
        close(rig, 2)
        assert send_again(rig, worker, 3) == [3, 4, 5]
        worker.ack(3, 4, 5)


def test_a_cursor_that_is_moved_as_soon_as_a_subscription_begins_is_seen() -> None:
    """No unload came before: nobody who tries this out waits for messages in vain."""
    rig = SubscriptionRig()
    rig.link.mark_delete = (LEDGER, -1)
    worker = rig.worker("a", permits=20)
    assert send_again(rig, worker) == list(range(COUNT))
    worker.ack(*range(COUNT))
    close(rig, -1)
    assert send_again(rig, worker) == list(range(COUNT))


def test_a_lost_connection_asks_no_question() -> None:
    """A broker that was killed goes back as far as it likes; permits do not wait."""
    rig, worker = all_acknowledged()
    old, new = rig.link, rig.brokers.new_link()
    new.mark_delete = (LEDGER, -1)
    new.held.add(T.GET_LAST_MESSAGE_ID)
    old.lose()
    rig.clock.advance(0)
    assert new.permits()
    new.answer(T.GET_LAST_MESSAGE_ID)
    assert send_again(rig, worker) == []


def test_only_a_consumer_that_came_back_is_believed() -> None:
    """Another stream's had asked before the cursor was moved."""
    rig = StreamRig(0, permits=20)
    key = key_in(0)
    entries = [(entry, single(key)) for entry in range(COUNT)]
    rig.deliver(0, *entries)
    rig.first.entries()
    rig.first.ack(0, 1)
    rig.clock.advance(LEDGER_MADE_S)
    rig.link.mark_delete = (LEDGER, 1)
    rig.link.close_consumer(rig.consumer_id(0))
    rig.clock.advance(1.0)
    rig.first.ack(2, 3, 4, 5)
    rig.link.held.add(T.GET_LAST_MESSAGE_ID)
    rig.open(1)
    rig.first.ack(0)
    rig.link.close_consumer(rig.consumer_id(0))
    rig.clock.advance(1.0)
    rig.link.answer(T.GET_LAST_MESSAGE_ID)
    rig.link.mark_delete = (LEDGER, -1)
    rig.link.answer(T.GET_LAST_MESSAGE_ID)
    rig.deliver(0, *entries)
    assert rig.first.entries() == list(range(COUNT))
