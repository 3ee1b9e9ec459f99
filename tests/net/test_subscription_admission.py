"""Admission as a state machine: where a worker stands on its way in, and what may become of it from there."""

from __future__ import annotations

import psutil
import pytest

from proxy.errors import ClientError
from proxy.net.subscription.admission import MOVES, Stage
from proxy.wire import pulsar_pb2 as pb
from tests.net.stream_rig import GroupRig
from tests.net.subscription_rig import SubscriptionRig, Worker, schema, sticky
from tests.net.subscription_rig_broker import T

ENDS = {Stage.JOINED, Stage.REFUSED}


def stages(rig: SubscriptionRig) -> list[Stage]:
    """Of all who are on their way in, in order."""
    return list(rig.subscription.admission._stages.values())


def test_every_way_in_ends_and_no_end_leads_on() -> None:
    """From wherever a worker stands it can be let in and refused, and what was said to it is the last word."""
    assert MOVES.keys() == set(Stage)
    assert {stage for stage, moves in MOVES.items() if not moves} == ENDS
    for stage in set(Stage) - ENDS:
        reached, before = {stage}, set[Stage]()
        while reached != before:
            before = set(reached)
            reached |= {to for each in before for to in MOVES[each]}
        assert reached >= ENDS, stage


def test_a_first_worker_waits_for_our_consumer_and_joins_with_it() -> None:
    """Opening, and then it is the membership's."""
    rig = SubscriptionRig()
    rig.link.held.add(T.SUBSCRIBE)
    rig.subscribe("a")
    assert stages(rig) == [Stage.OPENING]
    rig.link.answer(T.SUBSCRIBE)
    assert stages(rig) == []
    assert len(rig.subscription.subscribers) == 1


def test_one_that_brings_something_new_is_probed_and_stands_behind_those_that_came_meanwhile() -> None:
    """Asked, probing, asked again; one that leaves meanwhile keeps the subscription until the broker has answered."""
    rig = SubscriptionRig()
    rig.worker("a")
    rig.link.held.add(T.SUBSCRIBE)
    rig.subscribe("b", schema=schema("b"), settle=False)
    assert stages(rig) == [Stage.ASKED]
    rig.clock.settle()
    gone = rig.subscribe("c", schema=schema("c"))
    assert stages(rig) == [Stage.PROBING, Stage.PROBING]
    gone.close()
    assert (len(rig.subscription.admission), len(stages(rig))) == (1, 2)
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "a yes: the schema was found compatible")
    assert stages(rig) == [Stage.PROBING]
    assert len(rig.subscription.subscribers) == 2
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "a yes")
    assert not rig.subscription.admission.busy


def test_the_schemas_of_those_that_left_are_not_kept_for_a_slow_broker() -> None:
    """A client may bring one of megabytes and leave, again and again."""
    rig = SubscriptionRig()
    rig.worker("a")
    rig.link.held.add(T.SUBSCRIBE)
    for name in "bcd":
        rig.subscribe(name, schema=schema(name * 10_000)).close()
    assert stages(rig) == [Stage.PROBING] * 3
    assert sum(each.command.ByteSize() for each in rig.subscription.admission._stages) < 1_000
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "a yes")
    assert stages(rig) == [Stage.PROBING] * 2


def test_a_groups_consumers_are_made_of_one_that_is_here() -> None:
    """Not of one that the broker would let in and that has left: nothing more than that is known of it."""
    rig = GroupRig()
    rig.link.held.add(T.SUBSCRIBE)
    rig.subscribe("a", schema=schema("one")).close()
    rig.subscribe("b", schema=schema("one"))
    assert stages(rig) == [Stage.PROBING, Stage.OPENING]
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "a yes")
    assert stages(rig) == [Stage.PROBING]
    rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "a yes")
    assert stages(rig) == []
    assert rig.subscription.admission.model.schema == schema("one")


def test_in_a_group_the_second_of_a_kind_waits_for_the_answer_about_the_first() -> None:
    """One is probed for both, and a no is for both."""
    rig = GroupRig()
    rig.link.held.add(T.SUBSCRIBE)
    workers = [rig.subscribe(name) for name in ("a", "b")]
    assert stages(rig) == [Stage.PROBING, Stage.OPENING]
    rig.link.refuse(T.SUBSCRIBE, pb.IncompatibleSchema, "no")
    assert [worker.error()[0] for worker in workers] == [pb.IncompatibleSchema] * 2
    assert rig.count == 0


def contended(rig: SubscriptionRig) -> tuple[Worker, Worker]:
    """One whose host has vanished, and one that comes for the same slots."""
    holder = rig.worker("a", keySharedMeta=sticky((0, 100)))
    holder.vanished = True
    newcomer = rig.subscribe("a", keySharedMeta=sticky((50, 60)))
    assert stages(rig) == [Stage.CONTENDING]
    assert newcomer.commands() == []
    return holder, newcomer


def test_who_names_the_slots_of_one_that_is_dead_has_them_when_that_is_found_out() -> None:
    """Also where that was the only worker: the subscription stays for the one that waits."""
    rig = SubscriptionRig()
    holder, newcomer = contended(rig)
    newcomer.flow(1)
    holder.lose()
    assert newcomer.answers() == [T.SUCCESS]
    key = rig.key_for("a", 0)
    assert rig.subscription.subscribers[1].worker.permits == 1, key  # type: ignore[union-attr]


def test_who_names_the_slots_of_one_that_lives_is_told_so() -> None:
    """As soon as that has shown it; the client tries again."""
    rig = SubscriptionRig()
    holder, newcomer = contended(rig)
    for alive in holder.asked_for_life:
        alive()
    rig.clock.settle()
    code, text = newcomer.error()
    assert (code, "a" in text) == (pb.ConsumerAssignError, True)
    assert stages(rig) == []
    assert holder.answers() == []


def test_who_names_the_slots_of_several_has_each_of_them_asked() -> None:
    """One after the other: it gets all of its slots or none."""
    rig = SubscriptionRig()
    holder, _ = contended(rig)
    second = rig.worker("b", keySharedMeta=sticky((200, 300)))
    both = rig.subscribe("c", keySharedMeta=sticky((90, 210)))
    second.vanished = True
    holder.lose()
    assert len(second.asked_for_life) == 1
    assert both.answers() == []
    second.lose()
    assert both.answers() == [T.SUCCESS]


def test_who_names_slots_that_no_worker_may_name_so_is_refused_at_once() -> None:
    """The worker that has some of them is not asked for a sign of life, which its connection might end with."""
    rig = SubscriptionRig()
    holder = rig.worker("a", keySharedMeta=sticky((0, 100)))
    holder.vanished = True
    newcomer = rig.subscribe("b", keySharedMeta=sticky((50, 60), (60, 70)))
    assert newcomer.error()[1].startswith("Consumer's own ranges conflict")
    assert holder.asked_for_life == []


def test_a_worker_that_was_let_in_does_not_keep_its_schema() -> None:
    """What our own consumer is made of keeps the first one's."""
    rig = SubscriptionRig()
    for name in ("a", "b"):
        rig.worker(name, schema=schema("s" * 100_000))
    joined = rig.subscription.subscribers.values()
    assert [subscriber.command.HasField("schema") for subscriber in joined] == [False, False]
    assert [subscriber.command.consumer_name for subscriber in joined] == ["a", "b"]
    assert len(rig.subscription.admission.model.schema.name) == 100_000


def test_schemas_of_workers_that_were_let_in_take_no_memory() -> None:
    """A field that is cleared, or a copy that was made before, would keep all of it."""
    rig = SubscriptionRig()
    rig.worker("first", schema=schema("s" * 1_000_000))
    process = psutil.Process()
    before = process.memory_info().rss
    for number in range(100):
        rig.worker(f"w{number}", schema=schema("s" * 1_000_000))
    assert process.memory_info().rss - before < 30_000_000


def test_what_was_judged_is_remembered_by_its_digest() -> None:
    """Each worker may bring another schema of megabytes that the broker finds compatible."""
    rig = SubscriptionRig()
    rig.worker("a")
    rig.link.held.add(T.SUBSCRIBE)
    for name in ("b", "c"):
        rig.subscribe(name, schema=schema(name * 100_000))
        rig.link.refuse(T.SUBSCRIBE, pb.ConsumerBusy, "a yes: the schema was found compatible")
    assert len(rig.subscription.subscribers) == 3
    judged = rig.subscription.admission._judged
    assert (len(judged), sum(len(digest) for digest, _ in judged)) == (3, 64)
    rig.subscribe("d", schema=schema("c" * 100_000))
    assert len(rig.subscription.subscribers) == 4


@pytest.mark.parametrize("ends", ["closes", "loses", "shut"])
def test_one_that_waits_for_the_slots_of_another_may_end_at_any_time(ends: str) -> None:
    """The other keeps them, and what it says afterwards concerns no one."""
    rig = SubscriptionRig()
    holder, newcomer = contended(rig)
    if ends == "closes":
        newcomer.close()
        assert newcomer.answers() == [T.SUCCESS]
    elif ends == "loses":
        newcomer.lose()
    else:
        rig.subscription.shut()
        rig.clock.settle()
        assert newcomer.error()[0] == pb.ServiceNotReady
    assert rig.count == (0 if ends == "shut" else 1)
    for alive in holder.asked_for_life:
        alive()
    rig.clock.settle()
    assert holder.answers() == ([T.CLOSE_CONSUMER] if ends == "shut" else [])


def test_a_move_that_is_not_in_the_table_is_a_bug() -> None:
    """One that is probed cannot join but by being looked at again."""
    rig = GroupRig()
    rig.link.held.add(T.SUBSCRIBE)
    rig.subscribe("a")
    admission = rig.subscription.admission
    (subscriber,) = admission._stages
    with pytest.raises(AssertionError):
        admission._move(subscriber, Stage.JOINED)
    admission.refuse_all(ClientError("the gateway stops"))
    assert len(admission) == 0
    assert admission.busy
