"""The monitor rings for each way to break the contract, and for nothing that the contract allows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.core import contract_monitor
from proxy.core.contract_monitor import ContractMonitor
from proxy.core.contract_sample import Sample, sample_of
from proxy.core.contract_violations import ContractTotals, Kind, Violation
from proxy.core.delivery_key import slice_key
from proxy.core.entry import Batch, Chunk, Part
from proxy.core.index_bits import bits_to_indexes
from proxy.core.positions import pack
from proxy.core.slots import SLOT_COUNT
from proxy.core.worker import Worker
from tests.interpreted import interpreted_only

if TYPE_CHECKING:
    from collections.abc import Sequence

SLOT, OTHER_SLOT = 7, 8


class Watch:
    """A monitor of every slot, and what is here; positions are entries of one ledger."""

    def __init__(self, one_in: int = 1) -> None:
        self.entries: dict[int, Part | Batch] = {}
        self.totals = ContractTotals()
        self.monitor = ContractMonitor(sample_of(one_in), self.entries, self.totals)
        self.a, self.b = Worker("a"), Worker("b")

    def come(self, *numbers: int, slot: int = SLOT) -> None:
        """Single messages arrive."""
        for number in numbers:
            self.entries[pack(1, number)] = part(number, slot)
            self.monitor.arrived(pack(1, number), slot, 1)

    def batch(self, number: int, *slots: int) -> Batch:
        """A batch of messages with these slots arrives."""
        batch = Batch(pack(1, number), b"", len(slots), slots)
        batch.add(part(number, slots[0], slots=slots))
        self.entries[pack(1, number)] = batch
        self.monitor.arrived_batch(pack(1, number), slots, None)
        return batch

    def send(self, worker: Worker, *numbers: int, slot: int = SLOT) -> None:
        """They are written to its socket."""
        self.monitor.sent(worker, [part(number, slot) for number in numbers])

    def ack(self, worker: Worker, *numbers: int) -> None:
        """It acknowledges them whole."""
        for number in numbers:
            self.monitor.acked(worker, pack(1, number))

    def nack(self, worker: Worker, *numbers: int) -> None:
        """It wants them again."""
        self.monitor.given_back(worker, [pack(1, number) for number in numbers])

    def rung(self) -> list[tuple[str, int, int]]:
        """Kind of each violation since the last look, with the entries of the message and of the other."""
        news, self.monitor.news = self.monitor.news, []
        return [(each.kind.value, each.position & 0xFF, each.other_position & 0xFF) for each in news]


def part(number: int, slot: int, slots: tuple[int, ...] | None = None, indexes: tuple[int, ...] | None = None) -> Part:
    """Messages of an entry as they are sent."""
    made = Part(pack(1, number), slot, len(indexes or slots or (0,)), b"", 0, 0.0)
    made.slots, made.indexes = slots, indexes
    made.key = made.position if indexes is None else slice_key(made.position, indexes)
    return made


# ---- what rings ------------------------------------------------------------------------------------------------------


def test_a_key_at_two_workers_rings() -> None:
    """With both messages and both workers."""
    watch = Watch()
    watch.come(1, 2)
    watch.send(watch.a, 1)
    watch.send(watch.b, 2)
    assert watch.monitor.news == [
        Violation(Kind.TWO_WORKERS, SLOT, pack(1, 2), 0, "b", pack(1, 1), 0, "a"),
    ]
    assert watch.monitor.violations == watch.totals.violations == {"two_workers": 1, "overtaken": 0, "sent_twice": 0}
    assert watch.totals.checked_messages == 2


def test_a_message_at_two_workers_rings_once_and_is_the_last_ones() -> None:
    """It is told of where it happens, not with each message after it."""
    watch = Watch()
    watch.come(1, 2)
    watch.send(watch.a, 1)
    watch.send(watch.b, 1)
    assert watch.rung() == [("two_workers", 1, 1)]
    watch.send(watch.b, 2)
    assert watch.rung() == []


def test_a_message_sent_twice_rings() -> None:
    """To the worker that has it and did not give it back."""
    watch = Watch()
    watch.come(1)
    watch.send(watch.a, 1)
    watch.send(watch.a, 1)
    assert watch.rung() == [("sent_twice", 1, 1)]


def test_a_first_delivery_out_of_order_rings() -> None:
    """At the message that overtakes."""
    watch = Watch()
    watch.come(1, 2)
    watch.send(watch.a, 2)
    assert watch.rung() == [("overtaken", 2, 1)]


def test_a_redelivery_that_is_overtaken_rings() -> None:
    """By a later message, and by a later redelivery."""
    watch = Watch()
    watch.come(1, 2, 3)
    watch.send(watch.a, 1, 2)
    watch.nack(watch.a, 1)
    watch.send(watch.a, 3)
    assert watch.rung() == [("overtaken", 3, 1)]
    watch.monitor.given_back(watch.a, None)
    watch.send(watch.a, 1, 3)
    assert watch.rung() == [("overtaken", 3, 2)]


def test_messages_of_a_batch_have_an_order_and_a_holder_each() -> None:
    """Cut by slot, and one message out of turn."""
    watch = Watch()
    slots = (SLOT, OTHER_SLOT, SLOT, SLOT)
    watch.batch(1, *slots)
    watch.monitor.sent(watch.a, [part(1, OTHER_SLOT, slots, (1,))])
    watch.monitor.sent(watch.b, [part(1, SLOT, slots, (0, 3))])
    assert watch.rung() == [("overtaken", 1, 1)]
    watch.monitor.sent(watch.a, [part(1, SLOT, slots, (2,))])
    assert watch.rung() == [("two_workers", 1, 1)]


def test_a_late_ack_of_a_former_holder_frees_nothing() -> None:
    """Acks count for who has the message, so the key may not go on to a third."""
    watch = Watch()
    watch.come(1, 2)
    watch.send(watch.a, 1)
    watch.nack(watch.a, 1)
    watch.send(watch.b, 1)
    watch.ack(watch.a, 1)
    watch.send(watch.a, 2)
    assert watch.rung() == [("two_workers", 2, 1)]


def test_an_ack_of_some_messages_of_a_batch_leaves_the_others_where_they_are() -> None:
    """Counted in the order delivered, by the bits of those that are left."""
    watch = Watch()
    slots = (SLOT, OTHER_SLOT, SLOT)
    watch.batch(1, *slots)
    sent = part(1, SLOT, slots, (0, 2))
    watch.monitor.sent(watch.a, [sent])
    watch.monitor.acked(watch.a, sent.key, 0b10)
    watch.come(2)
    watch.send(watch.b, 2)
    assert watch.rung() == [("two_workers", 2, 1)]
    watch.monitor.acked(watch.a, sent.key)
    watch.come(3)
    watch.send(watch.b, 3)
    assert watch.rung() == []


# ---- what does not ---------------------------------------------------------------------------------------------------


def test_order_at_one_worker_and_a_hand_over_are_well() -> None:
    """Acknowledged, given back or left behind: then the next may have it."""
    watch = Watch()
    watch.come(1, 2, 3)
    watch.send(watch.a, 1, 2)
    watch.ack(watch.a, 1)
    watch.nack(watch.a, 2)
    watch.send(watch.b, 2, 3)
    watch.monitor.left(watch.b)
    watch.send(watch.a, 2, 3)
    watch.ack(watch.a, 2, 3)
    assert watch.rung() == []
    assert watch.monitor.held == {}


def test_other_slots_have_nothing_to_do_with_it() -> None:
    """Keys go their own ways."""
    watch = Watch()
    watch.come(1)
    watch.come(2, slot=OTHER_SLOT)
    watch.send(watch.b, 2, slot=OTHER_SLOT)
    watch.send(watch.a, 1)
    assert watch.rung() == []


def test_what_is_not_here_any_more_is_not_waited_for() -> None:
    """It went to a dead letter topic, or an operator skipped it; of a batch also a single message."""
    watch = Watch()
    watch.come(1)
    watch.batch(2, SLOT, SLOT)
    watch.come(3)
    del watch.entries[pack(1, 1)]
    left = part(2, SLOT, (SLOT, SLOT), (1,))
    watch.monitor.sent(watch.a, [left])
    assert watch.rung() == [("overtaken", 2, 2)], "the other message of the batch is here"
    batch = watch.entries[pack(1, 2)]
    assert isinstance(batch, Batch)
    batch.parts[0].indexes, batch.parts[0].count = (1,), 1
    watch.send(watch.a, 3)
    assert watch.rung() == []


def test_a_holder_of_what_is_not_here_any_more_is_none() -> None:
    """Its stream went to another replica while it was held."""
    watch = Watch()
    watch.come(1, 2)
    watch.send(watch.a, 1)
    del watch.entries[pack(1, 1)]
    watch.send(watch.b, 2)
    assert watch.rung() == []


def test_what_comes_late_is_not_judged() -> None:
    """A delayed message, one that the broker sends again, or any after a seek backwards."""
    watch = Watch()
    watch.come(5)
    watch.send(watch.a, 5)
    watch.come(3)
    watch.come(6)
    watch.send(watch.a, 6)
    assert watch.rung() == []
    watch.send(watch.b, 3)
    assert watch.rung() == []


def test_the_rest_of_a_chunked_message_may_overtake() -> None:
    """Only its worker can acknowledge the beginning, and only when it has all (`chunked`)."""
    watch = Watch()
    watch.come(1, 2, 3)
    watch.send(watch.a, 1)
    chunks = [part(number, SLOT) for number in (2, 3)]
    for index, chunk in enumerate(chunks):
        chunk.chunk = Chunk("uuid", index, 2)
    watch.monitor.sent(watch.a, chunks[:1])
    watch.nack(watch.a, 1)
    watch.monitor.sent(watch.a, chunks[1:])
    assert watch.rung() == []


def test_redriven_messages_are_not_judged() -> None:
    """They bear the position that they had, and come before all that is here."""
    watch = Watch()
    watch.come(1)
    parked = part(1, SLOT)
    parked.batch = Batch(parked.position, b"", 1)
    parked.batch.foreign = True
    watch.monitor.sent(watch.a, [parked])
    watch.send(watch.b, 1)
    assert watch.rung() == []


def test_kept_deliveries_stay_and_all_others_wait_again() -> None:
    """A client that begins a new epoch says which it has, and which of these it wants again."""
    watch = Watch()
    for number, slot in enumerate((1, 2, 3)):
        watch.come(number, slot=slot)
        watch.send(watch.a, number, slot=slot)
    watch.monitor.kept_only(watch.a, {pack(1, 0), pack(1, 1)}, [pack(1, 1)])
    for number, slot in enumerate((1, 2, 3)):
        watch.send(watch.b, number, slot=slot)
    assert watch.rung() == [("two_workers", 0, 0)]


def test_an_ack_of_what_was_given_back_is_believed() -> None:
    """It may count, if the message was about to be sent again; so the message is judged no more."""
    watch = Watch()
    watch.come(1, 2)
    watch.send(watch.a, 1)
    watch.nack(watch.a, 1)
    watch.ack(watch.a, 1)
    watch.send(watch.a, 2)
    assert watch.rung() == []


def test_after_forgetting_only_what_is_new_is_judged() -> None:
    """What is here may be here no more, or come again."""
    watch = Watch()
    watch.come(1, 2)
    watch.send(watch.a, 1)
    watch.monitor.forget()
    watch.send(watch.b, 2)
    watch.come(3, 4)
    watch.send(watch.b, 4)
    assert watch.rung() == [("overtaken", 4, 3)]


# ---- bounds ----------------------------------------------------------------------------------------------------------


def test_the_sample_is_as_large_as_asked_and_depends_on_the_salt() -> None:
    """Exactly: one slot in a thousand, others with another salt, all, or none."""
    assert sum(sample_of(1_000).flags) == len(sample_of(1_000).slots) == 66
    assert sample_of(1_000).slots == Sample(1_000, 0).slots != Sample(1_000, 9).slots
    assert len(sample_of(1).slots) == SLOT_COUNT
    assert not any(sample_of(0).flags)


def test_slots_that_are_not_in_the_sample_are_not_looked_at() -> None:
    """Nothing is kept of them."""
    watch = Watch(one_in=1_000)
    unwatched = next(slot for slot in range(SLOT_COUNT) if not watch.monitor.watched[slot])
    watch.batch(1, unwatched, unwatched)
    watch.monitor.sent(watch.a, [part(1, unwatched, (unwatched, unwatched))])
    assert watch.totals.checked_messages == 0
    assert not watch.monitor.held


@interpreted_only
def test_memory_is_bounded_and_what_is_beyond_it_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """No alarm is false for it, and there is room again when something is acknowledged."""
    monkeypatch.setattr(contract_monitor, "MESSAGES_MAX", 2)
    watch = Watch()
    watch.come(1, 2, 3)
    watch.send(watch.a, 1, 2)
    watch.send(watch.b, 3)
    assert watch.rung() == []
    watch.ack(watch.a, 1)
    watch.come(4, 5)
    watch.send(watch.b, 4)
    assert watch.rung() == [("two_workers", 4, 2)]


def test_violations_that_are_not_taken_are_counted_and_not_kept() -> None:
    """However wrong the gateway is."""
    watch = Watch()
    watch.come(*range(1, 202))
    for number in range(201, 0, -1):
        watch.send(watch.a, number)
    assert watch.monitor.violations["overtaken"] == 200
    assert len(watch.monitor.news) == contract_monitor.KEPT_MAX


def test_nothing_is_left_of_what_is_acknowledged() -> None:
    """Also of a message that many workers had before, who have left."""
    watch = Watch()
    watch.come(1)
    for number in range(50):
        worker = Worker(f"w{number}")
        watch.send(worker, 1)
        watch.nack(worker, 1)
        watch.monitor.left(worker)
    watch.send(watch.a, 1)
    (entry,) = watch.monitor._entries.values()
    assert len(entry.deliveries) == 1
    watch.ack(watch.a, 1)
    assert not watch.monitor._entries
    assert not watch.monitor.held
    assert watch.monitor._followed == 0


# ---- what a client may do to it --------------------------------------------------------------------------------------


def test_a_message_that_is_given_back_for_ever_is_listed_once() -> None:
    """A poisoned message may come again a million times, and nothing newer of its key is ever sent."""
    watch = Watch()
    watch.come(1)
    for _ in range(5):
        watch.send(watch.a, 1)
        watch.nack(watch.a, 1)
    (slot,) = watch.monitor._slots.values()
    assert slot.waiting == [(pack(1, 1), 0)]
    watch.come(2)
    watch.send(watch.a, 2)
    assert watch.rung() == [("overtaken", 2, 1)]


def test_what_was_given_back_and_is_at_the_worker_in_other_portions_is_not_given_back_again() -> None:
    """The former id is one that the worker does not hold: neither is a list of others that it keeps about it."""
    watch = Watch()
    watch.batch(1, SLOT, SLOT)
    alone = [part(1, SLOT, indexes=(index,)) for index in range(2)]
    watch.monitor.sent(watch.a, [part(1, SLOT, slots=(SLOT, SLOT))])
    watch.nack(watch.a, 1)
    watch.monitor.sent(watch.a, alone)
    watch.nack(watch.a, 1)
    watch.monitor.kept_only(watch.a, {each.key for each in alone}, ())
    watch.come(2)
    watch.send(watch.a, 2)
    assert watch.rung() == []


@interpreted_only
def test_an_ack_is_looked_at_once_for_each_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """One command may repeat it half a million times, of a batch with thousands of messages."""
    watch = Watch()
    watch.batch(1, *[SLOT] * 4)
    looked_at: list[int] = []

    def counted(bits: int, indexes: Sequence[int]) -> list[int]:
        found = list(bits_to_indexes(bits, indexes))
        looked_at.extend(found)
        return found

    monkeypatch.setattr(contract_monitor, "bits_to_indexes", counted)
    watch.monitor.sent(watch.a, [part(1, SLOT, slots=(SLOT,) * 4)])
    for unacked in (0b1110, 0b1110, 0b1010, 0b1011):
        watch.monitor.acked(watch.a, pack(1, 1), unacked)
    assert looked_at == [0, 2]
    watch.monitor.acked(watch.a, pack(1, 1))
    assert watch.monitor.held == {}


@interpreted_only
def test_deliveries_in_ever_other_portions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker that acknowledges one message and gives back the others, again and again, has its batch forgotten."""
    monkeypatch.setattr(contract_monitor, "NAMED_MAX", 8)
    watch = Watch()
    watch.batch(1, *[SLOT] * 6)
    for first in range(3):
        watch.monitor.sent(watch.a, [part(1, SLOT, indexes=tuple(range(first, 6)))])
        watch.monitor.given_back(watch.a, None)
    assert watch.monitor.held == {}
    watch.come(2)
    watch.send(watch.a, 2)
    assert watch.rung() == []
    assert watch.monitor._named == 0


@interpreted_only
def test_what_waits_behind_one_that_is_overtaken_for_ever_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gateway is wrong then, and does not run out of memory for it."""
    monkeypatch.setattr(contract_monitor, "MESSAGES_MAX", 3)
    watch = Watch()
    watch.come(1)
    for number in range(2, 40):
        watch.come(number)
        watch.send(watch.a, number)
        watch.ack(watch.a, number)
    (slot,) = watch.monitor._slots.values()
    assert len(slot.waiting) <= 8
    assert watch.monitor.violations["overtaken"] == 38
