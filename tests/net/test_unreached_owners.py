"""What a replica says of owners that it does not reach, and an owner of its own workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.groups.bundles import DEPLOYMENT, bundle_of
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import OfReach, SessionId, WorkersServed, WorkersWait
from proxy.net.group.settings import GroupSettings
from proxy.net.owner.bundle_streams import BundleStreams
from proxy.net.owner.deployment import Deployment
from proxy.net.owner.pulses import ANSWERS, Pulses
from proxy.net.owner.unreached import AGAIN_S, LOOK_AROUND_S, UnreachedOwners
from tests.net.assignment_rig import NoBrokers
from tests.net.fakes import FakeClock, FakeConnector, FakeTransport

if TYPE_CHECKING:
    from proxy.net.owner.proof import Told
    from proxy.net.ports import Receiver

INTERVAL_S = 2.5
BUNDLES = 8
KEY = ("persistent://public/default/t", "s")
BUNDLE = bundle_of(*KEY, BUNDLES)


class Silent(Deployment):
    """What would be sent."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("a", "pulsar://a:6670", NoBrokers(), clock, GroupSettings(groups_enabled=True))
        self.said: list[OfReach] = []

    def tell_reach(self, message: OfReach) -> None:
        """As the base says."""
        self.said.append(message)


class Here(BundleStreams):
    """What this replica has, and has workers of."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock, 1.0, lambda: None)
        self.open_ones: set[int] = set()
        self.served: set[int] = set()

    def open_here(self, bundle: int) -> bool:
        """As the base says."""
        return bundle in self.open_ones

    def serves(self, bundle: int) -> bool:
        """As the base says."""
        return bundle in self.served


class Rig:
    """Replica ``a``; ``b`` and ``c`` are others, and the test plays them."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.dialled: dict[str, FakeConnector] = {}
        self.deployment = Silent(self.clock)
        self.here = self.deployment.bundles = Here(self.clock)
        self.pulses = Pulses("a", self.clock, INTERVAL_S, self.dial, lambda _replica: self.unreached.suspect())
        self.unreached = UnreachedOwners(self.deployment, self.clock, self.pulses)
        owners = tuple((number, SessionId("abc"[number % 3], 1)) for number in range(BUNDLES))
        addresses = tuple((name, f"pulsar://{name}:6670") for name in "abc")
        self.deployment.owners.learn(GroupMemory(epoch=1, streams_count=BUNDLES, owners=owners, addresses=addresses))

    def dial(self, address: str, told: Told, receiver: Receiver) -> None:
        """Without the proof, which is another test's."""
        self.dialled.setdefault(told.target, FakeConnector(self.clock)).connect(address, receiver)

    def answer(self, replica: str) -> FakeTransport:
        """Another replica takes the connection for signs of life."""
        return self.dialled[replica].last.accept()

    def said(self) -> list[OfReach]:
        """Since the last look."""
        said, self.deployment.said = self.deployment.said, []
        return said


def test_what_waits_for_an_owner_that_is_not_reached_is_said_until_it_waits_no_more() -> None:
    """Of one that answers nothing is said; and each bundle once, however many clients wait."""
    rig = Rig()
    rig.unreached.waits("b", KEY)
    rig.clock.advance(10 * AGAIN_S)
    assert rig.said() == []
    rig.unreached.lost("b")
    rig.unreached.waits("b", KEY)
    rig.unreached.waits("c", KEY)
    rig.clock.advance(2 * AGAIN_S)
    assert rig.said() == [WorkersWait(DEPLOYMENT, "a", "b", (BUNDLE,), ())] * 2
    rig.unreached.ended("b", KEY)
    rig.clock.advance(AGAIN_S)
    assert len(rig.said()) == 1
    rig.unreached.ended("b", KEY)
    rig.clock.advance(4 * AGAIN_S)
    assert rig.said() == []


def test_an_owner_that_is_reached_again_is_not_complained_of() -> None:
    """By a leg or by signs of life, whichever comes first."""
    rig = Rig()
    rig.unreached.lost("b")
    rig.unreached.waits("b", KEY)
    rig.unreached.found("b")
    rig.clock.advance(4 * AGAIN_S)
    assert rig.said() == []


def test_replicas_that_are_reached_are_named() -> None:
    """All are asked as soon as one is suspected, and for a while."""
    rig = Rig()
    rig.unreached.suspect()
    rig.clock.advance(AGAIN_S)
    assert rig.dialled.keys() == {"b", "c"}
    third = rig.answer("c")
    rig.unreached.lost("b")
    rig.unreached.waits("b", KEY)
    rig.clock.advance(AGAIN_S)
    assert rig.said() == [WorkersWait(DEPLOYMENT, "a", "b", (BUNDLE,), ("c",))]
    rig.clock.advance(INTERVAL_S + 1.0)
    assert isinstance(rig.said()[-1], WorkersWait)
    rig.clock.advance(AGAIN_S)
    assert rig.said()[-1].reached == (), "it does not answer any more"
    third.deliver(ANSWERS)
    rig.clock.advance(AGAIN_S)
    rig.unreached.ended("b", KEY)
    for _ in range(int(2 * LOOK_AROUND_S)):
        third.deliver(ANSWERS)
        rig.clock.advance(1.0)
    assert third.closing
    third.lose()
    attempts_count = len(rig.dialled["b"].attempts)
    rig.clock.advance(2 * LOOK_AROUND_S)
    assert len(rig.dialled["b"].attempts) == attempts_count, "all is quiet again"


def test_an_owner_says_whether_it_has_workers() -> None:
    """Of what it has of what is asked; and nothing if another is meant."""
    rig = Rig()
    rig.here.open_ones, rig.here.served = {1, 2, 5}, {2, 5}
    rig.unreached.hear(WorkersWait(DEPLOYMENT, "b", "a", (1, 2, 3), ()))
    rig.unreached.hear(WorkersWait(DEPLOYMENT, "b", "c", (1, 2, 3), ()))
    assert rig.said() == [WorkersServed(DEPLOYMENT, "a", (1, 2), (2,), ())]
