"""Workers join and leave: what moves at once, what is refused, and what remains of those who are gone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest

from proxy.core import membership
from proxy.core.dispatcher import Dispatcher, OrderingMode
from proxy.core.entry import Part
from proxy.core.errors import ConsumerAssignError
from proxy.core.positions import pack
from proxy.core.selectors.consistent_hashing import ConsistentHashing
from proxy.core.selectors.sticky_ranges import StickyRanges
from proxy.core.statistics import dispatcher_statistics_steps
from proxy.core.steps import finished
from proxy.core.worker import Worker
from tests.core.test_dispatcher_rig import A, B, Rig
from tests.interpreted import interpreted_only


def test_waiting_messages_change_their_queue_in_the_call_that_moves_them() -> None:
    """An idle new owner gets what waited for the old owner's permits, without any event of the old one."""
    rig = Rig(busy=[A], idle=[A])
    rig.join("busy")
    rig.entries(A, 1, 2)
    idle = Worker("idle")
    rig.workers["idle"] = idle
    idle.permits = 10
    membership.join(rig.dispatcher, idle, 0.0)
    assert rig.got("idle") == [1, 2]
    assert not rig.workers["busy"].ready


def test_a_leave_brings_waiting_messages_to_their_next_owner() -> None:
    """Likewise when the owner without permits leaves."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.join("c2")
    rig.entries(A, 1)
    rig.leave("c2")
    assert rig.got("c1") == [1]


def test_pending_messages_of_a_departed_worker_come_back_in_order() -> None:
    """Before what waited behind them, raised redelivery count, nothing acknowledged upstream."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 2)
    rig.entries(A, 1, 2, 3)
    assert rig.got("c1") == [1, 2]
    rig.leave("c1")
    assert rig.dispatcher.waiting_messages == 3
    rig.join("c2", 10)
    units = rig.units("c2")
    assert [unit.position for unit in units] == [pack(1, n) for n in (1, 2, 3)]
    assert [unit.redeliveries for unit in units] == [1, 1, 0]
    assert rig.acked_upstream() == []


def test_what_never_left_an_outbox_is_no_redelivery() -> None:
    """The worker goes before its outbox was written: it was never sent, so the next worker gets it first."""
    rig = Rig(c1=[A], c2=[A])
    worker = rig.join("c1", 2)
    rig.entries(A, 1, 2)
    rig.leave("c1")
    assert worker.outbox == []
    assert finished(dispatcher_statistics_steps(rig.dispatcher, rig.now)).last_sent_position == "1:0"
    rig.join("c2", 10)
    assert [unit.redeliveries for unit in rig.units("c2")] == [0, 0]


def test_commands_of_a_departed_worker_change_nothing() -> None:
    """Its acks, redelivery requests and permits may arrive after it left, in any order."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 2)
    rig.entries(A, 1)
    rig.got("c1")
    rig.join("c2", 10)
    rig.leave("c1")
    assert rig.got("c2") == [1]
    assert not rig.ack("c1", 1)
    assert rig.nack("c1") == 0
    rig.flow("c1", 5)
    rig.dispatcher.set_writable(rig.workers["c1"], writable=False, now=0.0)
    rig.dispatcher.set_writable(rig.workers["c1"], writable=True, now=0.0)
    assert rig.got("c1") == rig.acked_upstream() == []
    assert rig.ack("c2", 1)


def test_leaving_twice_is_leaving_once() -> None:
    """A close and a lost connection may both tell of it, with another worker in the departed one's place by then."""
    rig = Rig(c1=[A], c2=[A])
    gone = rig.join("c1", 10)
    rig.leave("c1")
    heir = rig.join("c2", 10)
    assert heir.index == gone.index
    assert membership.leave(rig.dispatcher, gone, 0.0) == []
    assert rig.dispatcher.workers == {heir.index: heir}
    rig.entries(A, 1)
    assert rig.got("c2") == [1]


def test_an_index_that_is_used_again_brings_no_drains_with_it() -> None:
    """The new worker at a departed one's index holds nothing of its slots."""
    rig = Rig(c1=[A, B], c2=[A], c3=[B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.leave("c1")
    c3 = rig.join("c3", 10)
    assert c3.draining_slots == 0
    assert rig.got("c2") == [1]
    assert rig.draining() == []


def test_a_refused_join_changes_nothing() -> None:
    """Sticky ranges overlap: the error names the worker in the way, and everything is as before."""
    dispatcher = Dispatcher(StickyRanges[Worker]())
    first, second = Worker("c1", sticky_ranges=[(0, 100)]), Worker("c2", sticky_ranges=[(50, 200)])
    membership.join(dispatcher, first, 0.0)
    dispatcher.receive(pack(1, 1), 150, 1, b"", 0, 0.0)
    with pytest.raises(ConsumerAssignError, match="Range conflict with consumer c1"):
        membership.join(dispatcher, second, 0.0)
    assert dispatcher.workers == {first.index: first}
    assert second.index == 0
    assert [part.slot for part in dispatcher.blocked[150].parts] == [150]


def test_a_join_tells_what_moved() -> None:
    """The moves are the selector's: what the newcomer owns now, and from whom it came."""
    dispatcher = Dispatcher(ConsistentHashing[Worker]())
    first, second = Worker("c1"), Worker("c2")
    membership.join(dispatcher, first, 0.0)
    moves = membership.join(dispatcher, second, 0.0)
    assert moves
    assert all(move.before is first and move.after is second for move in moves)
    back = membership.leave(dispatcher, second, 0.0)
    assert [(m.start, m.end) for m in back] == [(m.start, m.end) for m in moves]


@pytest.mark.parametrize("mode", list(OrderingMode))
def test_the_join_position_is_recorded_in_every_mode(mode: OrderingMode) -> None:
    """It is shown always; it gates in its own mode only."""
    rig = Rig(mode, c1=[A], c2=[B])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    rig.got("c1")
    c2 = rig.join("c2")
    assert c2.last_sent_position_when_joining == pack(1, 2)
    assert (c2.join_gate is not None) == (mode is OrderingMode.LAST_SENT_POSITION)


def test_the_last_worker_to_leave_takes_nothing_with_it() -> None:
    """All messages wait, in order, for whoever comes; no slot is held and none drains."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.mixed(2, A, B)
    rig.leave("c1")
    assert rig.dispatcher.waiting_messages == 3
    assert len(rig.dispatcher.slots) == len(rig.dispatcher.draining) == 0
    rig.join("c1", 10)
    assert rig.got("c1") == [1, 2]


# ---- many at once


def crowd(count: int, prefix: str = "w") -> list[Worker]:
    """So many workers that have not joined."""
    return [Worker(f"{prefix}-{number}") for number in range(count)]


def filled(mode: OrderingMode = OrderingMode.DRAINING_HASHES) -> tuple[Dispatcher, list[Worker]]:
    """Three workers that hold some messages while others wait for permits."""
    dispatcher = Dispatcher(ConsistentHashing[Worker](), mode)
    workers = crowd(3)
    for worker in workers:
        membership.join(dispatcher, worker, 0.0)
        dispatcher.flow(worker, 40, 0.0)
    for entry in range(400):
        dispatcher.receive(pack(1, entry), 1 + entry * 163 % 65_535, 1, b"tail", 0, 0.0)
    return dispatcher, workers


def state(dispatcher: Dispatcher) -> object:
    """Everything about who owns, holds, drains and waits, by name."""
    return (
        [(piece, owner.name) for piece, owner in dispatcher.selector.assignment()],
        {index: worker.name for index, worker in dispatcher.workers.items()},
        {
            worker.name: (sorted(worker.pending), [part.position for part in worker.ready])
            for worker in dispatcher.workers.values()
        },
        [(worker.name, worker.draining_slots, worker.join_gate) for worker in dispatcher.workers.values()]
        if dispatcher.mode is not OrderingMode.LAST_SENT_POSITION
        else None,
        sorted(dispatcher.draining.slots()),
        {slot: [part.position for part in entry.parts] for slot, entry in dispatcher.blocked.items()},
        [worker.last_sent_position_when_joining for worker in dispatcher.workers.values()],
    )


@pytest.mark.parametrize("mode", [OrderingMode.DRAINING_HASHES, OrderingMode.LAST_SENT_POSITION])
def test_workers_that_come_and_go_together_leave_all_as_if_one_after_another(mode: OrderingMode) -> None:
    """Ranges, holders, draining hashes, join positions and what waits for whom are the same, name for name."""
    (together, old), (singly, old_singly) = filled(mode), filled(mode)
    changes = membership.Changes(together, 1.0)
    for worker in crowd(20, "new"):
        changes.join(worker)
    for worker in old[:2]:
        changes.leave(worker)
    changes.settle()
    for worker in crowd(20, "new"):
        membership.join(singly, worker, 1.0)
    for worker in old_singly[:2]:
        membership.leave(singly, worker, 1.0)
    assert state(together) == state(singly)


def test_a_worker_gets_the_lowest_index_that_is_free() -> None:
    """Holders are named by it in two bytes, so numbers of those who left are used again."""
    dispatcher = Dispatcher(ConsistentHashing[Worker](), OrderingMode.DRAINING_HASHES)
    workers = crowd(5)
    for worker in workers:
        membership.join(dispatcher, worker, 0.0)
    for gone in (workers[3], workers[1]):
        membership.leave(dispatcher, gone, 0.0)
    again = crowd(3, "again")
    for worker in again:
        membership.join(dispatcher, worker, 0.0)
    assert [worker.index for worker in again] == [2, 4, 6]


@interpreted_only
def test_what_waits_is_walked_once_for_a_whole_group(monkeypatch: pytest.MonkeyPatch) -> None:
    """For the join position and to be settled: two walks for a hundred joins, one for a hundred leaves."""
    dispatcher, _ = filled()
    walks: list[str] = []
    settle_waiting, position = Dispatcher.settle_waiting, membership._join_position

    def settled(self: Dispatcher, now: float, returned: Iterable[Part], changed: Sequence[int]) -> None:
        walks.append("settle")
        settle_waiting(self, now, returned, changed)

    def looked(of: Dispatcher) -> int | None:
        walks.append("position")
        return position(of)

    monkeypatch.setattr(Dispatcher, "settle_waiting", settled)
    monkeypatch.setattr(membership, "_join_position", looked)
    newcomers = crowd(100, "new")
    changes = membership.Changes(dispatcher, 1.0)
    for worker in newcomers:
        changes.join(worker)
    changes.settle()
    assert walks == ["position", "settle"]
    walks.clear()
    changes = membership.Changes(dispatcher, 1.0)
    for worker in newcomers:
        changes.leave(worker)
    changes.settle()
    assert walks == ["settle"]


def test_only_what_waits_of_slots_that_moved_is_asked_whose_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A backlog of another's is not walked through the selector for each worker that comes or goes."""
    dispatcher, _ = filled()
    for number in range(20):
        membership.join(dispatcher, Worker(f"more-{number}"), 0.0)
    waiting = sum(len(worker.ready) for worker in dispatcher.workers.values())
    asked: list[int] = []
    target = Dispatcher._target

    def counted(self: Dispatcher, slot: int, head: Part) -> Worker | None:
        asked.append(slot)
        return target(self, slot, head)

    monkeypatch.setattr(Dispatcher, "_target", counted)
    newcomer = Worker("newcomer")
    moves = membership.join(dispatcher, newcomer, 1.0)
    assert waiting > 200
    in_moves = {slot for slot in asked if any(move.start <= slot <= move.end for move in moves)}
    assert set(asked) - in_moves <= set(dispatcher.blocked)
    assert len(asked) < waiting


def unread(rig: Rig, name: str) -> None:
    """A worker's socket is full."""
    rig.dispatcher.set_writable(rig.workers[name], writable=False, now=rig.now)


def test_what_was_never_sent_holds_no_slot_that_moves() -> None:
    """A worker that does not read would keep it from its new owner, with messages that it never got."""
    rig = Rig(c1=[A, B], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    unread(rig, "c1")
    rig.join("c2", 10)
    assert rig.got("c2") == [1, 2]
    assert rig.workers["c1"].outbox == []
    assert (rig.workers["c1"].permits, rig.workers["c1"].unacked) == (10, 0)
    assert len(rig.dispatcher.draining) == 0


def test_nothing_in_an_outbox_overtakes_what_is_taken_out_of_it() -> None:
    """A batch of two keys comes back whole, so what lies behind it comes back as well."""
    rig = Rig(c1=[A, B], c2=[A])
    rig.join("c1", 10)
    rig.mixed(1, A, B)
    rig.entries(B, 2)
    unread(rig, "c1")
    rig.join("c2", 10)
    assert rig.got("c2") == [(1, (0,))]
    assert rig.got("c1") == []
    rig.dispatcher.set_writable(rig.workers["c1"], writable=True, now=rig.now)
    assert rig.got("c1") == [(1, (1,)), 2]


def test_what_was_sent_holds_its_slot_though_the_rest_comes_back() -> None:
    """The slot drains until the worker is done with what it got."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    assert rig.got("c1") == [1]
    rig.entries(A, 2)
    unread(rig, "c1")
    rig.join("c2", 10)
    assert rig.got("c2") == []
    rig.ack("c1", 1)
    assert rig.got("c2") == [2]


def test_a_worker_whose_unsent_messages_go_is_not_stopped_by_its_limit() -> None:
    """It may have nothing left whose ack would let it go on."""
    rig = Rig(c1=[A, B], c2=[A])
    rig.join("c1", 10, max_unacked=1)
    rig.entries(A, 1)
    assert rig.workers["c1"].over_unacked
    unread(rig, "c1")
    rig.join("c2", 10)
    assert rig.got("c2") == [1]
    rig.entries(B, 2)
    rig.dispatcher.set_writable(rig.workers["c1"], writable=True, now=rig.now)
    assert rig.got("c1") == [2]
