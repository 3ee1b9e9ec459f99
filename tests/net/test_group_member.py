"""One replica's part in a group: when it doubts that the broker knows who waits to lead, and how it goes."""

from __future__ import annotations

from proxy.groups.encoding import decode_message
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import ReplayDone, ReplayTarget, SessionId
from proxy.groups.session import State
from proxy.net.group.member import GroupMember
from tests.groups.rig import GROUP
from tests.net.assignment_rig import TIMING, AssignmentRig, NoTopic
from tests.net.fakes import FakeClock


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


class OwnMail:
    """Mail that brings a member what it says to itself, as long as it works."""

    def __init__(self) -> None:
        self.member: GroupMember | None = None
        self.works = True

    def send(self, replica: str, data: bytes) -> None:
        """As the port says."""
        assert replica == "here"
        self.send_all(data)

    def send_all(self, data: bytes) -> None:
        """As the port says."""
        message = decode_message(data)
        assert not isinstance(message, ReplayDone)
        if self.member is not None and self.works:
            self.member.hear(message)


class OwnTopic(NoTopic):
    """A topic that stores what the member leads with."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[GroupMemory] = []

    def store(self, record: GroupMemory) -> None:
        """As the port says."""
        self.records.append(record)


class OwnStreams:
    """A data plane without messages."""

    def __init__(self) -> None:
        self.released: list[int] = []

    def open(self, stream: int) -> None:
        """As the port says."""

    def hold(self, stream: int) -> None:
        """As the port says."""

    def release(self, stream: int, deadline: float) -> None:
        """As the port says; the test says when it is done."""
        del deadline
        self.released.append(stream)

    def reposition(self, target: ReplayTarget) -> None:
        """As the port says."""

    def changed(self) -> None:
        """As the port says."""

    def deliver_until(self, until: float) -> None:
        """As the port says."""


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
    assert ended == [True]
