"""Permits of a WebSocket's worker: what is granted to its consumers, and what its client gets for that."""

from __future__ import annotations

import pytest

from proxy.wire import pulsar_pb2 as pb
from tests.net.websocket_rig import WebsocketRig, batch, id_of, member, numbered, single


def test_as_many_permits_as_the_client_has_room() -> None:
    """From the start, and nothing more while nothing comes."""
    rig = WebsocketRig(outstanding_max=7).join()
    rig.say(type="isEndOfTopic")
    assert rig.session.granted == {0: 7}


def test_several_partitions_share_the_room() -> None:
    """Equal shares, rounded up, so that none is left without."""
    rig = WebsocketRig(outstanding_max=7).join(3)
    assert rig.session.granted == {0: 3, 1: 3, 2: 3}
    assert WebsocketRig(outstanding_max=1).join(3).session.granted == {0: 1, 1: 1, 2: 1}


def test_never_more_unacknowledged_than_the_bound() -> None:
    """What partitions send beyond it waits, and comes as acknowledgements come."""
    rig = WebsocketRig(outstanding_max=2).join(3)
    for consumer_id in range(3):
        rig.deliver(1, single(), consumer_id)
    assert rig.got_ids() == [id_of(1, partition=0), id_of(1, partition=1)]
    rig.ack(id_of(1, partition=1))
    assert rig.got_ids() == [id_of(1, partition=2)]


def test_permits_come_again_after_acknowledgements() -> None:
    """None while the client is full, one for each message it is done with then, and so on without end."""
    rig = WebsocketRig(outstanding_max=2).join()
    for entry in range(0, 40, 2):
        rig.deliver(entry, single())
        rig.deliver(entry + 1, single())
        assert rig.session.granted == {0: entry + 2}
        rig.ack(id_of(entry))
        rig.ack(id_of(entry + 1))
        assert rig.session.granted == {0: entry + 4}
    assert len(rig.got_ids()) == 40


def test_a_batch_takes_a_permit_for_each_message() -> None:
    """As at the gateway, so that the sums agree when all is acknowledged."""
    rig = WebsocketRig(outstanding_max=5).join()
    rig.deliver(1, numbered(5))
    assert rig.session.granted == {0: 5}
    rig.ack(*rig.got_ids())
    assert rig.session.granted == {0: 10}


@pytest.mark.parametrize("encrypted", ["DISCARD", "CONSUME"])
def test_a_batch_that_nobody_can_cut_takes_more_than_was_granted(encrypted: str) -> None:
    """The gateway debits every message of it, below nothing: the worker must grant those too, or it starves."""
    rig = WebsocketRig(outstanding_max=1, encrypted=encrypted).join()
    rig.deliver(1, single(num_messages_in_batch=5, encryption_keys=[pb.EncryptionKeys(key="k", value=b"v")]))
    if encrypted == "CONSUME":
        rig.ack(*rig.got_ids())
    assert rig.session.granted[0] - 5 == 1


def test_a_batch_of_fewer_than_no_messages_costs_one_permit() -> None:
    """What a producer claims must not take permits away; the gateway debits one."""
    rig = WebsocketRig(outstanding_max=2).join()
    rig.deliver(1, single(num_messages_in_batch=-5))
    assert rig.session.granted == {0: 3}


def test_what_cannot_be_read_gives_its_permits_back() -> None:
    """At once: no client will acknowledge it."""
    rig = WebsocketRig(outstanding_max=3).join()
    rig.deliver(1, single(b"x", compression=pb.LZ4, uncompressed_size=9))
    rig.deliver(2, single(b"x")[:-1] + b"y")
    rig.deliver(3, batch(member(b"a", compacted_out=True), member(b"b", compacted_out=True)))
    assert rig.session.granted == {0: 3 + 4}


def test_pull_mode_grants_what_was_permitted() -> None:
    """Nothing at first, then exactly that, whatever is unacknowledged, and acknowledgements grant nothing."""
    rig = WebsocketRig(pull=True, outstanding_max=3).join()
    assert rig.session.granted == {}
    rig.say(type="permit", messages=2)
    assert rig.session.granted == {0: 2}
    rig.say(type="permit", messages=3)
    assert rig.session.granted == {0: 5}
    for entry in range(5):
        rig.deliver(entry, single())
    ids = rig.got_ids()
    assert ids == [id_of(entry) for entry in range(5)]
    rig.ack(*ids)
    assert rig.session.granted == {0: 5}


def test_pull_mode_holds_back_what_was_not_permitted() -> None:
    """Of a batch too, until the client permits the rest."""
    rig = WebsocketRig(pull=True).join()
    rig.say(type="permit", messages=1)
    rig.deliver(1, numbered(3))
    assert rig.got_ids() == [id_of(1, 0, 3)]
    rig.say(type="permit", messages=2)
    assert rig.got_ids() == [id_of(1, 1, 3), id_of(1, 2, 3)]


def test_pull_mode_shares_what_was_permitted() -> None:
    """Among partitions, and no more comes in all than was permitted."""
    rig = WebsocketRig(pull=True).join(2)
    rig.say(type="permit", messages=3)
    assert rig.session.granted == {0: 2, 1: 2}
    for consumer_id in (0, 1):
        for entry in (1, 2):
            rig.deliver(entry, single(), consumer_id)
    assert len(rig.got_ids()) == 3


def test_permit_means_nothing_outside_pull_mode() -> None:
    """Pulsar's service ignores it as well."""
    rig = WebsocketRig(outstanding_max=2).join()
    rig.say(type="permit", messages=50)
    assert rig.session.granted == {0: 2}


def test_v2_may_permit_nothing() -> None:
    """Its clients do, and are not sent away for it."""
    rig = WebsocketRig(dialect="v2", pull=True).join()
    rig.say(type="permit", permitMessages=0)
    assert (rig.session.granted.total(), rig.socket.ended) == (0, False)
    rig.say(type="permit", permitMessages=4)
    assert rig.session.granted == {0: 4}


def test_a_client_that_reads_nothing_gets_nothing() -> None:
    """Its session hears of it, so that the subscription stops too; both go on when it reads again."""
    rig = WebsocketRig(outstanding_max=5).join()
    rig.deliver(1, single())
    rig.worker.writability_changed(writable=False)
    rig.deliver(2, single())
    rig.deliver(3, single())
    assert rig.session.writability == [False]
    assert rig.got_ids() == [id_of(1)]
    rig.worker.writability_changed(writable=True)
    rig.clock.settle()
    assert rig.session.writability == [False, True]
    assert rig.got_ids() == [id_of(2), id_of(3)]


def test_no_room_is_lost_where_a_message_comes_twice() -> None:
    """Whoever has it twice is done with it once, refused in between or not."""
    rig = WebsocketRig(outstanding_max=3).join()
    for entry in (1, 1, 2):
        rig.deliver(entry, single())
    rig.nack(id_of(2))
    rig.deliver(2, single())
    rig.ack(id_of(1), id_of(2))
    assert rig.session.granted == {0: 4 + 3}
