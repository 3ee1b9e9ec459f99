"""What is said of those that wait, and what is known of others: said again, forgotten in time, and never too much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.limits import TOPIC_CHARACTERS_MAX
from proxy.producers import announcer as announcers
from proxy.producers import rivals as known
from proxy.producers.announcement import Announcement, BestWaiting, TopicNews, encode
from proxy.producers.announcer import DAMPING_S, NAMES_BYTES_MAX, REPEAT_S, ROUNDING_S, TOPICS_MAX, Announcer
from proxy.producers.rivals import EXPIRY_S, NO_RIVAL, Rivals
from proxy.producers.standing import Place, Standing

NOW = 1_000.0
NEWS_BYTES_MAX = 300
"""Of a topic in an announcement, without its name."""


def place(priority: int, since: float = NOW, *, owned: bool = False) -> Place:
    """One waits at us."""
    return Place(Standing(newcomer=True, negated_priority=-priority, since=since, replica="us"), owned)


def said(
    replica: str, number: int, priority: int | None, waited_s: float = 0.0, *, owned: bool = False
) -> Announcement:
    """One topic of a replica."""
    best = None if priority is None else BestWaiting(priority, returning=False, waited_s=waited_s)
    return Announcement(replica, number, (TopicNews("t", owned, best),))


# ---- what we say


def test_a_change_is_said_soon_and_again_and_again() -> None:
    """With how long it has waited by then; that it is over is said once."""
    ours = Announcer("us")
    assert ours.due_in(NOW) is None
    assert ours.tell("t", place(5))
    assert not ours.tell("t", place(5)), "no news"
    assert ours.due_in(NOW) == DAMPING_S
    for number in (1, 2):
        now = NOW + (number - 1) * REPEAT_S
        news = TopicNews(
            "t", owned=False, best=BestWaiting(5, returning=False, waited_s=max(now - NOW - ROUNDING_S, 0.0))
        )
        assert ours.next(now) == Announcement("us", number, (news,))
        assert ours.next(now) is None
        assert ours.due_in(now) == REPEAT_S
    ours.tell("u", place(1))
    ours.tell("u", None)
    ours.tell("t", None)
    assert ours.next(NOW + 2) == Announcement("us", 3, (TopicNews("t", owned=False, best=None),))
    assert ours.due_in(NOW + 2) is None


def test_many_topics_are_said_in_turns() -> None:
    """Each within the time that it is remembered, changes first, as many at once as an announcement holds."""
    ours = Announcer("us")
    for number in range(2 * TOPICS_MAX + 1):
        ours.tell(str(number), place(1))
    sizes = []
    while (announcement := ours.next(NOW)) is not None:
        sizes.append(len(announcement.topics))
    assert sizes == [TOPICS_MAX, TOPICS_MAX, 1]
    ours.tell("7", place(2))
    again = ours.next(NOW + REPEAT_S)
    assert again is not None
    assert [news.topic for news in again.topics][:3] == ["7", "0", "1"]
    ours.tell_nothing()
    gone = ours.next(NOW)
    assert gone is not None
    assert all(news.best is None for news in gone.topics)


def test_long_names_fill_an_announcement_sooner() -> None:
    """Brokers take messages of a few megabytes: what counts is how long a name is as it is written there."""
    for character in ("x", "\x01", "\N{GRINNING FACE}"):
        ours = Announcer("us")
        for number in range(2 * TOPICS_MAX):
            ours.tell(f"{number:03}" + character * (TOPIC_CHARACTERS_MAX - 3), place(1))
        said = 0
        while (announcement := ours.next(NOW)) is not None:
            said += len(announcement.topics)
            assert len(encode(announcement)) < NAMES_BYTES_MAX + TOPICS_MAX * NEWS_BYTES_MAX
        assert said == 2 * TOPICS_MAX


def test_a_name_that_fits_nowhere_is_never_said() -> None:
    """It would cost the connection, with all that is said of other topics; clients may not give it anyway."""
    ours = Announcer("us")
    name = "\x01" * (TOPIC_CHARACTERS_MAX + 1)
    assert not ours.tell(name, place(1))
    ours.tell_closed(name)
    ours.tell_fenced(name, 3, NOW)
    assert not ours.hear_owned(name, 2, NOW)
    assert not ours.tell(name, None)
    ours.tell_nothing()
    assert ours.next(NOW) is None
    assert ours.due_in(NOW) is None


def test_bounds_fit_together() -> None:
    """Two repetitions may be lost before somebody is forgotten."""
    assert 2 * announcers.REPEAT_S + 3 * announcers.DAMPING_S <= EXPIRY_S


def test_that_the_broker_closed_a_topic_is_said_once_and_counted() -> None:
    """Also where nobody waits any more; an announcement of the topic has the count."""
    ours = Announcer("us")
    ours.tell("t", place(1))
    ours.tell("t", None)
    ours.tell_closed("t")
    assert ours.next(NOW) == Announcement("us", 1, (TopicNews("t", owned=False, best=None, closures=1),))
    assert ours.due_in(NOW) is None
    ours.tell("t", place(1))
    ours.tell_closed("t")
    again = ours.next(NOW)
    assert again is not None
    assert again.topics[0].closures == 2


# ---- what we know


def test_the_best_of_all_others_is_known_and_whether_one_of_them_owns_the_topic() -> None:
    """Counted back from when it was heard; what we say ourselves is not heard."""
    rivals = Rivals("us")
    assert rivals.place("t") == NO_RIVAL
    assert rivals.hear(said("us", 1, 9), NOW) == []
    assert rivals.hear(said("a", 1, 5, 2.0), NOW) == ["t"]
    assert rivals.hear(said("b", 1, 5, 3.0, owned=True), NOW) == ["t"]
    assert rivals.hear(said("c", 1, None), NOW) == ["t"]
    assert rivals.place("t") == Place(Standing(True, -5, NOW - 3.0, "b"), owned=True)
    rivals.hear(said("b", 2, None), NOW)
    assert rivals.place("t") == Place(Standing(True, -5, NOW - 2.0, "a"), owned=False)


def test_what_is_not_said_again_is_forgotten() -> None:
    """What is, is not."""
    rivals = Rivals("us")
    rivals.hear(said("a", 1, 5), NOW)
    rivals.hear(said("b", 1, 4), NOW)
    rivals.hear(said("b", 2, 4), NOW + 1)
    assert rivals.expire(NOW + EXPIRY_S - 0.01) == []
    assert rivals.expire(NOW + EXPIRY_S) == ["t"]
    assert rivals.place("t").best is not None
    assert rivals.expire(NOW + EXPIRY_S + 1) == ["t"]
    assert (rivals.place("t"), len(rivals)) == (NO_RIVAL, 0)


def test_what_was_overtaken_or_came_twice_is_not_heard() -> None:
    """Also after its replica has said that nobody waits there any more."""
    rivals = Rivals("us")
    rivals.hear(said("a", 2, None), NOW)
    assert rivals.hear(said("a", 1, 5), NOW) == rivals.hear(said("a", 2, 5), NOW) == []
    assert rivals.place("t") == NO_RIVAL


def test_a_topic_that_the_broker_closed_is_told_once() -> None:
    """By a replica that was known before: of another nobody knows when that was."""
    rivals = Rivals("us")
    for number, closures in enumerate((3, 3, 4, 4)):
        rivals.hear(Announcement("a", number, (TopicNews("t", owned=False, best=None, closures=closures),)), NOW)
        assert rivals.take_closed() == (["t"] if number == 2 else [])


def test_that_a_topic_was_taken_is_said_once_and_to_who_does_not_know() -> None:
    """With whatever else is said of the topic, and for some time: the topic may be another one by then."""
    ours = Announcer("us")
    ours.tell_fenced("t", 4, NOW)
    assert ours.next(NOW) == Announcement("us", 1, (TopicNews("t", owned=False, best=None, fenced=4),))
    assert not ours.hear_owned("t", 4, NOW)
    assert not ours.hear_owned("another", 0, NOW)
    assert ours.due_in(NOW) is None
    assert ours.hear_owned("t", 3, NOW + 1)
    ours.tell("t", Place(None, owned=True, epoch=5))
    news = TopicNews("t", owned=True, best=None, epoch=5, fenced=4, fenced_s=2.0)
    assert ours.next(NOW + 2) == Announcement("us", 2, (news,))
    ours.tell("t", None)
    news = TopicNews("t", owned=False, best=None, fenced=4, fenced_s=2.0)
    assert ours.next(NOW + 2) == Announcement("us", 3, (news,))
    assert not ours.hear_owned("t", 3, NOW + announcers.FENCE_REMEMBERED_S + 1)
    assert ours.due_in(NOW) is None


def test_only_so_many_that_were_taken_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were so last."""
    monkeypatch.setattr(announcers, "ANNOUNCED_MAX", 2)
    ours = Announcer("us")
    for topic in ("a", "b", "a", "c"):
        ours.tell_fenced(topic, 4, NOW)
    announced = ours.next(NOW)
    assert announced is not None
    assert {news.topic for news in announced.topics} == {"a", "c"}
    assert [topic for topic in "abc" if ours.hear_owned(topic, 3, NOW)] == ["a", "c"]


def test_what_owners_and_fencers_there_are_is_told_each_time() -> None:
    """What is known already is not for this to know."""
    rivals = Rivals("us")
    for number in (1, 2):
        news = TopicNews("t", owned=True, best=None, epoch=5, fenced=4, fenced_s=1.5)
        rivals.hear(Announcement("a", number, (news, TopicNews("u", owned=True, best=None))), NOW)
        assert (rivals.take_fenced(), rivals.take_owned()) == ([("t", 4, NOW - 1.5)], [("t", 5)])
        assert (rivals.take_fenced(), rivals.take_owned()) == ([], [])


def test_only_so_much_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """What finds no room is counted; what is known is heard of still."""
    monkeypatch.setattr(known, "RIVALS_MAX", 2)
    rivals = Rivals("us")
    for replica in ("a", "b", "c"):
        rivals.hear(said(replica, 1, 5), NOW)
    assert (len(rivals), rivals.beyond_total) == (2, 1)
    assert rivals.hear(said("a", 2, 6), NOW) == ["t"]


waits = st.floats(0, 100)
delays = st.floats(0, 10)


@given(
    priorities=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    since=st.tuples(waits, waits),
    late=st.tuples(delays, delays),
)
def test_two_that_know_each_other_never_wait_for_each_other(
    priorities: tuple[int, int], since: tuple[float, float], late: tuple[float, float]
) -> None:
    """However long each message took: what is heard seems younger than it is, never older."""
    names = ("a", "b")
    ours = [Standing(True, -priorities[side], since[side], names[side]) for side in (0, 1)]
    gives_way = []
    for side in (0, 1):
        other = 1 - side
        rivals = Rivals(names[side])
        announcer = Announcer(names[other])
        announcer.tell("t", Place(ours[other], owned=False))
        announcement = announcer.next(200.0)
        assert announcement is not None
        rivals.hear(announcement, 200.0 + late[other])
        best = rivals.place("t").best
        assert best is not None
        gives_way.append(best < ours[side])
    assert gives_way != [True, True]
