"""Another ordered mode, and other limits, while messages are under way."""

from __future__ import annotations

from proxy.core import policy_change
from proxy.core.dispatcher import OrderingMode
from tests.core.test_dispatcher_rig import A, B, Rig


def test_join_gates_open_with_a_mode_that_knows_none() -> None:
    """What waited for the join position goes out at once; the slot that drains still waits for its holder."""
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[A], c2=[A, B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    rig.join("c2", 10)
    rig.entries(B, 2)
    rig.entries(A, 3)
    assert rig.got("c2") == []
    policy_change.change_mode(rig.dispatcher, OrderingMode.DRAINING_HASHES, rig.now)
    assert rig.got("c2") == [2]
    assert rig.draining() == [A]
    rig.ack("c1", 1)
    assert rig.got("c2") == [3]


def test_a_worker_that_joins_after_the_change_gets_a_gate() -> None:
    """Those who were there go on as they were."""
    rig = Rig(c1=[A], c2=[A, B])
    rig.join("c1", 10)
    rig.entries(A, 1)
    policy_change.change_mode(rig.dispatcher, OrderingMode.LAST_SENT_POSITION, rig.now)
    assert rig.got("c1") == [1]
    worker = rig.join("c2", 10)
    assert worker.join_gate is not None
    rig.entries(B, 2)
    assert rig.got("c2") == []
    rig.ack("c1", 1)
    assert rig.got("c2") == [2]


def test_a_higher_limit_lets_a_full_worker_go_on() -> None:
    """In the same turn."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10, max_unacked=2)
    rig.entries(A, 1, 2, 3)
    assert rig.got("c1") == [1, 2]
    policy_change.change_max_unacked(rig.dispatcher, worker, 3, rig.now)
    assert rig.got("c1") == [3]


def test_a_lower_limit_takes_nothing_away() -> None:
    """The worker keeps what it has, and gets more when it is below half of the new bound."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    rig.entries(A, 1, 2, 3)
    policy_change.change_max_unacked(rig.dispatcher, worker, 2, rig.now)
    rig.entries(A, 4)
    assert rig.got("c1") == [1, 2, 3]
    rig.ack("c1", 1)
    assert rig.got("c1") == []
    rig.ack("c1", 2)
    assert rig.got("c1") == [4]
