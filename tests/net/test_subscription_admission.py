"""Admission as a state machine: where a worker stands on its way in, and what may become of it from there."""

from __future__ import annotations

import pytest

from proxy.errors import ClientError
from proxy.net.subscription.admission import MOVES, Stage
from proxy.wire import pulsar_pb2 as pb
from tests.net.stream_rig import GroupRig
from tests.net.subscription_rig import SubscriptionRig, schema
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


def test_in_a_group_the_second_of_a_kind_waits_for_the_answer_about_the_first() -> None:
    """One is probed for both, and a no is for both."""
    rig = GroupRig()
    rig.link.held.add(T.SUBSCRIBE)
    workers = [rig.subscribe(name) for name in ("a", "b")]
    assert stages(rig) == [Stage.PROBING, Stage.OPENING]
    rig.link.refuse(T.SUBSCRIBE, pb.IncompatibleSchema, "no")
    assert [worker.error()[0] for worker in workers] == [pb.IncompatibleSchema] * 2
    assert rig.count == 0


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
