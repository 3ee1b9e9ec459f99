"""What was sent, acknowledged and given back: told truly, and never less than before."""

from __future__ import annotations

import random

from proxy.core.acknowledgement import ack
from proxy.core.summary import dispatcher_summary
from proxy.core.worker import DeliveryTotals, sum_of
from tests.core.test_dispatcher_rig import A, B, C, Rig


def test_what_lies_in_an_outbox_is_not_sent_yet() -> None:
    """It may yet be withdrawn, and then it was never sent."""
    rig = Rig(c1=[A])
    worker = rig.join("c1", 10)
    rig.entries(A, 1, 2)
    assert worker.totals == DeliveryTotals()
    rig.units("c1")
    assert worker.totals == DeliveryTotals(sent_messages=2, sent_bytes=2)
    rig.entries(A, 3)
    rig.nack("c1")
    assert worker.totals == DeliveryTotals(sent_messages=2, sent_bytes=2, redelivered_messages=2)


def test_workers_that_left_are_counted_on() -> None:
    """With what they left behind, which goes to others once more."""
    rig = Rig(c1=[A], c2=[A])
    rig.join("c1", 10)
    rig.entries(A, 1, 2)
    rig.got("c1")
    rig.ack("c1", 1)
    rig.ack("c1", 9)
    rig.entries(A, 3)
    rig.leave("c1")
    left = DeliveryTotals(sent_messages=2, sent_bytes=2, acked_messages=1, redelivered_messages=1, unknown_acks=1)
    assert dispatcher_summary(rig.dispatcher).totals == left
    rig.leave("c1")
    assert dispatcher_summary(rig.dispatcher).totals == left, "who leaves twice is counted once"
    rig.join("c2", 10)
    assert rig.got("c2") == [2, 3]
    assert dispatcher_summary(rig.dispatcher).totals == sum_of((left, DeliveryTotals(sent_messages=2, sent_bytes=2)))


def test_no_total_ever_falls() -> None:
    """Whatever workers do, in whatever order, outboxes left full included."""
    chance = random.Random(5)  # noqa: S311 - no secret
    rig = Rig(a=[A, B], b=[B, C], c=[A, C])
    number = 0
    before = sum_of([DeliveryTotals()])
    for _ in range(3_000):
        rig.now += 0.5
        name = chance.choice("abc")
        worker = rig.workers.get(name)
        here = worker is not None and rig.dispatcher.workers.get(worker.index) is worker
        act = chance.randrange(8)
        if act == 0 or (not here and act < 4):
            if here:
                rig.leave(name)
            else:
                rig.join(name, 5)
        elif act < 4:
            number += 1
            rig.mixed(number, *chance.choices((A, B, C), k=chance.randint(1, 4)))
        elif here and worker is not None:
            keys = list(worker.pending)
            if act == 4:
                rig.flow(name, 3)
            elif act == 5:
                rig.units(name)
            elif act == 6:
                rig.nack(name)
            elif keys:
                ack(rig.dispatcher, worker, chance.choice(keys), rig.now)
        now = dispatcher_summary(rig.dispatcher).totals
        assert all(after >= was for after, was in zip(now, before, strict=True)), (before, now)
        before = now
    assert min(before[:4]) > 0, "something of everything happened"
