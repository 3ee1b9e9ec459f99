"""One topic's election: takes the broker's answers, sends requests to it and answers to clients.

It adds time to the pure `proxy.producers.election`: exclusions (`back_off`), conflicting changes at the broker
(`admission_lock`), and other replicas (`rivalry`).
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from proxy.net.election.audit_log import AuditLog
from proxy.net.election.back_off import ENDINGS, TOPIC_ERRORS, ElectionBackOff
from proxy.net.election.broker_queue import BrokerQueue
from proxy.net.election.rivalry import TopicRivalry
from proxy.net.election.statistics import ACCESS_MODES, BestRival, ElectionPage, ElectionSummary, WaitingProducer
from proxy.producers.admission_lock import AdmissionLock
from proxy.producers.election import Act, Acts, Contender, Election, Stage
from proxy.producers.waiting import rank_of
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.election.audit_log import Candidacy, Candidate
    from proxy.net.election.rivals import ProducerRivals
    from proxy.net.election.statistics import ElectionCounters, TopicOwner
    from proxy.net.events import Events
    from proxy.net.ports import Clock

FENCING: Final = ACCESS_MODES[pb.ExclusiveWithFencing]
IN_DOUBT: Final = "fenced, perhaps, by a producer whose connection broke"
SAME_TOPIC_S: Final = 30.0
"""Largest delay of a promotion's answer, during which another producer may fence the new owner."""
FENCED_ELSEWHERE: Final = "fenced by a producer that is connected to another replica"


class TopicElection:
    """All producers connected here that want exclusive access to this topic."""

    def __init__(
        self,
        topic: str,
        clock: Clock,
        events: Events,
        grace_s: float,
        unsettled_until: float,
        totals: ElectionCounters,
        over: Callable[[TopicElection], None],
        rivals: ProducerRivals | None = None,
    ) -> None:
        """What is counted is added to `totals` as well; `over` is called whenever nothing is left to remember.

        Until `unsettled_until` the gateway has not been up for long: owners of before it are still coming back.
        `rivals` is None for a gateway that is alone.
        """
        self.topic = topic
        self._audit_log = AuditLog(topic, clock, events, totals)
        self._clock = clock
        self._over = over
        self._election: Election[Candidate] = Election(rivals.replica if rivals is not None else "")
        self._back_off = ElectionBackOff(self._election, clock, grace_s, unsettled_until, self._do)
        self._rivalry = (
            TopicRivalry(topic, self._election, clock, rivals, grace_s, self._do) if rivals is not None else None
        )
        self.changes = AdmissionLock(self._change_ended)
        """What must not meet at the broker: a change of the topic's owner begins when it may, alone if it fences."""
        self.broker_queue = BrokerQueue(clock, self.changes)
        self._arrivals = 0
        self._due: deque[tuple[Act, Candidacy]] = deque()
        self._doing = False
        self._closed = False
        self._other: tuple[object, TopicOwner] | None = None
        """A producer connected here that owns the topic without having waited."""
        self._outrun: tuple[Candidacy | None, int | None] = None, None
        """The producer that waited at the broker when another took the topic, and that one's epoch."""
        self._doubted: Candidacy | None = None
        """The producer that waited at the broker when another may have taken the topic."""
        self._last_owner: tuple[str, int | None] | None = None

    # ---- clients

    def arrive(self, candidate: Candidate) -> None:
        """One more wants the topic."""
        self._audit_log.count(arrivals_total=1)
        self._arrivals += 1
        returning = candidate.topic_epoch is not None and (self._owned_last(candidate) or self._unsettled)
        rank = rank_of(candidate.priority, self._arrivals, returning=returning)
        contender = Contender(rank, candidate, since=candidate.arrived_at)
        candidate.candidacy = contender
        if not returning:
            self._back_off.newcomer(unsettled=self._unsettled and self._other is None)
        self._do(self._election.arrive(contender))
        if contender.stage is Stage.WAITING:
            self._audit_log.queued(candidate, self.waiting_count)

    def _owned_last(self, candidate: Candidate) -> bool:
        """Whether it is the owner of before, by its epoch: a client that never chose a name may return without one."""
        if self._last_owner is None:
            return False
        name, epoch = self._last_owner
        return candidate.topic_epoch == epoch and candidate.name in {"", name}

    def left(self, contender: Candidacy, reason: str) -> None:
        """Its client closed it, or is gone."""
        if contender.stage is Stage.GONE:
            return
        self._audit_log.ended(contender, reason)
        if contender.stage is Stage.PARKED:
            self.broker_queue.abandoned()
        self._do(self._election.left(contender))
        self.changes.end(contender)

    def taken_by_broker(self, contender: Candidacy, reason: str) -> None:
        """The broker closed the owner, whose client lives and comes back."""
        if contender.stage is Stage.GONE:
            return
        self._audit_log.ended(contender, reason)
        self._tell_closed()
        self._back_off.owner_closed()
        self._do(self._election.left(contender))
        self.changes.end(contender)

    # ---- the broker's answers

    def granted(self, contender: Candidacy, success: pb.CommandProducerSuccess) -> bool:
        """It owns the topic; answer whether its client is to hear so."""
        self.changes.end(contender)
        self.broker_queue.emptied()
        candidate = contender.producer
        candidate.name = success.producer_name
        if self._fenced_meanwhile(contender, success):
            self._audit_log.count(fencings_total=1)
            self.left(contender, "fenced as soon as it was promoted")
            candidate.tell_refused(pb.ProducerFenced, "another producer has fenced this one")
            return False
        vacant_s = self._audit_log.vacant_s
        self._do(self._election.granted(contender))
        if contender.stage is not Stage.OWNER:
            return False
        epoch = success.topic_epoch if success.HasField("topic_epoch") else None
        resumed = candidate.topic_epoch is not None and candidate.topic_epoch == epoch
        self._audit_log.promoted(candidate, epoch, vacant_s, self.waiting_count, resumed=resumed)
        self._last_owner = candidate.name, epoch
        self._back_off.promoted()
        if contender is self._doubted:
            self.left(contender, IN_DOUBT)
        return True

    def queued(self, contender: Candidacy, success: pb.CommandProducerSuccess) -> None:
        """It waits at the broker, behind a producer that is not connected here."""
        contender.producer.name = success.producer_name
        if not contender.told_queued:
            self._audit_log.queued(contender.producer, self.waiting_count)
        self._do(self._election.queued(contender))
        self.changes.end(contender)

    def refused(self, contender: Candidacy, error: int, message: str) -> bool:
        """The broker refused it; answer whether its client is to hear so."""
        if contender.stage in (Stage.PARKED, Stage.WITHDRAWING):
            self.broker_queue.settled()
        if contender.stage is Stage.WITHDRAWING and error not in ENDINGS:
            self.changes.end(contender)
            return False  # it is taken back anyway, and waits on
        if contender.stage in (Stage.WAITING, Stage.OWNER, Stage.GONE):
            return True
        self.changes.end(contender)
        if error == pb.ProducerFenced and contender.producer.topic_epoch is not None and self._back_off.try_again():
            self._do(self._election.put_back(contender))
            return False
        self._back_off.refused()
        if error == pb.ProducerFenced:
            self._audit_log.count(fencings_total=1)
        if error in TOPIC_ERRORS:
            if contender.stage is Stage.PARKED:
                self._tell_closed()
            self._back_off.unavailable(returning=contender.returning)
        elif contender.returning:
            self._back_off.release()
        if error in ENDINGS:
            self._end_all(error, message)
        self._audit_log.ended(contender, message)
        self._do(self._election.left(contender))
        return True

    def _end_all(self, error: int, message: str) -> None:
        for waiting in list(self._election.waiting):
            self.left(waiting, message)
            waiting.producer.tell_refused(error, message)

    def withdrawn(self, contender: Candidacy) -> None:
        """The broker has closed it, as it was told."""
        self.changes.end(contender)
        self._do(self._election.withdrawn(contender))

    # ---- those that do not wait

    def taken(self, holder: object, owner: TopicOwner) -> None:
        """A producer connected here owns the topic without having waited; `holder` identifies it."""
        former = self._election.owner
        self._other = holder, owner
        self._outrun = self._election.at_broker, owner.topic_epoch
        self._last_owner = None
        self._audit_log.taken(owner)
        self._note()
        if former is not None:
            self._audit_log.count(fencings_total=1)
            self.left(former, f"fenced by {owner.producer_name}")
        self.broker_queue.emptied()
        if owner.access_mode == FENCING:
            self._tell_fenced(owner.topic_epoch)
        self.changes.end(holder)

    def fenced_late(self, epoch: int) -> None:
        """One had taken the topic by fencing whose client was gone before the broker said so."""
        self._fenced(epoch, IN_DOUBT)
        self._tell_fenced(epoch)

    def _tell_fenced(self, epoch: int | None) -> None:
        if self._rivalry is not None and epoch is not None:
            self._rivalry.fenced(epoch)

    def given_up(self, holder: object, *, in_doubt: bool = False) -> None:
        """It does not own the topic any more, or never will.

        In doubt it may have fenced the owner, or one whose promotion we are still to hear of; no broker tells. So the
        next is asked for, and waits at the broker if the owner is there still.
        """
        if in_doubt:
            self._doubted = self._election.at_broker
            if self._election.owner is not None:
                self.left(self._election.owner, IN_DOUBT)
        if self._other is not None and self._other[0] is holder:
            self._audit_log.given_up(self._other[1])
            self._other = None
            self._note()
            self._expect_promotions()
        self.changes.end(holder)

    # ---- other replicas

    def heard(self) -> None:
        """They say something else than before, or nothing more."""
        if self._rivalry is not None:
            self._rivalry.heard()

    def closed_elsewhere(self) -> None:
        """One of them has seen the broker close the topic."""
        if self._rivalry is not None:
            self._rivalry.closed_elsewhere()

    def fenced_elsewhere(self, epoch: int, at: float) -> None:
        """A producer at another replica has taken the topic by fencing, with that epoch.

        Fencings long before the current owner's promotion are ignored: a recreated topic restarts its epochs.
        """
        owner = self._owner
        if owner is not None and at > owner.since - SAME_TOPIC_S:
            self._fenced(epoch, FENCED_ELSEWHERE)

    def _fenced(self, epoch: int, reason: str) -> None:
        owner = self._owner
        if owner is None or owner.topic_epoch is None or owner.topic_epoch >= epoch:
            return
        self._audit_log.count(fencings_total=1)
        if self._election.owner is not None:
            self.left(self._election.owner, reason)
        elif self._other is not None:
            self.given_up(self._other[0])

    @property
    def _owner(self) -> TopicOwner | None:
        """Who owns the topic and is connected here, whether it waited for that or not."""
        return self._audit_log.owner or (self._other[1] if self._other is not None else None)

    def _tell_closed(self) -> None:
        if self._rivalry is not None:
            self._rivalry.closed()

    # ---- reads

    @property
    def waiting_count(self) -> int:
        """How many wait, here or at the broker."""
        return len(self._election.waiting) + (self._election.at_broker is not None)

    @property
    def owned(self) -> bool:
        """Whether a producer connected here owns the topic."""
        return self._election.owner is not None or self._other is not None

    @property
    def outranked(self) -> bool:
        """Whether no producer is promoted here only because a better one waits at another replica."""
        return self._election.outranked

    def summary(self) -> ElectionSummary:
        """Freeze its numbers."""
        return ElectionSummary(
            topic=self.topic,
            now=self._clock.now(),
            owner=self._owner,
            waiting_count=self.waiting_count,
            vacant_s=self._audit_log.vacant_s,
            held=self._election.held.value,
            rival=BestRival.of(self._election.elsewhere.best),
            outranked=self.outranked,
            counters=replace(self._audit_log.counters),
        )

    def page(self, first: int, limit: int) -> ElectionPage:
        """Freeze a page of the queue, from the position `first` on."""
        at_broker = self._election.at_broker
        queue = chain([at_broker] if at_broker is not None else [], self._election.waiting)
        waiting = tuple(
            WaitingProducer.of(contender, position)
            for position, contender in enumerate(islice(queue, first, first + limit), first)
        )
        more = first + limit < self.waiting_count
        return ElectionPage(self.summary(), waiting, first + limit if more else None)

    # ---- life

    def close(self) -> None:
        """The gateway stops: no more promotions, because their epochs would be wasted."""
        self._closed = True
        self._back_off.stop()
        if self._rivalry is not None:
            self._rivalry.close()

    # ---- within

    def _do(self, acts: Acts[Candidate]) -> None:
        """Carry out what is due, and what comes of it, one after another: thousands may be refused in a row."""
        self._due.extend(acts)
        if self._doing or self._closed:
            return
        self._doing = True
        try:
            while self._due:
                self._act(*self._due.popleft())
        finally:
            self._doing = False
        self._note()
        self._consider_end()

    def _act(self, act: Act, contender: Candidacy) -> None:
        if act is Act.ASK and contender.stage is Stage.ASKED:
            self.changes.begin(contender, contender.producer.ask, alone=False)
        elif act in (Act.WITHDRAW, Act.YIELD) and contender.stage is Stage.WITHDRAWING:
            if act is Act.YIELD:
                self._audit_log.yielded(contender.producer, self._election.elsewhere.best)
            contender.producer.withdraw()
        elif act is Act.TELL_QUEUED and contender.stage is not Stage.GONE:
            contender.producer.tell_queued()

    def _change_ended(self, change: object | None) -> None:
        if change is not None and change is not self.broker_queue:
            self._expect_promotions()
        self._consider_end()

    def _expect_promotions(self) -> None:
        """The broker promotes who waits there, unless somebody owns the topic."""
        if (self._parked or self.broker_queue.has_abandoned) and self._other is None and not self._closed:
            self.broker_queue.moves()

    def _fenced_meanwhile(self, contender: Candidacy, success: pb.CommandProducerSuccess) -> bool:
        """Whether the broker had promoted it before a fencing producer whose answer arrived earlier."""
        outrun, epoch = self._outrun
        return (
            outrun is contender
            and epoch is not None
            and success.HasField("topic_epoch")
            and success.topic_epoch < epoch
        )

    @property
    def _parked(self) -> bool:
        """Whether one waits at the broker."""
        return self._election.at_broker is not None and self._election.at_broker.stage is Stage.PARKED

    @property
    def _unsettled(self) -> bool:
        return self._last_owner is None and self._back_off.unsettled

    def _consider_end(self) -> None:
        wanted = not self._election.idle or self._other is not None or not self.changes.idle
        if not wanted and self._back_off.idle and not self._doing:
            self._over(self)

    def _note(self) -> None:
        """The owner or the queue has changed."""
        owned = self.owned or self._parked or self._election.elsewhere.owned
        self._audit_log.vacant(bool(self.waiting_count) and not owned)
        if self._rivalry is not None and not self._closed:
            owner = self._owner
            self._rivalry.settled(owned=self.owned, epoch=None if owner is None else owner.topic_epoch)
