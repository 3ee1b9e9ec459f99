"""A subscription with an assignment in a group, between fakes: the test is the group's leader."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from proxy.groups.encoding import decode_message
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import (
    FromLeader,
    FromSession,
    Header,
    LeaseStreams,
    RenewStreamLease,
    Report,
    SessionId,
    Stamp,
    UpdateStreams,
    UpdateStreamStates,
    Version,
)
from proxy.groups.timing import GroupTiming
from proxy.net.group.assignment import GroupAssignment
from proxy.net.group.member import GroupMember
from proxy.net.ports import BrokerLink
from proxy.net.subscription.subscription import Subscription
from tests.net.stream_rig import STREAMS, GroupRig, key_in
from tests.net.subscription_rig_broker import single

TIMING = GroupTiming()


class NoBrokers:
    """Implements `ports.Brokers`: finds nothing, and never says so."""

    @property
    def deliveries(self) -> NoBrokers:
        """As the port says."""
        return self

    diversions = elections = deliveries

    def locate(self, topic: str, found: Callable[[BrokerLink | Exception], None]) -> None:
        """As the port says."""


class NoTopic:
    """A group's topic that somebody else has for ever."""

    def __init__(self) -> None:
        self.insisted = 0
        self.fenced = 0

    def contend(self) -> None:
        """As the port says."""

    def contend_later(self) -> None:
        """As the port says."""

    def fence(self) -> None:
        """As the port says."""
        self.fenced += 1

    def insist(self) -> None:
        """As the port says."""
        self.insisted += 1

    def read(self) -> None:
        """As the port says."""

    def store(self, record: GroupMemory) -> None:
        """As the port says."""

    def close(self) -> None:
        """As the port says."""

    def remove(self, removed: Callable[[], None]) -> None:
        """As the port says."""


class HeardMail:
    """Mail that the test reads."""

    def __init__(self) -> None:
        self.said: list[FromSession] = []

    def send(self, replica: str, data: bytes) -> None:
        """As the port says; what a member tells itself is of no interest."""
        if replica == "leader":
            self.send_all(data)

    def send_all(self, data: bytes) -> None:
        """As the port says."""
        message = decode_message(data)
        assert isinstance(message, FromSession)
        self.said.append(message)


class AssignmentRig(GroupRig):
    """One worker, and so a session that asks for its leader; `lease` answers."""

    def __init__(self, permits: int = 0, **settings: object) -> None:
        super().__init__(**settings)
        self.mail = HeardMail()
        self.topic = NoTopic()
        self.assignments: list[GroupAssignment] = []
        self.sessions = itertools.count(1)
        self.left: list[SessionId] = []
        self.stamps = itertools.count(1)
        self.numbers = itertools.count(1)
        self.version: Version | None = None
        self.subscriptions.new_assignment = self.new_assignment
        self.first = self.worker("a", permits)
        self.link.log.clear()  # of its probe

    # ---- what `Groups` does

    def new_assignment(self, subscription: Subscription) -> GroupAssignment:
        """As it says."""
        self.assignments.append(GroupAssignment(subscription, TIMING, self.join, self.leave))
        return self.assignments[-1]

    def join(self, assignment: GroupAssignment, workers_count: int) -> GroupMember:
        """As it says."""
        session = SessionId("here", next(self.sessions))
        member = GroupMember(assignment.group, session, STREAMS, TIMING, self.clock, self.mail, assignment.left)
        member.join(self.topic, assignment, workers_count)
        return member

    def leave(self, assignment: GroupAssignment) -> None:
        """As it says."""
        assert assignment.member is not None
        assignment.member.close()
        self.left.append(assignment.member.session.session)

    # ---- the leader

    @property
    def assignment(self) -> GroupAssignment:
        """The one that there is."""
        return self.assignments[-1]

    @property
    def member(self) -> GroupMember:
        """This replica's part in the group."""
        assert self.assignment.member is not None
        return self.assignment.member

    @property
    def last_report(self) -> Report:
        """The last that the session said."""
        return self.mail.said[-1].report

    def lease(self, *streams: int, cut: int = STREAMS) -> None:
        """LEASE_STREAMS."""
        self.version = Version(1, next(self.numbers))
        self._tell(LeaseStreams(self._header(), self.version, streams, cut))

    def update(self, *streams: int) -> None:
        """UPDATE_STREAMS."""
        assert self.version is not None
        before, self.version = self.version, Version(1, next(self.numbers))
        self._tell(UpdateStreams(self._header(), before, self.version, streams))

    def renew(self) -> None:
        """RENEW_STREAM_LEASE."""
        assert self.version is not None
        self._tell(RenewStreamLease(self._header(), self.version))

    def live(self, seconds: float) -> None:
        """Time goes by, and leases are renewed."""
        while seconds > 0:
            step = min(seconds, TIMING.renew_s)
            self.clock.advance(step)
            self.renew()
            seconds -= step

    def finished(self) -> set[int]:
        """Streams that the session said it has nothing of any more."""
        reports = [message for message in self.mail.said if isinstance(message, UpdateStreamStates)]
        return {state.stream for state in reports[-1].states if state.finished} if reports else set()

    def consumer_id(self, stream: int) -> int:
        """Of the stream's consumer, on its connection."""
        consumer = self.subscription.consumers.get(stream)
        assert consumer is not None
        return consumer.upstream.consumer_id

    def deliver(self, stream: int, *entries: int, stopped_s: float = 0.0) -> None:
        """Messages of one key by the stream's consumer; each says which it is."""
        messages = [(entry, single(key_in(stream), b"%d" % entry)) for entry in entries]
        self.link.deliver(*messages, to=self.consumer_id(stream), stopped_s=stopped_s)

    def _header(self) -> Header:
        report = self.last_report
        return Header(report.group, report.session, "leader", Stamp(1, next(self.stamps)), report.beat)

    def _tell(self, message: FromLeader) -> None:
        self.member.hear(message)
        self.clock.settle()
