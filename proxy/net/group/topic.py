"""A group's topic: the holder of its exclusive producer leads.

A producer with access mode WaitForExclusive waits in the broker's queue, and only its holder can write: that is the
election, and the fence. A waiting producer is never closed, because brokers give a closed one its turn all the same; if
it is no longer wanted, it is closed when its turn comes, and if it is wanted again before, it keeps its place.

Three things make the producer doubtful, and each is a loss: it or its connection is gone, a record was not stored in
time, or the topic cannot be read when it is granted. Another may lead by then. While it is held the topic is read again
now and then, so that records which newer ones replace are deleted, and the subscription that keeps the last is used.

An unloaded topic forgets all waiting producers except the first, without a notification. So `insist` asks for the
producer with access mode Exclusive: that is refused at once while another producer has it or waits. A holder that
stands still keeps the producer until the broker gives its connection up, which takes a minute; `fence` takes it away
with access mode ExclusiveWithFencing. The broker refuses what the former holder sends then, and all who wait: they wait
again.

When the group has ended, its topic goes with it (`topic_removal`). A group that comes back begins with an epoch that is
later than any it had: that of an empty topic is the time in milliseconds, and leaders do not follow each other as fast.
"""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, Final

import structlog

from proxy.groups.encoding import RECORD_KEY, encode
from proxy.net.alarm import Alarm
from proxy.net.broker.producer import GatewayProducer
from proxy.net.group.topic_reader import GroupTopicReader
from proxy.net.group.topic_removal import GroupTopicRemoval
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.memory import GroupMemory
    from proxy.groups.streams import GroupId
    from proxy.net.group.ports import GroupTopicListener
    from proxy.net.ports import Brokers, Clock

log = structlog.get_logger("keyline.groups")

RETRY_S: Final = 0.5
"""Between two attempts to wait for the producer, where the broker refuses."""
STAND_BACK_S: Final = 5.0
"""Before one that another has overtaken waits again: some ten others lead and stop in that time."""
FENCED_S: Final = 3.0
"""Time after the broker refused a waiting producer in which none is fenced: another candidate begins to lead."""
STORE_S_MAX: Final = 5.0
TIDY_RECORDS: Final = 500
"""So many more records are there at most before those that newer ones replace are let go."""
TIDY_S: Final = 30.0
"""Or so long at most."""
TOUCH_S: Final = 600.0
"""How long the subscription that keeps the last record is unused at most: brokers may let unused ones expire."""


class PulsarGroupTopic:
    """Implements `ports.GroupTopic`, and `broker.producer.ProducerOwner`."""

    def __init__(
        self,
        topic: str,
        brokers: Brokers,
        clock: Clock,
        listener: GroupTopicListener,
        group: GroupId | None = None,
    ) -> None:
        """`contend` begins; records are written in the form of `group`."""
        self._topic = topic
        self._group = group
        self._brokers = brokers
        self._clock = clock
        self._listener = listener
        self._wanted = False
        self._waiting: GatewayProducer | None = None
        self._insisting: GatewayProducer | None = None
        self._held: GatewayProducer | None = None
        self._reader: GroupTopicReader | None = None
        self._removal: GroupTopicRemoval | None = None
        self._storing = Alarm(clock)
        self._stored_count = 0
        self._tidying = Alarm(clock)
        self._retry = Alarm(clock)
        self._refused_at = -inf
        """When the broker refused to let it wait."""
        self._told = ""
        """Why it could not wait, as it was logged last."""

    # ---- GroupTopic

    def contend(self) -> None:
        """As the port says."""
        self._wanted = True
        if self._waiting is None and not self._retry.is_set:
            self._wait()

    def contend_later(self) -> None:
        """As the port says."""
        self._wanted = True
        if self._waiting is None:
            self._retry.set(STAND_BACK_S, self._wait_again)

    def insist(self) -> None:
        """As the port says."""
        if self._wanted and self._held is None and self._insisting is None:
            self._insisting = self._producer(pb.ProducerAccessMode.Exclusive)

    def fence(self) -> None:
        """As the port says."""
        fenced_lately = self._clock.now() - self._refused_at < FENCED_S
        if self._wanted and self._held is None and self._insisting is None and not fenced_lately:
            log.warning("group leader fenced", topic=self._topic)
            self._insisting = self._producer(pb.ProducerAccessMode.ExclusiveWithFencing)

    def read(self) -> None:
        """As the port says."""
        if self._held is not None:
            self._read(self._memory_read, self._unreadable)

    def store(self, record: GroupMemory) -> None:
        """As the port says."""
        if self._held is not None:
            assert not self._storing.is_set, "two records at a time"
            self._held.send(encode(record, self._group), RECORD_KEY)
            self._storing.set(STORE_S_MAX, self._not_stored_in_time)

    def close(self) -> None:
        """As the port says."""
        self._wanted = False
        self._give_away()

    def remove(self, removed: Callable[[], None]) -> None:
        """As the port says; another may lead as soon as the producer is closed, and then keeps the topic."""
        self._wanted = False

        def over(problem: str | None) -> None:
            log.info("group topic removed", topic=self._topic, problem=problem)
            self._removal = None
            self._give_away()
            removed()

        if self._held is None:
            self._clock.call_soon(removed)
            return
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        self._removal = GroupTopicRemoval(self._topic, self._brokers, self._clock, over)

    def stop(self) -> None:
        """Close, without further callbacks; a producer that still waits at the broker ends with its connection."""
        self.close()
        if self._removal is not None:
            self._removal.close()
            self._removal = None
        self._retry.cancel()
        for producer in (self._waiting, self._insisting):
            if producer is not None:
                producer.close()
        self._waiting = self._insisting = None

    # ---- ProducerOwner

    def producer_ready(self, producer: GatewayProducer) -> None:
        """As it says."""
        self._forget(producer)
        if not self._wanted or self._held is not None:
            producer.close()
            return
        self._held = producer
        self._listener.granted()

    def producer_stored(self, producer: GatewayProducer, sequence_id: int) -> None:
        """As it says."""
        del sequence_id  # one at a time
        if producer is self._held and self._storing.is_set:
            self._storing.cancel()
            self._stored_count += 1
            if self._stored_count == 1:
                self._tidying.set(TIDY_S, self._tidy)
            elif self._stored_count >= TIDY_RECORDS:
                self._tidy()
            self._listener.stored()

    def producer_lost(self, producer: GatewayProducer, reason: str) -> None:
        """As it says."""
        if producer is self._held:
            self._lose(reason)
        elif producer is self._insisting:
            self._insisting = None
            log.debug("group producer refused", topic=self._topic, reason=reason)
        elif producer is self._waiting:
            self._waiting = None
            self._refused_at = self._clock.now()
            if self._wanted:
                if reason != self._told:
                    log.warning("group candidacy failed", topic=self._topic, reason=reason)
                self._told = reason
                self._retry.set(RETRY_S, self._wait_again)

    # ---- within

    def _producer(self, mode: pb.ProducerAccessMode) -> GatewayProducer:
        return GatewayProducer(self._topic, mode, self._brokers.elections, self._clock, self).open()

    def _wait(self) -> None:
        self._waiting = self._producer(pb.ProducerAccessMode.WaitForExclusive)

    def _wait_again(self) -> None:
        if self._wanted and self._held is None:
            self._wait()

    def _forget(self, producer: GatewayProducer) -> None:
        if producer is self._waiting:
            self._waiting = None
        elif producer is self._insisting:
            self._insisting = None

    def _not_stored_in_time(self) -> None:
        self._lose(f"a record was not stored within {STORE_S_MAX:g} s")

    def _read(self, read: Callable[[GroupMemory], None], failed: Callable[[str], None]) -> None:
        if self._reader is None:
            self._reader = GroupTopicReader(self._topic, self._brokers, self._clock, read, failed)

    def _memory_read(self, memory: GroupMemory) -> None:
        self._tidied()
        if memory.leader is None and self._group is None:  # the deployment's is never removed
            memory = replace(memory, epoch=int(self._clock.time() * 1_000))
        self._listener.read(memory)

    def _tidy(self) -> None:
        self._read(lambda _: self._tidied(), lambda _: self._tidied())

    def _tidied(self) -> None:
        """As far as it went; what is left then is there the next time."""
        self._reader = None
        self._stored_count = 0
        self._tidying.set(TOUCH_S, self._tidy)

    def _unreadable(self, reason: str) -> None:
        self._reader = None
        self._lose(f"the topic cannot be read: {reason}")

    def _lose(self, reason: str) -> None:
        log.warning("group leader producer lost", topic=self._topic, reason=reason)
        self._wanted = False
        self._give_away()
        if self._removal is not None:
            self._removal.give_up("the producer is lost")
        self._listener.lost()

    def _give_away(self) -> None:
        self._storing.cancel()
        self._tidying.cancel()
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        if self._held is not None:
            self._held.close()
            self._held = None
