"""Elections: at every step, while anybody waits, one of ours owns the topic or is asked for, and that was the best."""

from __future__ import annotations

from itertools import count

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from proxy.producers.election import YIELDS_MAX, Act, Acts, Contender, Election, Hold, Stage
from proxy.producers.standing import Place, Standing
from proxy.producers.waiting import rank_of
from tests.lives import lives

PRIORITIES = st.sampled_from([0, 0, 5, -5, 2**31 - 1, -(2**31)])


class Lives(RuleBasedStateMachine):
    """The broker and all clients are drawn; the model is a list of who is there."""

    def __init__(self) -> None:
        super().__init__()
        self.election: Election[int] = Election()
        self.numbers = count()
        self.alive: list[Contender[int]] = []
        self.asked: Contender[int] | None = None
        """Whom the broker has been asked for and has not been told to close."""
        self.closing: Contender[int] | None = None
        self.yields = 0
        """Turns given away since somebody was known to own the topic."""

    def waiting(self) -> list[Contender[int]]:
        """Those that are nowhere but here, as a sorted list."""
        return sorted((each for each in self.alive if each.stage is Stage.WAITING), key=lambda each: each.rank)

    def outranked(self, contender: Contender[int]) -> bool:
        """Whether the rival is better."""
        rival = self.election.elsewhere.best
        return rival is not None and rival < self.election.standing(contender)

    def do(self, acts: Acts[int]) -> None:
        """Carry out, and judge."""
        for act, contender in acts:
            if act is Act.ASK:
                assert self.asked is None, "two of ours at the broker"
                assert self.closing is None, "one more at the broker before the other has left"
                assert self.election.owner is None, "somebody of ours owns the topic"
                assert all(contender.rank < each.rank for each in self.waiting()), "not the best of those that wait"
                assert self.election.held is not Hold.ALL
                assert self.election.held is Hold.NONE or contender.returning
                self.asked = contender
            elif act in (Act.WITHDRAW, Act.YIELD):
                assert contender is self.asked
                assert contender.stage is Stage.WITHDRAWING
                if act is Act.YIELD:
                    self.yields += 1
                    assert self.outranked(contender), "no rival is better"
                    assert self.yields <= YIELDS_MAX
                else:
                    assert self.waiting()[0].rank < contender.rank, "nobody is better"
                self.asked, self.closing = None, contender
            else:
                assert contender.told_queued

    @rule(priority=PRIORITIES, returning=st.sampled_from([False, False, True]))
    def arrive(self, priority: int, *, returning: bool) -> None:
        """A new one, which hears at once unless the broker is asked about it."""
        number = next(self.numbers)
        contender = Contender(rank_of(priority, number, returning=returning), number, since=number)
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
        """The broker makes it the owner; it is, unless it waited there and a better one has come."""
        granted = self.asked
        assert granted is not None
        better = any(each.rank < granted.rank for each in self.waiting())
        better = better or (self.outranked(granted) and self.yields < YIELDS_MAX)
        better = better and granted.stage is Stage.PARKED
        self.do(self.election.granted(granted))
        if better:
            assert self.closing is granted
        else:
            assert self.election.owner is granted
            self.asked = None
            self.yields = 0

    @precondition(lambda self: self.closing is not None)
    @rule()
    def grant_too_late(self) -> None:
        """What the broker says of one that is on its way back changes nothing."""
        assert self.closing is not None
        self.do(self.election.granted(self.closing))
        self.do(self.election.queued(self.closing))
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
    def try_again(self) -> None:
        """The broker refuses it for now."""
        again, self.asked = self.asked, None
        assert again is not None
        self.do(self.election.put_back(again))
        assert again.told_queued or again.stage is Stage.ASKED

    @precondition(lambda self: self.alive)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        """Anybody, at any stage, by itself or because the broker refused it; once more changes nothing."""
        gone = data.draw(st.sampled_from(self.alive))
        self.alive.remove(gone)
        self.asked = None if self.asked is gone else self.asked
        self.closing = None if self.closing is gone else self.closing
        self.do(self.election.left(gone))
        assert self.election.left(gone) == []
        assert self.election.withdrawn(gone) == self.election.granted(gone) == self.election.queued(gone) == []

    @rule(held=st.sampled_from([Hold.NONE, *Hold]))
    def hold(self, held: Hold) -> None:
        """The broker has trouble, or has none any more."""
        self.do(self.election.hold(held))

    @rule(
        priority=st.none() | PRIORITIES,
        since=st.integers(0, 20),
        returning=st.sampled_from([False, False, True]),
        owned=st.booleans(),
    )
    def hear(self, priority: int | None, since: int, *, returning: bool, owned: bool) -> None:
        """Another replica has somebody better, or worse, or nobody; or the owner."""
        best = None if priority is None else Standing(not returning, -priority, float(since), "other")
        self.yields = 0 if owned else self.yields
        self.do(self.election.hear(Place(best, owned)))

    @precondition(lambda self: self.election.outranked)
    @rule()
    def lose_patience(self) -> None:
        """One of ours is asked for, rival or not."""
        self.do(self.election.lose_patience())
        assert self.asked is not None

    @invariant()
    def everybody_is_somewhere(self) -> None:
        """Once, and nobody else is; those that wait in the order of a sorted list."""
        election = self.election
        assert list(election.waiting) == self.waiting()
        placed = [*election.waiting, *(each for each in (election.at_broker, election.owner) if each is not None)]
        assert sorted(each.producer for each in placed) == sorted(each.producer for each in self.alive)
        assert election.idle == (not self.alive)

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """An owner, or somebody at the broker, never both; or a hold that will end."""
        election = self.election
        assert election.owner is None or election.at_broker is None
        if (first := election.waiting.first()) is not None and election.held is not Hold.ALL:
            due = election.held is Hold.NONE or first[1].returning
            gives_way = self.outranked(first[1]) and self.yields < YIELDS_MAX
            assert not due or gives_way or election.owner is not None or election.at_broker is not None
        assert not election.outranked or self.outranked(self.waiting()[0])
        waiting = [each for each in self.alive if each is not election.owner]
        assert election.best is min(waiting, key=lambda each: each.rank, default=None)


TestLives = Lives.TestCase
TestLives.settings = lives(200, 50)


def contenders(*priorities: int) -> list[Contender[str]]:
    """One for each priority, in the order of arrival."""
    return [Contender(rank_of(priority, number), "x") for number, priority in enumerate(priorities)]


def test_an_owner_is_never_replaced() -> None:
    """However much better the newcomer; when the owner leaves, the best is asked for."""
    election: Election[str] = Election()
    owner, low, high = contenders(-9, 1, 7)
    assert election.arrive(owner) == [(Act.ASK, owner)]
    assert election.granted(owner) == []
    assert election.arrive(low) == [(Act.TELL_QUEUED, low)]
    assert election.arrive(high) == [(Act.TELL_QUEUED, high)]
    assert election.left(owner) == [(Act.ASK, high)]
    assert election.left(high) == [(Act.ASK, low)], "whatever became of the first, the next is tried"


def test_a_better_one_gets_the_turn_of_one_that_waits_at_the_broker() -> None:
    """When it comes: until then nothing is closed there, for a broker would promote what is closed."""
    election: Election[str] = Election()
    first, equal, better = contenders(0, 0, 1)
    assert election.arrive(first) == [(Act.ASK, first)]
    assert election.queued(first) == [(Act.TELL_QUEUED, first)]
    assert election.arrive(equal) == [(Act.TELL_QUEUED, equal)]
    assert election.arrive(better) == [(Act.TELL_QUEUED, better)]
    assert election.granted(first) == [(Act.WITHDRAW, first)]
    assert election.withdrawn(first) == [(Act.ASK, better)]
    assert election.queued(better) == [], "it was told already"
    assert [contender is first for contender in election.waiting] == [True, False]


def test_a_better_one_that_comes_while_the_broker_decides_waits() -> None:
    """The other was asked for in its own turn."""
    election: Election[str] = Election()
    first, better = contenders(0, 1)
    election.arrive(first)
    election.arrive(better)
    assert election.granted(first) == []
    assert election.owner is first


def test_newcomers_wait_for_the_owner_that_returns() -> None:
    """It is asked for at once, and they when nobody is waited for any more."""
    election: Election[str] = Election()
    (newcomer,) = contenders(9)
    owner: Contender[str] = Contender(rank_of(0, 1, returning=True), "x")
    election.hold(Hold.NEWCOMERS)
    assert election.arrive(newcomer) == [(Act.TELL_QUEUED, newcomer)]
    assert election.arrive(owner) == [(Act.ASK, owner)]
    assert election.left(owner) == []
    assert election.hold(Hold.NONE) == [(Act.ASK, newcomer)]


def test_thousands_are_as_quick_as_few() -> None:
    """Nothing looks at all who wait: neither a newcomer nor a promotion nor a departure from the middle."""
    election: Election[str] = Election()
    waiting = contenders(*(number % 100 for number in range(10_000)))
    asked = [contender for each in waiting for act, contender in election.arrive(each) if act is Act.ASK]
    for gone in waiting[5_000:6_000]:
        election.left(gone)
    while asked:
        owner = asked.pop()
        election.granted(owner)
        asked += [contender for act, contender in election.left(owner) if act is Act.ASK]
    assert election.idle


def rival(priority: int, since: float = 0.0, *, returning: bool = False) -> Standing:
    """Somebody at another replica."""
    return Standing(not returning, -priority, since, "other")


def test_nobody_is_asked_for_while_a_better_one_waits_elsewhere() -> None:
    """It is told to wait, and asked for when the rival goes, or becomes less than it is."""
    for gone in (None, rival(0)):
        election: Election[str] = Election("us")
        (ours,) = contenders(1)
        election.hear(Place(rival(5), owned=False))
        assert election.arrive(ours) == [(Act.TELL_QUEUED, ours)]
        assert election.outranked
        assert election.hear(Place(rival(2), owned=True)) == []
        assert election.hear(Place(gone, owned=False)) == [(Act.ASK, ours)]
        assert not election.outranked


def test_one_that_waited_at_the_broker_gives_its_turn_to_a_better_one_elsewhere() -> None:
    """It is not asked for again while that one is there; one that the broker takes at once keeps the topic."""
    election: Election[str] = Election("us")
    parked, asked = contenders(1, 1)
    election.arrive(parked)
    election.queued(parked)
    assert election.hear(Place(rival(5), owned=False)) == [], "a broker would promote what is closed"
    assert election.granted(parked) == [(Act.YIELD, parked)]
    assert election.withdrawn(parked) == []
    assert election.left(parked) == []
    election.hear(Place(None, owned=False))
    assert election.arrive(asked) == [(Act.ASK, asked)]
    election.hear(Place(rival(5), owned=False))
    assert election.granted(asked) == []
    assert election.owner is asked


def test_turns_are_given_away_a_few_times_at_most() -> None:
    """Until somebody owns the topic: then it is as in the beginning. So two with wrong news of each other end."""
    election: Election[str] = Election("us")
    (ours,) = contenders(1)
    election.arrive(ours)
    for known in (False, True):
        if known:
            election.left(ours)
            (ours,) = contenders(1)
            election.hear(Place(None, owned=True))
            assert election.arrive(ours) == [(Act.ASK, ours)]
        for _ in range(YIELDS_MAX):
            election.queued(ours)
            election.hear(Place(rival(5), owned=False))
            assert election.granted(ours) == [(Act.YIELD, ours)]
            election.withdrawn(ours)
            election.hear(Place(None, owned=False))
        election.queued(ours)
        election.hear(Place(rival(5), owned=False))
        assert election.granted(ours) == []
        assert election.owner is ours


def test_who_has_given_its_turn_away_often_enough_waits_for_no_rival() -> None:
    """It is asked for at once, whoever is said to be better."""
    election: Election[str] = Election("us")
    (ours,) = contenders(1)
    election.arrive(ours)
    for turn in range(YIELDS_MAX):
        election.queued(ours)
        election.hear(Place(rival(5), owned=False))
        election.granted(ours)
        acts = election.withdrawn(ours)
        assert acts == ([(Act.ASK, ours)] if turn == YIELDS_MAX - 1 else [])
        election.hear(Place(None, owned=False))


def test_patience_ends_and_turns_are_given_away_all_the_same() -> None:
    """Who is asked for without patience waits behind the owner that nobody knows of, and is not before a better one."""
    election: Election[str] = Election("us")
    (ours,) = contenders(1)
    election.hear(Place(rival(5), owned=False))
    election.arrive(ours)
    assert election.lose_patience() == [(Act.ASK, ours)]
    election.queued(ours)
    assert election.granted(ours) == [(Act.YIELD, ours)]
    assert election.withdrawn(ours) == [], "it has patience again"
    assert election.lose_patience() == [(Act.ASK, ours)]
    assert election.granted(ours) == [], "nobody else is there"


def test_one_that_the_broker_may_have_forgotten_is_asked_for_anew() -> None:
    """Where it stood, without a word to its client; one that was not at the broker's line is not touched."""
    election: Election[str] = Election("us")
    (ours,) = contenders(1)
    assert election.recall() == []
    election.arrive(ours)
    assert election.recall() == []
    election.queued(ours)
    assert election.recall() == [(Act.WITHDRAW, ours)]
    assert election.recall() == []
    assert election.withdrawn(ours) == [(Act.ASK, ours)]


def test_of_equals_who_has_waited_longer_is_first_and_then_the_name_decides() -> None:
    """So two replicas that know each other's best never agree to wait."""
    election: Election[str] = Election("m")
    ours: Contender[str] = Contender(rank_of(1, 1), "x", since=10.0)
    election.arrive(ours)
    election.queued(ours)
    for better in (
        rival(1, 9.0),
        Standing(newcomer=True, negated_priority=-1, since=10.0, replica="a"),
        rival(2, 11.0),
    ):
        assert better < election.standing(ours)
    for worse in (rival(1, 11.0), Standing(newcomer=True, negated_priority=-1, since=10.0, replica="z"), rival(0, 1.0)):
        assert worse > election.standing(ours)
    assert rival(-5, 99.0, returning=True) < election.standing(ours)
