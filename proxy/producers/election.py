"""Who of those that want to be a topic's only producer is asked for at the broker, and when.

The broker promotes in the order of arrival. So at most one of ours is ever there: the best of all that wait, and only
when none of ours owns the topic. The others wait here, and one that turns out to wait at the broker as well, behind a
producer that is not ours, is taken back when a better one comes. Nobody who owns the topic is ever replaced.

Rule kept: while anybody waits, one of ours owns the topic or is asked for at the broker. A failure of the one that was
asked for leads to the next, whatever it was.

Source: PIP-440, "Producer Failover"; `AbstractTopic` for what a broker does with those that wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Generic, TypeAlias, TypeVar

from proxy.producers.waiting import WaitingProducers

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

    rank: tuple[int, int]
    """From `rank_of`: smaller is better; no two of a topic share one."""
    producer: T
    stage: Stage = Stage.WAITING
    told_queued: bool = False


Acts: TypeAlias = list[tuple[Act, Contender[T]]]


class Election(Generic[T]):
    """One topic's contenders. Every method returns what is to be done because of it, in order."""

    __slots__ = ("at_broker", "owner", "waiting")

    def __init__(self) -> None:
        """Nobody wants the topic."""
        self.waiting: WaitingProducers[Contender[T]] = WaitingProducers()
        self.at_broker: Contender[T] | None = None
        """Asked for, parked or on its way back."""
        self.owner: Contender[T] | None = None
        """Of ours; None also while somebody owns the topic that is not."""

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
        """The broker made it the owner. One that is on its way back is closed there all the same."""
        if contender is self.at_broker and contender.stage is not Stage.WITHDRAWING:
            self.at_broker = None
            self.owner = contender
            contender.stage = Stage.OWNER
        return []

    def queued(self, contender: Contender[T]) -> Acts[T]:
        """The broker lets it wait: somebody that is not ours has the topic."""
        if contender is not self.at_broker or contender.stage is not Stage.ASKED:
            return []
        contender.stage = Stage.PARKED
        acts = [] if contender.told_queued else [self._tell_queued(contender)]
        return acts + self._settle()

    def withdrawn(self, contender: Contender[T]) -> Acts[T]:
        """The broker has closed it: it waits here again, where it stood."""
        if contender is not self.at_broker or contender.stage is not Stage.WITHDRAWING:
            return []
        self.at_broker = None
        contender.stage = Stage.WAITING
        self.waiting.add(contender.rank, contender)
        return self._settle()

    def failed(self, contender: Contender[T]) -> Acts[T]:
        """The broker refused it. What it says of one on its way back is only that it is closed."""
        return [] if contender.stage is Stage.WITHDRAWING else self.left(contender)

    def left(self, contender: Contender[T]) -> Acts[T]:
        """Its client closed it, or went; said again it changes nothing."""
        if contender.stage is Stage.WAITING:
            self.waiting.remove(contender.rank)
        elif contender is self.at_broker:
            self.at_broker = None
        elif contender is self.owner:
            self.owner = None
        contender.stage = Stage.GONE
        return self._settle()

    def _settle(self) -> Acts[T]:
        """Keep the rule."""
        first = self.waiting.first()
        if first is None or self.owner is not None:
            return []
        rank, best = first
        if self.at_broker is None:
            self.waiting.remove(rank)
            self.at_broker = best
            best.stage = Stage.ASKED
            return [(Act.ASK, best)]
        if self.at_broker.stage is Stage.PARKED and rank < self.at_broker.rank:
            self.at_broker.stage = Stage.WITHDRAWING
            return [(Act.WITHDRAW, self.at_broker)]
        return []

    @staticmethod
    def _tell_queued(contender: Contender[T]) -> tuple[Act, Contender[T]]:
        contender.told_queued = True
        return Act.TELL_QUEUED, contender
