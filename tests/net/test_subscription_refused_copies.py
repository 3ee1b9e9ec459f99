"""A parking topic that refuses a message: its key waits, order is kept, and an operator can take the key out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from proxy.core.explain import explain_slot
from proxy.core.key_verdict import explained
from proxy.core.positions import pack
from proxy.errors import Conflict, UpstreamError
from proxy.net.subscription import parking
from proxy.net.subscription.redrive import AHEAD_MAX, EARLY_MAX, Redrive
from proxy.net.subscription.redrive_checks import in_topic_order, readable
from proxy.net.subscription.summary import surroundings_of
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import LEDGER, T, single
from tests.net.test_subscription_parking import PARKING, Lot, acked, arrive, opened, order_redrive, payload, redriven

if TYPE_CHECKING:
    from proxy.core.positions import Position
    from proxy.net.ports import UpstreamProducer
    from tests.net.subscription_rig import Worker

PAUSES_S = 600.0


class Choosy(Lot):
    """A parking topic that refuses some payloads."""

    def __init__(self, *refused: bytes) -> None:
        super().__init__()
        self.refused = set(refused)
        self.refusals = 0

    def _store(self, rig: SubscriptionRig) -> bool:
        link = rig.link
        sends = [command.send for command in link.log if command.type == T.SEND]
        link.log = [command for command in link.log if command.type != T.SEND]
        tails = list(link.published)
        link.published.clear()
        for command, tail in zip(sends, tails, strict=True):
            producer = link.producers[command.producer_id]
            if payload(tail) in self.refused:
                self._refuse(producer, command.sequence_id)
            else:
                self.entries.append(tail)
                producer.stored(command.sequence_id)
        rig.clock.settle()
        return bool(sends)

    def _refuse(self, producer: UpstreamProducer, sequence_id: int) -> None:
        self.refusals += 1
        producer.not_stored(sequence_id, UpstreamError("too large", pb.NotAllowedError))


def beginning(lot: Choosy, *payloads: bytes) -> tuple[SubscriptionRig, Worker]:
    """These of one key came, and the first was given back."""
    rig, worker = opened(lot)
    arrive(rig, *((entry, single("k", each)) for entry, each in enumerate(payloads)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    return rig, worker


def wait(lot: Choosy, rig: SubscriptionRig) -> None:
    """Long enough for any pause."""
    for _ in range(int(PAUSES_S)):
        rig.clock.advance(1.0)
        lot.pump(rig)


def slot_of(rig: SubscriptionRig) -> int:
    """The only one that is parked."""
    (slot,) = rig.subscription.state.dispatcher.diversions.parked
    return slot


def test_what_comes_behind_a_refused_message_waits_with_it_and_is_not_sent_again() -> None:
    """The key says why; another is parked meanwhile; when the topic takes the message, the rest follows in order."""
    lot = Choosy(b"0")
    rig, worker = beginning(lot, b"0")
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in range(1, 6)), (6, single("j", b"6")))
    for message in worker.messages():
        worker.redeliver(message)
    wait(lot, rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"6"]
    assert acked(rig) == [6]
    assert 5 < lot.refusals < 60
    dispatcher = rig.subscription.state.dispatcher
    told = [explain_slot(dispatcher, slot, rig.clock.now()).unblocks for slot in dispatcher.diversions.parked]
    assert any(f"{LEDGER}:0:-1 cannot be published: too large" in each for each in told)
    lot.refused.clear()
    wait(lot, rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"6", *(b"%d" % entry for entry in range(6))]
    assert dispatcher.diversions.trouble == ""


def test_what_was_refused_is_tried_again_when_a_full_lot_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if nothing else comes for the lot meanwhile."""
    monkeypatch.setattr(parking, "PARKED_MAX", 1)
    lot = Choosy(b"0")
    rig, worker = beginning(lot, b"0")
    arrive(rig, (1, single("j", b"1")))
    worker.redeliver(*worker.messages())
    wait(lot, rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"1"]
    lot.refused.clear()
    assert rig.subscription.lot is not None
    (slot,) = rig.subscription.lot.log.slots
    rig.subscription.lot.order(slot, redrive=False)
    wait(lot, rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0"]
    assert acked(rig) == [0, 1]


def test_what_was_published_at_once_with_it_is_redriven_behind_it() -> None:
    """It is in the parking topic before the refused one; the order of the redrive is the original topic's."""
    lot = Choosy(b"1")
    rig, worker = beginning(lot, b"0", b"1", b"2", b"3")
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"2", b"3"]
    slot = slot_of(rig)
    assert rig.subscription.lot is not None
    with pytest.raises(Conflict, match="7:1:-1 cannot be published: too large"):
        rig.subscription.lot.order(slot, redrive=True)
    assert worker.messages() == []
    lot.refused.clear()
    wait(lot, rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0", b"2", b"3", b"1"]
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2", b"3"]


def test_a_redrive_reads_in_the_order_of_the_original_topic() -> None:
    """However many were parked before one that is older."""
    lot = Choosy(b"1")
    rig, _ = beginning(lot, *(b"%d" % entry for entry in range(60)))
    lot.refused.clear()
    wait(lot, rig)
    assert payload(lot.entries[lot.left()[-1]]) == b"1"
    assert rig.subscription.lot is not None
    (parked,) = rig.subscription.lot.log.slots.values()
    assert [parked[position].position for position in in_topic_order(parked)] == [
        pack(LEDGER, entry) for entry in range(60)
    ]


def test_a_redrive_goes_past_a_message_that_is_refused_for_ever() -> None:
    """What is parked is older: it comes first, then the refused one and what is behind it, from the original topic."""
    lot = Choosy(b"1")
    rig, worker = beginning(lot, b"0")
    arrive(rig, (1, single("k", b"1")))
    lot.pump(rig)
    arrive(rig, (2, single("k", b"2")))
    lot.pump(rig)
    assert [payload(lot.entries[entry]) for entry in lot.left()] == [b"0"]
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0", b"1", b"2"]
    assert not rig.subscription.state.dispatcher.diversions.held
    assert acked(rig) == [0, 1, 2]


def test_dropping_a_key_gives_up_what_is_parked_and_delivers_what_was_refused() -> None:
    """It is not parked, so it is not deleted."""
    lot = Choosy(b"1")
    rig, worker = beginning(lot, b"0", b"1", b"2")
    assert rig.subscription.lot is not None
    rig.subscription.lot.order(slot_of(rig), redrive=False)
    assert redriven(rig, lot, worker) == [b"1"]
    assert lot.left() == []


def test_a_drop_waits_for_a_refused_message_that_is_tried_again() -> None:
    """Its copy may be stored: if the key went on, a message that was worked on would be parked."""
    lot = Choosy(b"1")
    rig, worker = beginning(lot, b"0", b"1", b"2")
    lot.refused.clear()
    while not rig.link.sent(T.SEND):
        rig.clock.advance(0.2)
    assert rig.subscription.lot is not None
    rig.subscription.lot.order(slot_of(rig), redrive=False)
    rig.clock.settle()
    assert worker.messages() == []
    assert rig.subscription.state.dispatcher.diversions.parked
    lot.pump(rig)
    assert redriven(rig, lot, worker) == []
    assert lot.left() == []
    assert acked(rig) == [0, 1, 2]
    assert not rig.subscription.state.dispatcher.diversions.parked


def test_what_is_read_of_the_parking_topic_is_parked_though_nothing_else_happens() -> None:
    """A copy that the gateway did not expect is one all the same, and nothing newer of its key is delivered."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    copies = [lot.entries[entry] for entry in lot.left()]
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0"]
    lot.entries += copies
    lot.pump(rig)
    assert rig.subscription.state.dispatcher.diversions.parked
    arrive(rig, (1, single("k", b"1")))
    assert worker.messages() == []


def test_a_worker_is_refused_where_the_parking_topic_takes_not_even_a_mark() -> None:
    """With the broker's reason: what is parked cannot be known."""
    rig = SubscriptionRig(park_after=1)
    worker = rig.subscribe("a")
    rig.clock.settle()
    (producer,) = rig.link.producers.values()
    producer.not_stored(0, UpstreamError("messages must be encrypted", pb.NotAllowedError))
    rig.clock.settle()
    _, text = worker.error()
    assert "messages must be encrypted" in text
    assert rig.count == 0


def shut(rig: SubscriptionRig, code: int) -> None:
    """The broker closes the producer, with what it was sent and has not confirmed, and gives no other."""
    rig.link.taken(T.SEND)
    rig.link.published.clear()
    rig.link.refusals[T.PRODUCER] = code, "the broker's words"
    for number in list(rig.link.producers):
        rig.link.producers.pop(number).closed_by_broker("the broker closed the producer")
    rig.clock.settle()


@pytest.mark.parametrize("redrive", [True, False])
@pytest.mark.parametrize("ordered_before", [False, True])
def test_what_is_parked_can_be_taken_out_while_the_topic_takes_nothing(*, redrive: bool, ordered_before: bool) -> None:
    """It is what a full or terminated topic needs. What waits to go in goes to the worker behind it instead."""
    lot = Choosy()
    rig, worker = beginning(lot, b"0", b"1")
    assert rig.subscription.lot is not None
    slot = slot_of(rig)
    if not ordered_before:
        shut(rig, pb.TopicTerminatedError)
    arrive(rig, (2, single("k", b"2")))
    rig.clock.advance(1.0)
    if ordered_before:
        rig.subscription.lot.order(slot, redrive=redrive)
        shut(rig, pb.TopicTerminatedError)
    dispatcher = rig.subscription.state.dispatcher
    verdict = explained(dispatcher, slot, rig.clock.now(), surroundings_of(rig.subscription)).verdict
    assert verdict is not None
    assert verdict.says.startswith(f"1 hash slot waits for {PARKING}, which does not take its messages:")
    if not ordered_before:
        assert "can be redriven or dropped: do that first" in verdict.advice
        rig.subscription.lot.order(slot, redrive=redrive)
    rig.clock.advance(5.0)
    assert redriven(rig, lot, worker) == ([b"0", b"1", b"2"] if redrive else [b"2"])
    assert lot.left() == []
    assert acked(rig) == [0, 1, 2]
    assert not dispatcher.diversions.held


def test_a_copy_whose_receipt_was_lost_with_the_producer_is_redriven_once() -> None:
    """It is in the topic, as was read there: so it is not delivered from the original one besides."""
    lot = Choosy()
    rig, worker = beginning(lot, b"0")
    arrive(rig, (1, single("k", b"1")))
    lot.entries += rig.link.published
    shut(rig, pb.TopicTerminatedError)
    lot.pump(rig)
    order_redrive(rig)
    rig.clock.advance(5.0)
    assert redriven(rig, lot, worker) == [b"0", b"1"]
    assert acked(rig) == [0, 1]
    assert lot.left() == []


@pytest.mark.parametrize(
    ("code", "advice"),
    [
        (pb.TopicTerminatedError, "Save what is parked in it"),
        (pb.ProducerBlockedQuotaExceededError, "raise the quota, then redrive or drop"),
        (pb.AuthorizationError, "--actions produce,consume"),
        (pb.TopicNotFound, f"pulsar-admin topics create {PARKING}"),
        (pb.NotAllowedError, "must not be partitioned"),
        (pb.UnknownError, "Look whether it can be reached"),
    ],
)
def test_a_worker_is_refused_with_what_to_do(code: int, advice: str) -> None:
    """Where nothing can be redriven yet, because the topic cannot be opened."""
    rig = SubscriptionRig(park_after=1)
    rig.link.refusals[T.PRODUCER] = code, "the broker's words"
    worker = rig.subscribe("a")
    rig.clock.settle()
    _, text = worker.error()
    assert f"the parking topic {PARKING} cannot be used: the broker's words. " in text
    assert advice in text
    assert rig.count == 0


@pytest.mark.parametrize("last", [False, True])
def test_a_chunked_message_that_is_parked_in_part_is_not_redriven(*, last: bool) -> None:
    """The order says what to do; when the last chunk has come, it is carried out."""
    lot = Choosy()
    rig, worker = beginning(lot, b"0")
    chunks = [single("k", b"%d" % n, uuid="u", num_chunks_from_msg=2, chunk_id=n - 1) for n in (1, 2)]
    arrive(rig, (1, chunks[0]))
    lot.pump(rig)
    slot = slot_of(rig)
    assert rig.subscription.lot is not None
    with pytest.raises(Conflict, match=r"a chunk is at 7:1 is parked in part: 1 of its 2 chunks"):
        rig.subscription.lot.order(slot, redrive=True)
    assert slot in rig.subscription.lot.parked_slots
    if last:
        arrive(rig, (2, chunks[1]))
        lot.pump(rig)
        order_redrive(rig)
        assert redriven(rig, lot, worker) == [b"0", b"1", b"2"]
    else:
        rig.subscription.lot.order(slot, redrive=False)
        assert redriven(rig, lot, worker) == []
    assert lot.left() == []


def test_an_order_that_a_chunked_message_makes_impossible_later_ends_with_the_reason() -> None:
    """A part of it was on its way into the lot when the redrive was ordered."""
    lot = Choosy()
    rig, worker = beginning(lot, b"0")
    ear = rig.subscriptions.events.listen(lambda: None)
    arrive(rig, (1, single("k", b"1", uuid="u", num_chunks_from_msg=2, chunk_id=0)))
    order_redrive(rig)
    lot.pump(rig)
    (failed,) = [event for event in ear.take()[1] if event.kind == "redrive_failed"]
    assert "is parked in part" in failed.facts["reason"]
    assert worker.messages() == []
    assert rig.subscription.lot is not None
    assert rig.subscription.lot.state_of(slot_of(rig)) == "parked"


class Reader:
    """Brokers that never answer, and the consumer that is never there for it."""

    def locate(self, topic: str, answered: object) -> None:
        """Nothing."""

    def fetch(self, *, fetches: bool) -> None:
        """Nothing."""


def read_in(wanted: dict[Position, str], *, at_once: bool = True, until: Position | None = None) -> list[Position]:
    """What a redrive hands on that reads the topic `until` there, and whose messages are done `at_once`."""
    found: list[Position] = []
    reader: Any = Reader()

    def take(at: Position, tail: bytes) -> None:
        _ = tail
        found.append(at)
        if at_once:
            redrive.one_done()

    redrive = Redrive("t", "n", wanted, reader, take, lambda gone: pytest.fail(f"{gone} are there"), pytest.fail)
    for position in sorted(wanted):
        if until is None or position <= until:
            redrive.consumer_received(reader, position, b"")
    return found


def test_messages_that_were_parked_in_another_order_are_handed_on_in_topic_order() -> None:
    """As far as the gateway's own pipeline may change it; one in any other order is read to its end all the same."""
    straight = [pack(1, entry) for entry in range(4 * AHEAD_MAX)]
    swapped = [*straight[:5], *straight[6:40], straight[5], *straight[40:]]
    assert read_in(dict.fromkeys(swapped, "")) == swapped
    many = [pack(1, entry) for entry in range(3 * EARLY_MAX)]
    assert sorted(read_in(dict.fromkeys(reversed(many), ""))) == many


def test_a_reader_is_not_asked_for_what_it_would_hand_on_in_another_order() -> None:
    """What stands too far before what is first waits for the next reader, and no chunked message is taken in part."""
    again = [pack(1, 90), pack(1, 91)]
    straight = [pack(1, entry) for entry in range(10)]
    order = [*again, *straight]
    plain = dict.fromkeys(order, "")
    assert readable(order, plain, 11) == order
    assert readable(order, plain, 9) == again
    assert readable(order, plain | {again[1]: "u", straight[0]: "u"}, 9) == again[:1]
    assert readable(order, plain | {again[0]: "u", straight[0]: "u"}, 9) == [*again, straight[0]]


def test_a_chunked_message_is_handed_on_when_all_of_it_is_here() -> None:
    """However many chunks it has: no worker can acknowledge some of them. What is behind it waits for it."""
    chunks = 3 * AHEAD_MAX
    places = [pack(1, entry) for entry in range(chunks + 4)]
    wanted = dict.fromkeys(places, "big")
    wanted[places[0]] = wanted[places[2]] = wanted[places[-1]] = ""
    wanted[places[5]] = wanted[places[-2]] = "small"
    for read in range(1, len(places) + 1):
        handed_on = read_in(wanted, at_once=False, until=places[read - 1])
        assert handed_on == places[: 1 if 1 <= read < chunks + 3 else read]
