"""The room at a WebSocket's client, and the permits that its consumers grant for it.

The client has one bound for all partitions of its topic; the gateway takes permits for each partition. So each
partition gets an equal share of the room, rounded up: messages beyond it wait until there is room, and are never more
than that room.
"""

from __future__ import annotations

ROOM_MAX = 2**31 - 1


class Permits:
    """Room at the client, and permits out for it."""

    def __init__(self, outstanding_max: int, *, pull: bool) -> None:
        """In pull mode there is no room until the client grants some."""
        self._pull = pull
        self.room = 0 if pull else outstanding_max
        """Messages that may be sent now."""
        self._outstanding: list[int] = []
        """By consumer: unused permits plus received messages that were not sent on.

        Negative after a batch that could not be split and was larger than the permits, as the gateway counts it.
        """
        self._changed = True

    def open(self, consumers: int) -> None:
        """Set the number of consumers, with ids from 0."""
        self._outstanding = [0] * consumers

    def sent(self, consumer_id: int) -> None:
        """A message went to the client."""
        self.room -= 1
        self.used(consumer_id, 1)

    def used(self, consumer_id: int, messages: int) -> None:
        """Permits were used, for messages that were sent or discarded."""
        self._outstanding[consumer_id] = self._outstanding[consumer_id] - messages
        self._changed = True

    def settled(self) -> None:
        """The client has settled a message."""
        if not self._pull:
            self.room += 1
            self._changed = True

    def permitted(self, messages: int) -> None:
        """The client grants permits; no effect outside pull mode, as with Pulsar's service."""
        if self._pull:
            self.room = min(self.room + messages, ROOM_MAX)
            self._changed = True

    def to_grant(self) -> list[tuple[int, int]]:
        """Consumer and permits to grant now; they count as granted."""
        if not self._changed or self.room <= 0:
            return []
        self._changed = False
        share = -(-self.room // len(self._outstanding))
        grants = []
        for consumer_id, outstanding in enumerate(self._outstanding):
            if outstanding < share:
                permits = min(share - outstanding, ROOM_MAX)
                self._outstanding[consumer_id] += permits
                grants.append((consumer_id, permits))
        return grants
