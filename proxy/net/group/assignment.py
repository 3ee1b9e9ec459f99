"""Turns a subscription's leases into broker consumers and permission to deliver.

A leased stream is consumed and delivered. A revoked stream is no longer delivered; when workers have acknowledged its
messages, and the broker has confirmed that, its consumer is closed, messages read ahead are dropped, and the leader is
informed. So the next replica gets nothing that was delivered here. At the deadline the same happens with unacknowledged
messages, and the next replica redelivers those.

Source: EIP-0028, "Session Side"; design section 5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

import structlog

from proxy.core import streams_here
from proxy.core.stream_leases import StreamLeases
from proxy.groups.streams import GroupId, hash_range
from proxy.net.alarm import Alarm
from proxy.net.group.audit_log import GroupAuditLog
from proxy.net.group.progress import GroupProgress
from proxy.net.group.reposition import GroupReposition

if TYPE_CHECKING:
    from collections.abc import Callable, Sized

    from proxy.core.hash_ranges import HashRange
    from proxy.groups.messages import ReplayTarget
    from proxy.groups.timing import GroupTiming
    from proxy.net.group.member import GroupMember
    from proxy.net.ports import Timer
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import SubscriptionState
    from proxy.net.subscription.upstream import SubscriptionUpstream
    from proxy.net.subscription.upstream_consumers import StreamListener, UpstreamConsumers

log = structlog.get_logger("keyline.groups")


class Stage(Enum):
    """The stage of a revoked stream."""

    DRAINING = "draining"
    """Workers have unacknowledged messages of it."""
    CONFIRMING = "confirming"
    """They have acknowledged all; the broker has not confirmed that yet."""
    CLOSING = "closing"
    """Its consumer is being closed."""


@dataclass(slots=True)
class AssignmentCounters:
    """Since the subscription's first worker joined."""

    streams_opened: int = 0
    streams_released: int = 0
    streams_overdue: int = 0
    """Of these, streams with unacknowledged messages."""
    streams_refused: int = 0
    """Attempts to consume a stream that the broker refused."""


@dataclass(slots=True)
class Release:
    """A stream on its way to another replica."""

    slots: HashRange
    """Of the cut in which it was leased, which may have changed."""
    deadline: Timer
    began_at: float
    stage: Stage = Stage.DRAINING
    unconfirmed: set[int] = field(default_factory=set)
    """Positions, of all streams, whose acks were unconfirmed when the last of this one was acknowledged."""


class SharedSubscription(Protocol):
    """A subscription, as far as its assignment knows it; see `Subscription` for what each does."""

    @property
    def state(self) -> SubscriptionState:
        """What its parts share."""

    @property
    def services(self) -> Services:
        """What it shares with others."""

    @property
    def consumers(self) -> UpstreamConsumers:
        """Its streams that are consumed here."""

    @property
    def subscribers(self) -> Sized:
        """Its workers."""

    def open_stream(self, stream: int, first_slot: int, last_slot: int, listener: StreamListener) -> None:
        """Consume a stream."""

    def close_stream(self, stream: int, done: Callable[[], None]) -> None:
        """Consume it no more."""

    def end_if_empty(self) -> bool:
        """End, if it has no workers."""


class GroupAssignment:
    """Implements `GroupStreams` towards its member; `Assignment` and `StreamListener` towards its subscription."""

    def __init__(
        self,
        subscription: SharedSubscription,
        timing: GroupTiming,
        join: Callable[[GroupAssignment, int], GroupMember],
        leave: Callable[[GroupAssignment], None],
    ) -> None:
        """In no group before the first worker joins; `join` enters the group with a worker count, `leave` leaves it."""
        self.group = GroupId(*subscription.state.key)
        self.counters = AssignmentCounters()
        self.member: GroupMember | None = None
        """This replica's member of the group; None while it has none."""
        self._subscription = subscription
        self._state = subscription.state
        self._dispatcher = subscription.state.dispatcher
        self._timing = timing
        self._join = join
        self._leave = leave
        self._leaving = False
        self._releases: dict[int, Release] = {}
        self._progress = GroupProgress(subscription.state, subscription.consumers)
        self._audit_log = GroupAuditLog(subscription.state.events, self.group)
        self._reporting = Alarm(self._state.clock)
        self._reposition: GroupReposition | None = None

    # ---- what the subscription says

    def workers_changed(self, count: int) -> None:
        """There are more workers, or fewer."""
        if self._leaving:
            return  # `_left` looks again
        if self.member is not None:
            self.member.weigh(count)
        elif count and not self._subscription.services.shutting_down:  # what it got there would not be handed over
            self.member = self._join(self, count)
            self._audit_log.began(self.member)
            self._report()

    def leave(self) -> bool:
        """Release all streams and leave; then the subscription is asked to end. False if there is nothing to do."""
        if self.member is not None and not self._leaving:
            self._leaving = True
            self.member.leave()
        return self.member is not None

    def settle(self) -> None:
        """The end of a turn: revoked streams may be drained."""
        for stream, release in list(self._releases.items()):
            self._consider(stream, release)

    def close(self) -> None:
        """The gateway stops, in order or not: no further messages or actions."""
        self._reporting.cancel()
        if self._reposition is not None:
            self._reposition.close()
            self._reposition = None
        for release in self._releases.values():
            release.deadline.cancel()
        self._releases.clear()
        if self.member is not None:
            self._leave(self)
            self._audit_log.ended(self.member)
            self.member = None

    def upstream(self, stream: int) -> SubscriptionUpstream | None:
        """Its broker consumer, if there is one."""
        consumer = self._subscription.consumers.get(stream)
        return None if consumer is None else consumer.upstream

    def slots_of(self, stream: int) -> HashRange:
        """The slots of a stream that this replica has, or is releasing."""
        release = self._releases.get(stream)
        if release is not None:
            return release.slots
        assert self.member is not None
        return hash_range(stream, self.member.session.streams_count)

    # ---- GroupStreams

    def open(self, stream: int) -> None:
        """As the port says."""
        assert stream not in self._releases, "a stream was leased again before it was released"
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
        """As the port says; a move by an earlier leader here that lost its producer is ignored."""
        if self._reposition is not None:
            self._reposition.close()
        self._reposition = GroupReposition(
            self.group, target, self._subscription.services.brokers, self._state.clock, self._repositioned
        )
        self._reposition.begin()

    def changed(self) -> None:
        """As the port says."""
        if self.member is not None:
            self._audit_log.look(self.member)

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
        """It is reopened if there is a lease on it; otherwise the broker may have given it to others."""
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
        self.counters.streams_released += 1
        self._audit_log.released(stream, self._now() - release.began_at, overdue=overdue)
        release.deadline.cancel()
        self._drop(stream, lambda: self._closed(stream, release))
        self._state.schedule_flush()

    def _drop(self, stream: int, done: Callable[[], None]) -> None:
        """Stop consuming it, and forget its messages."""
        self._subscription.close_stream(stream, done)
        streams_here.forget_stream(self._dispatcher, stream, self._now())

    def _closed(self, stream: int, release: Release) -> None:
        """Told in a turn of its own: the leader's answer may open streams."""
        self._state.clock.call_soon(lambda: self._released(stream, release))

    def _released(self, stream: int, release: Release) -> None:
        if self._releases.get(stream) is release:
            del self._releases[stream]
            if not len(self._subscription.consumers):
                # Their new owners may let the cursor be moved: a redelivery after that is intended.
                self._dispatcher.outstanding.forget_acknowledged()
            self._tell_released(stream)
            if not self._releases:
                self._state.acks.settled = None

    def _tell_released(self, stream: int) -> None:
        if self.member is not None:
            self.member.released(stream)

    def left(self) -> None:
        """The member has left; workers that joined meanwhile start again."""
        self._leaving = False
        self.close()
        subscription = self._subscription
        for consumer in subscription.consumers:  # there is one only if the deadline for leaving has passed
            self._drop(consumer.stream, _nothing)
        if not subscription.state.ended and not subscription.services.shutting_down:
            self.workers_changed(len(subscription.subscribers))
            subscription.end_if_empty()

    def _repositioned(self, problem: str | None) -> None:
        self._reposition = None
        self._audit_log.replayed(problem)
        if self.member is not None:
            self.member.repositioned(problem)

    def _report(self) -> None:
        """The progress of the streams, at each report to the leader."""
        if self.member is None:
            return
        for state in self._progress.states():
            self.member.progressed(state)
        self._reporting.set(self._timing.heartbeat_s, self._report)


def _nothing() -> None:
    """No callback after the stream is closed."""
