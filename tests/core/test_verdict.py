"""Who keeps messages from being worked on: told from steps of time, and the same to all who ask."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from proxy.core.blame import NO_BLAME, blame
from proxy.core.dispatcher import OrderingMode
from proxy.core.explain import SlotState
from proxy.core.key_verdict import SLOTS, explained
from proxy.core.statistics import dispatcher_statistics_steps
from proxy.core.steps import finished
from proxy.core.subscription_verdict import IDLE_S, subscription_verdict
from proxy.core.verdict import LONG_S, Surroundings, Verdict
from proxy.core.worker_health import (
    PAUSES,
    QUIET_S,
    REFUSED_S,
    UNKNOWN_S,
    Checkup,
    Urgency,
    WorkerHealth,
    WorkerState,
    checkup_steps,
)
from tests.core.test_dispatcher_rig import A, B, C, D, Rig

CALM = Surroundings(target="orders billing")


class Story(Rig):
    """Workers that acknowledge what they get for some time, each at its own pace."""

    number = 0

    def works(self, seconds: float, *slots: int, step_s: float = 1.0, idle: str = "") -> None:
        """A message of each slot arrives each step and is acknowledged at once, except by the worker that is `idle`."""
        for _ in range(int(seconds / step_s)):
            self.now += step_s
            for slot in slots:
                self.number += 1
                self.entries(slot, self.number)
            for name in self.workers:
                got = self.got(name)
                if got and name != idle:
                    self.ack(name, *got)
                    self.flow(name, len(got))

    def arrive(self, slot: int, count: int) -> None:
        """Messages of a slot."""
        for _ in range(count):
            self.number += 1
            self.entries(slot, self.number)

    def checkup(self) -> Checkup:
        """At this moment."""
        return finished(checkup_steps(self.dispatcher, self.now))

    def health(self, name: str) -> WorkerHealth:
        """A worker's."""
        return self.checkup().workers[self.workers[name]]

    def verdict(self, around: Surroundings = CALM) -> Verdict:
        """On the subscription; statistics, which the API, the console and the command line show, say the same."""
        verdict = subscription_verdict(self.dispatcher, self.checkup(), around, self.now)
        assert finished(dispatcher_statistics_steps(self.dispatcher, self.now, around)).verdict == verdict
        return verdict

    def on_key(self, slot: int, around: Surroundings = CALM) -> Verdict:
        """On a key."""
        verdict = explained(self.dispatcher, slot, self.now, around).verdict
        assert verdict is not None
        return verdict

    def blamed(self, around: Surroundings = CALM) -> list[tuple[str, bool]]:
        """Workers that metrics name, and whether they have stopped."""
        return [(each.name, each.stopped) for each in blame(self.dispatcher, around, self.now).workers]


def two(permits: int = 100) -> Story:
    """c1 has A, c2 has B and C; both have worked for two minutes."""
    story = Story(c1=[A], c2=[B, C], c3=[C])
    story.join("c1", permits)
    story.join("c2", permits)
    story.works(120, A, B)
    return story


def stopped(waiting: int = 0) -> Story:
    """c1 then hangs for a minute, with two messages at it; `waiting` more wait for it."""
    story = two(permits=2)
    story.works(60, A, B, idle="c1")
    story.arrive(A, waiting)
    return story


# ---- one worker


def test_all_is_well() -> None:
    """Workers that acknowledge are ready, and the subscription delivers."""
    story = two()
    assert {story.health(name).state for name in ("c1", "c2")} == {WorkerState.READY}
    story.arrive(A, 1)
    verdict = story.verdict()
    assert (verdict.state, verdict.urgency, verdict.worker) == ("delivering", Urgency.NONE, None)
    assert story.on_key(A).urgency is Urgency.NONE
    assert blame(story.dispatcher, CALM, story.now) == NO_BLAME


def test_fast_workers_that_hold_nothing_at_the_moment_are_not_idle() -> None:
    """Only for want of deliveries and acks for a while is there nothing to deliver; before the first one, too."""
    story = Story(c1=[A])
    story.join("c1", 100)
    assert (story.verdict().state, story.verdict().urgency, story.verdict().worker) == ("idle", Urgency.NONE, None)
    story.works(3 * IDLE_S, A, step_s=IDLE_S / 2)
    assert (story.workers["c1"].unacked, story.verdict().state) == (0, "delivering")
    story.now += IDLE_S - 0.1
    assert story.verdict().state == "delivering"
    story.now += 0.1
    assert story.verdict().state == "idle"
    story.arrive(A, 1)
    story.now += IDLE_S
    assert story.verdict().state == "delivering", "it holds a message"
    story.ack("c1", story.number)
    story.now += IDLE_S / 2
    assert story.verdict().state == "delivering", "it acknowledged what it got long ago"


def test_a_worker_that_stopped_acknowledging_is_named_with_what_it_holds() -> None:
    """Since when, the oldest message and its age, what waits for it, what is usual, and what helps."""
    story = stopped()
    verdict, health = story.verdict(), story.health("c1")
    assert (verdict.state, verdict.urgency, verdict.worker) == ("stopped_acknowledging", Urgency.ACT, "c1")
    assert (health.oldest_unacked, health.oldest_unacked_s, health.silent_s) == ("1:241", 59.0, 59.0)
    assert health.waiting_for_it == 58
    assert verdict.says.startswith(
        "c1 has acknowledged nothing for 59 s (it usually does 1.0/s); it holds 2 messages, the oldest 1:241 for 59 s; "
        "58 messages wait for it."
    )
    assert verdict.advice.startswith("Restart c1")
    assert verdict.command == "keyline exclude orders billing c1"
    assert story.on_key(A) == verdict
    assert story.blamed() == [("c1", True)]
    assert blame(story.dispatcher, CALM, story.now).stopped_workers == 1


def test_a_worker_that_resumes_is_well_again() -> None:
    """At its first ack."""
    story = stopped()
    story.ack("c1", 241)
    assert story.health("c1").state is not WorkerState.STOPPED_ACKNOWLEDGING


def test_a_worker_without_messages_never_stops() -> None:
    """However long it has had nothing to do."""
    story = two()
    story.now += 100_000
    assert {health.state for health in story.checkup().workers.values()} == {WorkerState.READY}
    story.arrive(A, 1)
    assert story.health("c1").silent_s == 0.0


def test_a_worker_that_pauses_as_it_always_does_has_not_stopped() -> None:
    """Its own pauses are what is usual: three times as long is longer than that."""
    story = Story(c1=[A])
    story.join("c1", 100)
    for _ in range(5):
        story.arrive(A, 1)
        story.now += 50
        story.ack("c1", *story.got("c1"))
    story.arrive(A, 1)
    story.now += PAUSES * 50 - 1
    assert story.health("c1").state is not WorkerState.STOPPED_ACKNOWLEDGING
    story.now += 2
    assert story.health("c1").state is WorkerState.STOPPED_ACKNOWLEDGING


def test_a_new_worker_is_measured_by_its_peers() -> None:
    """Where nobody has acknowledged anything yet, by a minute."""
    alone = Story(c1=[A])
    alone.join("c1", 100)
    alone.arrive(A, 1)
    alone.now += UNKNOWN_S - 1
    assert alone.health("c1").state is WorkerState.READY
    alone.now += 1
    assert alone.health("c1").state is WorkerState.STOPPED_ACKNOWLEDGING
    assert "and never did before" in alone.health("c1").says
    story = two(permits=3)
    story.join("c3", 100)
    story.arrive(B, 3)
    story.arrive(C, 1)
    story.now += QUIET_S - 1
    assert story.health("c3").state is WorkerState.READY
    story.now += 1
    assert story.health("c3").state is WorkerState.STOPPED_ACKNOWLEDGING


def test_a_slow_worker_is_told_apart_from_one_that_stopped() -> None:
    """It acknowledges less than half of what it used to, and messages wait for it."""
    story = two(permits=4)
    for _ in range(15):
        story.works(3, A, B, idle="c1")
        held = [unit.position for unit in story.workers["c1"].pending.values()]
        story.ack("c1", held[0] & 0xFFFF)
        story.flow("c1", 1)
    verdict, health = story.verdict(), story.health("c1")
    assert (verdict.state, verdict.urgency, verdict.worker) == ("slow", Urgency.WATCH, "c1")
    assert 0.2 < health.acked_rate < 0.45
    assert health.usual_acked_rate is not None
    assert health.usual_acked_rate > 0.9
    assert "is slow: it acknowledges 0.4/s (it usually does 1.0/s)" in verdict.says
    assert verdict.command == "keyline preview leave orders billing c1"
    assert story.on_key(A) == verdict
    assert story.blamed() == [("c1", False)]


def test_a_worker_that_gives_everything_back_is_told_though_it_is_busy() -> None:
    """It holds nothing for long, so it never seems to stop."""
    story = two()
    story.works(30, A, B)
    story.arrive(A, 3)
    for _ in range(int(QUIET_S)):
        assert story.health("c1").state is not WorkerState.REFUSING
        assert story.blamed() == []
        story.works(1, B, idle="c1")
        story.nack("c1")
    story.works(1, B, idle="c1")
    story.nack("c1")
    verdict = story.verdict()
    assert (verdict.state, verdict.urgency, verdict.worker) == ("refusing", Urgency.ACT, "c1")
    assert verdict.says.startswith(
        "c1 has refused what it got for 20 s, and acknowledged nothing (it usually does 1.0/s"
    )
    assert verdict.command == "keyline exclude orders billing c1"
    assert story.on_key(A).state == "refusing"
    assert story.blamed() == [("c1", True)]


def test_a_worker_that_refused_one_message_and_has_nothing_more_to_do_is_not_blamed() -> None:
    """The message went elsewhere: the dead letter topic, or another worker."""
    story = two()
    story.arrive(A, 1)
    story.got("c1")
    story.now += 1
    story.nack("c1")
    story.leave("c2")
    story.ack("c1", *story.got("c1"))
    story.now += UNKNOWN_S + 1
    assert story.health("c1").state is WorkerState.READY
    story.arrive(A, 1)
    story.nack("c1")
    story.works(1)
    story.now += REFUSED_S + UNKNOWN_S
    assert story.health("c1").state is not WorkerState.REFUSING


def test_a_worker_at_its_usual_pace_is_busy_and_not_slow() -> None:
    """Its key waits for more workers, not for its health."""
    story = two(permits=4)
    story.arrive(A, 400)
    story.works(40)
    assert story.health("c1").state is WorkerState.BUSY
    assert story.verdict().state == "falling_behind"
    told = story.on_key(A)
    assert (told.state, told.worker, told.urgency) == ("no_permits", "c1", Urgency.WATCH)
    assert told.command == "keyline preview join orders billing new-worker"


def test_one_message_that_is_left_is_told_of_a_worker_that_goes_on() -> None:
    """It acknowledges the others."""
    story = two()
    story.arrive(A, 1)
    story.got("c1")
    story.works(5 * UNKNOWN_S + 1, A, B)
    assert story.health("c1").state is WorkerState.OLD_MESSAGE
    assert (story.verdict().state, story.verdict().worker) == ("old_message", "c1")
    assert blame(story.dispatcher, CALM, story.now).workers == ()


def test_a_worker_that_reads_nothing_is_named_at_once() -> None:
    """Whatever it holds."""
    story = two()
    story.dispatcher.set_writable(story.workers["c1"], False, story.now)
    story.arrive(A, 1)
    assert (story.verdict().state, story.verdict().worker, story.verdict().urgency) == (
        "not_reading",
        "c1",
        Urgency.ACT,
    )
    assert story.on_key(A).state == "not_reading"
    assert story.blamed() == [("c1", True)]


def test_several_that_stopped_are_named_those_first_for_whom_most_waits() -> None:
    """The count is whole."""
    story = two(permits=2)
    story.arrive(A, 3)
    story.arrive(B, 5)
    story.now += UNKNOWN_S
    assert story.verdict().worker == "c2"
    assert story.verdict().says.endswith("The same holds for c1.")
    assert blame(story.dispatcher, CALM, story.now).stopped_workers == 2


# ---- what is not a worker's


def test_a_key_that_drains_waits_for_its_former_owner() -> None:
    """Who works as usual; if that has stopped, it is the cause."""
    story = two()
    story.arrive(C, 2)
    story.got("c2")
    story.join("c3", 10)
    story.arrive(C, 1)
    story.now += 5
    verdict = story.on_key(C)
    assert (verdict.state, verdict.worker, verdict.urgency) == ("draining", "c2", Urgency.NONE)
    assert verdict.says.startswith("Its hash slot moved to c3, and 2 messages of it are still at c2: these go first.")
    assert verdict.command == f"keyline pending orders billing c2 --slot {C}"
    assert story.verdict().state == "handing_over"
    story.now += UNKNOWN_S
    verdict = story.on_key(C)
    assert (verdict.state, verdict.worker) == ("stopped_acknowledging", "c2")
    assert verdict.command == "keyline exclude orders billing c2"
    assert story.verdict().worker == "c2"


FULL = replace(CALM, behind=True, look_ahead_messages=50)


def test_one_stuck_worker_that_has_filled_the_look_ahead_is_named_everywhere() -> None:
    """Other keys wait for it, too: nothing of theirs comes any more."""
    story = stopped(waiting=200)
    for verdict in (story.verdict(FULL), story.on_key(B, FULL)):
        assert (verdict.state, verdict.urgency, verdict.worker) == ("look_ahead_full", Urgency.ACT, "c1")
        assert verdict.says.startswith(
            "The look-ahead of 50 messages is full: 258 messages of 258 that wait are for c1"
        )
        assert "1 worker gets nothing" in verdict.says
        assert verdict.command == "keyline exclude orders billing c1"
    assert story.on_key(A, FULL).state == "stopped_acknowledging"
    assert blame(story.dispatcher, FULL, story.now).starved
    assert story.blamed(FULL) == [("c1", True)]


def test_one_that_gives_everything_back_and_fills_the_look_ahead_is_not_helped_by_a_larger_one() -> None:
    """What it waits for is in its own log."""
    story = two(permits=2)
    story.arrive(A, 200)
    for _ in range(int(QUIET_S) + 1):
        story.works(1, B, idle="c1")
        story.nack("c1")
    verdict = story.verdict(replace(FULL, more_look_ahead="look_ahead_messages_per_worker=1000"))
    assert (verdict.state, verdict.worker) == ("look_ahead_full", "c1")
    assert "c1 has refused what it got for 20 s, and acknowledged nothing" in verdict.says
    assert verdict.advice.startswith("Look at c1's log: what it tries fails.")
    assert verdict.command == "keyline exclude orders billing c1"


def test_a_look_ahead_that_is_full_starves_nobody_while_the_broker_has_nothing_more() -> None:
    """Or while all workers have something to do."""
    story = stopped(waiting=200)
    assert story.verdict(replace(FULL, behind=False)).state == "stopped_acknowledging"
    story.dispatcher.set_drained(story.workers["c2"], True, story.now)
    assert story.verdict(FULL).state == "stopped_acknowledging"
    assert not blame(story.dispatcher, FULL, story.now).starved


def test_a_slow_worker_that_fills_the_memory_is_named() -> None:
    """What helps is not to evict it."""
    story = two(permits=1)
    story.arrive(A, 200)
    story.now += 5
    full = replace(CALM, behind=True, memory_bytes=1, more_memory="subscription_memory_bytes=2")
    verdict = story.verdict(full)
    assert (verdict.state, verdict.worker) == ("memory_full", "c1")
    assert verdict.command is not None
    assert verdict.command.startswith("keyline limits orders billing --set ")


@pytest.mark.parametrize("mode", OrderingMode)
def test_a_pause_is_the_first_that_is_told(mode: OrderingMode) -> None:
    """Whatever else there is, and of keys of which nothing waits."""
    story = Story(mode, c1=[A], c2=[B])
    story.join("c1", 1)
    story.dispatcher.pause()
    story.arrive(A, 2)
    story.now += 1_000
    for verdict in (story.verdict(), story.on_key(A), story.on_key(B)):
        assert (verdict.state, verdict.worker) == ("paused", None)
        assert verdict.command == "keyline resume orders billing"


def test_a_backlog_alarms_the_longer_it_lasts() -> None:
    """It is to be watched, and then somebody has to do something."""
    story = two(permits=1)
    story.arrive(A, 1_000)
    seen = []
    for _ in range(int(LONG_S) + 5):
        seen.append((story.verdict().state, story.verdict().urgency))
        story.works(1)
    assert list(dict.fromkeys(seen)) == [
        ("delivering", Urgency.NONE),
        ("falling_behind", Urgency.WATCH),
        ("falling_behind", Urgency.ACT),
    ]


def test_slots_that_no_worker_covers_are_told() -> None:
    """Of the subscription and of the key."""
    story = two()
    story.arrive(D, 3)
    for verdict in (story.verdict(), story.on_key(D)):
        assert (verdict.state, verdict.urgency, verdict.worker) == ("no_owner", Urgency.ACT, None)


@pytest.mark.parametrize(
    ("around", "state"),
    [
        (replace(CALM, upstream="backing_off", upstream_error="no such topic"), "broker_not_ready"),
        (replace(CALM, upstream="backing_off", upstream_error="another is there", former=True), "former_consumer"),
        (replace(CALM, lease="no_lease"), "no_lease"),
        (replace(CALM, lease="standby"), "standby"),
    ],
)
def test_what_the_dispatcher_does_not_know_is_told(around: Surroundings, state: str) -> None:
    """The broker's reason too."""
    verdict = two().verdict(around)
    assert verdict.state == state
    assert around.upstream_error in verdict.says


def test_an_operators_drain_is_told_with_how_to_end_it() -> None:
    """It alarms as long as it lasts."""
    story = two()
    story.dispatcher.set_drained(story.workers["c1"], True, story.now)
    story.arrive(A, 1)
    for verdict in (story.verdict(), story.on_key(A)):
        assert (verdict.state, verdict.worker) == ("drained_by_operator", "c1")
        assert verdict.command == "keyline drain orders billing c1 --undo"


def test_names_are_quoted_for_a_shell() -> None:
    """Clients choose them."""
    claims: dict[str, Any] = {"it's; rm": [A]}
    story = Story(**claims)
    story.join("it's; rm", 1)
    story.arrive(A, 1)
    story.now += UNKNOWN_S
    assert story.verdict().command == """keyline pending orders billing 'it'"'"'s; rm'"""


def test_every_state_of_a_slot_has_its_verdict() -> None:
    """One without a row would be told by its name alone."""
    assert set(SlotState) == set(SLOTS)
