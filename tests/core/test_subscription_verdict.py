"""What is told of a subscription where several things are true, or where the nearest answer would be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from proxy.core import acknowledgement, transactional_acks
from proxy.core.dispatcher import OrderingMode
from proxy.core.key_policy import KeyPolicy
from proxy.core.steps import finished
from proxy.core.stuck import stuck_steps
from proxy.core.upstream_window import UpstreamWindow
from proxy.core.verdict import LONG_S, Verdict
from proxy.core.worker_health import QUIET_S, UNKNOWN_S, Urgency, WorkerState
from tests.core.test_dispatcher_rig import A, B, C, D
from tests.core.test_verdict import CALM, FULL, Story, stopped, two

if TYPE_CHECKING:
    from proxy.core.entry import Part


def told(verdict: Verdict) -> tuple[str, Urgency, str | None]:
    """In short."""
    return verdict.state, verdict.urgency, verdict.worker


def stuck_worker(story: Story, slot: int) -> str | None:
    """Whom the list of what waits names for a slot."""

    def no_key(_part: Part) -> str | None:
        return None

    found = finished(stuck_steps(story.dispatcher, 100, no_key, story.now))
    return next(each.worker for each in found.slots if each.slot == slot)


# ---- the strongest is told


def test_an_old_backlog_is_told_before_a_worker_that_an_operator_drains() -> None:
    """Nothing waits for the drained one."""
    story = Story(c1=[A], c2=[B])
    story.join("c1", 10)
    story.join("c2", 1)
    story.works(60, A, B)
    story.dispatcher.set_drained(story.workers["c1"], True, story.now)
    story.arrive(B, 1_000)
    story.works(LONG_S)
    assert told(story.verdict()) == ("falling_behind", Urgency.ACT, None)


def test_a_worker_that_hangs_is_told_before_one_message_that_the_dead_letter_topic_refuses() -> None:
    """Both have to be mended; for the worker all its keys wait."""
    story = two(permits=2)
    story.dispatcher.set_policy(KeyPolicy(dead_letter_after=1))
    story.arrive(B, 1)
    story.got("c2")
    acknowledgement.redeliver(story.dispatcher, story.workers["c2"], None, story.now)
    assert story.dispatcher.diversions.held, "it is on its way to the dead letter topic"
    story.dispatcher.diversions.trouble = "too large"
    assert story.verdict().state == "dead_letter"
    story.works(UNKNOWN_S, A, idle="c1")
    story.arrive(A, 10)
    assert told(story.verdict()) == ("stopped_acknowledging", Urgency.ACT, "c1")


def test_a_worker_that_hangs_is_not_hidden_by_its_drain() -> None:
    """To let it have messages again would help nobody."""
    story = stopped(waiting=3)
    story.dispatcher.set_drained(story.workers["c1"], True, story.now)
    verdict = story.verdict()
    assert told(verdict) == ("stopped_acknowledging", Urgency.ACT, "c1")
    assert "an operator drains it" in verdict.says


# ---- memory


def test_memory_is_full_where_not_one_message_more_fits() -> None:
    """The window stops short of the limit by less than a message."""
    window = UpstreamWindow(budget_bytes=100_000, look_ahead_per_worker=1_000, look_ahead_total=1_000)
    assert not window.is_full(0, 0), "nothing is known of messages yet"
    window.outstanding = 1
    window.received(1, 19_600)
    assert not window.is_full(0, 79_000)
    assert window.is_full(0, 81_000)
    assert window.grant(workers=2, free_permits=lambda: 1_000, waiting_messages=0, bytes_held=81_000) == 0
    assert not window.is_full(0, 0), "a message larger than all is read where nothing is held"


def test_the_memory_of_all_subscriptions_is_told_where_a_worker_starves_for_it() -> None:
    """Of the subscription and of a key of which nothing is here; not where workers have what they asked for."""
    full = replace(CALM, behind=True, gateway_bytes=512 << 20)
    story = two()
    for verdict in (story.verdict(full), story.on_key(A, full)):
        assert told(verdict) == ("gateway_memory_full", Urgency.ACT, None)
        assert "hold the 512 MiB that this gateway may hold" in verdict.says
        assert verdict.command == "keyline stats"
    busy = two(permits=1)
    busy.arrive(A, 3)
    busy.arrive(B, 3)
    assert busy.verdict(full).state == "delivering"


def test_a_full_memory_that_no_larger_limit_helps_is_told_with_what_the_worker_holds() -> None:
    """Beyond the gateway's own limit none can be set."""
    story = two(permits=1)
    story.arrive(A, 200)
    verdict = story.verdict(replace(CALM, behind=True, memory_bytes=1 << 20))
    assert (verdict.state, verdict.command) == ("memory_full", "keyline pending orders billing c1")


# ---- waits that more workers would not end


def test_a_look_ahead_full_of_retries_starves_a_worker_and_is_no_workers_fault() -> None:
    """c1 has given back all; c2 would take more, and nothing more is read."""
    story = two(permits=30)
    story.dispatcher.set_policy(KeyPolicy(retry_delay_s=600))
    story.arrive(A, 30)
    story.got("c1")
    acknowledgement.redeliver(story.dispatcher, story.workers["c1"], None, story.now)
    story.flow("c1", 30)
    story.arrive(A, 100)
    story.now += 5
    verdict = story.verdict(FULL)
    assert told(verdict) == ("look_ahead_full", Urgency.ACT, None)
    assert verdict.command == "keyline stuck orders billing"
    assert stuck_worker(story, A) is None, "no worker has to do anything"


def test_a_backlog_of_one_key_at_its_window_is_not_put_down_to_permits() -> None:
    """More workers would not help."""
    story = two()
    story.dispatcher.set_policy(KeyPolicy(window=1))
    story.arrive(A, 40)
    for _ in range(35):
        story.now += 1
        story.ack("c1", *story.got("c1"))
    verdict = story.verdict()
    assert told(verdict) == ("falling_behind", Urgency.WATCH, None)
    assert f"of hash slot {A}, since its worker has as many messages of it as key_window allows" in verdict.says
    assert verdict.command == "keyline stuck orders billing"


def test_only_what_waits_for_a_drain_is_told_of_it() -> None:
    """What waits for permits is a backlog."""
    story = two(permits=3)
    story.arrive(C, 1)
    story.got("c2")
    story.join("c3", 10)
    story.arrive(A, 500)
    story.works(LONG_S, step_s=1)
    assert story.dispatcher.draining.count
    assert story.verdict().state != "handing_over"
    story.arrive(C, 2)
    assert story.verdict().state != "handing_over", "what waits for it has not waited for long"


# ---- what a command would do


def test_nobody_is_excluded_whose_keys_no_other_would_get() -> None:
    """The only worker, and one that chose its own ranges."""
    alone = Story(c1=[A])
    alone.join("c1", 1)
    alone.arrive(A, 2)
    alone.now += UNKNOWN_S
    assert alone.verdict().command == "keyline pending orders billing c1"
    sticky = stopped(waiting=2)
    sticky.workers["c1"].sticky_ranges = ((A, A),)
    assert sticky.verdict().command == "keyline pending orders billing c1"


def test_with_sticky_ranges_no_join_is_previewed() -> None:
    """A new worker would have to say which it wants."""
    story = two(permits=1)
    for worker in story.workers.values():
        worker.sticky_ranges = ((A, C),)
    story.arrive(A, 1_000)
    story.works(60)
    for verdict in (story.verdict(), story.on_key(A)):
        assert verdict.command is None
        assert "Divide the ranges" in verdict.advice


def test_what_no_worker_covers_is_told_with_who_is_kept_out() -> None:
    """By its name, in the subscription's verdict as in the key's."""
    story = two()
    story.arrive(D, 3)
    story.dispatcher.excluded = 1
    for verdict in (story.verdict(replace(CALM, excluded=("c4",))), story.on_key(D, replace(CALM, excluded=("c4",)))):
        assert told(verdict) == ("excluded", Urgency.ACT, None)
        assert verdict.command == "keyline exclude orders billing c4 --undo"


# ---- a key of which nothing is here


def test_a_key_of_which_nothing_can_come_is_not_said_to_flow() -> None:
    """The connection to the broker is lost, or no worker is there."""
    lost = replace(CALM, upstream="backing_off", upstream_error="refused", behind=True)
    assert told(two().on_key(A, lost)) == ("broker_not_ready", Urgency.ACT, None)
    assert told(Story(c1=[A]).on_key(A)) == ("no_workers", Urgency.ACT, None)


# ---- who it is


def test_of_two_workers_of_one_name_the_one_that_hangs_is_told() -> None:
    """Clients choose names, and may choose one twice."""
    story = two(permits=2)
    for worker in story.workers.values():
        worker.name = "app"
    story.arrive(B, 4)  # c2's, which joined behind c1
    story.now += UNKNOWN_S
    verdict = story.on_key(B)
    assert told(verdict) == ("stopped_acknowledging", Urgency.ACT, "app")
    assert "it holds 2 messages" in verdict.says


def test_a_join_gate_is_put_down_to_who_has_what_was_sent_before() -> None:
    """Not to who got something first, which may lie behind it."""
    story = Story(OrderingMode.LAST_SENT_POSITION, c1=[A], c2=[B], c3=[C])
    story.join("c1", 10)
    story.join("c2", 10)
    story.arrive(A, 1)
    story.got("c1")
    story.now += 1
    story.join("c3", 10)
    story.arrive(C, 5)
    checkup = story.checkup()
    assert checkup.workers[story.workers["c1"]].waiting_for_it == 5
    assert stuck_worker(story, C) == "c1"


def test_acknowledgements_in_transactions_count_for_a_workers_pace() -> None:
    """It works, and is compared with what it did before."""
    story = Story(c1=[A])
    worker = story.join("c1", 1_000)
    for step in range(60):
        story.now += 1
        story.arrive(A, 10)
        story.got("c1")
        wanted = [(key, None) for key in worker.pending]
        helds = transactional_acks.hold(story.dispatcher, worker, wanted, (0, step), story.now)
        transactional_acks.commit(story.dispatcher, helds, story.now)
    assert worker.pace.notes > 1
    assert story.health("c1").acked_rate > 5


def test_silence_is_measured_as_ever() -> None:
    """A drained worker that holds nothing is only drained."""
    story = two()
    story.dispatcher.set_drained(story.workers["c1"], True, story.now)
    story.now += QUIET_S * 10
    assert story.health("c1").state is WorkerState.DRAINED_BY_OPERATOR
