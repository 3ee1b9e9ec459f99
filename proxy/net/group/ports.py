"""The interfaces between a group's state machines (`proxy.groups`) and Pulsar, for messages and the leader election.

Rule kept by every implementation: a port never calls back from inside one of its own methods.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.memory import GroupMemory


class GroupTopicListener(Protocol):
    """The listener of a group's topic: the replica's `LeaderManager`."""

    def granted(self) -> None:
        """This replica holds the producer."""

    def lost(self) -> None:
        """The producer is lost, or may be; or a record may not have been stored."""

    def stored(self) -> None:
        """The record is in the topic."""

    def read(self, memory: GroupMemory) -> None:
        """The last record; the default for a topic without any."""


class GroupTopic(Protocol):
    """One group's topic: the holder of its producer leads, and its records are the group's memory."""

    def contend(self) -> None:
        """Wait for the producer, until it is granted or `close`; idempotent."""

    def contend_later(self) -> None:
        """The same in a while, longer than a few others need to lead and to stop again."""

    def insist(self) -> None:
        """Ask whether the producer is free: a broker may have forgotten the waiting producer (it does at an unload)."""

    def fence(self) -> None:
        """Take the producer from a replica that has it and does not lead; `granted` follows, or nothing."""

    def read(self) -> None:
        """Read everything; the answer is `GroupTopicListener.read`. Only while holding the producer."""

    def store(self, record: GroupMemory) -> None:
        """Write; the answer is `stored` or `lost`. One at a time, only while holding the producer."""

    def close(self) -> None:
        """Close the producer, or stop waiting for it; no callback follows."""

    def remove(self, removed: Callable[[], None]) -> None:
        """The group has ended: keep nothing of it, and close the producer. Only while holding it.

        `removed` follows soon, whether that worked or not.
        """


class GroupMail(Protocol):
    """Takes messages from replica to replica. Any may be lost, none is repeated."""

    def send(self, replica: str, data: bytes) -> None:
        """To one replica, which may be this one."""

    def send_all(self, data: bytes) -> None:
        """To every replica, this one too."""
