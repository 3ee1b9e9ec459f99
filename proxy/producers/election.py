"""Decides which waiting producer of a topic is requested at the broker, and when.

The broker promotes in the order of arrival. So at most one producer of this replica is there: the best of the queue,
and only while no producer of this replica owns the topic. The others wait here. An owner is never replaced.

A requested producer may have to wait at the broker too, behind a producer of another gateway or client. It stays there
when a better one arrives: a broker forgets no waiting producer, and would promote one that has left, at the cost of an
epoch. When its turn comes, the turn goes to the better one.

Other replicas may have better producers (see `rivals`). Then none is requested here, and one that waits at the broker
gives its turn away. Announcements are never certain, so all of this is bounded: they expire unless repeated, patience
ends if no producer becomes the owner, and turns are given away in vain a few times at most.

Rule: while producers wait, one of this replica owns the topic or is requested at the broker, or the election is held
and will be released, or it gives way to a rival. Any failure of the requested producer leads to the next one.

Source: PIP-440, "Producer Failover"; `AbstractTopic` for a broker's queue.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final, Generic, TypeAlias, TypeVar

from proxy.producers.rivals import NO_RIVAL
from proxy.producers.standing import Place, Standing
from proxy.producers.waiting import Rank, WaitingProducers

T = TypeVar("T")

YIELDS_MAX: Final = 3
"""Turns at the broker given to rivals while the topic has no known owner. The next one is kept."""


class Stage(Enum):
    """The stage of a contender."""

    WAITING = "waiting"
    """Here."""
    ASKED = "asked"
    """At the broker, which has not answered."""
    PARKED = "parked"
    """At the broker, behind a producer that is not connected here."""
    WITHDRAWING = "withdrawing"
    """On its way back from the broker."""
    OWNER = "owner"
    """It owns the topic."""
    GONE = "gone"
    """It left or was refused."""


class Hold(Enum):
    """The producers that are held."""

    NONE = "none"
    NEWCOMERS = "newcomers"
    """The broker closed the topic's owner, which is expected to return."""
    ALL = "all"
    """The broker reports errors of the topic."""


class Act(Enum):
    """An action for a contender."""

    ASK = "ask"
    """Pass its request on to the broker."""
    WITHDRAW = "withdraw"
    """Close it at the broker, without informing its client; then call `withdrawn`."""
    YIELD = "yield"
    """The same, in favour of a producer at another replica."""
    TELL_QUEUED = "tell_queued"
    """Tell its client that it is not ready."""


@dataclass(slots=True, eq=False)
class Contender(Generic[T]):
    """A producer that wants exclusive access to a topic."""

    rank: Rank
    """From `rank_of`: smaller is better; no two of a topic share one."""
    producer: T
    since: float = 0.0
    """When it came; those of one topic come one after another."""
    stage: Stage = Stage.WAITING
    told_queued: bool = False

    @property
    def returning(self) -> bool:
        """Whether it is the topic's last owner here."""
        return not self.rank[0]


Acts: TypeAlias = list[tuple[Act, Contender[T]]]


class Election(Generic[T]):
    """One topic's contenders. Every method returns the resulting actions, in order."""

    __slots__ = ("_impatient", "_replica", "_yields_left", "at_broker", "elsewhere", "held", "owner", "waiting")

    def __init__(self, replica: str = "") -> None:
        """No contenders. `replica` is this replica's name among the others."""
        self._replica = replica
        self._yields_left = YIELDS_MAX
        self._impatient = False
        """A producer is requested although a rival is better."""
        self.elsewhere = NO_RIVAL
        """What other replicas say."""
        self.waiting: WaitingProducers[Contender[T]] = WaitingProducers()
        self.at_broker: Contender[T] | None = None
        """Asked for, parked or on its way back."""
        self.owner: Contender[T] | None = None
        """An owner connected here; None also while another producer owns the topic."""
        self.held = Hold.NONE

    @property
    def idle(self) -> bool:
        """Whether there are no contenders."""
        return not self.waiting and self.at_broker is None and self.owner is None

    @property
    def best(self) -> Contender[T] | None:
        """The first of all that wait, here or at the broker."""
        first = self.waiting.first()
        if first is None or (self.at_broker is not None and self.at_broker.rank < first[0]):
            return self.at_broker
        return first[1]

    @property
    def outranked(self) -> bool:
        """Whether a producer would be requested without a rival."""
        due = self._due
        return due is not None and self._gives_way(due) and not self._impatient

    def standing(self, contender: Contender[T]) -> Standing:
        """Where it stands among those of all replicas."""
        newcomer, negated_priority, _ = contender.rank
        return Standing(bool(newcomer), negated_priority, contender.since, self._replica)

    def arrive(self, contender: Contender[T]) -> Acts[T]:
        """One more. It is told to wait unless it is asked for at once: then the broker says what it is to be told."""
        self.waiting.add(contender.rank, contender)
        acts = self._settle()
        if contender.stage is Stage.WAITING:
            acts.append(self._tell_queued(contender))
        return acts

    def granted(self, contender: Contender[T]) -> Acts[T]:
        """The broker made it the owner, unless it waited there and a better one has come, here or elsewhere."""
        if contender is not self.at_broker or contender.stage is Stage.WITHDRAWING:
            return []
        if contender.stage is Stage.PARKED and self._gives_way(contender):
            contender.stage = Stage.WITHDRAWING
            self._yields_left -= 1
            self._impatient = False
            return [(Act.YIELD, contender)]
        first = self.waiting.first()
        if contender.stage is Stage.PARKED and first is not None and first[0] < contender.rank:
            contender.stage = Stage.WITHDRAWING
            return [(Act.WITHDRAW, contender)]
        self.at_broker = None
        self.owner = contender
        self._owner_known()
        contender.stage = Stage.OWNER
        return []

    def queued(self, contender: Contender[T]) -> Acts[T]:
        """The broker lets it wait: a producer that is not connected here owns the topic."""
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
        """Hold these producers until further notice; the caller releases the hold in time."""
        self.held = held
        return self._settle()

    def hear(self, elsewhere: Place) -> Acts[T]:
        """Update the announcements of other replicas."""
        self.elsewhere = elsewhere
        if elsewhere.owned:
            self._owner_known()
        if elsewhere.best is None:
            self._impatient = False
        return self._settle()

    def recall(self) -> Acts[T]:
        """The broker has closed the topic, and may have forgotten its queue: withdraw, and request again."""
        if self.at_broker is None or self.at_broker.stage is not Stage.PARKED:
            return []
        self.at_broker.stage = Stage.WITHDRAWING
        return [(Act.WITHDRAW, self.at_broker)]

    def lose_patience(self) -> Acts[T]:
        """Patience is over, and the topic has no known owner: request a producer all the same."""
        self._impatient = True
        return self._settle()

    @property
    def _due(self) -> Contender[T] | None:
        """The next producer here, regardless of rivals."""
        first = self.waiting.first()
        if first is None or self.owner is not None or self.at_broker is not None or self.held is Hold.ALL:
            return None
        return None if self.held is Hold.NEWCOMERS and not first[1].returning else first[1]

    def _gives_way(self, contender: Contender[T]) -> bool:
        rival = self.elsewhere.best
        return rival is not None and self._yields_left > 0 and rival < self.standing(contender)

    def _owner_known(self) -> None:
        self._yields_left = YIELDS_MAX
        self._impatient = False

    def _settle(self) -> Acts[T]:
        """Keep the rule."""
        due = self._due
        if due is None or (self._gives_way(due) and not self._impatient):
            return []
        self.waiting.remove(due.rank)
        self.at_broker = due
        due.stage = Stage.ASKED
        return [(Act.ASK, due)]

    @staticmethod
    def _tell_queued(contender: Contender[T]) -> tuple[Act, Contender[T]]:
        contender.told_queued = True
        return Act.TELL_QUEUED, contender
