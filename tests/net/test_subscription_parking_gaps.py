"""A parking topic that has later messages of a key than one that it refused: no redrive goes ahead of that one."""

from __future__ import annotations

from typing import Any, Final

import pytest

from proxy.core.positions import pack
from proxy.errors import Conflict
from proxy.net.subscription import parking
from proxy.net.subscription.redrive import EARLY_MAX
from proxy.net.subscription.topic_reading import QUIET_S
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, T, batch, single
from tests.net.test_subscription_parking import (
    Lot,
    acked,
    arrive,
    opened,
    order_redrive,
    payload,
    redriven,
    upstream,
)
from tests.net.test_subscription_refused_copies import Choosy, beginning, shut, slot_of, wait

REFUSED: Final = b"1"


def left_with_a_gap() -> Choosy:
    """A parking topic with messages 0, 2 and 3 of a key; its gateway was killed while 1 was refused."""
    lot = Choosy(REFUSED)
    rig, _ = beginning(lot, b"0", b"1", b"2", b"3")
    assert contents(lot) == [b"0", b"2", b"3"]
    assert acked(rig) == [0, 2, 3]
    return lot


def contents(lot: Lot) -> list[bytes]:
    """Payloads of what is parked."""
    return [payload(lot.entries[entry]) for entry in lot.left()]


def test_a_redrive_after_a_restart_waits_for_the_message_that_was_refused() -> None:
    """It went ahead of it: what the parking topic does not have, the next gateway did not know of."""
    lot = left_with_a_gap()
    lot.refused.clear()
    rig, worker = opened(lot, mark_delete=0)
    order_redrive(rig)
    lot.pump(rig)
    assert worker.messages() == []
    arrive(rig, (1, single("k", b"1")), (4, single("k", b"4")))
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2", b"3", b"4"]
    assert lot.left() == []
    assert not rig.subscription.state.dispatcher.diversions.parked


def test_what_is_older_goes_in_while_the_topic_is_read() -> None:
    """If it waited until the topic was read up to the last that is parked, it would fill the look-ahead, for ever."""
    lot = left_with_a_gap()
    lot.refused.clear()
    rig, worker = opened(lot, mark_delete=0)
    order_redrive(rig)
    arrive(rig, (1, single("k", b"1")))
    lot.pump(rig)
    assert contents(lot) == [b"0", b"2", b"3", b"1"]
    assert not rig.subscription.state.dispatcher.waiting_messages
    assert worker.messages() == []
    arrive(rig, (4, single("k", b"4")))
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("first", [True, False])
def test_a_redrive_after_a_restart_ends_if_the_message_is_refused_again(*, first: bool) -> None:
    """Whether it has come before the order or comes behind it: the reason is told, and nothing is delivered."""
    lot = left_with_a_gap()
    rig, worker = opened(lot, mark_delete=0)
    ear = rig.subscriptions.events.listen(lambda: None)
    if not first:
        order_redrive(rig)
    arrive(rig, (1, single("k", b"1")), (4, single("k", b"4")))
    lot.pump(rig)
    assert rig.subscription.lot is not None
    if first:
        with pytest.raises(Conflict, match="7:1:-1 cannot be published: too large"):
            order_redrive(rig)
    else:
        (failed,) = [event for event in ear.take()[1] if event.kind == "redrive_failed"]
        assert "a message of the slot is not parked, and later ones are" in failed.facts["reason"]
    assert rig.subscription.lot.state_of(slot_of(rig)) == "parked"
    assert worker.messages() == []
    lot.refused.clear()
    wait(lot, rig)
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_redrive_begins_at_once_where_the_broker_tells_that_all_before_is_acknowledged() -> None:
    """Nothing of the slot can come that is older."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    rig, worker = opened(lot, mark_delete=1)
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1"]


@pytest.mark.parametrize("mark_delete", [None, 0])
def test_a_redrive_begins_when_the_broker_has_sent_nothing_for_a_while(mark_delete: int | None) -> None:
    """What lies between was acknowledged one by one. As long as something comes, or may not, it waits."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("j", b"j")), (1, single("k", b"0")), (2, single("k", b"1")))
    (other, mine) = worker.messages()
    worker.redeliver(mine)
    lot.pump(rig)
    assert acked(rig) == [1, 2], other
    rig, worker = opened(lot, mark_delete)
    order_redrive(rig)
    rig.clock.advance(QUIET_S - 1.0)
    arrive(rig, (0, single("j", b"j")))
    worker.ack(*worker.messages())
    rig.clock.advance(QUIET_S - 1.0)
    lot.pump(rig)
    assert worker.messages() == []
    rig.clock.advance(QUIET_S)
    assert redriven(rig, lot, worker) == [b"0", b"1"]


def test_silence_of_a_broker_that_was_not_asked_says_nothing() -> None:
    """While nothing may come, the message that was refused may be next."""
    lot = left_with_a_gap()
    lot.refused.clear()
    rig, worker = opened(lot, mark_delete=0)
    rig.link.close_consumer(upstream(rig))
    rig.brokers.error = ConnectionError("no broker")
    order_redrive(rig)
    rig.clock.advance(10 * QUIET_S)
    lot.pump(rig)
    assert worker.messages() == []


def test_a_redrive_that_a_seek_cuts_short_reads_the_topic_again() -> None:
    """What the broker was believed to have sent it sends anew."""
    lot = left_with_a_gap()
    rig, _ = opened(lot, mark_delete=3)
    outstanding = rig.subscription.state.dispatcher.outstanding
    assert outstanding.reached == pack(LEDGER, 3)
    outstanding.reset()
    assert outstanding.reached == -1


def test_what_a_seek_brought_again_is_redriven_before_all_that_was_parked_before_it() -> None:
    """It stands last in the parking topic, and a reader keeps only so many until their turn."""
    lot = Lot()
    rig, worker = opened(lot)
    worker.flow(1_000)
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in range(3)))
    while messages := worker.messages():
        worker.ack(*messages)
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in range(3, EARLY_MAX + 10)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    rig, worker = opened(lot)
    worker.flow(1_000)
    order_redrive(rig)
    for entry in range(EARLY_MAX + 10):
        arrive(rig, (entry, single("k", b"%d" % entry)))
        lot.pump(rig)
    assert redriven(rig, lot, worker) == [b"%d" % entry for entry in range(EARLY_MAX + 10)]
    assert lot.left() == []


def test_an_early_message_ends_the_redrive_where_the_parking_topic_takes_nothing() -> None:
    """It is not tried for ever, and what is parked is not delivered before it."""
    lot = left_with_a_gap()
    rig, worker = opened(lot, mark_delete=0)
    ear = rig.subscriptions.events.listen(lambda: None)
    shut(rig, pb.ProducerBlockedQuotaExceededError)
    order_redrive(rig)
    arrive(rig, (1, single("k", b"1")), (4, single("k", b"4")))
    lot.pump(rig)
    rig.clock.advance(1.0)
    (failed,) = [event for event in ear.take()[1] if event.kind == "redrive_failed"]
    assert "not parked, and later ones are: the broker's words" in failed.facts["reason"]
    assert worker.messages() == []


def test_an_early_message_ends_the_redrive_where_the_parking_topic_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where it takes nothing."""
    lot = left_with_a_gap()
    rig, worker = opened(lot, mark_delete=0)
    monkeypatch.setattr(parking, "PARKED_MAX", 3)
    ear = rig.subscriptions.events.listen(lambda: None)
    order_redrive(rig)
    arrive(rig, (1, single("k", b"1")), (4, single("k", b"4")))
    lot.pump(rig)
    (failed,) = [event for event in ear.take()[1] if event.kind == "redrive_failed"]
    assert f"later ones are: {parking.FULL}" in failed.facts["reason"]
    assert worker.messages() == []


class Slow(Choosy):
    """One that stores nothing while it is `held`; what it refuses it refuses at once."""

    def __init__(self, *refused: bytes) -> None:
        super().__init__(*refused)
        self.held: list[tuple[Any, int, bytes]] | None = None

    def _store(self, rig: SubscriptionRig) -> bool:
        if self.held is None:
            return super()._store(rig)
        link = rig.link
        sends = [command.send for command in link.log if command.type == T.SEND]
        link.log = [command for command in link.log if command.type != T.SEND]
        tails = list(link.published)
        link.published.clear()
        for command, tail in zip(sends, tails, strict=True):
            if payload(tail) in self.refused:
                self._refuse(link.producers[command.producer_id], command.sequence_id)
            else:
                self.held.append((link.producers[command.producer_id], command.sequence_id, tail))
        rig.clock.settle()
        return bool(sends)

    def let_go(self, rig: SubscriptionRig) -> None:
        """Store what was held."""
        held, self.held = self.held or [], None
        for producer, sequence_id, tail in held:
            self.entries.append(tail)
            producer.stored(sequence_id)
        rig.clock.settle()
        self.pump(rig)


def test_a_redrive_that_is_ordered_while_later_messages_are_on_their_way_waits_for_the_refused_one() -> None:
    """The order took the refused one out of those that go, and the later ones arrived: so it was overtaken."""
    lot = Slow(REFUSED)
    rig, worker = beginning(lot, b"0")
    lot.held = []
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in (1, 2, 3)))
    lot.pump(rig)
    assert contents(lot) == [b"0"]
    ear = rig.subscriptions.events.listen(lambda: None)
    order_redrive(rig)
    lot.let_go(rig)
    assert contents(lot) == [b"0", b"2", b"3"]
    assert redriven(rig, lot, worker) == []
    assert [event.kind for event in ear.take()[1]].count("redrive_failed") == 1
    lot.refused.clear()
    wait(lot, rig)
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2", b"3"]


@pytest.mark.parametrize("killed", [False, True])
def test_messages_of_one_batch_are_compared_by_their_places_in_it(*, killed: bool) -> None:
    """The refused one lies before the last one, in the same entry."""
    lot = Choosy(REFUSED)
    entries = (0, single("k", b"0")), (1, batch([("k", b"a"), ("k", REFUSED), ("k", b"b")]))
    rig, worker = opened(lot)
    arrive(rig, *entries)
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    assert contents(lot) == [b"0", b"a", b"b"]
    if killed:
        rig, worker = opened(lot, mark_delete=0)
        arrive(rig, entries[1])
        lot.pump(rig)
    with pytest.raises(Conflict, match="7:1:-1:1 cannot be published: too large"):
        order_redrive(rig)
    lot.refused.clear()
    wait(lot, rig)
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"a", b"1", b"b"]


def test_a_redrive_goes_past_the_last_message_of_a_batch_that_is_refused_for_ever() -> None:
    """What is parked of the batch is older. It is not tried anew because of the redrive."""
    lot = Choosy(b"b")
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, batch([("k", b"a"), ("k", b"b")])), (2, single("k", b"2")))
    worker.redeliver(*worker.messages())
    lot.refused.add(b"2")
    lot.pump(rig)
    assert contents(lot) == [b"0", b"a"]
    refusals = lot.refusals
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"a", b"b", b"2"]
    assert lot.refusals == refusals
