"""Why a slot waits: each state told, in every mode, and never anything else than the dispatcher decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from proxy.core.blocking import BLOCKING_LISTED_MAX, BlockingDelivery
from proxy.core.dispatcher import OrderingMode
from proxy.core.explain import SlotState, WaitingHead, explain_slot
from proxy.core.statistics import dispatcher_statistics_steps
from proxy.core.steps import finished
from proxy.core.stream_leases import StreamLeases
from proxy.core.waiting import WaitReason
from proxy.core.worker import Worker
from tests.core.model import World, slots_in
from tests.core.test_chunks import Story
from tests.core.test_dispatcher_rig import A, B, C, D, Rig
from tests.core.test_model import INTERVALS_S, SELECTORS, SLOTS, STICKY, WORKERS_MAX, Subscription, has_clients, some
from tests.lives import lives

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.explain import SlotExplanation

GATED = OrderingMode.LAST_SENT_POSITION


def explained(rig: Rig, slot: int = A, *, upstream_backlog: bool = False) -> SlotExplanation:
    """At the rig's moment."""
    return explain_slot(rig.dispatcher, slot, rig.now, upstream_backlog=upstream_backlog)


def drained(c1: int = 10) -> Rig:
    """c1 has 1:1 since second 0, with so many permits at first; the slot is c2's, where 1:2 waits since second 4."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", c1)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.now = 4.0
    rig.entries(A, 2)
    rig.now = 10.0
    return rig


# ---- nothing waits ----


def test_a_slot_with_nothing_flows() -> None:
    """Its owner is told, and that nothing waits."""
    rig = Rig(c1=[A])
    rig.join("c1", 1)
    found = explained(rig)
    assert (found.slot, found.owner, found.holder, found.state) == (A, "c1", None, SlotState.FLOWING)
    assert (found.waiting_messages, found.waiting_age_s, found.head, found.blocking) == (0, None, None, ())
    assert (found.pending_acks, found.unacked_messages, found.join_position) == (0, 0, None)
    assert found.unblocks == "nothing waits"


def test_what_is_pending_is_counted_by_deliveries_and_unacknowledged_messages() -> None:
    """Of the slot alone: the batch's other key does not count, nor does what was acknowledged one by one."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 20)
    rig.entries(A, 1)
    rig.mixed(2, A, B, A)
    rig.batch(3, A, 4)
    assert rig.got("c1") == [1, 2, 3]
    rig.ack_all_but("c1", 3, 0)
    found = explained(rig)
    assert (found.holder, found.pending_acks, found.unacked_messages) == ("c1", 3, 4)
    assert explained(rig, B).unacked_messages == 1


def test_a_slot_with_nothing_here_is_behind_if_the_broker_has_a_backlog() -> None:
    """But not while a message of it is here."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 1)
    rig.entries(A, 1)
    assert explained(rig, B, upstream_backlog=True).state is SlotState.UPSTREAM_BEHIND
    assert explained(rig, B, upstream_backlog=True).unblocks == (
        "the gateway must read on in the broker's backlog, where the slot's next message may lie; "
        "before a next message can go, c1 must grant at least 1 permit"
    )
    assert explained(rig, A, upstream_backlog=True).state is SlotState.FLOWING
    rig.entries(B, 2)
    assert explained(rig, B, upstream_backlog=True).state is SlotState.NO_PERMITS


def test_a_slot_that_drains_while_nothing_waits_flows_and_says_what_the_next_would_wait_for() -> None:
    """The state is that of messages that are here."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    found = explained(rig)
    assert (found.state, found.owner, found.holder, found.blocking) == (SlotState.FLOWING, "c2", "c1", ())
    assert found.unblocks == (
        "nothing waits; before a next message can go, c1 must acknowledge or give back 1 message of the slot, "
        "or leave, the oldest 1:1 sent 0.0 s ago to c1"
    )


def test_a_next_message_behind_a_join_position_would_wait_for_it() -> None:
    """The state and the join position are those of messages that are here."""
    rig = Rig(GATED, c1=[A, B], c2=[B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    found = explained(rig, B)
    assert (found.state, found.join_position, found.join_position_entries) == (SlotState.FLOWING, None, 0)
    assert "before a next message can go, 1 entry up to 1:1, the join position of c2," in found.unblocks


# ---- each reason ----


def test_nobody_owns_the_slot() -> None:
    """A worker must join; what waits is told with its age."""
    rig = Rig(c1=[B])
    rig.join("c1", 10)
    rig.batch(1, A, 3)
    rig.now = 2.5
    found = explained(rig)
    assert (found.state, found.owner, found.waiting_messages, found.waiting_age_s) == (SlotState.NO_OWNER, None, 3, 2.5)
    assert found.head == WaitingHead(position="1:1", messages=3, age_s=2.5, attempts=0, redeliveries=0)
    assert found.unblocks == f"a worker must join that covers slot {A}"


def test_the_slot_drains() -> None:
    """Its old holder must be done with it; since when, and which deliveries, is told."""
    rig = drained()
    found = explained(rig)
    assert (found.state, found.owner, found.holder) == (SlotState.DRAINING, "c2", "c1")
    assert (found.waiting_age_s, found.waiting_messages) == (6.0, 1)
    assert found.blocking == (
        BlockingDelivery(position="1:1", slot=A, messages=1, sent_age_s=10.0, attempts=1, redeliveries=0, holder="c1"),
    )
    assert found.unblocks == (
        "c1 must acknowledge or give back 1 message of the slot, or leave, the oldest 1:1 sent 10.0 s ago to c1"
    )
    rig.dispatcher.set_writable(rig.workers["c1"], False, rig.now)
    assert explained(rig).unblocks.startswith("c1 must read its socket, and then c1 must acknowledge")


def test_long_drains_list_the_oldest_deliveries_and_count_all() -> None:
    """In the order sent, the slot's messages alone."""
    rig = Rig(c1=[A, B], c2=[A])
    rig.join("c1", 100)
    rig.mixed(1, B, A, B)
    rig.entries(A, *range(2, 31))
    rig.entries(B, 31)
    rig.got("c1")
    rig.nack("c1", 2)
    rig.join("c2")
    rig.entries(A, 32)
    found = explained(rig)
    assert [item.position for item in found.blocking] == ["1:1", *(f"1:{number}" for number in range(3, 12))]
    assert len(found.blocking) == BLOCKING_LISTED_MAX
    assert found.blocking[0].messages == 1
    assert (found.pending_acks, found.unacked_messages) == (30, 30)


def test_the_owner_has_no_permits() -> None:
    """It must grant some; a batch cut where they ended waits with the rest of its messages."""
    rig = Rig(c1=[A])
    rig.join("c1", 2)
    rig.batch(1, A, 5)
    found = explained(rig)
    assert (found.state, found.waiting_messages, found.unacked_messages) == (SlotState.NO_PERMITS, 3, 2)
    assert found.head is not None
    assert (found.head.position, found.head.messages) == ("1:1", 3)
    assert found.unblocks == "c1 must grant at least 1 permit"


def test_permits_that_were_overdrawn_must_be_made_good() -> None:
    """An opaque batch larger than the permits went whole."""
    rig = Rig(c1=[A])
    rig.join("c1", 1)
    rig.opaque(1, A, 4)
    rig.entries(A, 2)
    assert explained(rig).unblocks == "c1 must grant at least 4 permits"


def test_the_owner_does_not_read_its_socket() -> None:
    """Whatever it granted."""
    rig = Rig(c1=[A])
    rig.dispatcher.set_writable(rig.join("c1", 10), False, rig.now)
    rig.entries(A, 1)
    found = explained(rig)
    assert (found.state, found.unblocks) == (SlotState.NOT_READING, "c1 must read its socket")


def test_the_owner_is_at_its_unacknowledged_limit() -> None:
    """It must come down to half; what it has had longest, of any slot, is told."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 10, max_unacked=4)
    rig.entries(B, 1, 2, 3)
    rig.entries(A, 4, 5)
    rig.now = 3.0
    found = explained(rig)
    assert (found.state, found.unacked_messages) == (SlotState.UNACKED_LIMIT, 1)
    assert [item.position for item in found.blocking] == ["1:1", "1:2", "1:3", "1:4"]
    assert [item.slot for item in found.blocking] == [B, B, B, A]
    assert found.unblocks == (
        "c1 must acknowledge or give back 2 of its 4 messages (its limit is 4), the oldest 1:1 sent 3.0 s ago to c1"
    )


def test_an_operator_drains_the_owner() -> None:
    """An operator must let it, or it must leave."""
    rig = Rig(c1=[A])
    rig.dispatcher.set_drained(rig.join("c1", 10), True, rig.now)
    rig.entries(A, 1)
    found = explained(rig)
    assert found.state is SlotState.DRAINED_BY_OPERATOR
    assert found.unblocks == "an operator must let c1 have new messages again, or c1 must leave"


def test_the_subscription_is_paused() -> None:
    """Before every other reason."""
    rig = drained()
    rig.dispatcher.pause()
    found = explained(rig)
    assert (found.state, found.blocking, found.unacked_messages) == (SlotState.PAUSED, (), 1)
    assert found.unblocks == "an operator must resume the subscription, unless the gateway is shutting down"


def test_the_owner_joined_lately() -> None:
    """PIP-282: what must be acknowledged is told in topic order; the join position is the owner's, whoever holds."""
    rig = Rig(GATED, c1=[A, B], c2=[A], c3=[C])
    rig.join("c1", 10)
    rig.join("c3")
    rig.entries(B, 1)
    rig.entries(A, 2)
    rig.join("c2", 10)
    rig.entries(A, 3)
    rig.now = 1.0
    found = explained(rig)
    assert (found.state, found.owner, found.holder) == (SlotState.JOIN_POSITION, "c2", "c1")
    assert (found.join_position, found.join_position_entries) == ("1:2", 2)
    assert [(item.position, item.holder) for item in found.blocking] == [("1:1", "c1"), ("1:2", "c1")]
    assert found.unblocks == (
        "2 entries up to 1:2, the join position of c2, must be acknowledged, the oldest 1:1 sent 1.0 s ago to c1"
    )


def test_what_keeps_a_join_gate_shut_may_wait_itself() -> None:
    """Given back to an owner without permits: its slot is named, so that one can ask on."""
    rig = Rig(GATED, c1=[A, B], c2=[A])
    rig.join("c1", 1)
    rig.entries(B, 1)
    rig.join("c2", 10)
    rig.got("c1")
    rig.nack("c1")
    rig.entries(A, 2)
    found = explained(rig, A)
    assert found.state is SlotState.JOIN_POSITION
    assert found.blocking == (
        BlockingDelivery(position="1:1", slot=B, messages=1, sent_age_s=None, attempts=1, redeliveries=1, holder=None),
    )
    assert found.unblocks.endswith(f", the oldest 1:1, which waits itself in slot {B}")


def test_an_entry_before_a_join_position_is_listed_once_for_each_who_has_some_of_it() -> None:
    """A mixed batch at two workers, of which a third gave its part back."""
    rig = Rig(GATED, c1=[A], c2=[B], c3=[C], c4=[D])
    for name in ("c1", "c2", "c3"):
        rig.join(name, 2 if name == "c2" else 1)
    rig.mixed(1, A, B, B, C)
    rig.join("c4", 10)
    rig.got("c3")
    rig.nack("c3")
    rig.entries(D, 2)
    found = explained(rig, D)
    assert (found.state, found.join_position_entries) == (SlotState.JOIN_POSITION, 1)
    assert {item.position for item in found.blocking} == {"1:1"}
    assert [(item.holder, item.slot, item.messages) for item in found.blocking] == [
        (None, C, 1),
        ("c1", A, 1),
        ("c2", B, 2),
    ]


def test_a_slot_whose_head_could_go_flows() -> None:
    """Between two calls no such thing is left; within one it is no reason to fail."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    rig.dispatcher.pause()
    rig.entries(A, 1)
    rig.dispatcher.paused = False
    found = explained(rig)
    assert (found.state, found.waiting_messages) == (SlotState.FLOWING, 1)
    assert found.unblocks == "nothing: it goes to c1 at once"


def test_the_slot_has_drained_and_waits_for_the_interval() -> None:
    """It says when that ends, and that nobody need do anything; a join position or a pause keeps it longer."""
    rig = Rig(c1=[A], c2=[A])
    rig.dispatcher.unblocking.interval_s = 0.25
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.entries(A, 2)
    assert explained(rig).state is SlotState.DRAINING
    rig.now = 4.0
    rig.ack("c1", 1)
    rig.now = 4.0625
    found = explained(rig)
    assert (found.state, found.owner, found.holder) == (SlotState.UNBLOCKING_INTERVAL, "c2", None)
    assert (found.released_in_s, found.blocking) == (0.1875, ())
    assert found.unblocks == "nothing: it goes to c2 in 0.188 s, when the interval ends"
    rig.dispatcher.pause()
    assert (explained(rig).state, explained(rig).released_in_s) == (SlotState.PAUSED, None)


# ---- chunked messages ----


def begun(mode: OrderingMode = OrderingMode.DRAINING_HASHES) -> Rig:
    """c1 has chunk 0 of 2 of a message and no permits; the slot is c2's."""
    rig = Rig(mode, c1=[A], c2=[A])
    rig.join("c1", 1)
    rig.chunk(1, A, "m", 0, 2)
    rig.join("c2", 10)
    return rig


@pytest.mark.parametrize("mode", OrderingMode)
def test_the_rest_of_a_chunked_message_waits_for_the_worker_that_has_begun_it(mode: OrderingMode) -> None:
    """Not for the slot's owner, in no mode."""
    rig = begun(mode)
    rig.chunk(2, A, "m", 1, 2)
    found = explained(rig)
    assert (found.state, found.owner, found.unacked_messages) == (SlotState.NO_PERMITS, "c2", 1)
    assert found.unblocks == "c1 must grant at least 1 permit"


def test_a_drain_that_hangs_on_a_chunk_says_so() -> None:
    """The holder cannot acknowledge a message it has not got whole: it must let the rest in first."""
    rig = begun()
    rig.entries(A, 2)
    assert explained(rig).unblocks.endswith(
        "; the rest of a chunked message that c1 has begun has not come from the broker yet"
    )
    rig.chunk(3, A, "m", 1, 2)
    found = explained(rig)
    assert (found.state, [item.position for item in found.blocking]) == (SlotState.DRAINING, ["1:1"])
    assert found.unblocks.endswith(
        "; c1 must grant at least 1 permit to get the rest of a chunked message that it has begun"
    )
    rig.dispatcher.set_writable(rig.workers["c1"], False, rig.now)
    assert explained(rig).unblocks.endswith(
        "; c1 must read its socket to get the rest of a chunked message that it has begun"
    )
    rig.dispatcher.set_writable(rig.workers["c1"], True, rig.now)
    rig.flow("c1", 1)
    assert explained(rig).unblocks.endswith("the oldest 1:1 sent 0.0 s ago to c1")


def test_a_join_gate_that_hangs_on_a_chunk_says_so() -> None:
    """The oldest entry before the gate is a chunk that nobody can acknowledge yet."""
    rig = begun(GATED)
    rig.entries(A, 2)
    found = explained(rig)
    assert found.state is SlotState.JOIN_POSITION
    assert found.unblocks.endswith("; the rest of a chunked message that c1 has begun has not come from the broker yet")


def test_a_limit_that_hangs_on_a_chunk_says_so() -> None:
    """All that the worker has is the beginning of a message."""
    rig = Rig(c1=[A, B])
    rig.join("c1", 1, max_unacked=1)
    rig.chunk(1, A, "m", 0, 2)
    rig.entries(B, 2)
    found = explained(rig, B)
    assert found.state is SlotState.UNACKED_LIMIT
    assert found.unblocks.endswith("; the rest of a chunked message that c1 has begun has not come from the broker yet")


# ---- without order ----


def test_without_order_nothing_drains() -> None:
    """What others have of the slot does not matter; the owner's share is told."""
    rig = Rig(OrderingMode.UNORDERED, c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    rig.join("c2", 1)
    rig.entries(A, 3, 4)
    found = explained(rig)
    assert (found.state, found.owner, found.holder) == (SlotState.NO_PERMITS, "c2", None)
    assert (found.pending_acks, found.unacked_messages, [item.holder for item in found.blocking]) == (1, 1, ["c2"])


# ---- streams of a group ----


def test_a_slot_of_a_stream_that_is_not_leased_says_so_whether_or_not_something_waits() -> None:
    """Its messages go elsewhere, so "nothing waits" would mislead; the leader ends it."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    leases = rig.dispatcher.leases = StreamLeases(16)
    leases.until = 5.0
    found = explained(rig, upstream_backlog=True)
    wanted = "the group's leader must lease stream 0 (slots 0 to 4095) to this replica"
    assert (found.state, found.head) == (SlotState.NO_LEASE, None)
    assert found.unblocks == f"nothing waits; before a next message can go, {wanted}"
    rig.entries(A, 1)
    found = explained(rig)
    assert (found.state, found.waiting_messages, found.blocking) == (SlotState.NO_LEASE, 1, ())
    assert found.unblocks == wanted


def test_a_lease_that_has_run_out_must_be_renewed() -> None:
    """The stream is ours still, which is another thing to look for."""
    rig = Rig(c1=[A])
    rig.join("c1", 10)
    leases = rig.dispatcher.leases = StreamLeases(1)
    leases.open(0)
    leases.until = 5.0
    assert explained(rig).state is SlotState.FLOWING
    rig.now = 5.0
    rig.entries(A, 1)
    found = explained(rig)
    assert found.state is SlotState.NO_LEASE
    assert found.unblocks == "the group's leader must renew this replica's lease of stream 0 (slots 0 to 65535)"


# ---- asked for what cannot be ----


@pytest.mark.parametrize("slot", [-1, 65_536])
def test_a_slot_that_cannot_be_is_refused(slot: int) -> None:
    """With the slots that can."""
    with pytest.raises(ValueError, match=f"not a hash slot: {slot}; expected 0 to 65535"):
        explain_slot(Rig().dispatcher, slot, 0.0)


@pytest.mark.parametrize("slot", [0, 1, 65_535])
def test_the_outermost_slots_can_be_asked_for(slot: int) -> None:
    """Slot 0 never holds a key, and is no error."""
    assert explain_slot(Rig().dispatcher, slot, 0.0).state is SlotState.FLOWING


# ---- whatever happens ----

BLOCKED_BY_DELIVERIES = {WaitReason.DRAINING, WaitReason.UNACKED_LIMIT, WaitReason.JOIN_POSITION}


def check_explanations(dispatcher: Dispatcher, slots: Iterable[int], now: float) -> None:
    """Every slot's explanation against the dispatcher's decision, a plain recount, and the statistics."""
    statistics = finished(dispatcher_statistics_steps(dispatcher, now))
    found = {slot: explain_slot(dispatcher, slot, now) for slot in slots}
    assert set(dispatcher.waiting_by_slot()) <= set(found)
    for slot, explanation in found.items():
        check_state(dispatcher, slot, explanation, now)
        check_pending(dispatcher, slot, explanation)
    assert sum(each.waiting_messages for each in found.values()) == statistics.waiting_messages
    if dispatcher.ordered:
        pending = sum(each.unacked_messages for each in found.values())
        assert pending == sum(worker.unacked_messages for worker in statistics.workers)
    for worker in statistics.workers:
        for item in worker.draining_hashes:
            told = found[item.hash]
            assert (told.holder, told.owner) == (worker.name, item.owner)
            assert told.waiting_messages == item.waiting_messages
            assert told.unacked_messages > 0


def check_state(dispatcher: Dispatcher, slot: int, told: SlotExplanation, now: float) -> None:
    """State, head and what blocks it."""
    waiting = dispatcher.waiting_in(slot)
    leases = dispatcher.leases
    if not waiting and not dispatcher.paused and leases is not None and not leases.allows(slot, now):
        assert told.state is SlotState.NO_LEASE
        assert (told.head, told.blocking) == (None, ())
        return
    if not waiting:
        assert told.state is SlotState.FLOWING
        assert (told.head, told.waiting_age_s, told.join_position, told.blocking) == (None, None, None, ())
        behind = explain_slot(dispatcher, slot, now, upstream_backlog=True).state is SlotState.UPSTREAM_BEHIND
        assert behind == (told.pending_acks == 0)
        return
    reason = dispatcher.wait_reason(slot, waiting[0], now)
    assert told.state.value == (reason.value if reason is not None else "flowing")
    assert told.head is not None
    assert told.head.messages <= told.waiting_messages
    assert told.waiting_age_s == now - min(part.waits_since for part in waiting)
    assert (told.released_in_s is not None) == (reason is WaitReason.UNBLOCKING_INTERVAL)
    if reason is not WaitReason.NO_PERMITS:  # whose worker may hold nothing
        assert bool(told.blocking) == (reason in BLOCKED_BY_DELIVERIES)
    assert (told.join_position is not None) == (told.join_position_entries > 0) == (reason is WaitReason.JOIN_POSITION)
    if reason is WaitReason.DRAINING:
        assert told.holder is not None
        assert {item.holder for item in told.blocking} == {told.holder}


def check_pending(dispatcher: Dispatcher, slot: int, told: SlotExplanation) -> None:
    """What is pending, counted anew; without order at the owner alone."""
    at = [worker for worker in dispatcher.workers.values() if dispatcher.ordered or worker is dispatcher.select(slot)]
    own = [slots_in(part).count((slot, False)) for w in at for part in w.pending.values()]
    assert told.pending_acks == sum(map(bool, own))
    assert told.unacked_messages == sum(own)


class Busy(Subscription):
    """The random lives of `test_model`, in which workers mostly have something, and often of slots that move on."""

    @initialize(
        mode=st.sampled_from([*OrderingMode, *[OrderingMode.DRAINING_HASHES] * 2]),
        selector=st.sampled_from(["auto-split", "consistent hashing", "auto-split", "consistent hashing", "sticky"]),
        permits=st.integers(0, 20),
        interval_s=st.sampled_from(INTERVALS_S),
    )
    def begin(self, mode: OrderingMode, selector: str, permits: int, interval_s: float) -> None:
        """Mostly one in which something can drain."""
        self.world = World(SELECTORS[selector](), mode, interval_s)
        self.world.flow(self.world.join(Worker("a", sticky_ranges=STICKY[:2])), permits)

    @has_clients
    @rule(number=some)
    def everybody_has_something_to_do(self, number: int) -> None:
        """Nothing keeps workers from what arrives, but that one in three is at its limit or has few permits."""
        world = self.world
        world.dispatcher.resume(world.now)
        for client in world.clients:
            world.dispatcher.set_writable(client.worker, True, world.now)
            world.dispatcher.set_drained(client.worker, False, world.now)
            world.flow(client, 1 + number % 3 * 8)
        world.arrive(SLOTS)
        world.arrive([SLOTS[number % len(SLOTS)]] * 3)
        world.check()

    @precondition(lambda self: len(self.world.clients) < WORKERS_MAX)
    @rule(name=st.sampled_from("abc"), ranges=st.sets(st.sampled_from(STICKY), min_size=1, max_size=3), number=some)
    def a_worker_joins_in_the_middle_of_it(self, name: str, ranges: set[tuple[int, int]], number: int) -> None:
        """While others have something of what becomes its own."""
        self.everybody_has_something_to_do(number)
        self.a_worker_joins(name, ranges, 0, 5)
        self.world.arrive(SLOTS)
        self.world.check()


class Explained(Busy):
    """Explained after every step."""

    @invariant()
    def every_slot_is_explained(self) -> None:
        """See `check_explanations`."""
        if hasattr(self, "world"):
            check_explanations(self.world.dispatcher, (*SLOTS, 2), self.world.now)


TestExplained = Explained.TestCase
"""After every step every slot can be explained, as the dispatcher decides and as the statistics count."""

TestExplained.settings = lives(50, 40)


@pytest.mark.parametrize("seed", range(10))
def test_interleaved_chunked_messages_are_explained_after_every_step(seed: int) -> None:
    """Chunks pass what waits before them, and owners move: state and counts stay right."""
    story = Story(seed)
    for _ in range(60):
        story.random.choice([story.chunk, story.chunk, story.flow, story.join, story.leave])()
        check_explanations(story.rig.dispatcher, (A,), story.rig.now)
        story.read()
        check_explanations(story.rig.dispatcher, (A,), story.rig.now)
