"""Elections: at every step, while anybody waits, one of ours owns the topic or is asked for, and that is the best."""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.producers.election import Act, Acts, Contender, Election, Stage
from proxy.producers.waiting import rank_of


class Lives(RuleBasedStateMachine):
    """The broker and all clients are drawn; the model is a list of who waits."""

    def __init__(self) -> None:
        super().__init__()
        self.election: Election[int] = Election()
        self.numbers = count()
        self.alive: list[Contender[int]] = []
        self.asked: Contender[int] | None = None
        """Whom the broker has been asked for and has not been told to close."""
        self.closing: Contender[int] | None = None

    def do(self, acts: Acts[int]) -> None:
        """Carry out, and judge."""
        for act, contender in acts:
            if act is Act.ASK:
                assert self.asked is None, "two of ours at the broker"
                assert self.closing is None, "one more at the broker before the other has left"
                assert self.election.owner is None, "somebody of ours owns the topic"
                waiting = [each for each in self.alive if each.stage is Stage.WAITING]
                assert all(contender.rank < each.rank for each in waiting), "not the best of those that wait"
                self.asked = contender
            elif act is Act.WITHDRAW:
                assert contender is self.asked
                assert contender.stage is Stage.WITHDRAWING
                self.asked, self.closing = None, contender
            else:
                assert contender.told_queued

    @rule(priority=st.sampled_from([0, 0, 5, -5, 2**31 - 1, -(2**31)]))
    def arrive(self, priority: int) -> None:
        """A new one, which hears at once unless the broker is asked about it."""
        number = next(self.numbers)
        contender = Contender(rank_of(priority, number), number)
        self.alive.append(contender)
        self.do(self.election.arrive(contender))
        assert contender.told_queued == (contender.stage is not Stage.ASKED)

    @precondition(lambda self: self.asked is not None and self.asked.stage is Stage.ASKED)
    @rule()
    def park(self) -> None:
        """Somebody that is not ours has the topic."""
        assert self.asked is not None
        parked = self.asked
        self.do(self.election.queued(parked))
        assert parked.told_queued

    @precondition(lambda self: self.asked is not None)
    @rule()
    def grant(self) -> None:
        """The broker makes it the owner, whether it had to wait or not."""
        granted, self.asked = self.asked, None
        assert granted is not None
        self.do(self.election.granted(granted))
        assert self.election.owner is granted

    @precondition(lambda self: self.closing is not None)
    @rule()
    def grant_too_late(self) -> None:
        """It was promoted while it was being closed."""
        assert self.closing is not None
        self.do(self.election.granted(self.closing))
        self.do(self.election.failed(self.closing))
        assert self.election.owner is None

    @precondition(lambda self: self.closing is not None)
    @rule()
    def withdraw(self) -> None:
        """The broker has closed it."""
        closed, self.closing = self.closing, None
        assert closed is not None
        self.do(self.election.withdrawn(closed))

    @precondition(lambda self: self.asked is not None)
    @rule()
    def fail(self) -> None:
        """The broker refuses it, sooner or later."""
        failed, self.asked = self.asked, None
        assert failed is not None
        self.alive.remove(failed)
        self.do(self.election.failed(failed))

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Anybody, at any stage; once more changes nothing."""
        gone = data.draw(st.sampled_from(self.alive))
        self.alive.remove(gone)
        self.asked = None if self.asked is gone else self.asked
        self.closing = None if self.closing is gone else self.closing
        self.do(self.election.left(gone))
        assert self.election.left(gone) == []
        assert self.election.withdrawn(gone) == self.election.granted(gone) == self.election.queued(gone) == []

    @invariant()
    def everybody_is_somewhere(self) -> None:
        """Once, and nobody else is."""
        election = self.election
        placed = [*election.waiting, *(each for each in (election.at_broker, election.owner) if each is not None)]
        assert sorted(each.producer for each in placed) == sorted(each.producer for each in self.alive)
        assert election.idle == (not self.alive)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """An owner, or somebody at the broker; and no worse one is left to wait there."""
        election = self.election
        first = election.waiting.first()
        if first is None:
            return
        assert (election.owner is None) != (election.at_broker is None)
        if election.at_broker is not None and election.at_broker.stage is Stage.PARKED:
            assert election.at_broker.rank < first[0]


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=200, stateful_step_count=50, deadline=None)


def test_an_owner_is_never_replaced() -> None:
    """However much better the newcomer; when the owner leaves, the best is asked for."""
    election: Election[str] = Election()
    owner, low, high = (Contender(rank_of(priority, number), "x") for number, priority in enumerate((-9, 1, 7)))
    assert election.arrive(owner) == [(Act.ASK, owner)]
    assert election.granted(owner) == []
    assert election.arrive(low) == [(Act.TELL_QUEUED, low)]
    assert election.arrive(high) == [(Act.TELL_QUEUED, high)]
    assert election.left(owner) == [(Act.ASK, high)]
    assert election.failed(high) == [(Act.ASK, low)], "whatever became of the first, the next is tried"


def test_a_better_one_takes_the_place_at_the_broker() -> None:
    """Behind a producer that is not ours: the worse one comes back first, and stands where it stood."""
    election: Election[str] = Election()
    first, equal, better = (Contender(rank_of(priority, number), "x") for number, priority in enumerate((0, 0, 1)))
    assert election.arrive(first) == [(Act.ASK, first)]
    assert election.queued(first) == [(Act.TELL_QUEUED, first)]
    assert election.arrive(equal) == [(Act.TELL_QUEUED, equal)]
    assert election.arrive(better) == [(Act.WITHDRAW, first), (Act.TELL_QUEUED, better)]
    assert election.withdrawn(first) == [(Act.ASK, better)]
    assert election.queued(better) == [], "it was told already"
    assert [contender is first for contender in election.waiting] == [True, False]
