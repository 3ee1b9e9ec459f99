"""Ack leases: who loses what it holds, when, and what becomes of it; as stories, and against any life of workers."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from proxy.core import ack_lease
from proxy.core.dispatcher import OrderingMode
from proxy.core.explain import explain_slot
from proxy.core.worker import Worker
from tests.core.model import World
from tests.core.test_dispatcher_rig import A, B, Rig
from tests.core.test_model import SELECTORS, STICKY, Subscription, has_clients, some
from tests.lives import lives


def rig_of(lease_s: float = 10.0) -> Rig:
    """Two workers: c2 takes both keys from c1."""
    rig = Rig(c1=[A, B], c2=[A, B])
    rig.dispatcher.ack_lease_s = lease_s
    rig.join("c1", 100)
    return rig


def overdue(rig: Rig) -> list[str]:
    """Who loses what it holds now."""
    return [worker.name for worker in ack_lease.overdue(rig.dispatcher, rig.now)]


def test_a_worker_that_holds_a_message_for_the_lease_is_to_lose_it() -> None:
    """From the moment it was sent; at no time before."""
    rig = rig_of()
    rig.now = 3.0
    rig.entries(A, 1)
    assert ack_lease.next_look(rig.dispatcher, rig.now) == 13.0
    rig.now = 12.999
    assert overdue(rig) == []
    rig.now = 13.0
    assert overdue(rig) == ["c1"]


def test_acknowledging_other_messages_does_not_help() -> None:
    """The lease is of each message: a poisoned one is held by a worker that is busy, too."""
    rig = rig_of()
    rig.entries(A, 1)
    for now in range(1, 10):
        rig.now = float(now)
        rig.entries(B, 1 + now)
        rig.ack("c1", 1 + now)
    rig.now = 10.0
    assert overdue(rig) == ["c1"]


def test_acknowledging_in_time_helps() -> None:
    """What was sent later has a lease of its own."""
    rig = rig_of()
    rig.entries(A, 1)
    rig.now = 6.0
    rig.entries(A, 2)
    rig.ack("c1", 1)
    rig.now = 15.0
    assert overdue(rig) == []
    assert ack_lease.next_look(rig.dispatcher, rig.now) == 16.0


def test_a_batch_of_which_a_message_is_not_acknowledged_is_held() -> None:
    """A delivery is acknowledged when all of it is."""
    rig = rig_of()
    rig.batch(1, A, 3)
    rig.now = 9.0
    assert rig.ack_all_but("c1", 1, 2)
    rig.now = 10.0
    assert overdue(rig) == ["c1"]


def test_a_worker_that_asks_for_more_time_gets_a_lease_for_all_it_holds() -> None:
    """As often as it asks."""
    rig = rig_of()
    rig.entries(A, 1)
    rig.now = 4.0
    rig.entries(B, 2)
    for now in (9.0, 18.0, 27.0):
        rig.now = now
        assert ack_lease.extend(rig.dispatcher, rig.workers["c1"], rig.now)
        rig.now = now + 9.5
        assert overdue(rig) == []
    rig.now = 37.0
    assert overdue(rig) == ["c1"]


def test_what_a_message_sent_later_has_is_its_own_lease() -> None:
    """An extension that was asked for before ends no lease early."""
    rig = rig_of()
    ack_lease.extend(rig.dispatcher, rig.workers["c1"], 0.0)
    rig.now = 50.0
    rig.entries(A, 1)
    rig.now = 59.0
    assert overdue(rig) == []


def test_without_a_lease_nothing_is_looked_at() -> None:
    """However long something is held; and nothing is asked for."""
    rig = rig_of(0.0)
    rig.entries(A, 1)
    rig.now = 1e6
    assert overdue(rig) == []
    assert ack_lease.next_look(rig.dispatcher, rig.now) is None
    assert not ack_lease.extend(rig.dispatcher, rig.workers["c1"], rig.now)


def test_the_timer_is_set_for_what_may_yet_be_sent() -> None:
    """A worker that holds nothing can lose nothing before a lease from now."""
    rig = rig_of()
    assert ack_lease.next_look(rig.dispatcher, 5.0) == 15.0
    assert ack_lease.next_look(Rig(c1=[A]).dispatcher, 5.0) is None


def test_what_is_taken_away_goes_on_in_order_and_late_acks_count_for_nothing() -> None:
    """The key's next holder gets it at its place, with all that waited behind it; the former one's ack is no one's."""
    rig = rig_of()
    rig.entries(A, 1)
    rig.join("c2", 100)
    rig.entries(A, 2)
    assert rig.got("c1") == [1]
    assert rig.got("c2") == []
    rig.now = 10.0
    assert overdue(rig) == ["c1"]
    rig.leave("c1")
    assert rig.got("c2") == [1, 2]
    late = rig.workers["c1"]
    rig.ack("c1", 1)
    assert late.acks_unknown == 1
    assert rig.dispatcher.slots.count(A) == 2, "both are at c2"
    assert rig.dispatcher.outstanding.acks == []


def test_a_chunked_message_has_the_lease_of_its_last_chunk() -> None:
    """Without it no worker can acknowledge the others, whatever it does."""
    rig = rig_of()
    rig.chunk(1, A, "u", 0, 2)
    rig.now = 60.0
    assert overdue(rig) == []
    rig.entries(B, 2)
    rig.now = 65.0
    rig.chunk(3, A, "u", 1, 2)
    rig.now = 69.9
    assert overdue(rig) == []
    rig.ack("c1", 2)
    rig.now = 74.9
    assert overdue(rig) == []
    rig.now = 75.0
    assert overdue(rig) == ["c1"]


def test_explain_says_when_the_holder_loses_the_slot() -> None:
    """Beside who has to do what."""
    rig = rig_of()
    rig.entries(A, 1)
    rig.join("c2", 100)
    rig.entries(A, 2)
    rig.now = 4.0
    told = explain_slot(rig.dispatcher, A, rig.now)
    assert told.ack_lease_ends_in_s == 6.0
    assert told.unblocks.endswith("; else it loses them in 6.0 s, unless it extends its ack lease")
    rig.dispatcher.ack_lease_s = 0.0
    told = explain_slot(rig.dispatcher, A, rig.now)
    assert told.ack_lease_ends_in_s is None
    assert "lease" not in told.unblocks


class LeasedWorkers(Subscription):
    """As its base; workers that hold something for too long leave, when the caller's timer goes off."""

    @initialize(
        mode=st.sampled_from(OrderingMode),
        selector=st.sampled_from(sorted(SELECTORS)),
        permits=st.integers(0, 20),
        interval_s=st.sampled_from([0.0, 0.0, 2.5]),
        lease_s=st.sampled_from([2.0, 5.0, 20.0]),
    )
    def begin(self, mode: OrderingMode, selector: str, permits: int, interval_s: float, lease_s: float) -> None:
        """A subscription with one worker."""
        self.world = World(SELECTORS[selector](), mode, interval_s)
        self.world.dispatcher.ack_lease_s = lease_s
        self.world.flow(self.world.join(Worker("a", sticky_ranges=STICKY[:2])), permits)
        self.look_at: float | None = None

    @has_clients
    @rule(who=some)
    def a_worker_asks_for_more_time(self, who: int) -> None:
        """GET_LAST_MESSAGE_ID."""
        ack_lease.extend(self.world.dispatcher, self.pick(who).worker, self.world.now)

    @invariant()
    def the_guarantees_hold(self) -> None:
        """As in its base, and each lease ends when it does: what is held longest is looked for anew."""
        super().the_guarantees_hold()
        if hasattr(self, "world"):
            dispatcher, now = self.world.dispatcher, self.world.now
            late = [client for client in self.world.clients if self.held_since(client.worker) <= now]
            assert [client.worker for client in late] == ack_lease.overdue(dispatcher, now)
            if late:
                assert self.look_at is not None
                assert self.look_at <= now, "a lease ended before it was looked at"
            if self.look_at is None or self.look_at <= now:
                for client in late:
                    self.world.leave(client)
                self.look_at = ack_lease.next_look(dispatcher, now)
                self.world.check()

    def held_since(self, worker: Worker) -> float:
        """When the first of its leases ends."""
        ends = [part.sent_at for part in worker.pending.values() if part.chunk is None]
        lease_s = self.world.dispatcher.ack_lease_s
        return max(min(ends), worker.lease_extended_at) + lease_s if ends else float("inf")


TestModel = LeasedWorkers.TestCase
"""In any life the timer misses no lease, and the guarantees of every subscription hold through what is taken away."""

TestModel.settings = lives(100, 40)
