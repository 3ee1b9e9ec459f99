"""Single legs that a network has forgotten while the two replicas reach each other."""

from __future__ import annotations

from proxy.net.owner.leg_looks import LegLooks
from tests.net.fakes import FakeClock

INTERVAL_S = 2.5
NAME = "192.0.2.7:50000"


class Leg:
    """A client's, as the test wants it."""

    def __init__(self, *, owes: bool = False, paused: bool = False, answers: bool = False) -> None:
        self.name = NAME
        self.owes, self.paused, self.answers = owes, paused, answers
        self.heard = False
        self.pings_count = 0
        self.reasons: list[str] = []

    def take_heard(self) -> bool:
        """As the port says."""
        heard, self.heard = self.heard, False
        return heard

    def ping(self) -> None:
        """As the port says."""
        self.pings_count += 1
        self.heard = self.answers

    def give_up(self, reason: str) -> None:
        """As the port says."""
        self.reasons.append(reason)


class Rig:
    """Some legs."""

    def __init__(self, *legs: Leg) -> None:
        self.clock = FakeClock()
        self.told: list[str] = []
        self.looks = LegLooks(self.clock, INTERVAL_S, self.told.append)
        for leg in legs:
            self.looks.add(leg)

    def wait(self, intervals: float) -> None:
        """Time goes by."""
        self.clock.advance(intervals * INTERVAL_S)


def test_a_leg_that_owes_something_is_asked_and_named_and_then_given_up() -> None:
    """Once; the others stay."""
    lost, fine = Leg(owes=True), Leg(owes=True, answers=True)
    rig = Rig(lost, fine)
    rig.wait(0.9)
    assert (lost.pings_count, rig.told) == (0, [])
    rig.wait(0.2)
    assert (lost.pings_count, rig.told) == (1, [NAME, NAME])
    rig.wait(0.8)
    assert lost.reasons == []
    rig.wait(4.0)
    assert len(lost.reasons) == 1
    assert fine.reasons == []
    assert fine.pings_count > 2


def test_a_leg_that_owes_nothing_is_not_asked() -> None:
    """However long it is silent; and what it owes since then counts from then."""
    idle = Leg()
    rig = Rig(idle)
    rig.wait(10.0)
    idle.owes = True
    rig.wait(0.9)
    assert (idle.pings_count, idle.reasons) == (0, [])
    rig.wait(1.2)
    assert len(idle.reasons) == 1


def test_a_leg_that_was_not_heard_since_it_owed_something_is_asked_all_the_same() -> None:
    """An ack lease has ended, and what tells the client may be lost. One that answers is asked once, and no more."""
    lost, fine = Leg(owes=True), Leg(owes=True, answers=True)
    rig = Rig(lost, fine)
    rig.wait(0.6)
    lost.owes = fine.owes = False
    rig.wait(1.5)
    assert len(lost.reasons) == 1
    rig.wait(4.0)
    assert (fine.pings_count, fine.reasons) == (1, [])


def test_a_leg_that_is_not_read_shows_life_and_is_not_given_up() -> None:
    """Its client reads nothing: the owner hears so from this end."""
    paused = Leg(owes=True, paused=True)
    rig = Rig(paused)
    rig.wait(4.0)
    assert paused.reasons == []
    assert paused.pings_count >= 4


def test_a_leg_that_the_other_end_names_is_asked_and_has_half_an_interval() -> None:
    """One that answers, or is not read, stays."""
    lost, fine, paused = Leg(), Leg(answers=True), Leg(paused=True)
    rig = Rig(lost, fine, paused)
    rig.looks.asked("192.0.2.8:50000")
    rig.wait(2.0)
    assert [lost.pings_count, fine.pings_count] == [0, 0]
    rig.looks.asked(NAME)
    assert [lost.pings_count, fine.pings_count] == [1, 1]
    rig.wait(1.0)
    assert [len(each.reasons) for each in (lost, fine, paused)] == [1, 0, 0]


def test_all_legs_may_be_named_at_once() -> None:
    """Each is found without a look at the others: there are as many as clients, and each may owe something."""

    class Counting(Leg):
        looks_count = 0

        @property
        def name(self) -> str:
            Counting.looks_count += 1
            return self._name

        @name.setter
        def name(self, name: str) -> None:
            self._name = name

    legs = [Counting() for _ in range(300)]
    for number, leg in enumerate(legs):
        leg.name = f"192.0.2.7:{number}"
    rig = Rig(*legs)
    for number in range(300):
        rig.looks.asked(f"192.0.2.7:{number}")
    assert [leg.pings_count for leg in legs] == [1] * 300
    assert Counting.looks_count <= 2 * 300
    rig.looks.remove(legs[0])
    legs[0].name = legs[1].name = "192.0.2.8:1"
    rig.looks.add(legs[0])
    rig.looks.asked("192.0.2.8:1")
    assert (legs[0].pings_count, legs[1].pings_count) == (2, 1), "the second was asked before, and has to answer yet"


def test_a_process_that_stood_still_judges_nothing_unread() -> None:
    """What came meanwhile is in the socket still."""
    owing, named = Leg(owes=True), Leg()
    rig = Rig(owing)
    rig.wait(1.1)
    rig.looks.add(named)
    rig.looks.asked(NAME)
    rig.clock.oversleep(4 * INTERVAL_S)
    rig.wait(0.1)
    assert (owing.reasons, named.reasons) == ([], [])
    owing.heard = named.heard = True
    rig.wait(0.9)
    assert (owing.reasons, named.reasons) == ([], [])


def test_what_is_over_is_not_looked_at() -> None:
    """The timer ends with the last one; and one that is added twice is one."""
    leg = Leg(owes=True)
    rig = Rig(leg, leg)
    assert rig.looks
    rig.looks.remove(leg)
    rig.looks.remove(leg)
    assert not rig.looks
    assert rig.clock.waiting == 0
    rig.looks.add(leg)
    assert rig.looks.take_all() == [leg]
    assert rig.clock.waiting == 0
