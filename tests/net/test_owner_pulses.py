"""Signs of life between two replicas, and what becomes of the legs of one that shows none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.owner.pulses import ANSWERS, ASKS, LOOKS, NAME_BYTES_MAX, REDIAL_S, Pulses
from tests.net.fakes import FakeClock, FakeConnector, FakeTransport

if TYPE_CHECKING:
    from proxy.net.owner.proof import Told
    from proxy.net.ports import Receiver

INTERVAL_S = 2.5
ADDRESS = "pulsar://b:6670"


class Leg:
    """A client's."""

    def __init__(self, name: str = "192.0.2.7:50000") -> None:
        self.name = name
        self.reasons: list[str] = []
        self.owes = self.paused = self.heard = False
        self.pings_count = 0

    def take_heard(self) -> bool:
        """As the port says."""
        heard, self.heard = self.heard, False
        return heard

    def ping(self) -> None:
        """As the port says."""
        self.pings_count += 1

    def give_up(self, reason: str) -> None:
        """As the port says."""
        self.reasons.append(reason)


class Rig:
    """One replica's side; the test is the other."""

    def __init__(self, clock: FakeClock | None = None, replica: str = "a") -> None:
        self.clock = clock or FakeClock()
        self.connector = FakeConnector(self.clock)
        self.suspected: list[str] = []
        self.pulses = Pulses(replica, self.clock, INTERVAL_S, self.dial, self.suspected.append)

    def dial(self, address: str, told: Told, receiver: Receiver) -> None:
        """Without the proof, which is another test's."""
        assert (told.target, told.teller, told.purpose) == ("b", "a", "pulse")
        self.connector.connect(address, receiver)

    def leg(self, address: str = ADDRESS, replica: str = "b") -> Leg:
        """One more, there or, without an address, from there."""
        leg = Leg()
        self.pulses.watch(replica, leg, address)
        return leg

    def let_in(self, replica: str = "b") -> FakeTransport:
        """The other has dialled."""
        transport = FakeTransport(self.clock, self.pulses.accept(replica))
        transport.open()
        return transport

    def wait(self, intervals: float) -> None:
        """Time goes by."""
        self.clock.advance(intervals * INTERVAL_S)


def test_all_legs_to_a_replica_have_one_connection_for_signs_of_life() -> None:
    """However many there are; another replica has its own."""
    rig = Rig()
    for _ in range(3):
        rig.leg()
    (attempt,) = rig.connector.attempts
    assert attempt.address == ADDRESS
    attempt.accept()
    rig.leg()
    assert len(rig.connector.attempts) == 1


def test_a_silent_replica_is_asked_then_suspected_and_then_given_up() -> None:
    """With the legs of either direction; what it says in time saves them."""
    rig = Rig()
    legs = [rig.leg(), rig.leg(""), rig.leg(replica="c", address="")]
    other = rig.connector.last.accept()
    for _ in range(3):
        rig.wait(1.7)
        assert other.take() == ASKS
        rig.wait(0.4)
        other.deliver(ANSWERS)
        rig.let_in("c").deliver(ANSWERS)
    assert set(rig.suspected) == {"b", "c"}
    assert [leg.reasons for leg in legs] == [[], [], []]
    rig.wait(1.0)
    rig.let_in("c").deliver(ANSWERS)
    rig.wait(1.8)
    reason = f"the replica was silent for {2 * INTERVAL_S:g} s"
    assert [leg.reasons for leg in legs] == [[reason], [reason], []]
    assert other.closing


def test_who_is_asked_answers() -> None:
    """Whoever has dialled; and an answer is not answered."""
    rig = Rig()
    other = rig.let_in()
    other.deliver(ASKS)
    assert other.take() == ANSWERS
    other.deliver(ANSWERS)
    assert other.take() == b""


def test_what_is_asked_many_times_at_once_is_answered_once() -> None:
    """So a piece of any content costs no more than its bytes; names between are heard."""
    rig = Rig()
    leg = rig.leg("")
    other = rig.let_in()
    other.deliver(ASKS * 1_000 + (LOOKS + leg.name.encode() + b"\n" + ASKS) * 2 + b"\n\n" + ANSWERS)
    assert other.take() == ANSWERS
    assert leg.pings_count == 1


def test_one_connection_serves_both_replicas() -> None:
    """Whoever was dialled by the other does not dial; when that one has gone, it does."""
    rig = Rig()
    other = rig.let_in()
    rig.leg()
    assert not rig.connector.attempts
    other.lose()
    rig.clock.advance(REDIAL_S)
    assert len(rig.connector.attempts) == 1


def test_a_connection_that_is_lost_or_refused_is_dialled_again_while_there_is_time() -> None:
    """It is a silence, and no more: the legs stay until that has lasted too long."""
    rig = Rig()
    leg = rig.leg()
    rig.connector.last.accept().lose()
    rig.clock.advance(REDIAL_S)
    rig.connector.last.refuse()
    rig.clock.advance(REDIAL_S)
    assert len(rig.connector.attempts) == 3
    rig.connector.last.accept()
    rig.wait(1.9)
    assert leg.reasons == []


def test_each_leg_is_asked_where_the_other_may_have_given_it_up() -> None:
    """When the connection is lost, or the other makes a new one beside it; not at each attempt to have one again."""
    rig = Rig()
    legs = [rig.leg(), rig.leg("")]
    other = rig.connector.last.accept()
    assert [leg.pings_count for leg in legs] == [0, 0]
    other.lose()
    assert [leg.pings_count for leg in legs] == [1, 1]
    rig.clock.advance(REDIAL_S)
    rig.connector.last.refuse()
    rig.clock.advance(REDIAL_S)
    rig.connector.last.accept()
    assert [leg.pings_count for leg in legs] == [1, 1]
    rig.let_in()
    assert [leg.pings_count for leg in legs] == [2, 2]


def test_a_replica_that_cannot_be_reached_is_given_up() -> None:
    """Also one that has never answered; a connection that comes too late is closed."""
    rig = Rig()
    leg = rig.leg()
    rig.wait(2.8)
    assert len(leg.reasons) == 1
    late = rig.connector.last.accept()
    assert late.closing
    before = len(rig.connector.attempts)
    rig.wait(4)
    assert len(rig.connector.attempts) == before, "there is no leg any more"


def test_the_last_leg_takes_the_connection_with_it() -> None:
    """The next one dials anew; what the other has dialled is the other's to close."""
    rig = Rig()
    first, second = rig.leg(), rig.leg()
    dialled = rig.connector.last.accept()
    rig.pulses.forget("b", first)
    rig.pulses.forget("b", first)
    closing = dialled.closing
    rig.pulses.forget("b", second)
    rig.clock.settle()
    assert (closing, dialled.closing) == (False, True)
    rig.leg()
    assert len(rig.connector.attempts) == 2
    theirs = rig.let_in("c")
    third = rig.leg(replica="c", address="")
    rig.pulses.forget("c", third)
    assert not theirs.closing
    theirs.lose()
    rig.pulses.forget("c", third)


def test_a_leg_that_comes_while_the_connection_is_closed_is_watched() -> None:
    """By the next connection."""
    rig = Rig()
    rig.pulses.forget("b", rig.leg())
    leg = rig.leg()
    rig.connector.last.accept()
    rig.clock.advance(REDIAL_S)
    assert len(rig.connector.attempts) == 2
    rig.wait(2.8)
    assert len(leg.reasons) == 1


def test_a_process_that_stood_still_itself_asks_before_it_gives_anybody_up() -> None:
    """The answer of a replica that is well is in its socket still."""
    rig = Rig()
    leg = rig.leg()
    other = rig.connector.last.accept()
    rig.clock.oversleep(10 * INTERVAL_S)
    rig.clock.advance(0.0)
    other.deliver(ANSWERS)
    rig.wait(1)
    assert leg.reasons == []


def test_two_replicas_that_are_well_keep_all_legs() -> None:
    """For as long as they like, by a few bytes for each interval, whoever asks."""
    here = Rig()
    there = Rig(here.clock, "b")
    legs = [here.leg(), there.leg("", "a")]
    near, far = here.connector.last.accept(), there.let_in("a")
    bytes_said = 0
    for _ in range(100):
        here.wait(0.1)
        for one, other in ((near, far), (far, near)):
            if said := one.take():
                bytes_said += len(said)
                other.deliver(said)
    assert [leg.reasons for leg in legs] == [[], []]
    assert 10 < bytes_said < 40


def test_a_leg_that_a_network_forgot_is_named_to_the_other_end() -> None:
    """Which asks it from there; the name may come in pieces, between other words."""
    rig = Rig()
    leg = rig.leg()
    leg.owes = True
    other = rig.connector.last.accept()
    for _ in range(3):
        rig.wait(0.4)
        other.deliver(ANSWERS)
    assert LOOKS + leg.name.encode() + b"\n" in other.take()
    pings_count = leg.pings_count
    other.deliver(ASKS + LOOKS + leg.name.encode()[:4])
    other.deliver(leg.name.encode()[4:] + b"\n" + ASKS)
    assert leg.pings_count == pings_count + 1
    assert other.take().count(ANSWERS) == 2
    other.deliver(LOOKS + b"x" * 2 * NAME_BYTES_MAX)
    assert other.closing
