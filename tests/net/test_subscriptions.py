"""All subscriptions together: the memory they share, draining, closing, and what operators see."""

from __future__ import annotations

import pytest

from proxy.net.subscription import services
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker, sticky
from tests.net.subscription_rig_broker import LEDGER, T, batch, single

BODY = b"x" * 1_000
LIMIT = 20_000


def stopped() -> tuple[SubscriptionRig, Worker]:
    """A gateway whose memory is spent by the 15 messages that one worker holds."""
    rig = SubscriptionRig(gateway_memory_bytes=LIMIT)
    worker = rig.worker("a", permits=100)
    rig.link.deliver(*[(entry, single("k", BODY)) for entry in range(15)])
    assert worker.entries() == list(range(15))
    assert rig.statistics().reading_stopped
    rig.link.permits()
    return rig, worker


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_payloads_that_wait_for_clients_are_dropped_when_memory_is_short() -> None:
    """The oldest first, and no more than needed: else clients that take nothing would stop all reading for ever."""
    rig = SubscriptionRig(gateway_memory_bytes=LIMIT)

    def kept(size: int) -> list[str]:
        wish, dropped = rig.openings.open_in_background(size, bytes, lambda _: None), list[str]()

        def drop() -> None:
            dropped.append("dropped")
            wish.release()

        wish.keep(drop)
        return dropped

    first, second = kept(LIMIT // 2), kept(LIMIT // 2)
    assert (first, second, rig.statistics().reading_stopped) == ([], [], False)
    wish = rig.openings.open_in_background(1_000, bytes, lambda _: None)
    assert (first, second, rig.statistics().reading_stopped) == (["dropped"], [], False)
    wish.release()


def test_nothing_is_kept_for_clients_while_memory_is_short() -> None:
    """As long as others hold it."""
    rig, worker = stopped()
    wish, dropped = rig.openings.open_in_background(300, bytes, lambda _: None), list[str]()

    def drop() -> None:
        dropped.append("dropped")
        wish.release()

    wish.keep(drop)
    assert dropped == ["dropped"]
    worker.ack(*range(15))
    assert not rig.statistics().reading_stopped
    wish = rig.openings.open_in_background(300, bytes, lambda _: None)
    wish.keep(drop)
    assert dropped == ["dropped"]


def test_bytes_held_are_counted_until_the_entry_is_acknowledged() -> None:
    """Pending or waiting, whole or in slices, over all subscriptions; nothing is left when all is acknowledged."""
    rig = SubscriptionRig()
    first, second = rig.worker("a", permits=1), rig.worker("b", permits=50)
    tail = batch([(rig.key_for("a"), b"0"), (rig.key_for("b"), b"1"), (rig.key_for("a", 1), b"2")])
    rig.link.deliver((0, tail), (1, single(rig.key_for("b"))))
    assert rig.statistics().held_bytes >= len(tail)
    first.flow(50)
    for worker in (first, second):
        worker.ack(*worker.messages())
    assert sorted(rig.link.acked()) == [(LEDGER, 0), (LEDGER, 1)]
    assert rig.statistics().held_bytes == 0


def test_when_the_memory_is_spent_nothing_is_read_and_nothing_granted() -> None:
    """The hard stop: the estimate that permits are granted by was wrong. It is counted."""
    rig, worker = stopped()
    assert rig.link.pausing
    assert rig.statistics().reading_stops == 1
    worker.flow(1_000)
    assert rig.link.permits() == 0


def test_reading_goes_on_when_a_tenth_was_given_back() -> None:
    """Acks need no reading to go out, so the stop ends by itself; permits follow in the same moment."""
    rig, worker = stopped()
    held = rig.statistics().held_bytes
    worker.ack(0)
    assert rig.statistics().held_bytes < held
    assert rig.link.pausing
    worker.ack(*range(1, 5))
    assert not rig.statistics().reading_stopped
    assert not rig.link.pausing
    assert rig.link.permits() > 0


def test_a_link_opened_while_reading_is_stopped_gets_no_permits_before_it_goes_on() -> None:
    """Its answers must be read, or the subscription could not be made; messages come for permits only."""
    rig, worker = stopped()
    first, second = rig.link, rig.brokers.new_link()
    other = rig.worker("z", permits=10, subscription="t")
    assert second.permits() == 0
    assert not second.pausing
    worker.ack(*range(15))
    assert second.permits() > 0
    assert not first.pausing
    second.deliver((0, single("k")))
    assert other.entries() == [0]


def test_a_link_lost_while_reading_is_stopped_does_not_keep_it_stopped() -> None:
    """The new connection reads, has no permits, and gets some when the worker gave its messages back."""
    rig, worker = stopped()
    old, new = rig.link, rig.brokers.new_link()
    old.lose()
    rig.clock.advance(1)
    assert new.permits() == 0
    worker.ack(*range(15))
    assert new.acked() == [(LEDGER, entry) for entry in range(15)]
    assert new.permits() > 0
    assert not rig.statistics().reading_stopped


def test_a_subscription_that_ends_while_reading_is_stopped_gives_its_memory_back() -> None:
    """Its messages go back to the broker; the links it shared are read again."""
    rig, worker = stopped()
    rig.worker("z", subscription="t")
    worker.lose()
    assert rig.statistics().held_bytes == 0
    assert not rig.statistics().reading_stopped
    assert not rig.link.pausing


def test_a_stop_that_one_subscription_caused_ends_for_all() -> None:
    """Subscriptions share links: the others' messages come when reading goes on, and none is lost."""
    rig, worker = stopped()
    other = rig.worker("z", permits=10, subscription="t")
    worker.ack(*range(15))
    rig.link.deliver((0, single("k")))
    assert other.entries() == [0]


def test_a_subscription_whose_own_budget_is_spent_gets_no_permits() -> None:
    """Long before the hard stop: by the size its messages have had lately. That it happened is counted."""
    rig = SubscriptionRig(subscription_memory_bytes=20_000)
    worker = rig.worker("a", permits=1_000)
    rig.link.permits()
    rig.link.deliver(*[(entry, single("k", BODY)) for entry in range(15)])
    worker.flow(1_000)
    assert rig.link.permits() == 0
    shown = rig.statistics()
    assert shown.subscriptions[0].budget_stops > 0
    assert not shown.reading_stopped
    worker.messages()
    worker.ack(*range(15))
    rig.link.deliver(*[(entry, single("k", BODY)) for entry in range(15, 100)])
    worker.ack(*range(15, 100))
    assert rig.link.permits() > 0


# ---- how many there may be -------------------------------------------------------------------------------------------


def test_a_subscription_takes_so_many_workers_and_no_more() -> None:
    """One more is told in the broker's words, and counted; the others stay, and a place that is left is free."""
    rig = SubscriptionRig(workers_per_subscription_max=2)
    first, second = rig.worker("a"), rig.worker("b")
    assert rig.subscribe("c").error() == (pb.ConsumerBusy, "Subscription reached max consumers limit: 2")
    rig.worker("z", subscription="t")
    assert rig.statistics().workers_per_subscription_refused_total == 1
    assert rig.statistics().workers == 3
    first.lose()
    rig.worker("c")
    assert not second.forgotten


def test_workers_that_wait_to_join_have_a_place_each() -> None:
    """A crowd that comes while the broker is slow is bounded too."""
    rig = SubscriptionRig(workers_per_subscription_max=2)
    rig.link.held.add(T.SUBSCRIBE)
    first, second, third = (rig.subscribe(name) for name in "abc")
    assert third.error()[0] == pb.ConsumerBusy
    rig.link.answer(T.SUBSCRIBE)
    assert first.answers() == second.answers() == [T.SUCCESS]


def test_the_gateway_takes_so_many_workers_and_no_more() -> None:
    """Over all subscriptions; whoever leaves, in whatever way, leaves a place."""
    rig = SubscriptionRig(workers_max=2)
    first, second = rig.worker("a"), rig.worker("z", subscription="t")
    for subscription in ("s", "new"):
        refusal = rig.subscribe("c", subscription=subscription).error()
        assert refusal == (pb.ConsumerBusy, "Gateway reached max consumers limit: 2")
    assert rig.statistics().workers_refused_total == 2
    first.lose()
    third = rig.worker("c")
    second.close()
    rig.worker("d")
    third.close()
    third.lose()
    assert rig.statistics().workers == 1


def test_all_workers_together_have_so_many_hash_ranges_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each takes 400 bytes here; whoever leaves leaves room. Ranges in an AUTO_SPLIT worker's SUBSCRIBE say nothing."""
    monkeypatch.setattr(services, "HASH_RANGES_MAX", 5)
    rig = SubscriptionRig()
    two, three = sticky((0, 9), (20, 29)), sticky((0, 9), (20, 29), (40, 49))
    first, second = rig.worker("a", keySharedMeta=two), rig.worker("b", subscription="t", keySharedMeta=three)
    code, text = rig.subscribe("c", subscription="u", keySharedMeta=sticky((0, 9))).error()
    assert code == pb.ConsumerBusy
    assert text == "1 hash ranges: at most 5 are allowed here, others have 5"
    assert rig.statistics().workers_refused_total == 1
    unsaid = sticky((0, 9), (20, 29))
    unsaid.keySharedMode = pb.AUTO_SPLIT
    rig.worker("d", subscription="v", keySharedMeta=unsaid).close()
    second.lose()
    rig.worker("c", subscription="u", keySharedMeta=three)
    first.close()
    rig.worker("e", keySharedMeta=two)


def test_a_worker_that_was_refused_takes_no_place() -> None:
    """Not one that the broker refused, nor one that does not agree with the others."""
    rig = SubscriptionRig()
    rig.worker("a")
    assert rig.subscribe("b", keySharedMeta=sticky((0, 9))).error()[0] == pb.ConsumerBusy
    rig.link.refusals[T.SUBSCRIBE] = (pb.AuthorizationError, "not yours")
    assert rig.subscribe("z", subscription="t").error()[0] == pb.AuthorizationError
    assert rig.statistics().workers == 1


def test_places_are_free_after_a_seek_and_an_unsubscribe() -> None:
    """Both end consumers without a word of their clients."""
    rig = SubscriptionRig()
    first, _ = rig.worker("a"), rig.worker("b")
    first.seek(0)
    assert rig.statistics().workers == 0
    worker = rig.worker("a")
    worker.unsubscribe()
    assert rig.statistics().workers == 0
    rig.worker("a")
    rig.subscriptions.close()
    rig.clock.settle()
    assert rig.statistics().workers == 0


def test_the_gateway_takes_so_many_subscriptions_and_no_more() -> None:
    """One more is refused as by a broker whose topic has too many, and counted; more workers of the others are not."""
    rig = SubscriptionRig(subscriptions_max=1)
    worker = rig.worker("a")
    code, text = rig.subscribe("z", subscription="t").error()
    assert code == pb.NotAllowedError
    assert "maximum number of subscriptions here: 1" in text
    assert rig.statistics().subscriptions_refused_total == 1
    rig.worker("b").lose()
    worker.lose()
    rig.worker("z", subscription="t")


# ---- draining and closing --------------------------------------------------------------------------------------------


def test_a_gateway_that_shuts_down_delivers_nothing_new_and_is_done_when_all_is_confirmed() -> None:
    """Pending messages may still be acknowledged; done is called once the broker confirmed the last of them."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=10)
    rig.link.deliver((0, single("k")))
    done: list[bool] = []
    rig.subscriptions.drain(lambda: done.append(True))
    rig.link.deliver((1, single("k")))
    assert worker.entries() == [0]
    rig.link.held.add(T.ACK)
    worker.ack(0)
    rig.clock.advance(1)
    assert done == []
    rig.link.answer(T.ACK)
    rig.clock.advance(1)
    assert done == [True]
    assert rig.link.permits() > 0, "before"
    worker.flow(100)
    assert rig.link.permits() == 0


def test_a_gateway_that_shuts_down_takes_no_new_worker() -> None:
    """It is told to try again, which a client does, elsewhere."""
    rig = SubscriptionRig()
    rig.worker("a")
    rig.subscriptions.drain(lambda: None)
    for subscription in ("s", "t"):
        code, text = rig.subscribe("b", subscription=subscription).error()
        assert code == pb.ServiceNotReady
        assert "shutting down" in text
    assert rig.statistics().shutting_down


def test_what_a_leaver_gives_back_to_a_gateway_that_shuts_down_goes_to_nobody_here() -> None:
    """It goes back to the broker with the rest."""
    rig = SubscriptionRig()
    first, second = rig.worker("a", permits=10), rig.worker("b", permits=10)
    rig.link.deliver((0, single(rig.key_for("a"))))
    rig.subscriptions.drain(lambda: None)
    first.lose()
    assert second.messages() == []
    rig.clock.advance(1)
    assert rig.subscription.state.idle


def test_a_gateway_that_closes_disconnects_workers_and_leaves_nothing_at_the_broker() -> None:
    """Clients are told that their consumers are closed and reconnect; late acks have been sent before the close."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=10)
    rig.link.deliver((0, single("k")))
    rig.worker("z", subscription="t")
    command = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Individual)
    command.message_id.add(ledgerId=LEDGER, entryId=0)
    worker.port.ack(command)
    rig.subscriptions.close()
    rig.clock.settle()
    assert worker.answers() == [T.CLOSE_CONSUMER]
    assert worker.forgotten
    assert rig.count == 0
    assert rig.link.consumers == {}
    kinds = [sent.type for sent in rig.link.log]
    assert kinds.count(T.CLOSE_CONSUMER) == 2
    assert kinds.index(T.ACK) < kinds.index(T.CLOSE_CONSUMER)
    assert rig.statistics().held_bytes == 0


def test_a_gateway_that_closes_refuses_who_waits_to_join() -> None:
    """There is no consumer to close: the SUBSCRIBE fails, with a code that means try again."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    worker = rig.subscribe("a")
    rig.subscriptions.close()
    rig.clock.settle()
    assert worker.error()[0] == pb.ServiceNotReady
    assert worker.forgotten
    rig.link.answer(T.SUBSCRIBE)
    assert rig.link.consumers == {}


# ---- what is seen ----------------------------------------------------------------------------------------------------


def test_a_hand_over_is_recorded_with_who_and_how_long() -> None:
    """A key drained at one worker and went on at another."""
    rig = SubscriptionRig()
    first = rig.worker("a", permits=50)
    keys = [f"key-{number}" for number in range(40)]
    rig.link.deliver(*[(entry, single(key)) for entry, key in enumerate(keys)])
    first.messages()
    second = rig.worker("b", permits=100)
    moved = keys.index(rig.key_for("b"))
    rig.link.deliver((100, single(keys[moved])))
    rig.clock.advance(2.5)
    assert second.messages() == [], "it drains at the first worker"
    draining = {item.name: item.draining_hashes_count for item in rig.statistics().subscriptions[0].dispatcher.workers}
    assert draining["a"] > 0
    first.ack(moved)
    assert second.entries() == [100]
    (record,) = rig.statistics().subscriptions[0].hand_overs
    assert (record.holder, record.owner, record.waiting_messages) == ("a", "b", 1)
    assert record.duration_s >= 2.5
    assert rig.statistics().subscriptions[0].hand_over_count == 1


def test_statistics_name_the_workers_and_where_they_are() -> None:
    """Who joined, from which address, and who still waits."""
    rig = SubscriptionRig()
    worker = rig.worker("a")
    rig.link.held.add(T.SUBSCRIBE)
    rig.subscribe("z", subscription="t")
    joined, joining = rig.statistics().subscriptions
    assert joined.addresses == (("a", worker.peer),)
    assert (joined.upstream_state, joined.joining) == ("ready", 0)
    assert (joining.addresses, joining.upstream_state, joining.joining) == ((), "subscribing", 1)
