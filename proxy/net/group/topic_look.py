"""Looks whether a group has a member, by asking for the exclusive producer of its topic; removes the topic if not.

Rule: of a group that has a member one has the topic's exclusive producer, or waits for it, and brokers refuse it to
others who ask with access mode Exclusive. Where it is given it is kept for a while. A member that the broker forgot, as
it does at an unload, takes it away meanwhile, as it does with a leader that says nothing (`GroupMember`). If none does,
the group has no member, and its topic is removed. A member that comes later begins a new group.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from proxy.net.alarm import Alarm
from proxy.net.broker.producer import GatewayProducer
from proxy.net.group.topic_removal import GroupTopicRemoval
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.ports import BrokerDirectory, Clock


@dataclass(frozen=True, slots=True)
class LookTiming:
    """In seconds."""

    alone_s: float = 30.0
    """How long no replica takes the producer of a group that has no member. A member does within some 5 s."""
    late_s: float = 3.0
    """A replica that is later than that stood still, and knows nothing of what happened meanwhile."""


class Looked(Protocol):
    """What is called when a look is over, once: with why there is nothing to remove, or None."""

    def __call__(self, look: TopicLook, problem: str | None) -> None:
        """As it says."""


class TopicLook:
    """At one topic, once. Implements `broker.producer.ProducerOwner`."""

    def __init__(
        self,
        topic: str,
        brokers: BrokerDirectory,
        clock: Clock,
        over: Looked,
        *,
        removes: LookTiming | None,
    ) -> None:
        """Begin. With `removes` the topic is removed where no member takes the producer for so long.

        Without, the producer is given back at once: a group that is between two leaders then waits some milliseconds.
        """
        self.topic = topic
        self._brokers = brokers
        self._clock = clock
        self._removes = removes
        self._over = over
        self._timer = Alarm(clock)
        self._removal: GroupTopicRemoval | None = None
        self._producer = GatewayProducer(topic, pb.ProducerAccessMode.Exclusive, brokers, clock, self).open()

    def close(self) -> None:
        """End without a result."""
        self._timer.cancel()
        if self._removal is not None:
            self._removal.close()
        self._producer.close()

    # ---- ProducerOwner

    def producer_ready(self, producer: GatewayProducer) -> None:
        """As it says."""
        del producer
        if self._removes is None:
            self._end(None)
            return
        timing, due = self._removes, self._clock.now() + self._removes.alone_s
        self._timer.set(timing.alone_s, lambda: self._alone(due + timing.late_s))

    def producer_stored(self, producer: GatewayProducer, sequence_id: int) -> None:
        """It sends nothing."""

    def producer_lost(self, producer: GatewayProducer, reason: str) -> None:
        """The group has a member; or the broker cannot be reached."""
        del producer
        self._end(reason)

    # ---- within

    def _alone(self, latest: float) -> None:
        if self._clock.now() > latest:
            self._end("this replica stood still meanwhile, and does not know whether another one has come")
        else:
            self._removal = GroupTopicRemoval(self.topic, self._brokers, self._clock, self._end)

    def _end(self, problem: str | None) -> None:
        self.close()
        self._over(self, problem)
