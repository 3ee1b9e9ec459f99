"""One topic's election at work: what the broker answers goes in, requests and answers to clients come out.

Around the pure `proxy.producers.election` this adds what takes time. When the broker takes the topic from its owner
(an unload, a restart), the owner comes back within moments, and everybody else would spend its epoch and fence it: so
newcomers are held for a grace. When the broker has trouble with the topic rather than with a producer, the next is
not asked at once: in a moment all would have been refused who have a place in the queue.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

from proxy.net.producer_chronicle import Chronicle
from proxy.net.producer_statistics import ElectionPage, ElectionSummary, WaitingProducer
from proxy.producers.election import Act, Acts, Contender, Election, Hold, Stage
from proxy.producers.turnstile import Turnstile
from proxy.producers.waiting import rank_of
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.events import Events
    from proxy.net.ports import Clock, Timer
    from proxy.net.producer_chronicle import Candidacy, Candidate
    from proxy.net.producer_statistics import ElectionCounters, TopicOwner

EXPECTED_S_MAX: Final = 300.0
"""How long an owner that the broker closed is remembered while nobody else wants the topic."""
TROUBLE_S_MIN: Final = 0.1
TROUBLE_S_MAX: Final = 2.0
"""How long nobody is asked for after the broker had trouble; doubled each time in a row."""
RETURN_TRIES_S: Final = (0.05, 0.1, 0.2)
"""When a former owner is tried again: the broker may not have noticed yet that its old connection is closed."""

TROUBLES: Final = frozenset({pb.ServiceNotReady, pb.MetadataError, pb.PersistenceError})
"""What a broker says when it cannot serve the topic at present, whoever asks."""
ENDINGS: Final = frozenset({pb.TopicTerminatedError})
"""What nobody who waits survives. A broker says it once, and lets whoever asks next wait for ever."""


class TopicElection:
    """Everybody connected here that wants to be this topic's only producer."""

    def __init__(
        self,
        topic: str,
        clock: Clock,
        events: Events,
        grace_s: float,
        unsettled_until: float,
        totals: ElectionCounters,
        over: Callable[[TopicElection], None],
    ) -> None:
        """What is counted is added to `totals` as well; `over` is called whenever nothing is left to remember.

        Until `unsettled_until` the gateway has not been up for long: owners of before it are still coming back.
        """
        self.topic = topic
        self._chronicle = Chronicle(topic, clock, events, totals)
        self._clock = clock
        self._grace_s = grace_s
        self._unsettled_until = unsettled_until
        self._over = over
        self._election: Election[Candidate] = Election()
        self._turnstile = Turnstile()
        self._arrivals = 0
        self._due: deque[tuple[Act, Candidacy]] = deque()
        self._doing = False
        self._closed = False
        self._other: tuple[object, TopicOwner] | None = None
        """Somebody connected here that owns the topic without having waited."""
        self._outrun: tuple[Candidacy | None, int | None] = None, None
        """Who waited at the broker when somebody took the topic, and the epoch with which that was."""
        self._last_owner: tuple[str, int | None] | None = None
        self._tries = 0
        self._troubles = 0
        self._expected_until: float | None = None
        """How long the owner is remembered that the broker closed; None if nobody is expected."""
        self._timer: Timer | None = None

    # ---- clients

    def arrive(self, candidate: Candidate) -> None:
        """One more wants the topic."""
        self._chronicle.count(arrivals_total=1)
        self._arrivals += 1
        returning = candidate.topic_epoch is not None and (
            self._last_owner == (candidate.name, candidate.topic_epoch) or self._unsettled
        )
        contender = Contender(rank_of(candidate.priority, self._arrivals, returning=returning), candidate)
        candidate.candidacy = contender
        if not returning:
            self._wait_for_owner()
        self._do(self._election.arrive(contender))
        if contender.stage is Stage.WAITING:
            self._chronicle.queued(candidate, self.waiting_count)

    def left(self, contender: Candidacy, reason: str) -> None:
        """Its client closed it, or is gone."""
        if contender.stage is Stage.GONE:
            return
        self._chronicle.ended(contender, reason)
        self._do(self._election.left(contender))
        self.end(contender)

    def taken_by_broker(self, contender: Candidacy, reason: str) -> None:
        """The broker closed the owner, whose client lives and comes back."""
        if contender.stage is Stage.GONE:
            return
        self._chronicle.ended(contender, reason)
        if self._grace_s:
            self._expected_until = self._clock.now() + EXPECTED_S_MAX
            self._hold(Hold.NEWCOMERS, self._grace_s if self._election.waiting else EXPECTED_S_MAX)
        self._do(self._election.left(contender))
        self.end(contender)

    # ---- the broker's answers

    def granted(self, contender: Candidacy, success: pb.CommandProducerSuccess) -> bool:
        """It owns the topic; answer whether its client is to hear so."""
        self.end(contender)
        candidate = contender.producer
        candidate.name = success.producer_name
        if self._fenced_meanwhile(contender, success):
            self._chronicle.count(fencings_total=1)
            self.left(contender, "fenced as soon as it was promoted")
            candidate.tell_refused(pb.ProducerFenced, "another producer has fenced this one")
            return False
        vacant_s = self._chronicle.vacant_s
        self._do(self._election.granted(contender))
        if contender.stage is not Stage.OWNER:
            return False
        epoch = success.topic_epoch if success.HasField("topic_epoch") else None
        resumed = candidate.topic_epoch is not None and candidate.topic_epoch == epoch
        self._chronicle.promoted(candidate, epoch, vacant_s, self.waiting_count, resumed=resumed)
        self._last_owner = candidate.name, epoch
        self._tries = self._troubles = 0
        self._release()
        return True

    def queued(self, contender: Candidacy, success: pb.CommandProducerSuccess) -> None:
        """It waits at the broker, for somebody that is not connected here."""
        contender.producer.name = success.producer_name
        if not contender.told_queued:
            self._chronicle.queued(contender.producer, self.waiting_count)
        self._do(self._election.queued(contender))
        self.end(contender)

    def refused(self, contender: Candidacy, error: int, message: str) -> bool:
        """The broker refused it; answer whether its client is to hear so."""
        if contender.stage not in (Stage.ASKED, Stage.PARKED):
            return True
        self.end(contender)
        if error == pb.ProducerFenced and contender.producer.topic_epoch is not None and self._try_again(contender):
            return False
        self._tries = 0
        if error == pb.ProducerFenced:
            self._chronicle.count(fencings_total=1)
        if error in TROUBLES:
            self._troubles += 1
            pause_s = min(TROUBLE_S_MIN * 2 ** (self._troubles - 1), TROUBLE_S_MAX)
            self._hold(Hold.EVERYBODY, pause_s)
        elif contender.returning:
            self._release()
        if error in ENDINGS:
            self._refuse_all(error, message)
        self._chronicle.ended(contender, message)
        self._do(self._election.left(contender))
        return True

    def withdrawn(self, contender: Candidacy) -> None:
        """The broker has closed it, as it was told."""
        self.end(contender)
        self._do(self._election.withdrawn(contender))

    # ---- what must not meet at the broker

    def begin(self, token: object, begin: Callable[[], None], *, alone: bool) -> None:
        """Let a change of the topic's owner begin when it may, `alone` if it fences; see `Turnstile`."""
        self._turnstile.begin(token, begin, alone=alone)

    def end(self, token: object) -> None:
        """It was answered, or nobody waits for that."""
        self._turnstile.end(token)
        self._consider_end()

    # ---- those that do not wait

    def taken(self, holder: object, owner: TopicOwner) -> None:
        """Somebody connected here owns the topic without having waited; `holder` tells it from others."""
        former = self._election.owner
        self._other = holder, owner
        self._outrun = self._election.at_broker, owner.topic_epoch
        self._last_owner = None
        self._chronicle.taken(owner)
        self._note_vacancy()
        if former is not None:
            self._chronicle.count(fencings_total=1)
            self.left(former, f"fenced by {owner.producer_name}")
        self.end(holder)

    def given_up(self, holder: object, *, in_doubt: bool = False) -> None:
        """It does not own the topic any more, or never will.

        In doubt it may have fenced the owner, which no broker tells: the next is asked for, and waits at the broker if
        the owner is there still.
        """
        if in_doubt and self._election.owner is not None:
            self.left(self._election.owner, "fenced, perhaps, by a producer whose connection broke")
        if self._other is not None and self._other[0] is holder:
            self._chronicle.given_up(self._other[1])
            self._other = None
            self._note_vacancy()
        self.end(holder)

    # ---- reads

    @property
    def waiting_count(self) -> int:
        """How many wait, here or at the broker."""
        return len(self._election.waiting) + (self._election.at_broker is not None)

    @property
    def owned(self) -> bool:
        """Whether somebody connected here owns the topic."""
        return self._election.owner is not None or self._other is not None

    def summary(self) -> ElectionSummary:
        """Freeze its numbers."""
        owner = self._chronicle.owner or (self._other[1] if self._other is not None else None)
        return ElectionSummary(
            topic=self.topic,
            now=self._clock.now(),
            owner=owner,
            waiting_count=self.waiting_count,
            vacant_s=self._chronicle.vacant_s,
            held=self._election.held.value,
            counters=replace(self._chronicle.counters),
        )

    def page(self, first: int, limit: int) -> ElectionPage:
        """Freeze some of those that wait, beginning with the one that has so many before it."""
        at_broker = self._election.at_broker
        everybody = chain([at_broker] if at_broker is not None else [], self._election.waiting)
        waiting = tuple(
            WaitingProducer(
                position=position,
                producer_name=contender.producer.name,
                priority=contender.producer.priority,
                since=contender.producer.arrived_at,
                stage=contender.stage.value,
                returning=contender.returning,
                address=contender.producer.address,
                client_version=contender.producer.client_version,
            )
            for position, contender in enumerate(islice(everybody, first, first + limit), first)
        )
        more = first + limit < self.waiting_count
        return ElectionPage(self.summary(), waiting, first + limit if more else None)

    # ---- life

    def close(self) -> None:
        """The gateway stops: nobody is asked for any more, or their epochs would be spent for nothing."""
        self._closed = True
        self._stop_timer()

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
        self._note_vacancy()
        self._consider_end()

    def _act(self, act: Act, contender: Candidacy) -> None:
        if act is Act.ASK and contender.stage is Stage.ASKED:
            self.begin(contender, contender.producer.ask, alone=False)
        elif act is Act.WITHDRAW and contender.stage is Stage.WITHDRAWING:
            contender.producer.withdraw()
        elif act is Act.TELL_QUEUED and contender.stage is not Stage.GONE:
            contender.producer.tell_queued()

    def _fenced_meanwhile(self, contender: Candidacy, success: pb.CommandProducerSuccess) -> bool:
        """Whether the broker had promoted it before somebody fenced it whose answer was faster than its own."""
        outrun, epoch = self._outrun
        return (
            outrun is contender
            and epoch is not None
            and success.HasField("topic_epoch")
            and success.topic_epoch < epoch
        )

    def _refuse_all(self, error: int, message: str) -> None:
        """Ask for nobody more of those that wait, and tell them."""
        for contender in list(self._election.waiting):
            self.left(contender, message)
            contender.producer.tell_refused(error, message)

    def _try_again(self, contender: Candidacy) -> bool:
        if self._tries >= len(RETURN_TRIES_S):
            return False
        self._hold(Hold.EVERYBODY, RETURN_TRIES_S[self._tries])
        self._tries += 1
        self._do(self._election.put_back(contender))
        return True

    @property
    def _unsettled(self) -> bool:
        return self._last_owner is None and self._clock.now() < self._unsettled_until

    def _wait_for_owner(self) -> None:
        """A newcomer is there: from now on an owner that may come back has so long."""
        if self._expected_until is not None and self._election.held is Hold.NEWCOMERS:
            if not self._election.waiting:
                self._hold(Hold.NEWCOMERS, self._grace_s)
        elif self._unsettled and self._election.idle and self._election.held is Hold.NOBODY and self._other is None:
            self._hold(Hold.NEWCOMERS, self._unsettled_until - self._clock.now())

    def _hold(self, held: Hold, delay_s: float) -> None:
        self._stop_timer()
        self._timer = self._clock.call_later(delay_s, self._let_go)
        self._do(self._election.hold(held))

    def _let_go(self) -> None:
        """Whoever is the best is asked for, also if the owner has not come back.

        If nobody is there the owner is expected still: a broker that restarts takes those that wait with it, and the
        grace begins with the first to be back.
        """
        self._timer = None
        left_s = 0.0 if self._expected_until is None else self._expected_until - self._clock.now()
        if left_s > 0 and self._election.idle:
            self._hold(Hold.NEWCOMERS, left_s)
            return
        self._expected_until = None
        self._do(self._election.hold(Hold.NOBODY))

    def _release(self) -> None:
        self._stop_timer()
        self._expected_until = None
        self._let_go()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _consider_end(self) -> None:
        wanted = not self._election.idle or self._other is not None or not self._turnstile.idle
        if not wanted and self._timer is None and not self._doing:
            self._over(self)

    def _note_vacancy(self) -> None:
        election = self._election
        parked = election.at_broker is not None and election.at_broker.stage is Stage.PARKED
        owned = election.owner is not None or self._other is not None
        self._chronicle.vacant(bool(self.waiting_count) and not owned and not parked)
