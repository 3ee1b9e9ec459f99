"""A fault put into the dispatcher makes the monitor ring, and everybody hears of it who should."""

from __future__ import annotations

from typing import Any

import pytest
from structlog.testing import capture_logs

from proxy.core.sticky_key import murmur31
from proxy.net.subscription import contract_alarm
from proxy.net.subscription.directory import Subscriptions
from proxy.net.subscription.settings import SubscriptionSettings
from proxy.wire import pulsar_pb2 as pb
from tests.dispatcher_faults import forget_holders, put_last
from tests.interpreted import interpreted_only
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import LEDGER, TOPIC, batch, single

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


@pytest.mark.parametrize(
    ("tail", "ack_set", "count"),
    [
        (single("k"), (), 1),
        (single("k", uuid="u", chunk_id=0, num_chunks_from_msg=2), (), 1),
        (batch([("k", b"0"), ("k", b"1"), ("k", b"2")]), (), 3),
        (batch([("k", b"0"), ("l", b"1"), ("m", b"2")]), (), 3),
        (batch([("k", b"0"), ("l", b"1"), ("m", b"2")]), (0b101,), 2),
    ],
    ids=["alone", "chunk", "batch of a key", "batch of several", "batch that is partly acknowledged"],
)
def test_each_message_is_judged_however_it_comes(tail: bytes, ack_set: tuple[int, ...], count: int) -> None:
    """A monitor that does not hear of what arrives would be silent whatever happens."""
    rig = SubscriptionRig()
    rig.worker("a", permits=50)
    rig.link.deliver((0, tail), ack_set=ack_set)
    assert rig.subscriptions.summary().contract_checked_messages_total == count


def followed(rig: SubscriptionRig) -> int:
    """Deliveries that are at workers, as the monitor knows."""
    monitor = rig.subscription.state.monitor
    assert monitor is not None
    return sum(map(len, monitor.held.values()))


def test_what_is_acknowledged_is_followed_no_more() -> None:
    """However that is done: else as many as may be followed would soon be, and no others judged."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=50)
    rig.link.deliver(*((entry, single("k")) for entry in range(3)), (3, batch([("k", b"0"), ("k", b"1")])))

    assert followed(rig) == 4
    worker.ack(0)
    assert followed(rig) == 3
    worker.port.acked_whole([LEDGER, 1])
    assert followed(rig) == 2
    in_transaction = pb.CommandAck(consumer_id=worker.consumer_id, ack_type=pb.CommandAck.Individual, request_id=9)
    in_transaction.message_id.add(ledgerId=LEDGER, entryId=2)
    in_transaction.txnid_most_bits = in_transaction.txnid_least_bits = 1
    worker.port.ack(in_transaction)
    assert followed(rig) == 1
    worker.ack(3, ack_set=[0b10])
    assert followed(rig) == 1
    worker.ack(3, ack_set=[0b01])
    assert followed(rig) == 0


def test_nothing_is_followed_across_a_seek() -> None:
    """What workers had may come again, or never: only what comes from then on is judged."""
    rig = SubscriptionRig()
    worker = rig.worker("a", permits=50)
    rig.link.deliver((0, single("k")), (1, single("k")))
    state = rig.subscription.state
    assert followed(rig) == 2
    worker.seek(0)
    assert state.monitor is not None
    assert not state.monitor.held
