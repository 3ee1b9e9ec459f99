"""A deferred call that is set, moved and cancelled."""

from __future__ import annotations

import gc
import weakref

from proxy.net.alarm import Alarm
from tests.net.fakes import FakeClock


class Owner:
    """What has an alarm."""

    def __init__(self, clock: FakeClock) -> None:
        """Not set."""
        self.alarm = Alarm(clock)
        self.calls: list[str] = []

    def ring(self) -> None:
        """It is due."""
        assert not self.alarm.is_set
        self.calls.append("ring")

    def again(self) -> None:
        """It is due, and is set anew."""
        self.calls.append("again")
        self.alarm.set(1.0, self.ring)


def test_it_calls_once_when_it_is_due() -> None:
    """And is not set any more while it does."""
    clock = FakeClock()
    owner = Owner(clock)
    assert not owner.alarm.is_set
    owner.alarm.set(2.0, owner.ring)
    clock.advance(1.9)
    assert (owner.alarm.is_set, owner.calls) == (True, [])
    clock.advance(10.0)
    assert (owner.alarm.is_set, owner.calls) == (False, ["ring"])


def test_to_set_it_again_replaces_the_call_that_was_due() -> None:
    """Also from within that call."""
    clock = FakeClock()
    owner = Owner(clock)
    owner.alarm.set(1.0, owner.ring)
    owner.alarm.set(2.0, owner.again)
    clock.advance(2.5)
    assert (owner.alarm.is_set, owner.calls) == (True, ["again"])
    clock.advance(1.0)
    assert owner.calls == ["again", "ring"]
    assert clock.waiting == 0


def test_a_cancelled_one_calls_nothing() -> None:
    """As often as it is cancelled; it may be set afterwards."""
    clock = FakeClock()
    owner = Owner(clock)
    owner.alarm.cancel()
    owner.alarm.set(1.0, owner.again)
    owner.alarm.cancel()
    owner.alarm.cancel()
    assert not owner.alarm.is_set
    clock.advance(5.0)
    assert owner.calls == []
    owner.alarm.set(1.0, owner.ring)
    clock.advance(1.0)
    assert owner.calls == ["ring"]


def test_an_owner_whose_alarm_is_not_set_is_no_cycle() -> None:
    """Sessions come and go by the thousand, and the collector runs seldom."""
    clock = FakeClock()
    owner = Owner(clock)
    owner.alarm.set(1.0, owner.ring)
    clock.advance(2.0)
    gone = weakref.ref(owner)
    gc.disable()
    try:
        del owner
        assert gone() is None
    finally:
        gc.enable()
