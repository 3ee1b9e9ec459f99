"""Parked keys on the wire: one topic that is both log and lot, played by the test."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from proxy.core import spilling
from proxy.errors import UpstreamError
from proxy.key_policies import PARKING_TOPIC
from proxy.net.subscription import parking, taking_out
from proxy.net.subscription.batch_slots import BATCH_MESSAGES_MAX
from proxy.net.subscription.own_topics import parking_topic
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_tail, peek
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, TOPIC, T, batch, single
from tests.net.test_subscription_keys import asking

PARKING = parking_topic(PARKING_TOPIC, TOPIC, "s")
LOT = 50
"""Its ledger."""


class Lot:
    """The parking topic at the broker: entries, and the one subscription's acknowledgements."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.acked: set[int] = set()
        self.sent: dict[int, int] = {}
        """How far each consumer is."""

    def pump(self, rig: SubscriptionRig) -> None:
        """Do what a broker does, until nothing is left to be done."""
        busy = True
        rig.link.last_message = lambda: (LOT, self.last)
        while busy:
            busy = self._store(rig) | self._deliver(rig) | self._hear_acks(rig)

    @property
    def last(self) -> int:
        """The last entry that has not been acknowledged, or the first place, which has none by then."""
        return max((entry for entry in range(len(self.entries)) if entry not in self.acked), default=0)

    def left(self) -> list[int]:
        """Entries that are parked."""
        return [entry for entry in range(len(self.entries)) if entry not in self.acked and parked(self.entries[entry])]

    def _store(self, rig: SubscriptionRig) -> bool:
        link = rig.link
        sends = [command.send for command in link.log if command.type == T.SEND]
        link.log = [command for command in link.log if command.type != T.SEND]
        self.entries += link.published
        link.published.clear()
        for command in sends:
            link.producers[command.producer_id].stored(command.sequence_id)
        rig.clock.settle()
        return bool(sends)

    def _deliver(self, rig: SubscriptionRig) -> bool:
        done = False
        for command in [each.subscribe for each in rig.link.log if each.type == T.SUBSCRIBE]:
            number = command.consumer_id
            if command.topic != PARKING or number not in rig.link.consumers:
                continue
            start = self.sent.get(number, command.start_message_id.entryId + 1 if not command.durable else 0)
            fresh = [entry for entry in range(start % (1 << 64), len(self.entries)) if entry not in self.acked]
            self.sent[number] = len(self.entries)
            for entry in fresh:
                if number in rig.link.consumers:
                    rig.link.deliver((entry, self.entries[entry]), ledger=LOT, to=number)
                    done = True
        return done

    def _hear_acks(self, rig: SubscriptionRig) -> bool:
        before = len(self.acked)
        for command in rig.link.log:
            if command.type == T.ACK:
                self.acked |= {place.entryId for place in command.ack.message_id if place.ledgerId == LOT}
        return len(self.acked) > before


def parked(tail: bytes) -> bool:
    """Whether it is a message, and no mark."""
    return any(pair.key.endswith("parked.origin") for pair in peek(tail).metadata.properties)


def payload(tail: bytes) -> bytes:
    """Its payload."""
    return tail[peek(tail).payload_start :]


def opened(lot: Lot, mark_delete: int | None = None, **settings: object) -> tuple[SubscriptionRig, Worker]:
    """A subscription that parks after the first attempt, and its worker, which is let in when the lot is read.

    All up to the entry `mark_delete` is acknowledged, as the broker tells it.
    """
    rig = SubscriptionRig(**{"park_after": 1, "key_window": 1, **settings})
    if mark_delete is not None:
        rig.link.mark_delete = LEDGER, mark_delete
    lot.sent.clear()
    worker = rig.subscribe("a")
    assert worker.commands() == []
    lot.pump(rig)
    (answer,) = worker.commands()
    assert answer.type == T.SUCCESS, answer
    worker.flow(50)
    return rig, worker


def upstream(rig: SubscriptionRig) -> int:
    """The consumer of the original topic."""
    return next(each.subscribe.consumer_id for each in rig.link.log if each.subscribe.topic == TOPIC)


def arrive(rig: SubscriptionRig, *entries: tuple[int, bytes]) -> None:
    """Messages of the original topic."""
    rig.link.deliver(*entries, to=upstream(rig))


def acked(rig: SubscriptionRig) -> list[int]:
    """Entries of the original topic that were acknowledged."""
    return sorted({entry for ledger, entry in rig.link.acked() if ledger == LEDGER})


def events_of(rig: SubscriptionRig) -> Callable[[], list[tuple[str, dict[str, object]]]]:
    """What is told of parked slots from now on."""
    listener = rig.subscriptions.events.listen(lambda: None)
    kinds = {"keys_parked", "redriven", "parked_dropped"}
    return lambda: [(event.kind, event.facts) for event in listener.take()[1] if event.kind in kinds]


def test_a_poisoned_message_and_the_later_ones_of_its_key_are_parked() -> None:
    """Their copies have key and payload; the originals are acknowledged behind the receipts; others go on."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")), (2, single("other", b"2")))
    (first, other) = worker.messages()
    worker.ack(other)
    worker.redeliver(first)
    assert acked(rig) == [2]
    lot.pump(rig)
    arrive(rig, (3, single("k", b"3")))
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"1", b"3"]
    assert acked(rig) == [0, 1, 3]
    assert worker.messages() == []


def order_redrive(rig: SubscriptionRig) -> None:
    """Of the only slot that is parked."""
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    assert rig.subscription.lot is not None
    rig.subscription.lot.order(slot, redrive=True)


def redriven(rig: SubscriptionRig, lot: Lot, worker: Worker) -> list[bytes]:
    """Payloads that the worker gets, which it acknowledges one by one."""
    seen: list[bytes] = []
    lot.pump(rig)
    while messages := worker.messages():
        for message in messages:
            seen += message.payloads
            worker.ack(message)
        lot.pump(rig)
    return seen


@pytest.mark.parametrize("killed", [False, True])
def test_a_redrive_delivers_what_is_parked_before_what_is_newer(*, killed: bool) -> None:
    """Also by the next gateway, which knows by the parking topic alone what is parked."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, batch([("k", b"1"), ("k", b"2")])))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    if killed:
        rig, worker = opened(lot)
    arrive(rig, (3, single("k", b"3")))
    lot.pump(rig)
    assert worker.messages() == []
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    assert rig.subscription.lot is not None
    assert rig.subscription.lot.order(slot, redrive=True) == 4
    arrive(rig, (4, single("k", b"4")))
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2", b"3", b"4"]
    assert lot.left() == []
    assert 4 in acked(rig)
    dispatcher = rig.subscription.state.dispatcher
    assert not dispatcher.diversions.parked
    assert not dispatcher.outstanding.bytes_held
    assert not dispatcher.waiting_messages
    assert set(rig.brokers.others) == {PARKING}
    assert rig.brokers.others_diverted == rig.brokers.others, "what is read though the gateway is full"


def test_a_redriven_message_is_what_its_producer_sent() -> None:
    """Producer, sequence id, time and schema version, and under the id that it had."""
    lot = Lot()
    rig, worker = opened(lot)
    spoofed = pb.KeyValue(key="keyline.parked.origin", value="9:9")
    sent = single("k", b"0", properties=[pb.KeyValue(key="own", value="v"), spoofed], schema_version=b"\7")
    arrive(rig, (0, sent))
    (first,) = worker.messages()
    worker.redeliver(first)
    lot.pump(rig)
    order_redrive(rig)
    lot.pump(rig)
    (again,) = worker.messages()
    kept = [pair.value for pair in peek(lot.entries[-1]).metadata.properties if pair.key == spoofed.key]
    assert kept == [f"{(LEDGER << 40)}:-1"]
    assert (again.ledger, again.entry) == (first.ledger, first.entry)
    metadata, original = peek(again.tail).metadata, peek(sent).metadata
    assert [pair.key for pair in metadata.properties] == ["own"]
    del metadata.properties[:], original.properties[:]
    assert metadata == original


def test_slots_are_told_when_they_are_parked_and_again_by_the_next_gateway() -> None:
    """Once each, however much is parked of them; and when a slot is parked anew."""
    lot = Lot()
    rig, worker = opened(lot)
    told = events_of(rig)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    arrive(rig, (2, single("k", b"2")))
    lot.pump(rig)
    assert told() == [("keys_parked", {"slots": [slot], "parking_topic": PARKING})]
    order_redrive(rig)
    redriven(rig, lot, worker)
    assert [kind for kind, _ in told()] == ["redriven"]
    arrive(rig, (3, single("k", b"3")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    assert [kind for kind, _ in told()] == ["keys_parked"]
    following, _ = opened(lot)
    assert following.subscription.state.dispatcher.diversions.parked == {slot}
    kept = [event.kind for event in following.subscriptions.events.listen(lambda: None, 0).take()[1]]
    assert kept.count("keys_parked") == 1


def test_a_dropped_key_goes_on_with_what_is_newer() -> None:
    """What was parked is acknowledged in the parking topic, and is gone."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    assert rig.subscription.lot is not None
    assert rig.subscription.lot.order(slot, redrive=False) == 2
    arrive(rig, (2, single("k", b"2")))
    assert redriven(rig, lot, worker) == [b"2"]
    assert lot.left() == []


def test_a_drop_waits_for_what_a_worker_has_of_an_earlier_redrive() -> None:
    """What it gives back is in the parking topic again, and dropped: its last copy is not deleted under its hands."""
    lot = Lot()
    rig, worker = opened(lot, key_window=0)
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in range(3)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    order_redrive(rig)
    lot.pump(rig)
    first, second, third = worker.messages()
    worker.redeliver(first)
    lot.pump(rig)
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    assert rig.subscription.lot is not None
    assert rig.subscription.lot.state_of(slot) == "parked"
    assert rig.subscription.lot.order(slot, redrive=False) == 3
    arrive(rig, (3, single("k", b"3")))
    lot.pump(rig)
    assert len(lot.left()) == 3
    worker.redeliver(second)
    worker.ack(third)
    assert redriven(rig, lot, worker) == [b"3"]
    assert lot.left() == []


def test_a_redrive_that_a_crash_cuts_short_leaves_the_rest_parked() -> None:
    """The next gateway has the rest in its lot, and delivers it before what is newer."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in range(4)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    order_redrive(rig)
    lot.pump(rig)
    worker.ack(*worker.messages())
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"1", b"2", b"3"]
    rig, worker = opened(lot)
    arrive(rig, (9, single("k", b"9")))
    assert redriven(rig, lot, worker) == []
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"1", b"2", b"3", b"9"]


def test_what_comes_again_though_it_is_parked_is_acknowledged_only() -> None:
    """A gateway that was killed between receipt and acknowledgement: the broker sends the original once more."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"1"]
    assert sum(map(parked, lot.entries)) == 2
    assert acked(rig) == [0, 1]


def test_what_is_parked_twice_is_redriven_once() -> None:
    """A receipt was lost, so the message was published again: the second copy is acknowledged on sight."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    lot.entries += [lot.entries[entry] for entry in lot.left()]
    rig, worker = opened(lot, mark_delete=1)
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    assert rig.subscription.lot is not None
    assert rig.subscription.lot.order(slot, redrive=True) == 2
    assert redriven(rig, lot, worker) == [b"0", b"1"]
    assert lot.left() == []


@pytest.mark.parametrize(("redrive", "seen"), [(True, [b"0", b"1"]), (False, [b"1"])])
def test_an_order_waits_for_what_is_on_its_way_into_the_lot(*, redrive: bool, seen: list[bytes]) -> None:
    """Else it would find the lot empty, and what is newer would go first."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    assert rig.subscription.lot is not None
    assert rig.subscription.lot.order(slot, redrive=redrive) == 0
    arrive(rig, (1, single("k", b"1")))
    assert worker.messages() == []
    assert redriven(rig, lot, worker) == seen
    assert lot.left() == []


def test_a_worker_is_refused_where_the_parking_topic_cannot_be_used() -> None:
    """With the broker's reason: what is parked is not known, so nothing may be delivered."""
    rig = SubscriptionRig(park_after=1)
    rig.brokers.others_error = UpstreamError("not authorized to produce", pb.AuthorizationError)
    worker = rig.subscribe("a")
    _, text = worker.error()
    assert PARKING in text
    assert "not authorized to produce" in text
    assert rig.count == 0


def test_no_client_can_have_keys_parked() -> None:
    """The parking topic is read and written with the gateway's own rights."""
    rig = SubscriptionRig()
    worker = rig.subscribe("a", metadata=asking(park_after=1))
    assert worker.error()[0] == pb.NotAllowedError


def test_a_message_whose_properties_are_no_text_is_parked_as_it_is() -> None:
    """Any producer can send such bytes: they must not end what others wait for."""
    lot = Lot()
    rig, worker = opened(lot)
    strange = pb.KeyValue.FromString(b"\x0a\x02\xff\xfe\x12\x02\xff\xfe")
    sent = single("k", b"0", properties=[strange])
    arrive(rig, (0, sent))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    assert acked(rig) == [0]
    order_redrive(rig)
    lot.pump(rig)
    (again,) = worker.messages()
    assert list(peek(again.tail).metadata.properties) == [strange]


def test_an_acknowledgement_that_the_broker_forgot_does_not_park_the_key_again() -> None:
    """A broker that is killed sends what it had confirmed once more: it is acknowledged on sight."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    order_redrive(rig)
    first = lot.left()[0]
    lot.pump(rig)
    worker.ack(*worker.messages())
    lot.pump(rig)
    lot.acked.remove(first)
    reader = next(each.subscribe.consumer_id for each in rig.link.log if each.subscribe.topic == PARKING)
    rig.link.log = [command for command in rig.link.log if command.type != T.ACK]
    rig.link.deliver((first, lot.entries[first]), ledger=LOT, to=reader)
    arrive(rig, (2, single("k", b"2")))
    assert redriven(rig, lot, worker) == [b"1", b"2"]
    assert lot.left() == []


def test_a_copy_that_is_read_late_is_redriven_too() -> None:
    """Its first one was redriven already: once more is right, and to wait for ever would not be."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    order_redrive(rig)
    first = lot.left()[0]
    lot.pump(rig)
    worker.ack(*worker.messages())
    lot.pump(rig)
    lot.entries.append(lot.entries[first])
    arrive(rig, (2, single("k", b"2")))
    assert redriven(rig, lot, worker) == [b"1", b"0", b"2"]
    assert lot.left() == []


@pytest.mark.parametrize(("redrive", "seen"), [(True, [b"0", b"1", b"2"]), (False, [b"1", b"2"])])
def test_a_full_lot_can_be_emptied(monkeypatch: pytest.MonkeyPatch, *, redrive: bool, seen: list[bytes]) -> None:
    """What would still go in waits here, behind what comes out."""
    monkeypatch.setattr(parking, "PARKED_MAX", 1)
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    arrive(rig, (1, single("k", b"1")), (2, single("k", b"2")))
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0"]
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    assert rig.subscription.lot is not None
    rig.subscription.lot.order(slot, redrive=redrive)
    assert "as many as it may" in rig.subscription.state.dispatcher.diversions.trouble
    assert redriven(rig, lot, worker) == seen
    assert lot.left() == []
    assert not rig.subscription.state.dispatcher.diversions.parked
    assert not rig.subscription.state.dispatcher.diversions.trouble


def test_what_only_the_broker_has_is_asked_for_before_it_is_parked() -> None:
    """At once: on a quiet subscription nothing else may happen for long."""
    lot = Lot()
    rig, worker = opened(lot, key_share_percent=1)
    arrive(rig, (0, single("k", b"0")), (1, single("k", b"1")))
    dispatcher = rig.subscription.state.dispatcher
    (waiting,) = dispatcher.waiting_parts()
    spilling.drop(dispatcher, waiting)
    worker.redeliver(*worker.messages())
    asked = [
        command.redeliverUnacknowledgedMessages
        for command in rig.link.log
        if command.type == T.REDELIVER_UNACKNOWLEDGED_MESSAGES
    ]
    assert [place.entryId for each in asked for place in each.message_ids] == [1]
    arrive(rig, (1, single("k", b"1")))
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"1"]


def test_what_is_parked_of_another_subscription_is_left_alone() -> None:
    """Names may come together: of `a-b` and `c` as of `a` and `b-c`. Clients choose both."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    copy = peek(lot.entries[-1])
    for pair in copy.metadata.properties:
        if pair.key == "keyline.parked.subscription":
            assert pair.value == "s"
            pair.value = "another"
    lot.entries[-1] = build_tail(copy.metadata, b"0")
    rig, worker = opened(lot)
    assert not rig.subscription.state.dispatcher.diversions.parked
    arrive(rig, (1, single("k", b"1")))
    assert redriven(rig, lot, worker) == [b"1"]
    assert lot.left() == [1]


def test_what_a_copy_says_besides_counts_in_its_size() -> None:
    """The broker would close the connection at one that is too large."""
    lot = Lot()
    rig, worker = opened(lot)
    size = rig.link.max_message_bytes + (8 << 10)
    sent = single("k", b"x" * (size - 100))
    assert size - 100 < len(sent) < size
    arrive(rig, (0, sent), (1, single("other", b"1")))
    for message in worker.messages():
        worker.redeliver(message)
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"1"]
    assert "cannot be published" in rig.subscription.state.dispatcher.diversions.trouble


def test_a_redrive_that_is_cut_off_goes_on_and_its_trouble_is_over() -> None:
    """Else the verdict would tell of it as long as any key is parked."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    diversions = rig.subscription.state.dispatcher.diversions
    (slot,) = diversions.parked
    assert rig.subscription.lot is not None
    rig.subscription.lot.order(slot, redrive=True)
    rig.clock.settle()
    reader = [each.subscribe for each in rig.link.log if each.type == T.SUBSCRIBE][-1]
    assert not reader.durable
    rig.link.consumers[reader.consumer_id].closed_by_broker("unloaded")
    assert diversions.trouble == "unloaded"
    rig.clock.advance(2)
    lot.pump(rig)
    assert not diversions.trouble
    assert redriven(rig, lot, worker) == [b"0"]


def test_a_redrive_that_the_broker_refuses_is_tried_again_after_pauses() -> None:
    """Not in each turn: those come as often as other keys have messages."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    rig.link.refusals[T.SUBSCRIBE] = (pb.NotAllowedError, "too many consumers")
    before = sum(each.type == T.SUBSCRIBE for each in rig.link.log)
    order_redrive(rig)
    for entry in range(1, 40):
        arrive(rig, (entry, single("other", b"x")))
        rig.clock.settle()
        worker.ack(*worker.messages())
    assert sum(each.type == T.SUBSCRIBE for each in rig.link.log) == before + 1
    del rig.link.refusals[T.SUBSCRIBE]
    rig.clock.advance(2)
    assert redriven(rig, lot, worker) == [b"0"]


def test_a_key_with_many_messages_is_dropped_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by a request for each, in one turn that everyone else would wait for."""
    monkeypatch.setattr(taking_out, "DROPPED_MAX", 2)
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in range(5)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    rig.link.log = [command for command in rig.link.log if command.type != T.ACK]
    assert rig.subscription.lot is not None
    rig.subscription.lot.order(slot, redrive=False)
    lot.pump(rig)
    assert [len(command.ack.message_id) for command in rig.link.log if command.type == T.ACK] == [2, 2, 1]
    assert lot.left() == []
    assert not rig.subscription.state.dispatcher.diversions.parked


def test_a_parked_batch_counts_with_all_its_messages() -> None:
    """One that is encrypted is parked whole. A broker debits each message, and sends nothing more without permits."""
    lot = Lot()
    rig, worker = opened(lot)
    keys = [pb.EncryptionKeys(key="key", value=b"value")]
    sent = batch([("k", b"%d" % number) for number in range(1_500)], encryption_keys=keys)
    arrive(rig, (0, sent))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    order_redrive(rig)
    worker.flow(3_000)
    lot.pump(rig)
    assert len(worker.messages()) == 1
    readers = [each.subscribe.consumer_id for each in rig.link.log if each.subscribe.topic == PARKING]
    assert len(readers) == 2
    for reader in readers:
        flows = [each.flow for each in rig.link.log if each.type == T.FLOW]
        assert sum(flow.messagePermits for flow in flows if flow.consumer_id == reader) > 1_500


def test_a_batch_that_claims_as_many_messages_as_can_be_is_read_past() -> None:
    """A producer says how many there are: no FLOW may have more permits than a broker can read."""
    lot = Lot()
    rig, worker = opened(lot)
    claims = (1 << 31) - 1
    keys = [pb.EncryptionKeys(key="key", value=b"value")]
    arrive(rig, (0, single("k", b"0", num_messages_in_batch=claims, encryption_keys=keys)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    assert len(lot.left()) == 1
    flows = [each.flow for each in rig.link.log if each.type == T.FLOW]
    reader = next(each.subscribe.consumer_id for each in rig.link.log if each.subscribe.topic == PARKING)
    assert max(flow.messagePermits for flow in flows) <= claims
    assert sum(flow.messagePermits for flow in flows if flow.consumer_id == reader) > claims
    order_redrive(rig)
    lot.pump(rig)
    (part,) = rig.subscription.state.dispatcher.waiting_parts()
    assert part.count == BATCH_MESSAGES_MAX, "as when it came first"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("origin", "-7:-1"),
        ("origin", f"{1 << 200}:-1"),
        ("origin", f"{LEDGER << 40}:{1 << 20}"),
        ("origin", "text"),
        ("sequence-id", "-1"),
        ("publish-time", f"{1 << 64}"),
        ("schema-version", "no hexadecimal digits"),
    ],
)
def test_a_copy_that_says_what_cannot_be_is_left_alone(name: str, value: str) -> None:
    """Whoever may publish there wrote it: it must not end a connection when it is redriven."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    copy = peek(lot.entries[-1])
    (pair,) = (pair for pair in copy.metadata.properties if pair.key == f"keyline.parked.{name}")
    pair.value = value
    lot.entries[-1] = build_tail(copy.metadata, b"0")
    rig, _ = opened(lot)
    assert not rig.subscription.state.dispatcher.diversions.parked
