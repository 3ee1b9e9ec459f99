"""PIP-379 rule 5 with an interval: slots that came free go on together, once per interval, and whatever happens."""

from __future__ import annotations

import pytest

from proxy.core import policy_change, reposition, streams_here
from proxy.core.dispatcher import OrderingMode
from proxy.core.positions import pack
from proxy.core.stream_leases import StreamLeases
from proxy.core.unblocking import Unblocking
from proxy.core.waiting import WaitReason
from tests.core.test_dispatcher_rig import LEDGER, A, B, C, Rig

INTERVAL_S = 0.5
ORDERED = [mode for mode in OrderingMode if mode is not OrderingMode.UNORDERED]


def rig_of(
    mode: OrderingMode = OrderingMode.DRAINING_HASHES, interval_s: float = INTERVAL_S, **claims: list[int]
) -> Rig:
    """With an interval."""
    rig = Rig(mode, **claims)
    rig.dispatcher.unblocking.interval_s = interval_s
    return rig


def due_at(rig: Rig) -> float | None:
    """When the caller's timer must go off."""
    return rig.dispatcher.unblocking.due_at


def drained(mode: OrderingMode = OrderingMode.DRAINING_HASHES, interval_s: float = INTERVAL_S) -> Rig:
    """c1 has one message each of A and B, which are c2's since; there a second one waits. It is second 8."""
    rig = rig_of(mode, interval_s, c1=[A, B, C], c2=[A, B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.entries(B, 2)
    rig.join("c2", 10)
    rig.entries(A, 3)
    rig.entries(B, 4)
    assert rig.got("c1") == [1, 2]
    rig.now = 8.0
    return rig


def at(rig: Rig, now: float) -> None:
    """It is `now`, and the caller's timer goes off if that is when it should."""
    rig.now = now
    due = due_at(rig)
    if due is not None and now >= due:
        rig.dispatcher.unblock(now)


@pytest.mark.parametrize("mode", ORDERED)
def test_what_came_free_within_an_interval_goes_on_together_at_its_end(mode: OrderingMode) -> None:
    """The first begins the interval, a later one does not make it longer; the next interval begins anew."""
    rig = drained(mode)
    rig.ack("c1", 1)
    assert due_at(rig) == 8.5
    at(rig, 8.4)
    rig.ack("c1", 2)
    assert due_at(rig) == 8.5
    rig.dispatcher.unblock(rig.now)
    assert rig.got("c2") == [], "asked too early, nothing goes"
    at(rig, 8.5)
    assert rig.got("c2") == [3, 4]
    assert due_at(rig) is None
    assert not rig.dispatcher.unblocking.held


@pytest.mark.parametrize("mode", ORDERED)
def test_without_an_interval_a_slot_goes_on_in_the_call_that_frees_it(mode: OrderingMode) -> None:
    """The default: nothing is to be waited for, and no timer is wanted."""
    rig = drained(mode, 0.0)
    rig.ack("c1", 1, 2)
    assert rig.got("c2") == [3, 4]
    assert due_at(rig) is None


def test_without_order_nothing_drains_and_so_nothing_is_held() -> None:
    """A key's messages go to its owner at once."""
    rig = drained(OrderingMode.UNORDERED)
    assert rig.got("c2") == [3, 4]
    rig.ack("c1", 1, 2)
    assert due_at(rig) is None


def test_a_slot_that_kept_nobody_waiting_is_not_held() -> None:
    """As at the broker: what drained unnoticed has nothing to release, and its next message goes at once."""
    rig = rig_of(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.ack("c1", 1)
    assert due_at(rig) is None
    rig.entries(A, 2)
    assert rig.got("c2") == [2]


def test_a_slot_that_waits_for_permits_only_is_not_held() -> None:
    """Only a drain's end begins an interval; a grant serves at once."""
    rig = rig_of(c1=[A])
    rig.join("c1", 1)
    rig.entries(A, 1, 2)
    rig.ack("c1", 1)
    rig.flow("c1", 1)
    assert rig.got("c1") == [1, 2]


def test_what_arrives_or_is_granted_meanwhile_goes_behind_what_is_held() -> None:
    """Neither a new message of the slot nor a grant opens it before its time; other slots are not concerned."""
    rig = drained()
    rig.ack("c1", 1)
    rig.entries(A, 5)
    rig.entries(C, 6)
    rig.mixed(7, A, C)
    rig.flow("c2", 5)
    assert rig.got("c2") == []
    assert rig.got("c1") == [6, (7, (1,))]
    at(rig, 8.5)
    assert rig.got("c2") == [3, 5, (7, (0,))]


def test_a_nack_or_a_departure_frees_slots_for_the_interval_too() -> None:
    """Before what waited goes what came back, at the interval's end."""
    rig = drained()
    rig.nack("c1", 1)
    at(rig, 8.1)
    rig.leave("c1")
    assert rig.got("c2") == []
    assert list(rig.dispatcher.unblocking.held) == [A, B]
    at(rig, 8.5)
    assert rig.got("c2") == [1, 2, 3, 4], "slot by slot in turn, each in its order"


def test_a_slot_that_is_held_belongs_to_whoever_owns_it_at_the_end() -> None:
    """Workers may come and go meanwhile: nobody has anything of it."""
    rig = rig_of(c1=[A], c2=[A], c3=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.entries(A, 2)
    rig.ack("c1", 1)
    rig.join("c3", 10)
    assert rig.draining() == []
    at(rig, 0.25)
    rig.leave("c2")
    at(rig, 0.5)
    assert rig.got("c3") == [2]


def test_a_slot_that_is_held_may_lose_every_owner() -> None:
    """Then it waits for one, and for nothing else."""
    rig = drained()
    rig.ack("c1", 1)
    rig.leave("c2")
    rig.leave("c1")
    at(rig, 8.5)
    head = rig.dispatcher.waiting_in(A)[0]
    assert rig.dispatcher.wait_reason(A, head, rig.now) is WaitReason.NO_OWNER
    rig.join("c2", 10)
    assert rig.got("c2") == [2, 3, 4]


def test_a_slot_that_returns_to_its_holder_is_not_held() -> None:
    """Rule 6: the holder may have its own slot's messages at once, while earlier ones are pending."""
    rig = drained()
    rig.leave("c2")
    assert rig.got("c1") == [3, 4]
    assert due_at(rig) is None


def test_a_pause_outlasts_the_interval() -> None:
    """What was released waits for the end of the pause; what is still held then, for its time."""
    rig = drained()
    rig.ack("c1", 1)
    rig.dispatcher.pause()
    at(rig, 8.5)
    assert rig.got("c2") == []
    rig.ack("c1", 2)
    rig.dispatcher.resume(rig.now)
    assert rig.got("c2") == [3]
    at(rig, 9.0)
    assert rig.got("c2") == [4]


def test_a_join_position_outlasts_the_interval() -> None:
    """PIP-282: the reason told is what keeps it longest."""
    rig = drained(OrderingMode.LAST_SENT_POSITION)
    rig.ack("c1", 1)
    head = rig.dispatcher.waiting_in(A)[0]
    assert rig.dispatcher.wait_reason(A, head, rig.now) is WaitReason.JOIN_POSITION
    at(rig, 8.5)
    assert rig.got("c2") == []
    rig.ack("c1", 2)
    assert rig.dispatcher.wait_reason(B, rig.dispatcher.waiting_in(B)[0], rig.now) is WaitReason.UNBLOCKING_INTERVAL
    assert rig.got("c2") == [3]
    at(rig, 9.0)
    assert rig.got("c2") == [4]


def test_a_change_between_the_ordered_modes_keeps_the_interval() -> None:
    """Gates open with the mode that knows them; the interval knows neither mode."""
    rig = drained(OrderingMode.LAST_SENT_POSITION)
    rig.ack("c1", 1, 2)
    policy_change.change_mode(rig.dispatcher, OrderingMode.DRAINING_HASHES, rig.now)
    assert rig.got("c2") == []
    at(rig, 8.5)
    assert rig.got("c2") == [3, 4]


def test_a_seek_forgets_what_is_held() -> None:
    """Nothing is left of the old position, nor a time to wake at."""
    rig = drained()
    rig.ack("c1", 1)
    reposition.reset(rig.dispatcher, rig.now)
    assert due_at(rig) is None
    rig.dispatcher.unblock(20.0)
    rig.entries(A, 1)
    assert rig.got("c2") == [1], "the slot is new, and free"


def test_what_an_operator_skips_is_held_no_more() -> None:
    """A slot of which nothing waits any more is forgotten, and the interval with the last."""
    rig = drained()
    rig.ack("c1", 1, 2)
    reposition.discard_up_to(rig.dispatcher, pack(LEDGER, 3), rig.now)
    assert list(rig.dispatcher.unblocking.held) == [B]
    reposition.discard_up_to(rig.dispatcher, pack(LEDGER, 4), rig.now)
    assert due_at(rig) is None


@pytest.mark.parametrize("lasts", [True, False])
def test_leases_outlast_the_interval(*, lasts: bool) -> None:
    """What was released while the leases had run out, or while the stream was away, goes when they are back."""
    rig = drained()
    leases = rig.dispatcher.leases = StreamLeases(1)
    streams_here.open_stream(rig.dispatcher, 0, rig.now)
    streams_here.renew(rig.dispatcher, 8.2, rig.now)
    rig.ack("c1", 1)
    if lasts:
        streams_here.renew(rig.dispatcher, 100.0, rig.now)
        streams_here.hold_stream(rig.dispatcher, 0, rig.now)
    at(rig, 8.5)
    assert rig.got("c2") == []
    if lasts:
        streams_here.open_stream(rig.dispatcher, 0, rig.now)
    else:
        streams_here.renew(rig.dispatcher, 100.0, rig.now)
    assert rig.got("c2") == [3]
    assert leases.covers(A)


def held_in_the_interval() -> Rig:
    """As `drained`, of a group's only stream, which another replica gets when A's first message is acknowledged."""
    rig = drained()
    rig.dispatcher.leases = StreamLeases(1)
    rig.dispatcher.leases.open(0)
    rig.dispatcher.leases.until = 100.0
    rig.ack("c1", 1)
    streams_here.hold_stream(rig.dispatcher, 0, rig.now)
    return rig


def test_a_renewed_lease_does_not_end_the_interval() -> None:
    """Nor does a stream that is opened again."""
    rig = held_in_the_interval()
    streams_here.open_stream(rig.dispatcher, 0, rig.now)
    streams_here.renew(rig.dispatcher, 8.0, rig.now)
    streams_here.renew(rig.dispatcher, 100.0, rig.now)
    assert rig.got("c2") == []
    at(rig, 8.5)
    assert rig.got("c2") == [3]


def test_a_stream_that_is_forgotten_is_held_no_more() -> None:
    """Its messages come from the broker again, and are as free as any."""
    rig = held_in_the_interval()
    streams_here.forget_stream(rig.dispatcher, 0, rig.now)
    assert due_at(rig) is None
    streams_here.open_stream(rig.dispatcher, 0, rig.now)
    rig.entries(A, 3)
    assert rig.got("c2") == [3]


def test_a_time_that_is_late_releases_all_there_is() -> None:
    """A loop that stood still makes the interval longer for all, and forgets none."""
    unblocking = Unblocking(0.5)
    unblocking.hold(7, 1.0)
    unblocking.hold(3, 1.2)
    unblocking.hold(7, 1.3)
    assert unblocking.release(1.49) == ()
    assert unblocking.release(60.0) == (7, 3)
    assert unblocking.release(60.0) == ()
    unblocking.hold(3, 61.0)
    assert unblocking.due_at == 61.5
