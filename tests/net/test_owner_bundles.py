"""What becomes of subscriptions when the bundles that they are in come to a replica and leave it."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import pytest

from proxy.errors import UpstreamUnavailable
from proxy.groups.bundles import bundle_of
from proxy.net.group.member import GroupMember
from proxy.net.owner.bundle_streams import BundleStatistics, BundleStreams
from proxy.net.subscription.owned import OwnedSubscription
from tests.net.fakes import FakeClock

SEND_S = 0.25
CUT = 8


class Owned:
    """A subscription that notes what is done with it."""

    def __init__(self, key: tuple[str, str], bundles: BundleStreams) -> None:
        self.key = key
        self.idle = True
        self.until: float | None = None
        self.done: Callable[[], None] | None = None
        self._bundles = bundles

    def open(self, until: float, send_s: float) -> None:
        """As it says."""
        assert send_s == SEND_S
        self.until = until

    def renew(self, until: float, now: float) -> None:
        """As it says."""
        assert now < until
        self.until = until

    def hold(self) -> None:
        """As it says."""
        self.until = None

    def give_up(self, done: Callable[[], None]) -> None:
        """As it says: it ends here at once, and at the broker when the test says so."""
        self._bundles.ended(self.key)
        self.done = done

    def end(self) -> float | None:
        """Until when it may deliver; None if it may not."""
        return self.until

    def given_up(self) -> bool:
        """Whether it is closed here."""
        return self.done is not None

    def closed(self) -> None:
        """The broker has answered."""
        assert self.done is not None
        self.done()


class Member:
    """The group's member, as far as it is told of anything."""

    def __init__(self) -> None:
        self.session = self
        self.streams_count = CUT
        self.released: list[list[int]] = []
        self.problems: list[str | None] = []

    def released_each(self, streams: list[int]) -> None:
        """As it says."""
        self.released.append(streams)

    def repositioned(self, problem: str | None) -> None:
        """As it says."""
        self.problems.append(problem)


class Rig:
    """The bundles of one replica."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.opened = 0
        self.bundles = BundleStreams(self.clock, SEND_S, self.open_seen)
        self.member = Member()
        self.bundles.serve(cast("GroupMember", self.member))

    def open_seen(self) -> None:
        """Something came."""
        self.opened += 1

    def subscribe(self, bundle: int, name: str = "s") -> Owned:
        """A subscription in that bundle begins here."""
        topics = (f"persistent://p/d/t{number}" for number in range(10_000))
        key = next((topic, name) for topic in topics if bundle_of(topic, name, CUT) == bundle)
        self.bundles.check(key)
        owned = Owned(key, self.bundles)
        self.bundles.began(cast("OwnedSubscription", owned))
        return owned


def test_only_what_is_open_here_is_served_here() -> None:
    """Not before it comes, nor while it is held or given back."""
    rig = Rig()
    with pytest.raises(UpstreamUnavailable):
        rig.subscribe(3)
    rig.bundles.open(3)
    rig.bundles.open(5)
    rig.bundles.changed()
    rig.bundles.changed()
    assert rig.opened == 1
    rig.subscribe(3, "a")
    with pytest.raises(UpstreamUnavailable):
        rig.subscribe(4)
    rig.bundles.hold(3)
    with pytest.raises(UpstreamUnavailable):
        rig.subscribe(3, "b")
    rig.bundles.open(3)
    rig.subscribe(3, "b")
    rig.bundles.release(3, rig.clock.now() + 1)
    with pytest.raises(UpstreamUnavailable):
        rig.subscribe(3, "c")


def test_a_replica_without_a_lease_serves_nothing() -> None:
    """It does not even know how the deployment is cut."""
    rig = Rig()
    rig.member.streams_count = 0
    with pytest.raises(UpstreamUnavailable):
        rig.bundles.check(("persistent://p/d/t", "s"))


def test_subscriptions_deliver_until_just_before_the_lease_ends() -> None:
    """What is dispatched in the last moment must have left by then; those that come later, too."""
    rig = Rig()
    rig.bundles.open(3)
    first = rig.subscribe(3)
    until = rig.clock.now() + 5
    rig.bundles.deliver_until(until)
    second = rig.subscribe(3, "b")
    assert first.end() == second.end() == until - SEND_S
    rig.bundles.hold(3)
    assert first.end() is None
    rig.bundles.deliver_until(until + 1)
    assert first.end() is None
    rig.bundles.open(3)
    assert first.end() == second.end() == until + 1 - SEND_S


def test_bundles_without_subscriptions_go_at_once_and_are_told_together() -> None:
    """There may be hundreds of them."""
    rig = Rig()
    for bundle in range(CUT):
        rig.bundles.open(bundle)
    for bundle in range(CUT):
        rig.bundles.release(bundle, rig.clock.now() + 10)
    assert rig.member.released == []
    rig.clock.settle()
    assert rig.member.released == [list(range(CUT))]


def test_a_subscription_is_given_up_when_workers_have_nothing_of_it() -> None:
    """And the bundle is given back when the broker has confirmed that all of them are closed."""
    rig = Rig()
    rig.bundles.open(3)
    busy, idle = rig.subscribe(3), rig.subscribe(3, "b")
    busy.idle = False
    rig.bundles.release(3, rig.clock.now() + 10)
    rig.clock.advance(1)
    assert not busy.given_up()
    assert idle.given_up()
    idle.closed()
    busy.idle = True
    rig.clock.advance(0.1)
    assert busy.given_up()
    assert rig.member.released == []
    busy.closed()
    rig.clock.settle()
    assert rig.member.released == [[3]]
    assert rig.bundles.statistics() == BundleStatistics({}, 0, given_back_total=2, overdue_total=0)


def test_at_the_deadline_it_goes_whatever_workers_have() -> None:
    """And an earlier deadline takes the place of a later one."""
    rig = Rig()
    rig.bundles.open(3)
    busy = rig.subscribe(3)
    busy.idle = False
    rig.bundles.release(3, rig.clock.now() + 10)
    rig.clock.advance(2)
    rig.bundles.release(3, rig.clock.now() + 1)
    rig.clock.advance(0.9)
    assert not busy.given_up()
    rig.clock.advance(0.2)
    assert busy.given_up()
    assert rig.bundles.statistics().overdue_total == 1


def test_a_subscription_that_ends_by_itself_holds_up_nothing() -> None:
    """Its last worker may leave while the bundle is given back."""
    rig = Rig()
    rig.bundles.open(3)
    busy = rig.subscribe(3)
    busy.idle = False
    rig.bundles.release(3, rig.clock.now() + 10)
    rig.bundles.ended(busy.key)
    rig.clock.advance(0.1)
    assert rig.member.released == [[3]]


def test_a_subscription_that_has_ended_is_forgotten() -> None:
    """Or a bundle would keep all that there ever were."""
    rig = Rig()
    rig.bundles.open(3)
    owned = rig.subscribe(3)
    assert rig.bundles.statistics().subscriptions == 1
    rig.bundles.ended(owned.key)
    assert rig.bundles.statistics() == BundleStatistics({3: "open"}, 0, 0, 0)


def test_cursors_are_not_moved_by_the_deployments_group() -> None:
    """The owner seeks; who asks for a replay all the same is answered."""
    rig = Rig()
    rig.bundles.reposition(cast("object", None))  # type: ignore[arg-type]
    rig.clock.settle()
    assert len(rig.member.problems) == 1


def test_a_gateway_that_stops_looks_at_nothing_more() -> None:
    """Whatever workers have."""
    rig = Rig()
    rig.bundles.open(3)
    busy = rig.subscribe(3)
    busy.idle = False
    rig.bundles.release(3, rig.clock.now() + 10)
    rig.bundles.close()
    rig.clock.advance(20)
    assert not busy.given_up()
