"""Pulsar as a group of replicas meets it: the group's topic with its one producer, and a subscription's streams.

Checked against real brokers where it matters: overlapping sticky ranges are refused, messages of a stream without a
consumer wait in order, and a consumer that goes leaves what it did not acknowledge to the next, in order.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from proxy.groups.memory import GroupMemory


@dataclass
class ModelGroupTopic:
    """Written by one at a time, who waits for it by arrival."""

    log: list[GroupMemory] = field(default_factory=list)
    holder: str | None = None
    queue: deque[str] = field(default_factory=deque)
    term: int = 0
    """How many producers it has had: what one sends does not arrive as another's."""
    said_nothing: bool = True
    """Whether who holds it now has stored nothing yet."""
    epoch: int = 0
    """The latest of all, those of records that are gone included."""

    def contend(self, replica: str) -> None:
        """Wait for the producer; who waits or has it changes nothing."""
        if replica != self.holder and replica not in self.queue:
            self.queue.append(replica)

    def leave(self, replica: str) -> None:
        """Close the producer, or stop waiting."""
        if replica in self.queue:
            self.queue.remove(replica)
        if self.holder == replica:
            self.holder = None

    def fence(self, replica: str) -> list[str]:
        """Take the producer from its holder; the replicas that waited are refused, and returned."""
        refused = [each for each in self.queue if each != replica]
        self.queue.clear()
        self.holder = replica
        self.term += 1
        self.said_nothing = True
        return refused

    def promote(self) -> str | None:
        """Whoever is next, if nobody has it."""
        if self.holder is not None or not self.queue:
            return None
        self.holder = self.queue.popleft()
        self.term += 1
        self.said_nothing = True
        return self.holder

    def store(self, replica: str, term: int, record: GroupMemory) -> bool:
        """Append a record; False if the producer of that term is not this replica's, or no more."""
        if (self.holder, self.term) != (replica, term):
            return False
        if self.said_nothing:
            assert record.epoch > self.epoch, "an epoch was used twice"
            self.epoch = record.epoch
        self.said_nothing = False
        self.log.append(record)
        return True

    def read(self, now: float) -> GroupMemory:
        """The last record; of none, the time as the epoch, as the product has it."""
        return self.log[-1] if self.log else GroupMemory(epoch=int(now * 1_000))


@dataclass
class ModelStream:
    """One slice of the subscription at the broker."""

    messages_count: int = 0
    acknowledged: set[int] = field(default_factory=set)
    consumer: str | None = None
    sent_up_to: int = 0
    """Messages below were sent to the present consumer or acknowledged."""
    consumed_last_by: str | None = None
    tenures_count: int = 0
    """How often another replica began to consume it than the one before."""

    def open(self, replica: str) -> bool:
        """Consume; False where somebody else does."""
        if self.consumer not in (None, replica):
            return False
        if self.consumer is None:
            self.consumer = replica
            self.sent_up_to = 0
            self.tenures_count += replica != self.consumed_last_by
            self.consumed_last_by = replica
        return True

    def close(self, replica: str) -> None:
        """Stop; what was not acknowledged is the next one's."""
        if self.consumer == replica:
            self.consumer = None

    def go_back(self, number: int) -> None:
        """Everything from this message on is to be delivered again."""
        self.acknowledged = {message for message in self.acknowledged if message < number}
        self.sent_up_to = 0

    def take(self, replica: str) -> int | None:
        """The next message for this consumer; None if there is none, or it is not the consumer."""
        if self.consumer != replica:
            return None
        while self.sent_up_to < self.messages_count:
            self.sent_up_to += 1
            if self.sent_up_to - 1 not in self.acknowledged:
                return self.sent_up_to - 1
        return None
