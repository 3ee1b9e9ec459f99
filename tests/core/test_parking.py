"""Parked keys, as stories: what goes into the lot, in which order, and how it comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.core import acknowledgement, parking, reposition
from proxy.core.dispatcher import Dispatcher, OrderingMode
from proxy.core.diversion import arrived
from proxy.core.entry import Part
from proxy.core.explain import SlotState, explain_slot
from proxy.core.key_policy import KeyPolicy
from proxy.core.key_verdict import explained
from proxy.core.positions import entry_of, pack
from proxy.core.verdict import Surroundings
from proxy.core.waiting import WaitReason
from proxy.core.worker import Worker
from proxy.core.worker_health import UNKNOWN_S
from tests.core.test_dead_letters import numbers
from tests.core.test_dispatcher_rig import LEDGER, A, B, Rig
from tests.core.test_key_policy import reason, rig_of
from tests.growth import growth
from tests.interpreted import interpreted_only

if TYPE_CHECKING:
    from collections.abc import Callable

ONCE = KeyPolicy(window=1, park_after=1)


class Lot:
    """The parking topic, played: it has what was stored, in order."""

    def __init__(self, rig: Rig) -> None:
        self.rig = rig
        self.has: list[Part] = []

    def turn(self) -> list[object]:
        """The end of a turn: what goes into the lot is stored at once; what that was."""
        dispatcher = self.rig.dispatcher
        parking.collect(dispatcher, self.rig.now)
        fresh = dispatcher.diversions.take_fresh()
        for part in fresh:
            self.has.append(part)
            arrived(dispatcher, part, self.rig.now)
        return numbers(fresh)

    def redrive(self) -> None:
        """By order of an operator, when no worker has anything of the slot."""
        parking.take_out(self.rig.dispatcher, A)
        parking.begin_redrive(self.rig.dispatcher, A)

    def end_failed(self) -> None:
        """The redrive has failed, and is over for who carries it out."""
        diversions = self.rig.dispatcher.diversions
        assert list(diversions.failed) == [A]
        diversions.failed.clear()
        del diversions.taken_out[A]
        diversions.dirty[A] = None

    def feed(self, count: int = 100) -> None:
        """Hand on what is parked."""
        for part in self.has[:count]:
            copy = parking.restored(
                part.position,
                part.indexes[0] if part.indexes else None,
                1,
                part.slot,
                b"tail",
                self.rig.now,
                part.chunk,
            )
            parking.feed(self.rig.dispatcher, copy, self.rig.now)

    def acknowledged(self) -> list[int]:
        """Entries of what was worked off since the last look; it leaves the lot."""
        done, self.rig.dispatcher.diversions.done = self.rig.dispatcher.diversions.done, []
        positions = [batch.position for batch in done]
        self.has = [part for part in self.has if part.position not in positions]
        return [entry_of(position) for position in positions]


def poisoned(policy: KeyPolicy = ONCE) -> tuple[Rig, Lot]:
    """A slot whose first message, 0, has used its attempts, and with it 1 and 2; all are stored."""
    rig = rig_of(policy)
    rig.entries(A, 0, 1, 2)
    rig.got("c1")
    rig.nack("c1", 0)
    lot = Lot(rig)
    return rig, lot


def test_the_message_and_every_later_one_go_in_order_and_no_other_key_waits() -> None:
    """Each is acknowledged when the lot has it; what comes later goes behind them."""
    rig, lot = poisoned()
    rig.entries(B, 3)
    assert rig.got("c1") == [3]
    assert reason(rig, A) is WaitReason.PARKED
    assert lot.turn() == [0, 1, 2]
    assert rig.acked_upstream() == [0, 1, 2]
    rig.entries(A, 4)
    assert lot.turn() == [4]
    assert rig.got("c1") == []
    assert rig.dispatcher.waiting_messages == 0


def test_nothing_goes_while_a_worker_has_something_of_the_slot() -> None:
    """It may give that back, and then it must go first."""
    rig = rig_of(KeyPolicy(park_after=1))
    lot = Lot(rig)
    rig.entries(A, 0, 1)
    rig.got("c1")
    rig.nack("c1", 1)
    rig.entries(A, 2)
    assert lot.turn() == []
    rig.leave("c1")
    assert lot.turn() == [0, 1, 2]


def test_a_batch_goes_message_by_message() -> None:
    """Each can be redriven alone, and keeps its index."""
    rig, lot = poisoned()
    assert lot.turn() == [0, 1, 2]
    rig.batch(3, A, 3)
    rig.mixed(4, A, B, A)
    assert lot.turn() == [(3, (0,)), (3, (1,)), (3, (2,)), (4, (0,)), (4, (2,))]
    assert rig.got("c1") == [(4, (1,))]
    rig.ack("c1", (4, (1,)))
    assert rig.acked_upstream() == [0, 1, 2, 3, 4]
    assert not rig.dispatcher.outstanding.bytes_held


def test_of_a_batch_goes_what_is_parked_whatever_its_first_message_is() -> None:
    """Of the keys that another gateway has parked nothing waits here yet."""
    rig = rig_of(ONCE)
    lot = Lot(rig)
    parking.mark(rig.dispatcher, A)
    rig.mixed(0, B, A)
    assert rig.got("c1") == [(0, (0,))]
    assert lot.turn() == [(0, (1,))]


def test_a_join_gate_holds_nothing_that_is_redriven() -> None:
    """It is first in its worker's queue: what the gate waits for is behind it there, and would wait for ever."""
    rig = rig_of(KeyPolicy(park_after=1), OrderingMode.LAST_SENT_POSITION)
    lot = Lot(rig)
    rig.entries(B, 0, 1)
    rig.entries(A, 2)
    assert rig.got("c1") == [0, 1, 2]
    rig.nack("c1", 2)
    assert lot.turn() == [2]
    rig.join("c2")
    rig.leave("c1", closed=True)
    rig.entries(A, 3)
    assert lot.turn() == [3]
    assert rig.workers["c2"].join_gate is not None
    lot.redrive()
    lot.feed()
    rig.flow("c2", 1)
    assert rig.got("c2") == [2]
    assert reason(rig, A) is WaitReason.NO_PERMITS
    rig.flow("c2", 3)
    assert rig.got("c2") == [3, 0, 1]


def test_a_redrive_that_fails_leaves_no_chunked_message_half_at_a_worker() -> None:
    """Its rest is delivered yet, before it may come from the lot again with all that is behind it."""
    rig = rig_of(KeyPolicy(park_after=1))
    lot = Lot(rig)
    rig.entries(A, 0)
    rig.got("c1")
    rig.nack("c1", 0)
    rig.chunk(1, A, "m", 0, 2)
    rig.chunk(2, A, "m", 1, 2)
    rig.entries(A, 3)
    assert lot.turn() == [0, 1, 2, 3]
    rig.dispatcher.workers[1].permits = 2
    lot.redrive()
    lot.feed()
    assert rig.got("c1") == [0, 1]
    rig.nack("c1", 0)
    lot.end_failed()
    assert lot.turn() == []
    rig.flow("c1", 10)
    assert rig.got("c1") == [2]
    rig.ack("c1", 1, 2)
    assert lot.acknowledged() == [1, 2]
    assert rig.dispatcher.waiting_messages == 0
    assert not rig.dispatcher.diversions.fed


@pytest.mark.parametrize("window", [0, 1, 2])
def test_what_is_redriven_comes_before_what_is_newer(window: int) -> None:
    """Under its own position; it is not acknowledged in the original topic again, and the slot goes on behind it."""
    rig, lot = poisoned(KeyPolicy(window=window, park_after=1))
    for number in {0: [1, 2], 1: [], 2: [1]}[window]:
        rig.ack("c1", number)
    rig.entries(A, 3, 4)
    lot.turn()
    parked = numbers(lot.has)
    rig.acked_upstream()
    lot.redrive()
    rig.entries(A, 7, 8)
    assert lot.turn() == []
    lot.feed()
    seen: list[object] = []
    while fresh := rig.got("c1"):
        seen += fresh
        rig.ack("c1", *fresh)
    assert seen == parked
    assert lot.acknowledged() == parked
    assert rig.acked_upstream() == []
    parking.release(rig.dispatcher, A, rig.now)
    assert rig.got("c1") == [7, 8][: window or 2]
    assert rig.dispatcher.waiting_messages == (1 if window == 1 else 0)


def test_a_redriven_message_that_fails_again_leaves_the_rest_in_the_lot() -> None:
    """The slot is parked as before, and what came meanwhile goes behind the rest."""
    rig, lot = poisoned()
    lot.turn()
    lot.redrive()
    rig.entries(A, 5)
    lot.feed()
    assert rig.got("c1") == [0]
    rig.nack("c1", 0)
    lot.end_failed()
    assert lot.turn() == [5]
    assert rig.got("c1") == []
    assert numbers(lot.has) == [0, 1, 2, 5]
    assert rig.dispatcher.waiting_messages == 0
    assert not rig.dispatcher.outstanding.bytes_held


def fails_while_held() -> tuple[Rig, Lot]:
    """The redrive of 0, 1 and 2 is over since 0 has used its attempts; the worker still has the others."""
    rig, lot = poisoned(KeyPolicy(park_after=1))
    rig.nack("c1", 1)
    rig.nack("c1", 2)
    lot.turn()
    lot.redrive()
    lot.feed()
    assert rig.got("c1") == [0, 1, 2]
    rig.nack("c1", 0)
    lot.end_failed()
    lot.turn()
    return rig, lot


def test_what_comes_back_of_a_redrive_that_is_over_does_not_end_the_next_one() -> None:
    """Workers that have more of the slot give it back later; nothing of the next redrive has been delivered yet."""
    rig, lot = fails_while_held()
    rig.nack("c1", 1)
    parking.take_out(rig.dispatcher, A)
    rig.nack("c1", 2)
    lot.turn()
    parking.begin_redrive(rig.dispatcher, A)
    assert not rig.dispatcher.diversions.failed
    lot.feed()
    assert rig.got("c1") == [0, 1, 2]


def test_what_comes_back_before_the_next_redrive_begins_is_in_the_lot_again() -> None:
    """Else it would be delivered at once, before what the lot has of it that is older."""
    rig, lot = fails_while_held()
    parking.take_out(rig.dispatcher, A)
    rig.leave("c1")
    rig.join("c2", 10)
    lot.turn()
    assert rig.got("c2") == []
    assert rig.dispatcher.waiting_messages == 0
    assert not rig.dispatcher.diversions.fed
    parking.begin_redrive(rig.dispatcher, A)
    lot.feed()
    assert rig.got("c2") == [0, 1, 2]


def test_a_key_that_is_taken_out_waits_for_no_retry() -> None:
    """The operator wants it now, and what is not in the lot goes on when the lot has nothing."""
    rig = rig_of(KeyPolicy(retry_delay_s=60.0, park_after=2))
    rig.entries(A, 0, 1)
    assert rig.got("c1") == [0, 1]
    rig.nack("c1", 1)
    parking.mark(rig.dispatcher, A)
    assert rig.dispatcher.retries.held
    parking.take_out(rig.dispatcher, A)
    rig.ack("c1", 0)
    parking.release(rig.dispatcher, A, rig.now)
    assert rig.got("c1") == [1]


def test_what_is_redriven_is_not_the_original_topics() -> None:
    """A broker that tells how far its cursor is means what it sent, not what is redriven."""
    rig, lot = poisoned()
    lot.turn()
    lot.redrive()
    lot.feed()
    reposition.discard_up_to(rig.dispatcher, pack(LEDGER, 9), rig.now)
    assert rig.got("c1") == [0]
    rig.ack("c1", 0)
    assert rig.got("c1") == [1]
    assert lot.acknowledged() == [0]


def test_a_redriven_message_moves_with_its_key() -> None:
    """Its worker leaves: it goes to the next, before all that is newer."""
    rig, lot = poisoned()
    lot.turn()
    lot.redrive()
    lot.feed()
    assert rig.got("c1") == [0]
    rig.join("c2", 10)
    rig.entries(A, 5)
    rig.ack("c1", 0)
    assert rig.got("c1") == []
    assert rig.got("c2") == [1]


def test_a_seek_ends_a_redrive_and_the_slot_stays_parked() -> None:
    """What is in the lot is there still."""
    rig, lot = poisoned()
    lot.turn()
    lot.redrive()
    lot.feed()
    reposition.reset(rig.dispatcher, rig.now)
    assert rig.dispatcher.diversions.parked == {A}
    assert not rig.dispatcher.diversions.taken_out
    rig.entries(A, 3)
    assert rig.got("c1") == []
    assert lot.turn() == [3]


def test_an_empty_parked_slot_says_so() -> None:
    """Who asks why a key's messages do not come must hear it, though none waits here."""
    rig, lot = poisoned()
    lot.turn()
    told = explain_slot(rig.dispatcher, A, rig.now)
    assert told.state is SlotState.PARKED
    assert "redrive or drop" in told.unblocks


def test_who_asks_why_a_redrive_waits_hears_of_the_worker() -> None:
    """It must let go of what it has of an earlier one; without one, the redrive goes on by itself."""
    rig, lot = fails_while_held()
    parking.take_out(rig.dispatcher, A)
    rig.now += UNKNOWN_S
    around = Surroundings(target="orders billing")
    verdict = explained(rig.dispatcher, A, rig.now, around).verdict
    assert verdict is not None
    assert verdict.worker == "c1"
    assert "2 messages of it are at c1, which must acknowledge or give back" in verdict.says
    assert verdict.command == "keyline pending orders billing c1"
    rig.ack("c1", 1, 2)
    lot.turn()
    verdict = explained(rig.dispatcher, A, rig.now, around).verdict
    assert verdict is not None
    assert verdict.says == f"What is parked of hash slot {A} is being redriven, or dropped."
    assert verdict.command == "keyline parked orders billing"


@pytest.mark.parametrize("window", [0, 1])
def test_older_messages_that_come_again_do_not_stop_a_redrive(window: int) -> None:
    """After a seek, or after a crash before their acknowledgement: they go on behind what is parked."""
    rig, lot = poisoned(KeyPolicy(window=window, park_after=1))
    for number in [] if window else [1, 2]:
        rig.ack("c1", number)
    rig.entries(A, 5, 6)
    lot.turn()
    parked = numbers(lot.has)
    reposition.reset(rig.dispatcher, rig.now)
    lot.redrive()
    rig.entries(A, 0, 1, 2)
    lot.feed()
    rig.entries(A, 3)
    reposition.discard_up_to(rig.dispatcher, pack(LEDGER, 0), rig.now)
    seen: list[object] = []
    while fresh := rig.got("c1"):
        seen += fresh
        rig.ack("c1", *fresh)
    assert seen == parked
    parking.release(rig.dispatcher, A, rig.now)
    while fresh := rig.got("c1"):
        seen += fresh
        rig.ack("c1", *fresh)
    assert seen == [*parked, 1, 2, 3]
    assert rig.dispatcher.waiting_messages == 0
    assert not rig.dispatcher.outstanding.bytes_held


def test_thousands_of_keys_that_are_parked_together_are_gathered_in_one_look() -> None:
    """A worker may give back one message of each, and there may be as many workers as a connection has room for."""

    def ready(count: int) -> Callable[[], None]:
        slots = range(1, count + 1)
        rig = Rig(c1=slots)
        rig.dispatcher.set_policy(ONCE)
        worker = rig.join("c1", count)
        for slot in slots:
            rig.entries(slot, slot)
        assert len(rig.got("c1")) == count
        rig.dispatcher.workers.update((index, Worker(f"idle-{index}")) for index in range(count, 2 * count))
        acknowledgement.redeliver(rig.dispatcher, worker, None, rig.now)

        def collect() -> None:
            parking.collect(rig.dispatcher, rig.now)
            assert len(rig.dispatcher.diversions.take_fresh()) == count

        return collect

    assert growth(ready, 250, 2_000) < 32  # 64, if all workers were looked at for each


@interpreted_only
@pytest.mark.parametrize("policy", [KeyPolicy(park_after=2), KeyPolicy(dead_letter_after=2)])
def test_what_comes_while_nothing_waits_passes_every_queue(policy: KeyPolicy, monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy that only counts attempts costs a message nothing else; where it is not to leave, it is queued."""
    rig = rig_of(policy)
    queued: list[int] = []
    wait = Dispatcher._wait

    def noted(dispatcher: Dispatcher, part: Part, now: float) -> None:
        queued.append(entry_of(part.position))
        wait(dispatcher, part, now)

    monkeypatch.setattr(Dispatcher, "_wait", noted)
    rig.entries(A, 0)
    assert rig.got("c1") == [0]
    rig.dispatcher.pause()
    rig.entries(A, 1)
    assert rig.got("c1") == []
    rig.dispatcher.resume(rig.now)
    assert rig.got("c1") == [1]
    parking.mark(rig.dispatcher, B)
    rig.entries(B, 2)
    assert rig.got("c1") == []
    rig.dispatcher.diversions.feed(parking.restored(pack(LEDGER, 9), None, 1, A, b"", rig.now, None))
    rig.entries(A, 3)
    assert rig.got("c1") == [3]
    assert queued == [1, 2, 3]
