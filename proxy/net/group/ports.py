"""The seams between a group's machines (`proxy.groups`) and Pulsar, over which members talk and elect a leader.

Rule kept by every implementation: a port never calls back from inside one of its own methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.groups.memory import GroupMemory


class GroupTopicListener(Protocol):
    """Who hears of a group's topic: the replica's `LeaderManager`."""

    def granted(self) -> None:
        """The producer is ours."""

    def lost(self) -> None:
        """The producer that was ours is not, or may not be; or a record may not have been stored."""

    def stored(self) -> None:
        """The record is in the topic."""

    def read(self, memory: GroupMemory) -> None:
        """The last record; the default for a topic without any."""


class GroupTopic(Protocol):
    """One group's topic: who has its producer leads, and what it writes is the group's memory."""

    def contend(self) -> None:
        """Wait for the producer, until it is granted or `close`; to wait already is enough."""

    def insist(self) -> None:
        """Ask whether nobody has the producer: a broker may have forgotten that we wait (it does at an unload)."""

    def read(self) -> None:
        """Read everything; the answer is `GroupTopicListener.read`. Only while the producer is ours."""

    def store(self, record: GroupMemory) -> None:
        """Write; the answer is `stored` or `lost`. One at a time, only while the producer is ours."""

    def close(self) -> None:
        """Give the producer away, or wait for it no longer; nothing is said after this."""


class GroupMail(Protocol):
    """Takes messages from replica to replica. Any may be lost, none is repeated."""

    def send(self, replica: str, data: bytes) -> None:
        """To one replica, which may be this one."""

    def send_all(self, data: bytes) -> None:
        """To every replica, this one too."""
