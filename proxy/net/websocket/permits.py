"""How many more messages a WebSocket's client may get, and what is granted to its consumers for that.

The client has one bound for all partitions of its topic, the gateway takes permits for each. So each partition gets an
equal share of the room there is, rounded up: what is sent beyond that waits until there is room, and is never more
than the room there was.
"""

from __future__ import annotations

ROOM_MAX = 2**31 - 1


class Permits:
    """Room at the client, and permits out for it."""

    def __init__(self, outstanding_max: int, *, pull: bool) -> None:
        """In pull mode there is no room until the client gives some."""
        self._pull = pull
        self.room = 0 if pull else outstanding_max
        """Messages that may be sent now."""
        self._outstanding: list[int] = []
        """By consumer: permits granted and not used, with what has come and was not sent on.

        Less than none after a batch that could not be cut and was larger than what was granted: the gateway counts so.
        """
        self._changed = True

    def open(self, consumers: int) -> None:
        """There are so many of them, with ids from 0."""
        self._outstanding = [0] * consumers

    def sent(self, consumer_id: int) -> None:
        """A message went to the client."""
        self.room -= 1
        self.used(consumer_id, 1)

    def used(self, consumer_id: int, messages: int) -> None:
        """Permits were spent, on messages that left or that never will."""
        self._outstanding[consumer_id] = self._outstanding[consumer_id] - messages
        self._changed = True

    def settled(self) -> None:
        """The client is done with a message."""
        if not self._pull:
            self.room += 1
            self._changed = True

    def permitted(self, messages: int) -> None:
        """The client asks for more; means nothing outside pull mode, as with Pulsar's service."""
        if self._pull:
            self.room = min(self.room + messages, ROOM_MAX)
            self._changed = True

    def to_grant(self) -> list[tuple[int, int]]:
        """Consumer and permits to grant it now; they count as granted from here on."""
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
