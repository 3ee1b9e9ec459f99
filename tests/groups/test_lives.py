"""Random lives of whole groups (`tests.groups.lives`): nothing is lost, and nobody delivers what is another's."""

from __future__ import annotations

import pytest

from tests.groups.lives import live
from tests.thorough import drawn

SEEDS = drawn(500)
ABSENCES = ("pause", "replay", "cut", "pause", "replay", "leave")
LEADERS_KILLED = ("pause", "pause", "cut", "kill leader", "pause", "leave", "publish", "cut", "kill", "replay")
STOPS = ("pause", "pause", "cut", "pause", "publish", "cut", "publish")


def test_whatever_happens_streams_have_one_deliverer_and_keep_their_order() -> None:
    """Crashes, pauses, cuts, loss, doubling and delay; afterwards all is even and everything was delivered."""
    outcomes = [live(seed) for seed in range(SEEDS)]
    assert sum(outcome.deliveries for outcome in outcomes) > 60 * SEEDS
    assert sum(outcome.epochs for outcome in outcomes) > 2 * SEEDS
    assert sum(outcome.duplicates for outcome in outcomes) > 0, "the faults did nothing"
    assert sum(outcome.replays for outcome in outcomes) > SEEDS / 10
    assert sum(outcome.successions for outcome in outcomes) > SEEDS / 10
    assert sum(outcome.removals for outcome in outcomes) > 0


def test_a_planned_change_delivers_nothing_twice() -> None:
    """Joins, leaves and replays, however many, also over a network that loses messages."""
    outcomes = [live(seed, planned=True) for seed in range(SEEDS)]
    assert sum(outcome.versions for outcome in outcomes) > 10 * SEEDS
    assert [seed for seed, outcome in enumerate(outcomes) if outcome.duplicates] == []
    assert sum(outcome.replays for outcome in outcomes) > SEEDS


def test_a_replay_is_whole_though_replicas_are_absent() -> None:
    """Whoever was frozen or cut off while the cursor was moved takes nothing that comes again for a repetition."""
    outcomes = [live(seed, deeds=ABSENCES) for seed in range(drawn(200))]
    assert sum(outcome.replays for outcome in outcomes) > len(outcomes)


def test_a_life_of_which_a_stream_came_back_without_a_lease() -> None:
    """Its consumer at the broker was lost meanwhile, and what the next one got was acknowledged as a repetition."""
    assert live(100_414, deeds=ABSENCES).replays


@pytest.mark.parametrize("seed", [588, 1_169, 1_649])
def test_a_life_of_which_a_replica_came_back_as_its_stream_was_between_two_others(seed: int) -> None:
    """It was leased the stream as what it had still, and had fetched messages that another delivered since."""
    assert live(seed, deeds=STOPS).deliveries


def test_a_life_in_which_a_late_question_reached_the_leader_after_the_next() -> None:
    """Its session had been leased streams since it asked, and delivers them."""
    assert live(7_001_539, deeds=LEADERS_KILLED).epochs > 1
