"""One replica's member of one group: its session and its manager, their timers, Pulsar and the data plane.

Actions of the state machines go out through ports, and events come in as calls. The only decisions here are about a
leader of which nothing is heard. A session without one for the length of a lease assumes that the broker has forgotten
waiting producers, and insists. When no leader has said anything for `silent_s`, and what this replica says arrives at
itself, the leader stands still or is cut off, and the producer is taken away from it: it would keep every key
of the group standing for the minute in which the broker gives its connection up. What its replica consumes is looked
at meanwhile: the next leader, who would say that, may need a while to begin. The silence counts from the first
word that arrived here: what starts on a busy machine hears nothing for seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import structlog

from proxy.groups.encoding import encode
from proxy.groups.held_streams import Hold, Open
from proxy.groups.leader import Store
from proxy.groups.leader_messages import Announce, Tell
from proxy.groups.manager import Errand, LeaderManager, ManagerAct
from proxy.groups.manager import State as ManagerState
from proxy.groups.messages import (
    Disconnect,
    FindLeader,
    FromLeader,
    FromSession,
    KeepOrders,
    LeaderBegan,
    LeaderRetires,
    OfLeaders,
    OfReach,
    ReplayWanted,
    ReplicaSilent,
    SessionId,
    WorkersWait,
)
from proxy.groups.replay import Answer, Reposition
from proxy.groups.session import GroupSession, Send, SessionAct
from proxy.groups.session_transitions import State
from proxy.net.alarm import Alarm
from proxy.net.spread import share_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.groups.memory import GroupMemory
    from proxy.groups.messages import ReplayTarget
    from proxy.groups.streams import GroupId, StreamState
    from proxy.groups.timing import GroupTiming
    from proxy.net.group.ports import GroupMail, GroupTopic
    from proxy.net.ports import Clock


log = structlog.get_logger("keyline.groups")

ECHO_AFTER: Final = 1.5
"""Of the time in which a leader renews: after so long without a word a session tells itself, too, what it tells the
leader. If that arrives, mail works."""

ToMember: TypeAlias = FromSession | FromLeader | OfLeaders | OfReach | ReplayWanted | KeepOrders
"""Messages for the member of one group at one replica."""


@dataclass(slots=True)
class Leading:
    """How many groups this replica leads."""

    count: int = 0


class GroupStreams(Protocol):
    """The data plane of one group on this replica. It answers later: with `opened`, `refused` and `released`."""

    def open(self, stream: int) -> None:
        """Consume this stream, or go on with it; try again as long as the broker refuses."""

    def hold(self, stream: int) -> None:
        """Stop delivering it, and keep its messages."""

    def release(self, stream: int, deadline: float) -> None:
        """Deliver nothing more, close it when nothing is pending, or at the deadline by the member's clock."""

    def reposition(self, target: ReplayTarget) -> None:
        """Move the cursor, which no replica consumes now; `GroupMember.repositioned` follows."""

    def changed(self) -> None:
        """The session or the leadership may have changed: the audit log inspects them."""

    def deliver_until(self, until: float) -> None:
        """The leases of all streams end then, by the member's clock: nothing may be delivered at that time or later."""


class GroupMember:
    """As the module says; `group_ports.GroupTopicListener` for its group's topic."""

    def __init__(
        self,
        group: GroupId,
        session: SessionId,
        streams_count: int,
        timing: GroupTiming,
        clock: Clock,
        mail: GroupMail,
        ended: Callable[[], None],
        leading: Leading | None = None,
    ) -> None:
        """`join` begins. `ended` is called once, when it has left; `leading` counts for all groups of the replica."""
        self._leading = leading or Leading()
        self._leads = False
        self.group = group
        self._timing = timing
        self._clock = clock
        self._mail = mail
        self._ended = ended
        self._topic: GroupTopic | None = None
        self._streams: GroupStreams | None = None
        self._timer = Alarm(clock)
        self._connecting_since = clock.now()
        self._leader_heard_at = clock.now()
        self._heard_self_at = -inf
        self._fence_after_s = timing.silent_s + timing.fence_spread_s * share_of(session.replica)
        self._lease_told_s = 0.0
        self._parting = False
        """Whether the session has ended; a leader here may have something to hand over."""
        self._removing = False
        """Whether the group has ended, and its topic goes with it."""
        self._over = False
        self._lease_until = clock.now()
        self.replica_silent: Callable[[str], None] = lambda _: None
        """Hears of each replica of which the leader hears nothing, and of a leader's of which nothing is heard."""
        self.workers_wait: Callable[[WorkersWait], None] = lambda _: None
        """Hears of workers elsewhere that wait for what a replica has which theirs does not reach."""
        self.session = GroupSession(group, session, timing, 0, clock.now())
        self.manager = LeaderManager(group, session.replica, streams_count, timing)

    # ---- this replica

    def join(self, topic: GroupTopic, streams: GroupStreams, workers_count: int) -> None:
        """Join, with a number of workers."""
        self._topic, self._streams = topic, streams
        now = self._clock.now()
        self.session.weigh(workers_count, now)
        self._manage(self.manager.want(now))
        self._do(self.session.start(now))

    def weigh(self, workers_count: int) -> None:
        """There are more workers, or fewer."""
        self._do(self.session.weigh(workers_count, self._clock.now()))

    def leave(self) -> None:
        """Release all streams and leave; `ended` follows."""
        self._do(self.session.leave(self._clock.now()))

    def close(self) -> None:
        """The process ends: nothing more is done, in order or not."""
        self._over = True
        self._count_leading(leads=False)
        self._rearm()

    # ---- members

    def hear(self, message: ToMember) -> None:
        """A session of some replica says something to the leader, which may be here; or a leader to our session."""
        now = self._clock.now()
        if isinstance(message, FromSession):
            if message.report.session == self.session.session:
                if self._heard_self_at == -inf:
                    self._leader_heard_at = now  # before that, no leader could have been heard
                self._heard_self_at = now
            self._manage(self.manager.receive(message, now))
        elif isinstance(message, ReplayWanted | KeepOrders | OfReach):
            self._manage(self._asked(message, now))
        elif isinstance(message, LeaderRetires):
            self._leader_heard_at = now
            self._manage(self.manager.let_lead(message.successor, now))
        elif isinstance(message, ReplicaSilent):
            self._leader_heard_at = now
            self.replica_silent(message.replica)
        elif isinstance(message, LeaderBegan):
            self._leader_heard_at = now
            self._manage(self.manager.began(message.epoch, now))
            self._do(self.session.began(message, now))
        else:
            if message.header.session == self.session.session:
                self._leader_heard_at = now
                self._compare_leases(message.header.lease_s)
            self._do(self.session.receive(message, now))

    def _asked(self, message: ReplayWanted | KeepOrders | OfReach, now: float) -> list[ManagerAct]:
        """For the leader, if it is here."""
        if isinstance(message, ReplayWanted):
            return self.manager.want_replay(message, now)
        if isinstance(message, KeepOrders):
            return self.manager.keep_orders(message.orders, now)
        if isinstance(message, WorkersWait):
            self.workers_wait(message)
        return self.manager.hear_reach(message, now)

    def _compare_leases(self, lease_s: float) -> None:
        """A replica that is configured otherwise than the leader obeys, and says so once for each leader's length."""
        if lease_s not in (0.0, self._timing.lease_s, self._lease_told_s):
            self._lease_told_s = lease_s
            log.warning("lease of another length", group=self.group, here_s=self._timing.lease_s, leader_s=lease_s)

    # ---- the group's topic

    def granted(self) -> None:
        """As the port says."""
        self._manage(self.manager.granted(self._clock.now()))

    def lost(self) -> None:
        """As the port says."""
        self._manage(self.manager.lost(self._clock.now()))

    def stored(self) -> None:
        """As the port says."""
        self._manage(self.manager.stored(self._clock.now()))

    def read(self, memory: GroupMemory) -> None:
        """As the port says."""
        self._manage(self.manager.read(memory, self._clock.now()))

    # ---- the data plane

    def opened(self, stream: int) -> None:
        """The broker has accepted the consumer."""
        self._do(self.session.opened(stream, self._clock.now()))

    def refused(self, stream: int) -> None:
        """The broker still refuses the consumer."""
        self._do(self.session.refused(stream, self._clock.now()))

    def released(self, stream: int) -> None:
        """The stream is closed here."""
        self._do(self.session.released(stream, self._clock.now()))

    def released_each(self, streams: list[int]) -> None:
        """Nothing of any of these is here any more."""
        self._do(self.session.released_each(streams, self._clock.now()))

    def repositioned(self, problem: str | None) -> None:
        """The cursor was moved, or could not be."""
        self._manage(self.manager.repositioned(problem, self._clock.now()))

    def progressed(self, state: StreamState) -> None:
        """The progress of a stream."""
        self.session.progressed(state)

    # ---- within

    def _tick(self) -> None:
        now = self._clock.now()
        if self.session.state is not State.CONNECTING:
            self._connecting_since = now
        elif now - self._connecting_since >= self._timing.lease_s and self.manager.state is ManagerState.CANDIDATE:
            self._connecting_since = now
            assert self._topic is not None
            self._topic.insist()
        if self._leader_is_silent(now, self._timing.silent_s) and self.session.leader is not None:
            self.replica_silent(self.session.leader)
        if self._leader_is_silent(now, self._fence_after_s):
            self._leader_heard_at = now
            assert self._topic is not None
            self._topic.fence()
        self._manage(self.manager.tick(now))
        self.session.leads_count = self._leading.count
        self._do(self.session.tick(now))

    def _leader_is_silent(self, now: float, since_s: float) -> bool:
        """Whether a leader would have been heard since, if there were one that hears and speaks."""
        return (
            self.manager.state is ManagerState.CANDIDATE
            and now >= self._leader_heard_at + since_s
            and now - self._heard_self_at < 2 * self._timing.find_leader_s
        )

    def _do(self, acts: list[SessionAct]) -> None:
        assert self._streams is not None
        for act in acts:
            if isinstance(act, Send):
                self._send(act.message)
            elif isinstance(act, Open):
                self._streams.open(act.stream)
            elif isinstance(act, Hold):
                self._streams.hold(act.stream)
            else:
                self._streams.release(act.stream, act.deadline)
        if self.session.lease_until != self._lease_until:
            self._lease_until = self.session.lease_until
            self._streams.deliver_until(self._lease_until)
        if self.session.state is State.DISCONNECTED and not self._parting:
            self._parting = True
            self._manage(self.manager.unwant(self._clock.now()))
        self._streams.changed()
        self._rearm()

    def _send(self, message: FromSession) -> None:
        if isinstance(message, Disconnect):  # a leader here must know before it hands over
            self._manage(self.manager.receive(message, self._clock.now()))
        leader = self.session.leader
        if leader is None or isinstance(message, FindLeader):
            self._mail.send_all(encode(message, self.group))
            return
        self._mail.send(leader, encode(message, self.group))
        if self._clock.now() - self._leader_heard_at > ECHO_AFTER * self._timing.renew_s:
            self._mail.send(self.session.session.replica, encode(message, self.group))

    def _manage(self, acts: list[ManagerAct]) -> None:
        assert self._topic is not None
        for act in acts:
            if isinstance(act, Errand):
                self._run(act, self._topic)
            elif isinstance(act, Store):
                self._topic.store(act.record)
            elif isinstance(act, Reposition):
                assert self._streams is not None
                self._streams.reposition(act.target)
            else:
                self._pass_on(act)
        self._count_leading(leads=self.manager.leader is not None)
        if self._parting and self.manager.state is ManagerState.OUT and not self._removing and not self._over:
            self._over = True
            self._clock.call_soon(self._ended)
        if self._streams is not None:
            self._streams.changed()
        self._rearm()

    def _count_leading(self, *, leads: bool) -> None:
        self._leading.count += leads - self._leads
        self._leads = leads

    def _run(self, errand: Errand, topic: GroupTopic) -> None:
        if errand is Errand.CONTEND:
            topic.contend()
        elif errand is Errand.CONTEND_LATER:
            topic.contend_later()
        elif errand is Errand.READ:
            topic.read()
        elif errand is Errand.REMOVE:
            self._removing = True
            topic.remove(self._removed)
        else:
            topic.close()

    def _removed(self) -> None:
        self._removing = False
        self._manage([])

    def _pass_on(self, act: Tell | Announce | Answer) -> None:
        if isinstance(act, Announce):
            self._mail.send_all(encode(act.message, self.group))
            return
        replica = act.message.asker if isinstance(act, Answer) else act.message.header.session.replica
        self._mail.send(replica, encode(act.message, self.group))

    def _rearm(self) -> None:
        self._timer.cancel()
        now = self._clock.now()
        dues = [due for due in (self.session.due(), self.manager.due()) if due is not None]
        if self.manager.state is ManagerState.CANDIDATE:
            silences = (self._leader_heard_at + each for each in (self._timing.silent_s, self._fence_after_s))
            dues += [at for at in silences if at > now]
        if dues and not self._over:
            self._timer.set(max(min(dues) - now, 0.0), self._tick)
