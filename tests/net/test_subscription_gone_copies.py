"""What the broker has deleted from a parking topic: a redrive finds that out, tells it and goes on with the rest."""

from __future__ import annotations

import pytest

from proxy.net.subscription.redrive import AHEAD_MAX
from tests.net.subscription_rig_broker import single
from tests.net.test_subscription_parking import Lot, arrive, opened, order_redrive, redriven


@pytest.mark.parametrize(
    ("gone", "seen", "told"),
    [
        ([0, 1], [b"2", b"3"], [2]),
        ([1], [b"0", b"2", b"3"], [1]),
        ([3], [b"0", b"1", b"2"], [1]),
        ([1, 3], [b"0", b"2"], [1, 1]),
        ([0, 1, 2, 3], [], [4]),
    ],
)
def test_a_redrive_ends_though_the_broker_has_deleted_messages(
    gone: list[int], seen: list[bytes], told: list[int]
) -> None:
    """By a time to live, for instance: of a consumer that has them already, the broker does not tell that."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in range(4)))
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    places = lot.left()
    ear = rig.subscriptions.events.listen(lambda: None)
    lot.acked |= {places[number] for number in gone}
    order_redrive(rig)
    arrive(rig, (4, single("k", b"4")))
    assert redriven(rig, lot, worker) == [*seen, b"4"]
    events = [event for event in ear.take()[1] if event.kind in {"parked_gone", "redriven"}]
    assert [event.kind for event in events] == ["parked_gone"] * len(told) + ["redriven"]
    assert [event.facts["messages"] for event in events[:-1]] == told
    assert not rig.subscription.state.dispatcher.diversions.parked


def test_of_a_chunked_message_that_is_gone_in_part_nothing_is_delivered() -> None:
    """No client could read it. The redrive ends, and says what to do."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, single("k", b"0")))
    worker.redeliver(*worker.messages())
    chunks = [single("k", b"%d" % n, uuid="u", num_chunks_from_msg=2, chunk_id=n - 1) for n in (1, 2)]
    arrive(rig, *enumerate(chunks, 1))
    lot.pump(rig)
    ear = rig.subscriptions.events.listen(lambda: None)
    lot.acked.add(lot.left()[1])
    order_redrive(rig)
    assert redriven(rig, lot, worker) == [b"0"]
    events = {event.kind: event.facts for event in ear.take()[1]}
    assert events["parked_gone"]["messages"] == 1
    assert "is parked in part: 1 of its 2 chunks" in events["redrive_failed"]["reason"]


def test_what_is_deleted_while_a_redrive_reads_holds_nothing_up() -> None:
    """Messages are read a few at a time; the last ones are deleted when the first have been delivered."""
    count = 3 * AHEAD_MAX
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, *((entry, single("k", b"%d" % entry)) for entry in range(count)))
    worker.flow(2 * count)
    worker.redeliver(*worker.messages())
    lot.pump(rig)
    order_redrive(rig)
    places = lot.left()
    seen: list[bytes] = []
    while len(seen) < AHEAD_MAX:
        lot.pump(rig)
        for message in worker.messages():
            seen += message.payloads
            worker.ack(message)
    rest = set(places[len(seen) :])
    lot.acked |= rest
    seen += redriven(rig, lot, worker)
    assert seen == [b"%d" % number for number in range(len(seen))]
    assert not rig.subscription.state.dispatcher.diversions.parked
