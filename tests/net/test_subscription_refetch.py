"""Entries that only the broker has the bytes of, on the wire: when it is asked, and what if it does not send them."""

from __future__ import annotations

from proxy.core import spilling
from proxy.net.subscription.refetch import OVERDUE_S
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import T, single


def rig_of(*entries: int) -> tuple[SubscriptionRig, Worker]:
    """A worker that has entry 0 of a key, one at a time; only the broker has the bytes of `entries` behind it."""
    rig = SubscriptionRig(key_share_percent=1, key_window=1)
    worker = rig.worker("a", permits=50)
    rig.link.deliver(*((entry, single("k", b"%d" % entry)) for entry in range(max(entries) + 1)))
    assert worker.entries() == [0]
    drop(rig, *entries)
    return rig, worker


def drop(rig: SubscriptionRig, *entries: int) -> None:
    """Let the bytes of entries that wait go."""
    dispatcher = rig.subscription.state.dispatcher
    for part in list(dispatcher.waiting_parts()):
        if part.position & 0xFF in entries:
            spilling.drop(dispatcher, part)


def asked(rig: SubscriptionRig) -> list[int]:
    """Entries that the broker was asked for."""
    commands = [each for each in rig.link.log if each.type == T.REDELIVER_UNACKNOWLEDGED_MESSAGES]
    return [place.entryId for each in commands for place in each.redeliverUnacknowledgedMessages.message_ids]


def subscribes(rig: SubscriptionRig) -> int:
    """How often the gateway's consumer was made."""
    return sum(each.type == T.SUBSCRIBE for each in rig.link.log)


def test_what_the_broker_does_not_send_again_is_not_waited_for_for_ever() -> None:
    """It was skipped, or expired: the consumer begins anew, and hears where the cursor stands."""
    rig, worker = rig_of(1)
    worker.ack(0)
    assert asked(rig) == [1]
    rig.clock.advance(OVERDUE_S - 1)
    assert subscribes(rig) == 1
    rig.clock.advance(2)
    assert subscribes(rig) == 2


def test_workers_that_stopped_are_noticed_though_nothing_happens() -> None:
    """Keys that moved keep what waits, which fills the look-ahead: when they do so no more, room is made by itself."""
    rig = SubscriptionRig(key_share_percent=25, key_window=1, look_ahead_messages_per_worker=12)
    worker = rig.worker("a", permits=50)
    rig.link.deliver(*((entry, single(f"k{entry % 4}", b"")) for entry in range(16)))
    assert worker.entries() == [0, 1, 2, 3]
    spill = rig.subscription.state.dispatcher.outstanding.spill
    assert not spill.sizes
    rig.clock.advance(spilling.STILL_S / 2)
    assert not spill.sizes
    rig.clock.advance(spilling.STILL_S)
    assert spill.sizes


def test_what_came_and_is_asked_for_again_is_not_overdue() -> None:
    """Its bytes were let go of a second time: the broker has answered the first question."""
    rig, worker = rig_of(2)
    worker.ack(0)
    assert worker.entries() == [1]
    assert asked(rig) == [2]
    rig.link.deliver((2, single("k", b"2")))
    drop(rig, 2)
    rig.clock.advance(OVERDUE_S - 1)
    worker.ack(1)
    assert asked(rig) == [2, 2]
    rig.clock.advance(2)
    assert subscribes(rig) == 1
    rig.link.deliver((2, single("k", b"2")))
    assert worker.entries() == [2]
