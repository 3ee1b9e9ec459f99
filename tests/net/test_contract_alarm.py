"""A fault put into the dispatcher makes the monitor ring, and everybody hears of it who should."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.core.sticky_key import murmur31
from proxy.net.subscription import contract_alarm
from proxy.net.subscription.directory import Subscriptions
from proxy.net.subscription.settings import SubscriptionSettings
from tests.dispatcher_faults import forget_holders, put_last
from tests.interpreted import interpreted_only
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, TOPIC, single

pytestmark = interpreted_only


def moved(rig: SubscriptionRig) -> tuple[Worker, Worker, str]:
    """A worker that holds a message of a key, the key's next owner, and the key."""
    first = rig.worker("a", permits=50)
    keys = [f"key-{number}" for number in range(40)]
    rig.link.deliver(*((number, single(key)) for number, key in enumerate(keys)))
    second = rig.worker("b", permits=50)
    return first, second, next(key for key in keys if key in {rig.key_for("b", nth) for nth in range(20)})


def told(rig: SubscriptionRig) -> list[dict[str, Any]]:
    """Facts of the events since the last look."""
    return [event.facts for event in rig.alarms.take()[1]]


def test_a_key_at_two_workers_is_told_with_both(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the log, in an event and in the metrics' numbers; where, what, and who has it."""
    forget_holders(monkeypatch)
    rig = SubscriptionRig()
    rig.is_broken = True
    _, second, key = moved(rig)
    with capture_logs() as lines:
        rig.link.deliver((100, single(key)))
    assert second.entries() == [100]
    (facts,) = told(rig)
    number = int(key.removeprefix("key-"))
    assert facts["slot"] == rig.subscription.state.dispatcher.selector.slot(murmur31(key.encode()))
    del facts["slot"]
    assert facts == {
        "violation": "two_workers",
        "violations_count": 1,
        "message": f"{LEDGER}:100:0",
        "worker": "b",
        "other_message": f"{LEDGER}:{number}:0",
        "other_worker": "a",
    }
    (line,) = (line for line in lines if line["event"] == "contract violated")
    assert (line["log_level"], line["topic"], line["subscription"]) == ("error", TOPIC, "s")
    assert line["violation"] == "two_workers"
    whole, (one,) = rig.subscriptions.summary(), rig.subscriptions.summaries()
    assert one.contract_violations == whole.contract_violations == {"two_workers": 1, "overtaken": 0, "sent_twice": 0}
    assert whole.contract_checked_messages_total == 41


def test_a_redelivery_that_is_overtaken_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message that it had to wait for is at no worker."""
    put_last(monkeypatch)
    rig = SubscriptionRig()
    rig.is_broken = True
    worker = rig.worker("a", permits=1)
    rig.link.deliver((0, single("k")), (1, single("k")))
    worker.redeliver(0)
    worker.flow(1)
    (facts,) = told(rig)
    assert (facts["violation"], facts["other_message"], facts["other_worker"]) == ("overtaken", f"{LEDGER}:0:0", "")


def test_many_violations_are_counted_and_told_once_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken gateway must not fill the log, nor the events."""
    forget_holders(monkeypatch)
    rig = SubscriptionRig()
    rig.is_broken = True
    _, _, key = moved(rig)
    for entry in range(100, 105):
        rig.link.deliver((entry, single(key)))
    assert [facts["violations_count"] for facts in told(rig)] == [1]
    rig.clock.advance(contract_alarm.APART_S)
    rig.link.deliver((105, single(key)))
    assert [facts["violations_count"] for facts in told(rig)] == [5]


def test_it_may_be_switched_off_and_does_not_watch_what_has_no_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then nothing is judged, and nothing told."""
    forget_holders(monkeypatch)
    for settings in ({"contract_monitor_one_in": 0}, {"ordering_mode": "unordered"}):
        rig = SubscriptionRig(**settings)
        _, _, key = moved(rig)
        rig.link.deliver((100, single(key)))
        assert rig.subscriptions.summary().contract_checked_messages_total == 0
        (one,) = rig.subscriptions.summaries()
        assert set(one.contract_violations.values()) == {0}


def test_gateways_watch_other_keys() -> None:
    """By a number of each process, so that a key that one does not watch is watched by another."""
    rig = SubscriptionRig()
    made = [
        Subscriptions(rig.brokers, rig.clock, SubscriptionSettings(), rig.openings, contract_salt=n) for n in (0, 9)
    ]
    first, second = (subscriptions.services.contract_sample.slots for subscriptions in made)
    assert len(first) == len(second)
    assert first != second
