"""What a member of a group has to do with, where no other replica is there."""

from __future__ import annotations

from collections.abc import Callable

from proxy.groups.encoding import decode_message
from proxy.groups.memory import GroupMemory
from proxy.groups.messages import ReplayDone, ReplayTarget
from proxy.net.group.member import GroupMember
from tests.net.assignment_rig import NoTopic


class OwnMail:
    """Mail that brings a member what it says to itself, as long as it works."""

    def __init__(self) -> None:
        self.member: GroupMember | None = None
        self.works = True

    def send(self, replica: str, data: bytes) -> None:
        """As the port says; nobody else is there."""
        if replica == "here":
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
        self.removed: Callable[[], None] | None = None
        """To be called when the topic has gone."""

    def remove(self, removed: Callable[[], None]) -> None:
        """As the port says; the test says when it is done."""
        self.removed = removed

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
