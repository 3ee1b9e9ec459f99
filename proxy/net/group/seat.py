"""A subscription's seat in its group: leases become consumers at the broker and leave to deliver.

A stream that is leased is consumed and delivered. One that is to be given back is delivered no more; when workers have
acknowledged what they have of it, and the broker has confirmed that, its consumer is closed, what was read ahead is
dropped, and the leader is told. So the next replica is sent nothing that was delivered here. At the deadline the same
is done whatever workers have, and the next replica delivers that again.

Source: EIP-0028, "Session Side"; design section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

import structlog

from proxy.core import streams_here
from proxy.core.stream_leases import StreamLeases
from proxy.groups.streams import GroupId, hash_range
from proxy.net.group.chronicle import GroupChronicle
from proxy.net.group.progress import GroupProgress
from proxy.net.group.reposition import GroupReposition

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.hash_ranges import HashRange
    from proxy.groups.messages import ReplayTarget
    from proxy.groups.timing import GroupTiming
    from proxy.net.group.member import GroupMember
    from proxy.net.ports import Timer
    from proxy.net.subscription.subscription import Subscription
    from proxy.net.subscription.upstream import SubscriptionUpstream

log = structlog.get_logger("keyline.groups")


class Stage(Enum):
    """Of a stream that is given back."""

    DRAINING = "draining"
    """Workers have some of it."""
    CONFIRMING = "confirming"
    """They have acknowledged all; the broker has not confirmed that yet."""
    CLOSING = "closing"
    """Its consumer is being closed."""


@dataclass(slots=True)
class SeatCounters:
    """Since the subscription's first worker came."""

    streams_opened: int = 0
    streams_given_back: int = 0
    streams_overdue: int = 0
    """Of these, those whose workers had some of it still."""
    streams_refused: int = 0
    """Attempts to consume a stream that the broker refused."""


@dataclass(slots=True)
class Release:
    """A stream on its way to another replica."""

    slots: HashRange
    """Of the cut that it was leased in, which may be another by now."""
    deadline: Timer
    began_at: float
    stage: Stage = Stage.DRAINING
    unconfirmed: set[int] = field(default_factory=set)
    """Positions, of all streams, whose acks were unconfirmed when the last of this one was acknowledged."""


class GroupSeat:
    """Implements `GroupStreams` towards its member; `Assignment` and `StreamListener` towards its subscription."""

    def __init__(
        self,
        subscription: Subscription,
        timing: GroupTiming,
        join: Callable[[GroupSeat, int], GroupMember],
        leave: Callable[[GroupSeat], None],
    ) -> None:
        """In no group before the first worker comes; `join` takes part for so many workers, `leave` no more."""
        self.group = GroupId(*subscription.state.key)
        self.counters = SeatCounters()
        self.member: GroupMember | None = None
        """This replica's part in the group; None while it has none."""
        self._subscription = subscription
        self._state = subscription.state
        self._dispatcher = subscription.state.dispatcher
        self._timing = timing
        self._join = join
        self._leave = leave
        self._leaving = False
        self._releases: dict[int, Release] = {}
        self._progress = GroupProgress(subscription.state, subscription.consumers)
        self._chronicle = GroupChronicle(subscription.state.events, self.group)
        self._reporting: Timer | None = None
        self._reposition: GroupReposition | None = None

    # ---- what the subscription says

    def workers_changed(self, count: int) -> None:
        """There are more workers, or fewer."""
        if self._leaving:
            return  # `_left` looks again
        if self.member is not None:
            self.member.weigh(count)
        elif count:
            self.member = self._join(self, count)
            self._chronicle.began(self.member)
            self._report()

    def leave(self) -> bool:
        """Give everything back and go; the subscription is asked to end then. False where nothing is to be done."""
        if self.member is not None and not self._leaving:
            self._leaving = True
            self.member.leave()
        return self.member is not None

    def settle(self) -> None:
        """The end of a turn: streams may have become free to go."""
        for stream, release in list(self._releases.items()):
            self._consider(stream, release)

    def close(self) -> None:
        """The gateway stops, in order or not: nothing more is said or done."""
        if self._reporting is not None:
            self._reporting.cancel()
            self._reporting = None
        if self._reposition is not None:
            self._reposition.close()
            self._reposition = None
        for release in self._releases.values():
            release.deadline.cancel()
        self._releases.clear()
        if self.member is not None:
            self._leave(self)
            self._chronicle.ended(self.member)
            self.member = None

    def upstream(self, stream: int) -> SubscriptionUpstream | None:
        """Its consumer at the broker, if there is one."""
        consumer = self._subscription.consumers.get(stream)
        return None if consumer is None else consumer.upstream

    def slots_of(self, stream: int) -> HashRange:
        """The slots of a stream that this replica has, or is giving back."""
        release = self._releases.get(stream)
        if release is not None:
            return release.slots
        assert self.member is not None
        return hash_range(stream, self.member.session.streams_count)

    # ---- GroupStreams

    def open(self, stream: int) -> None:
        """As the port says."""
        assert stream not in self._releases, "a stream was leased again before it was given back"
        leases = self._leases()
        consumer = self._subscription.consumers.get(stream)
        if consumer is not None:
            consumer.upstream.go_on()
        else:
            span = leases.range_of(stream)
            self._subscription.open_stream(stream, span.start, span.end, self)
            self.counters.streams_opened += 1
        streams_here.open_stream(self._dispatcher, stream, self._now())
        self._state.schedule_flush()

    def hold(self, stream: int) -> None:
        """As the port says. If the broker gives it up meanwhile, it is for the leader to say whose it is next."""
        streams_here.hold_stream(self._dispatcher, stream, self._now())
        consumer = self._subscription.consumers.get(stream)
        assert consumer is not None
        consumer.upstream.hold_back()

    def release(self, stream: int, deadline: float) -> None:
        """As the port says; once more sets another deadline. What the broker has given up goes at once."""
        before = self._releases.get(stream)
        if before is not None:
            before.deadline.cancel()
        streams_here.hold_stream(self._dispatcher, stream, self._now())
        consumer = self._subscription.consumers.get(stream)
        left_s = 0.0 if consumer is not None and consumer.upstream.parked else max(deadline - self._now(), 0.0)
        timer = self._state.clock.call_later(left_s, lambda: self._too_late(stream))
        if before is None:
            leases = self._dispatcher.leases
            assert leases is not None
            self._releases[stream] = Release(leases.range_of(stream), timer, self._now())
            self._state.acks.settled = self._state.schedule_flush
            assert consumer is not None
            consumer.fetching = False
            self._state.schedule_flush()
        else:
            before.deadline = timer

    def deliver_until(self, until: float) -> None:
        """As the port says."""
        leases = self._dispatcher.leases
        if leases is not None:
            streams_here.renew(self._dispatcher, until - leases.send_s, self._now())
            self._state.schedule_flush()

    def reposition(self, target: ReplayTarget) -> None:
        """As the port says; one that a leader here began before, and lost its producer, is nobody's any more."""
        if self._reposition is not None:
            self._reposition.close()
        self._reposition = GroupReposition(
            self.group, target, self._subscription.services.brokers, self._state.clock, self._repositioned
        )
        self._reposition.begin()

    def changed(self) -> None:
        """As the port says."""
        if self.member is not None:
            self._chronicle.look(self.member)

    # ---- StreamListener

    def stream_opened(self, stream: int) -> None:
        """As the port says."""
        if self.member is not None:
            self.member.opened(stream)

    def stream_refused(self, stream: int, error: Exception) -> None:
        """As the port says."""
        self.counters.streams_refused += 1
        log.info("leased stream refused", **self._facts(), stream=stream, reason=str(error))
        if self.member is not None:
            self.member.refused(stream)

    def stream_lost(self, stream: int, reason: str) -> None:
        """It comes back by itself, if there is a lease on it; else the broker may have given it to others."""
        _ = reason
        consumer = self._subscription.consumers.get(stream)
        if consumer is not None and consumer.upstream.parked:
            self._too_late(stream)

    # ---- within

    def _now(self) -> float:
        return self._state.now()

    def _facts(self) -> dict[str, str]:
        return {"topic": self.group.topic, "subscription": self.group.subscription}

    def _leases(self) -> StreamLeases:
        """Of the group as it is cut now; a session opens nothing as long as a stream of another cut is here."""
        assert self.member is not None
        session = self.member.session
        leases = self._dispatcher.leases
        if leases is None or leases.streams_count != session.streams_count:
            assert not len(self._subscription.consumers), "a stream of another cut is here"
            leases = self._dispatcher.leases = StreamLeases(session.streams_count, self._timing.send_s)
            leases.until = session.lease_until - leases.send_s
        return leases

    def _consider(self, stream: int, release: Release) -> None:
        outstanding = self._dispatcher.outstanding
        if release.stage is Stage.DRAINING and not streams_here.pending_in(self._dispatcher, stream):
            release.stage = Stage.CONFIRMING
            release.unconfirmed = set(outstanding.unconfirmed)
        if release.stage is Stage.CONFIRMING:
            release.unconfirmed &= outstanding.unconfirmed
            if not release.unconfirmed:
                self._close_stream(stream, release)

    def _too_late(self, stream: int) -> None:
        release = self._releases.get(stream)
        if release is not None and release.stage is not Stage.CLOSING:
            self.counters.streams_overdue += 1
            log.warning("stream handed over with unacknowledged messages", **self._facts(), stream=stream)
            self._close_stream(stream, release, overdue=True)

    def _close_stream(self, stream: int, release: Release, *, overdue: bool = False) -> None:
        release.stage = Stage.CLOSING
        self.counters.streams_given_back += 1
        self._chronicle.given_back(stream, self._now() - release.began_at, overdue=overdue)
        release.deadline.cancel()
        self._drop(stream, lambda: self._closed(stream, release))
        self._state.schedule_flush()

    def _drop(self, stream: int, done: Callable[[], None]) -> None:
        """Consume it no more, and forget what is here of it."""
        self._subscription.close_stream(stream, done)
        streams_here.forget_stream(self._dispatcher, stream, self._now())

    def _closed(self, stream: int, release: Release) -> None:
        """Told in a turn of its own: the leader's answer may open streams."""
        self._state.clock.call_soon(lambda: self._released(stream, release))

    def _released(self, stream: int, release: Release) -> None:
        if self._releases.get(stream) is release:
            del self._releases[stream]
            if not len(self._subscription.consumers):
                # Whoever has the streams now may let the cursor be moved: what comes again then is meant.
                self._dispatcher.outstanding.forget_acknowledged()
            self._tell_released(stream)
            if not self._releases:
                self._state.acks.settled = None

    def _tell_released(self, stream: int) -> None:
        if self.member is not None:
            self.member.released(stream)

    def left(self) -> None:
        """The member has gone; workers that came meanwhile begin anew."""
        self._leaving = False
        self.close()
        subscription = self._subscription
        for consumer in subscription.consumers:  # there is one only if the deadline for leaving has passed
            self._drop(consumer.stream, _nothing)
        if not subscription.state.ended and not subscription.services.draining:
            self.workers_changed(len(subscription.subscribers))
            subscription.end_if_empty()

    def _repositioned(self, problem: str | None) -> None:
        self._reposition = None
        self._chronicle.replayed(problem)
        if self.member is not None:
            self.member.repositioned(problem)

    def _report(self) -> None:
        """How far the streams are, as often as the leader is told."""
        if self.member is None:
            return
        for state in self._progress.states():
            self.member.progressed(state)
        self._reporting = self._state.clock.call_later(self._timing.heartbeat_s, self._report)


def _nothing() -> None:
    """Nobody waits for the stream to be closed."""
