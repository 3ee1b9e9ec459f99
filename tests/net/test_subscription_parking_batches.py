"""Messages of a batch that are parked alone: the parking topic has each under the slot in which it is parked here."""

from __future__ import annotations

import pytest

from proxy.core.sticky_key import murmur31
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_tail
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import single
from tests.net.test_subscription_parking import Lot, arrive, opened, order_redrive, parked, redriven


def numbered(keys: list[str | None], outer_key: str | None) -> bytes:
    """A batch as Java's client writes it: each message has a sequence id of its own, the entry has the first one's."""
    pieces = []
    for number, key in enumerate(keys):
        single_metadata = pb.SingleMessageMetadata(payload_size=1, sequence_id=7 + number)
        if key is not None:
            single_metadata.partition_key = key.encode()
        encoded = single_metadata.SerializeToString()
        pieces += [len(encoded).to_bytes(4, "big"), encoded, b"%d" % number]
    content = b"".join(pieces)
    metadata = pb.MessageMetadata(producer_name=b"shop", sequence_id=7, publish_time=1)
    metadata.num_messages_in_batch, metadata.uncompressed_size = len(keys), len(content)
    if outer_key is not None:
        metadata.partition_key = outer_key.encode()
    return build_tail(metadata, content)


def log_slots(rig: SubscriptionRig) -> set[int]:
    """The slots of which the parking topic has something."""
    assert rig.subscription.lot is not None
    return set(rig.subscription.lot.log.slots)


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize(
    ("keys", "outer_key", "found_by"),
    [
        (["k", None, None], "k", b"shop-9"),
        (["k", "l", "m"], "k", b"m"),
        ([None, None, None], None, b"shop-7"),
        ([None, None, None], "outside", b"outside"),
    ],
    ids=["keyless beside keyed", "keyed", "keyless", "keyless with a key outside"],
)
def test_a_message_of_a_batch_is_in_the_log_under_the_slot_in_which_it_is_parked(
    keys: list[str | None], outer_key: str | None, found_by: bytes, *, killed: bool
) -> None:
    """Else keys with which nothing is wrong would be parked, and the message could not be redriven by its slot."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, numbered(keys, outer_key)))
    while messages := worker.messages():  # several are given back together, and come alone once more
        for message in messages:
            if b"2" in message.payloads:
                worker.redeliver(message)
            else:
                worker.ack(message)
    slot = rig.subscription.state.dispatcher.selector.slot(murmur31(found_by))
    lot.pump(rig)
    if killed:
        rig, worker = opened(lot, mark_delete=0)
    assert rig.subscription.state.dispatcher.diversions.parked == {slot}
    assert log_slots(rig) == {slot}
    order_redrive(rig)
    assert redriven(rig, lot, worker)[-1] == b"2"
    assert not rig.subscription.state.dispatcher.diversions.parked
    assert not any(parked(lot.entries[entry]) for entry in lot.left())


def test_a_key_that_has_the_slot_of_the_batchs_sequence_id_is_not_parked() -> None:
    """It was, until an operator redrove it: of a message without a key, the copy was filed by its batch's number."""
    lot = Lot()
    rig, worker = opened(lot)
    arrive(rig, (0, numbered(["k", None, None], "k")))
    for message in worker.messages():
        if message.payloads == [b"2"]:
            worker.redeliver(message)
        else:
            worker.ack(message)
    lot.pump(rig)
    slot_of = rig.subscription.state.dispatcher.selector.slot
    wrong = slot_of(murmur31(b"shop-7"))
    innocent = next(key for key in map(str, range(10**6)) if slot_of(murmur31(key.encode())) == wrong)
    arrive(rig, (1, single(innocent, b"good")))
    lot.pump(rig)
    assert [message.payloads for message in worker.messages()] == [[b"good"]]
