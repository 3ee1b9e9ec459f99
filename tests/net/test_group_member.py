"""One replica's part in a group: when it doubts that the broker knows who waits to lead, and how it goes."""

from __future__ import annotations

from itertools import count

import pytest

from proxy.groups.memory import GroupMemory
from proxy.groups.messages import Header, Invalidate, LeaseStreams, SessionId, Stamp, Version
from proxy.groups.session_transitions import State
from proxy.net.group.member import GroupMember
from tests.groups.rig import GROUP
from tests.net.assignment_rig import TIMING, AssignmentRig
from tests.net.fakes import FakeClock
from tests.net.member_rig import OwnMail, OwnStreams, OwnTopic


def test_who_finds_no_leader_insists() -> None:
    """As often as a lease lasts, for as long as there is none; not while one answers."""
    rig = AssignmentRig()
    rig.clock.advance(TIMING.lease_s - 0.5)
    assert rig.topic.insisted == 0
    rig.clock.advance(1.0)
    assert rig.topic.insisted == 1
    rig.clock.advance(TIMING.lease_s + 1.0)
    assert rig.topic.insisted == 2
    rig.lease(0)
    rig.live(3 * TIMING.lease_s)
    assert rig.topic.insisted == 2
    rig.clock.advance(2 * TIMING.lease_s + 1.5)
    assert rig.topic.insisted == 3


class SilentGroup:
    """A member whose mail works, in a group whose leader says nothing more."""

    def __init__(self, *, mail_works: bool = True) -> None:
        self.clock, self.mail, self.topic = FakeClock(), OwnMail(), OwnTopic()
        self.mail.works = mail_works
        self.session = SessionId("here", 1)
        self.member = self.mail.member = GroupMember(
            GROUP, self.session, 4, TIMING, self.clock, self.mail, lambda: None
        )
        self.member.join(self.topic, OwnStreams(), 1)
        self.stamps = count(1)

    def hear_leader(self) -> None:
        """It says something, though no lease."""
        header = Header(GROUP, self.session, "leader", Stamp(1, next(self.stamps)), 1)
        self.member.hear(Invalidate(header, "not now"))


def test_a_leader_that_says_nothing_is_fenced() -> None:
    """When three of its renewals have not come; and again as long after, if that came to nothing."""
    group = SilentGroup()
    group.hear_leader()
    fenced = []
    for seconds in (TIMING.silent_s - 0.1, TIMING.fence_spread_s + 0.2, TIMING.silent_s - TIMING.fence_spread_s - 0.2):
        group.clock.advance(seconds)
        fenced.append(group.topic.fenced)
    group.clock.advance(2 * TIMING.fence_spread_s + 0.4)
    assert [*fenced, group.topic.fenced] == [0, 1, 1, 2]


def test_a_silent_leader_is_fenced_before_its_leases_end() -> None:
    """A session that has one tells itself what it tells the leader, to know that mail works."""
    group = SilentGroup()
    header = Header(GROUP, group.session, "leader", Stamp(1, next(group.stamps)), 1)
    group.member.hear(LeaseStreams(header, Version(1, 1), (0,), 4))
    group.clock.advance(TIMING.silent_s - 0.1)
    assert group.topic.fenced == 0
    group.clock.advance(TIMING.fence_spread_s + 0.2)
    assert group.topic.fenced == 1
    assert group.member.session.state is State.REPLAYING


def test_what_a_silent_leader_consumes_is_looked_at_before_another_leads() -> None:
    """From when three of its renewals have not come."""
    group = SilentGroup()
    suspected: list[str] = []
    group.member.replica_silent = suspected.append
    header = Header(GROUP, group.session, "leader", Stamp(1, next(group.stamps)), 1)
    group.member.hear(LeaseStreams(header, Version(1, 1), (0,), 4))
    group.clock.advance(TIMING.silent_s - 0.01)
    assert suspected == []
    group.clock.advance(0.01)
    assert set(suspected) == {"leader"}
    assert group.topic.fenced == 0


def test_a_leader_that_speaks_is_not_fenced() -> None:
    """Though it leases nothing."""
    group = SilentGroup()
    for _ in range(30):
        group.hear_leader()
        group.clock.advance(1.0)
    assert group.topic.fenced == 0


def test_who_does_not_hear_itself_fences_nobody() -> None:
    """It is cut off, or the mail does not work: so it knows nothing of the leader."""
    group = SilentGroup()
    group.mail.works = False
    group.clock.advance(4 * TIMING.drop_s)
    assert group.topic.fenced == 0
    group.mail.works = True
    group.clock.advance(2 * TIMING.find_leader_s)
    assert group.topic.fenced == 1


def test_a_leader_is_silent_since_it_could_be_heard() -> None:
    """A replica that starts on a busy machine has no mail for seconds."""
    group = SilentGroup(mail_works=False)
    group.clock.advance(2 * TIMING.drop_s)
    group.mail.works = True
    group.clock.advance(TIMING.silent_s - 0.1)
    assert group.topic.fenced == 0
    group.clock.advance(TIMING.find_leader_s + TIMING.fence_spread_s + 0.1)
    assert group.topic.fenced == 1


def test_who_leads_fences_nobody() -> None:
    """Not itself."""
    group = SilentGroup()
    group.member.granted()
    group.clock.advance(4 * TIMING.drop_s)
    assert group.topic.fenced == 0


def test_a_leader_hears_its_own_session_go_although_no_mail_arrives() -> None:
    """The last record says that nobody has anything, so that the next leader keeps nothing back for it."""
    clock, mail, topic, streams = FakeClock(), OwnMail(), OwnTopic(), OwnStreams()
    ended: list[bool] = []
    session = SessionId("here", 1)
    member = mail.member = GroupMember(GROUP, session, 4, TIMING, clock, mail, lambda: ended.append(True))
    member.join(topic, streams, 1)
    member.granted()
    member.read(GroupMemory())
    stored = 0
    while len(topic.records) > stored:
        stored += 1
        member.stored()
        clock.advance(TIMING.balance_delay_s)
    assert topic.records[-1].owners == tuple((stream, session) for stream in range(4))
    mail.works = False
    clock.advance(TIMING.lease_s + 0.1)
    assert member.session.state is State.CONNECTING
    member.leave()
    for stream in streams.released:
        member.released(stream)
    assert topic.records[-1].owners == ()
    assert not ended
    member.stored()
    clock.advance(0.0)
    assert not ended, "the group's topic goes first"
    assert topic.removed is not None
    topic.removed()
    clock.advance(0.0)
    assert ended == [True]


def test_a_lease_of_another_length_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    """The leader's length holds, and the log says that this replica is configured otherwise."""
    group = SilentGroup()
    for _ in range(3):
        header = Header(GROUP, group.session, "leader", Stamp(1, next(group.stamps)), 1, 9.0)
        group.member.hear(LeaseStreams(header, Version(1, 1), (0,), 4))
    assert capsys.readouterr().out.count("lease of another length") == 1
