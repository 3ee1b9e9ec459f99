"""Many keys are redriven at once, as after a bug that poisoned them all: what that holds in memory is bounded."""

from __future__ import annotations

import pytest

from proxy.net.subscription import redrives
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import T, single
from tests.net.test_subscription_parking import PARKING, Lot, arrive, opened, redriven

KEYS = 20


def all_parked() -> tuple[Lot, SubscriptionRig, Worker]:
    """A message of each key is parked, and all are to be redriven."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, *((number, single(f"key-{number}", b"%d" % number)) for number in range(KEYS)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    assert rig.subscription.lot is not None
    slots = sorted(rig.subscription.state.dispatcher.diversions.parked)
    assert len(slots) == KEYS
    for slot in slots:
        rig.subscription.lot.order(slot, redrive=True)
    return lot, rig, worker


def readers(rig: SubscriptionRig) -> int:
    """Consumers that read the parking topic without a cursor, and are open."""
    subscribes = [each.subscribe for each in rig.link.log if each.type == T.SUBSCRIBE]
    opened_ = [each.consumer_id for each in subscribes if each.topic == PARKING and not each.durable]
    return sum(number in rig.link.consumers for number in opened_)


def test_few_keys_at_a_time_wait_for_their_first_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each may have twenty on their way, which nothing counts before they are here."""
    monkeypatch.setattr(redrives, "OPENING_MAX", 3)
    lot, rig, worker = all_parked()
    rig.clock.settle()
    assert readers(rig) == 3
    assert sorted(redriven(rig, lot, worker)) == sorted(b"%d" % number for number in range(KEYS))
    assert lot.left() == []
    assert not rig.subscription.state.dispatcher.diversions.parked


def test_no_further_key_begins_while_others_hold_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """Until workers have acknowledged enough of them; one goes on whatever it holds."""
    monkeypatch.setattr(redrives, "HELD_BYTES_MAX", 1)
    monkeypatch.setattr(redrives, "OPENING_MAX", 1)
    lot, rig, worker = all_parked()
    lot.pump(rig)
    (first,) = worker.messages()
    lot.pump(rig)
    assert worker.messages() == []
    worker.ack(first)
    lot.pump(rig)
    (second,) = worker.messages()
    worker.ack(second)
    rest = redriven(rig, lot, worker)
    assert sorted([*first.payloads, *second.payloads, *rest]) == sorted(b"%d" % number for number in range(KEYS))
