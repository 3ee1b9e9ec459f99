"""The unblocking interval on the injected clock: one timer, and nothing of it left where it is wanted no more."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from proxy.core import reposition
from proxy.core.explain import SlotState, explain_slot
from proxy.core.positions import pack
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, single

INTERVAL_MS = 200


class Drained(NamedTuple):
    """A worker that holds entries 0 and 1, of two keys that are another's since; there 2 and 3 wait."""

    rig: SubscriptionRig
    old: Worker
    new: Worker
    timers: int
    """Those that waited before."""


def drained(interval_ms: int = INTERVAL_MS, ordering_mode: str = "draining_hashes", **subscribe: object) -> Drained:
    """Both keys drain."""
    rig = SubscriptionRig(key_shared_unblocking_interval_ms=interval_ms, ordering_mode=ordering_mode)
    old = rig.worker("a", permits=50, **subscribe)
    probe = rig.worker("b", permits=50, **subscribe)
    keys = rig.key_for("b"), rig.key_for("b", 1)
    probe.close()
    rig.link.deliver((0, single(keys[0])), (1, single(keys[1])))
    assert old.entries() == [0, 1]
    new = rig.worker("b", permits=50, **subscribe)
    rig.link.deliver((2, single(keys[0])), (3, single(keys[1])))
    return Drained(rig, old, new, rig.clock.waiting)


def test_by_default_a_key_goes_on_in_the_turn_of_the_ack() -> None:
    """G6: no timer is set at all."""
    rig, old, new, timers = drained(0)
    assert new.entries() == []
    old.ack(0)
    assert new.entries() == [2]
    assert rig.clock.waiting == timers


@pytest.mark.parametrize("mode", ["draining_hashes", "last_sent_position"])
def test_keys_that_came_free_go_on_together_when_the_interval_ends(mode: str) -> None:
    """In one write of one turn, by one timer; the next key that comes free begins the next interval."""
    rig, old, new, timers = drained(ordering_mode=mode)
    old.ack(0)
    assert rig.clock.waiting == timers + 1
    rig.clock.advance(0.15)
    old.ack(1)
    assert rig.clock.waiting == timers + 1
    assert new.entries() == []
    writes = new.writes
    rig.clock.advance(0.05)
    assert new.entries() == [2, 3]
    assert new.writes == writes + 1
    assert rig.clock.waiting == timers


def test_delivery_without_order_knows_no_interval() -> None:
    """Nothing drains."""
    meta = pb.KeySharedMeta(keySharedMode=pb.AUTO_SPLIT, allowOutOfOrderDelivery=True)
    rig, old, new, timers = drained(keySharedMeta=meta)
    assert new.entries() == [2, 3]
    old.ack(0, 1)
    assert rig.clock.waiting == timers


def test_a_loop_that_overslept_releases_everything_once() -> None:
    """What was due in between is not made up for, nor lost."""
    rig, old, new, timers = drained()
    old.ack(0)
    rig.clock.oversleep(5.0)
    old.ack(1)
    rig.clock.advance(0.0)
    assert new.entries() == [2, 3]
    assert rig.clock.waiting == timers


def test_the_end_of_the_subscription_leaves_no_timer() -> None:
    """Its last workers left; a new subscription of the name begins without anything of it."""
    rig, old, new, _ = drained()
    old.ack(0)
    new.close()
    old.close()
    assert rig.count == 0
    assert rig.clock.waiting == 0
    again = rig.worker("c", permits=50)
    rig.link.deliver((2, single("k")), (3, single("k")))
    assert again.entries() == [2, 3]


@pytest.mark.parametrize("what", ["seek", "unsubscribe"])
def test_a_seek_or_an_unsubscribe_leaves_no_timer_and_nothing_held(what: str) -> None:
    """The broker sends from the new position, and every key is as free as any."""
    rig, old, new, _ = drained()
    old.ack(0)
    if what == "seek":
        new.seek(0)
    else:
        new.unsubscribe(force=True)
    assert rig.count == 0
    assert rig.clock.waiting == 0
    again = rig.worker("a", permits=50)
    rig.link.deliver(*[(entry, single("k")) for entry in range(3)])
    assert again.entries() == [0, 1, 2]


def test_a_pause_outlasts_the_interval() -> None:
    """What it released waits for the operator then, and for nothing else."""
    rig, old, new, timers = drained()
    old.ack(0)
    rig.subscription.orders.pause()
    rig.clock.advance(1.0)
    assert new.entries() == []
    assert rig.clock.waiting == timers
    rig.subscription.orders.resume()
    rig.clock.settle()
    assert new.entries() == [2]


def test_an_interval_of_which_everything_was_forgotten_does_not_end_the_next_one_early() -> None:
    """An operator skipped what was held; a key that comes free meanwhile has its whole interval."""
    rig, old, new, timers = drained()
    old.ack(0)
    rig.clock.advance(0.1)
    reposition.discard_up_to(rig.subscription.state.dispatcher, pack(LEDGER, 2), rig.clock.now())
    old.ack(1)
    rig.clock.advance(0.15)
    assert new.entries() == []
    rig.clock.advance(0.05)
    assert new.entries() == [3]
    assert rig.clock.waiting == timers


def test_a_broker_that_is_lost_meanwhile_changes_nothing() -> None:
    """What is held is here, and goes on in time."""
    rig, old, new, _ = drained()
    old.ack(0)
    rig.link.lose()
    rig.clock.advance(0.2)
    assert new.entries() == [2]
    assert old.commands() == new.commands() == []


def test_a_departure_frees_keys_for_the_interval_too() -> None:
    """What the worker had goes first, and a worker that has come meanwhile gets its share."""
    rig, old, new, _ = drained()
    old.lose()
    assert new.entries() == []
    rig.clock.advance(0.2)
    assert sorted(new.entries()) == [0, 1, 2, 3]


def test_why_a_key_waits_is_told_with_when_it_ends() -> None:
    """As the admin API answers it."""
    rig, old, _, _ = drained()
    old.ack(0)
    rig.clock.advance(0.125)
    dispatcher = rig.subscription.state.dispatcher
    (slot,) = dispatcher.unblocking.held
    told = explain_slot(dispatcher, slot, rig.clock.now())
    assert told.state is SlotState.UNBLOCKING_INTERVAL
    assert told.released_in_s == pytest.approx(0.075)
