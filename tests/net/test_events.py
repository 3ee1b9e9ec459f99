"""Events: what happened, in order, to those who listen; bounded where nobody does or somebody is slow."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.core.draining_hashes import Change
from proxy.limits import TOPIC_CHARACTERS_MAX
from proxy.net.events import KEPT_MAX, LISTED_MAX, QUEUED_MAX, TEXT_CHARACTERS_MAX, Event, Events
from proxy.shortened import CUT
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import TOPIC, single


class Ear:
    """A listener that keeps everything it took."""

    def __init__(self, events: Events, after: int | None = None) -> None:
        self.woken = 0
        self.listener = events.listen(self._wake, after)

    def _wake(self) -> None:
        self.woken += 1

    def taken(self) -> list[Event]:
        """Since the last look, nothing being lost."""
        missed, events = self.listener.take()
        assert missed == 0
        return events

    def kinds(self) -> list[str]:
        """The same, by kind."""
        return [event.kind for event in self.taken()]


def covered(moves: list[dict[str, Any]]) -> int:
    """How many slots moved."""
    return sum(move["end"] - move["start"] + 1 for move in moves)


def test_joins_and_leaves_tell_which_slots_moved() -> None:
    """From whom, to whom; the first worker gains all, the last leaves all to nobody."""
    rig = SubscriptionRig()
    ear = Ear(rig.subscriptions.events)
    first = rig.worker("a")
    began, ready, joined = ear.taken()
    assert (began.kind, ready.kind, joined.kind) == ("subscription_began", "upstream_ready", "worker_joined")
    assert (joined.topic, joined.subscription) == (TOPIC, "s")
    assert joined.facts["worker"] == "a"
    assert covered(joined.facts["moves"]) == 65_535
    assert {(move["source"], move["target"]) for move in joined.facts["moves"]} == {(None, "a")}
    second = rig.worker("b")
    (joined,) = ear.taken()
    assert {(move["source"], move["target"]) for move in joined.facts["moves"]} == {("a", "b")}
    worker = next(worker for worker in rig.subscription.state.dispatcher.workers.values() if worker.name == "b")
    assert covered(joined.facts["moves"]) == sum(
        span.slot_count for span in rig.subscription.state.dispatcher.selector.ranges(worker)
    )
    second.close()
    (left,) = ear.taken()
    assert left.kind == "worker_left"
    assert left.facts["moves"] == [move | {"source": "b", "target": "a"} for move in joined.facts["moves"]]
    first.close()
    assert ear.kinds() == ["worker_left", "subscription_ended"]


def test_drains_are_told_when_they_begin_and_when_they_end() -> None:
    """With who handed what to whom, and how many go on."""
    rig = SubscriptionRig()
    a = rig.worker("a", permits=9)
    keys = [f"key-{number}" for number in range(40)]
    rig.link.deliver(*((number, single(key)) for number, key in enumerate(keys[:9])))
    ear = Ear(rig.subscriptions.events)
    rig.worker("b", permits=9)
    draining = len(rig.subscription.state.dispatcher.draining)
    assert draining > 0
    joined, began = ear.taken()
    since = {rig.subscription.state.dispatcher.draining.since(slot) for slot in range(65_536)} - {None}
    assert (joined.kind, {joined.at}) == ("worker_joined", since), "a cause is not later than its effect"
    assert (began.kind, began.facts) == (
        "drains_began",
        {"began_count": draining, "draining_hashes_count": draining},
    )
    a.ack(*range(9))
    (ended,) = ear.taken()
    assert ended.kind == "drains_ended"
    assert (ended.facts["hand_overs_count"], ended.facts["draining_hashes_count"]) == (draining, 0)
    assert {(item["source"], item["target"]) for item in ended.facts["hand_overs"]} == {("a", "b")}
    assert {item.cause for item in rig.subscription.state.hand_overs} == {Change(joined.at, "b", joined=True)}


def test_upstream_and_orders_are_told() -> None:
    """What operators would look for first."""
    rig = SubscriptionRig()
    rig.worker("a")
    ear = Ear(rig.subscriptions.events)
    rig.link.lose("reset by peer")
    rig.clock.advance(1)
    assert ear.kinds()[:1] == ["upstream_lost"]
    rig.subscription.orders.pause()
    rig.subscription.orders.drain("a", drained=True, by="alice")
    assert [event.facts for event in ear.taken() if event.kind == "operator_order"] == [
        {"order": "pause"},
        {"order": "drain", "worker": "a", "by": "alice"},
    ]


def test_a_listener_that_comes_again_goes_on_where_it_was() -> None:
    """As far as events are kept; what is kept no more is counted."""
    events = Events(lambda: 0.0)
    for number in range(KEPT_MAX + 10):
        events.happened("x", ("t", "s"), nth=number)
    assert [event.number for event in Ear(events, after=KEPT_MAX + 7).taken()] == [
        KEPT_MAX + 8,
        KEPT_MAX + 9,
        KEPT_MAX + 10,
    ]
    missed, taken = Ear(events, after=4).listener.take()
    assert (missed, len(taken), taken[0].number) == (6, KEPT_MAX, 11)
    assert Ear(events).taken() == []
    assert len(Ear(events, after=0).taken()) == KEPT_MAX, "whoever comes first may ask for all"


@pytest.mark.parametrize("after", [999, 5_000])
def test_a_listener_of_an_earlier_life_is_told_that_it_missed_something(after: int) -> None:
    """And gets everything of this one, whichever way the numbers lie."""
    events = Events(lambda: 0.0)
    events.number_from(1_000)
    events.happened("x", ("t", "s"))
    events.happened("x", ("t", "s"))
    missed, taken = Ear(events, after=after).listener.take()
    assert (missed, [event.number for event in taken]) == (1, [1_001, 1_002])
    assert Ear(events, after=1_000).listener.take()[0] == 0


def test_a_slow_listener_loses_the_oldest_and_is_told_how_many() -> None:
    """Memory is bounded; it is woken once, not once an event."""
    events = Events(lambda: 0.0)
    ear = Ear(events)
    for number in range(QUEUED_MAX + 5):
        events.happened("x", ("t", "s"), nth=number)
    assert ear.woken == 1
    missed, taken = ear.listener.take()
    assert (missed, len(taken), taken[0].facts) == (5, QUEUED_MAX, {"nth": 5})
    events.happened("x", ("t", "s"))
    assert ear.woken == 2
    ear.listener.close()
    events.happened("x", ("t", "s"))
    assert len(ear.taken()) == 1


def test_what_one_event_lists_is_bounded() -> None:
    """Its counts are whole."""
    rig = SubscriptionRig(consistent_hashing_points=LISTED_MAX * 2)
    rig.worker("a")
    ear = Ear(rig.subscriptions.events)
    rig.worker("b")
    (joined,) = ear.taken()
    assert len(joined.facts["moves"]) == LISTED_MAX < joined.facts["moves_count"]


def test_the_end_wakes_every_listener() -> None:
    """So that streams end when the gateway stops."""
    events = Events(lambda: 0.0)
    ear = Ear(events)
    ended = [ear.listener.ended]
    events.close()
    ended.append(ear.listener.ended)
    assert ended == [False, True]
    assert ear.woken == 1


def test_texts_of_any_length_leave_no_more_than_a_bound() -> None:
    """Names that clients give are whole; of a longer text its beginning is kept, and that it was cut is seen."""
    events = Events(lambda: 0.0)
    ear = Ear(events)
    long, whole = "\N{GRINNING FACE}" * 100_000, "x" * TOPIC_CHARACTERS_MAX
    events.happened("k", (long, long), concerned=[long], worker=long, reason=long, moves=[{"source": long}])
    events.happened("k", (whole, whole), worker=whole)
    cut, kept = ear.taken()
    short = long[: TEXT_CHARACTERS_MAX - 1] + CUT
    assert (cut.topic, cut.subscription, cut.concerned) == (short, short, frozenset((short,)))
    assert cut.facts == {"worker": short, "reason": short, "moves": [{"source": short}]}
    assert (kept.topic, kept.subscription, kept.facts) == (whole, whole, {"worker": whole})
