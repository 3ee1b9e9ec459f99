"""Who of those that want to be a topic's only producer is asked for at the broker, and when.

The broker promotes in the order of arrival. So at most one of ours is ever there: the best of all that wait, and only
when none of ours owns the topic. The others wait here. Nobody who owns the topic is ever replaced.

One that was asked for may have to wait at the broker as well, behind a producer that is not ours. It stays there when
a better one comes: a broker forgets nobody who waits, and would promote who has left, with an epoch spent for nothing.
Its turn is what goes to the better one, when it comes.

Rule kept: while anybody waits, one of ours owns the topic or is asked for at the broker, or the election is held and
will be let go. A failure of the one that was asked for leads to the next, whatever it was.

Source: PIP-440, "Producer Failover"; `AbstractTopic` for what a broker does with those that wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from proxy.producers.waiting import Rank, WaitingProducers

T = TypeVar("T")


class Stage(Enum):
    """Where a contender stands."""

    WAITING = "waiting"
    """Here."""
    ASKED = "asked"
    """At the broker, which has not answered."""
    PARKED = "parked"
    """At the broker, which lets it wait for somebody that is not ours."""
    WITHDRAWING = "withdrawing"
    """On its way back from the broker."""
    OWNER = "owner"
    """It is the topic's only producer."""
    GONE = "gone"
    """It left or was refused."""


class Hold(Enum):
    """Who is not to be asked for at present."""

    NOBODY = "nobody"
    NEWCOMERS = "newcomers"
    """The broker took the topic from its owner, which is expected back."""
    EVERYBODY = "everybody"
    """The broker has trouble with the topic."""


class Act(Enum):
    """What is to be done with a contender now."""

    ASK = "ask"
    """Pass its request on to the broker."""
    WITHDRAW = "withdraw"
    """Close it at the broker, without a word to its client; then say `withdrawn`."""
    TELL_QUEUED = "tell_queued"
    """Tell its client that it is not ready."""


@dataclass(slots=True, eq=False)
class Contender(Generic[T]):
    """A producer that wants a topic for itself alone."""

    rank: Rank
    """From `rank_of`: smaller is better; no two of a topic share one."""
    producer: T
    stage: Stage = Stage.WAITING
    told_queued: bool = False

    @property
    def returning(self) -> bool:
        """Whether it owned the topic before, and nobody of ours has since."""
        return not self.rank[0]


Acts: TypeAlias = list[tuple[Act, Contender[T]]]


class Election(Generic[T]):
    """One topic's contenders. Every method returns what is to be done because of it, in order."""

    __slots__ = ("at_broker", "held", "owner", "waiting")

    def __init__(self) -> None:
        """Nobody wants the topic."""
        self.waiting: WaitingProducers[Contender[T]] = WaitingProducers()
        self.at_broker: Contender[T] | None = None
        """Asked for, parked or on its way back."""
        self.owner: Contender[T] | None = None
        """Of ours; None also while somebody owns the topic that is not."""
        self.held = Hold.NOBODY

    @property
    def idle(self) -> bool:
        """Whether nobody wants the topic."""
        return not self.waiting and self.at_broker is None and self.owner is None

    def arrive(self, contender: Contender[T]) -> Acts[T]:
        """One more. It is told to wait unless it is asked for at once: then the broker says what it is to be told."""
        self.waiting.add(contender.rank, contender)
        acts = self._settle()
        if contender.stage is Stage.WAITING:
            acts.append(self._tell_queued(contender))
        return acts

    def granted(self, contender: Contender[T]) -> Acts[T]:
        """The broker made it the owner, unless it waited there so long that a better one has come."""
        if contender is not self.at_broker or contender.stage is Stage.WITHDRAWING:
            return []
        first = self.waiting.first()
        if contender.stage is Stage.PARKED and first is not None and first[0] < contender.rank:
            contender.stage = Stage.WITHDRAWING
            return [(Act.WITHDRAW, contender)]
        self.at_broker = None
        self.owner = contender
        contender.stage = Stage.OWNER
        return []

    def queued(self, contender: Contender[T]) -> Acts[T]:
        """The broker lets it wait: somebody that is not ours has the topic."""
        if contender is not self.at_broker or contender.stage is not Stage.ASKED:
            return []
        contender.stage = Stage.PARKED
        return [] if contender.told_queued else [self._tell_queued(contender)]

    def withdrawn(self, contender: Contender[T]) -> Acts[T]:
        """The broker has closed it: it waits here again, where it stood."""
        if contender is not self.at_broker or contender.stage is not Stage.WITHDRAWING:
            return []
        return self.put_back(contender)

    def put_back(self, contender: Contender[T]) -> Acts[T]:
        """The broker does not have it any more, and it is to be tried again."""
        assert contender is self.at_broker
        self.at_broker = None
        contender.stage = Stage.WAITING
        self.waiting.add(contender.rank, contender)
        acts = self._settle()
        if not contender.told_queued and contender.stage is Stage.WAITING:
            acts.append(self._tell_queued(contender))
        return acts

    def left(self, contender: Contender[T]) -> Acts[T]:
        """Its client closed it or went, or the broker refused it; said again it changes nothing."""
        if contender.stage is Stage.WAITING:
            self.waiting.remove(contender.rank)
        elif contender is self.at_broker:
            self.at_broker = None
        elif contender is self.owner:
            self.owner = None
        contender.stage = Stage.GONE
        return self._settle()

    def hold(self, held: Hold) -> Acts[T]:
        """Ask for nobody that this concerns until told otherwise; whoever holds lets go in time."""
        self.held = held
        return self._settle()

    def _settle(self) -> Acts[T]:
        """Keep the rule."""
        first = self.waiting.first()
        if first is None or self.owner is not None or self.at_broker is not None or self.held is Hold.EVERYBODY:
            return []
        rank, best = first
        if self.held is Hold.NEWCOMERS and not best.returning:
            return []
        self.waiting.remove(rank)
        self.at_broker = best
        best.stage = Stage.ASKED
        return [(Act.ASK, best)]

    @staticmethod
    def _tell_queued(contender: Contender[T]) -> tuple[Act, Contender[T]]:
        contender.told_queued = True
        return Act.TELL_QUEUED, contender
