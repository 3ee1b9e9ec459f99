"""What a WebSocket's client says of its messages: acknowledgements and their receipts, refusals, and silence."""

from __future__ import annotations

import json

import pytest

from proxy.net.websocket.message_position import WHOLE, MessagePosition
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from tests.net.websocket_rig import LEDGER, T, WebsocketRig, id_of, numbered, single
from tests.wire.message_frames import message_frame


def answer(ack: pb.CommandAck, error: str | None = None) -> bytes:
    """What a subscription says of an ACK."""
    code = None if error is None else pb.UnknownError
    return commands.ack_response(ack.consumer_id, ack, code, error or "")


def places(ack: pb.CommandAck) -> list[tuple[int, int, list[int]]]:
    """Ledger, entry and ack set of everything an ACK names."""
    return [(place.ledgerId, place.entryId, list(place.ack_set)) for place in ack.message_id]


@pytest.mark.parametrize("dialect", ["v1", "v2"])
def test_an_entry_is_acknowledged_by_its_id(dialect: str) -> None:
    """One by one, at the consumer it came from, without an answer being asked for."""
    rig = WebsocketRig(dialect=dialect).join(2)
    rig.deliver(4, single(), 1)
    rig.say(**({"messageId": id_of(4, partition=1)} | ({"type": "ack", "messageIds": [id_of(4, partition=1)]})))
    (ack,) = rig.take_acks()
    assert (ack.consumer_id, ack.ack_type, places(ack)) == (1, pb.CommandAck.Individual, [(7, 4, [])])
    assert not ack.HasField("request_id")


@pytest.mark.parametrize(
    ("index", "size", "words"),
    [
        (0, 1, [0]),
        (1, 3, [0b101]),
        (0, 64, [-2]),
        (63, 64, [(1 << 63) - 1]),
        (64, 70, [-1, 0b111110]),
        (0, 65, [-2, 1]),
    ],
)
def test_a_member_of_a_batch_is_acknowledged_alone(index: int, size: int, words: list[int]) -> None:
    """Its ack set leaves every other message of the batch unacknowledged."""
    rig = WebsocketRig().join()
    rig.deliver(1, numbered(size))
    rig.ack(id_of(1, index, size))
    (ack,) = rig.take_acks()
    assert places(ack) == [(7, 1, words)]


def test_what_is_not_held_is_passed_on_if_it_is_a_whole_entry() -> None:
    """It may have come over an earlier connection; it makes no room. The size of a batch may not be made up."""
    rig = WebsocketRig(outstanding_max=3).join()
    rig.ack(id_of(9), id_of(8, 1, 2))
    (ack,) = rig.take_acks()
    assert places(ack) == [(7, 9, [])]
    assert rig.session.granted == {0: 3}


def test_a_second_acknowledgement_makes_no_room() -> None:
    """Neither in another command nor in the same."""
    rig = WebsocketRig(outstanding_max=2).join()
    rig.deliver(1, single())
    rig.ack(id_of(1), id_of(1))
    rig.ack(id_of(1))
    assert rig.session.granted == {0: 3}


def test_a_receipt_comes_when_the_broker_knows() -> None:
    """Not before."""
    rig = WebsocketRig().join()
    rig.deliver(1, single())
    rig.heard()
    rig.ack(id_of(1), request_id=5)
    (ack,) = rig.take_acks()
    assert rig.heard() == []
    rig.tell(answer(ack))
    assert rig.heard() == [{"type": "receipt", "requestId": 5}]


def test_a_receipt_names_what_was_not_held() -> None:
    """As the client named it; a partition that there is not is not asked."""
    rig = WebsocketRig().join()
    rig.deliver(1, single())
    rig.heard()
    gone, strange = id_of(2, 1, 3), id_of(3, partition=44)
    rig.ack(id_of(1), gone, strange, request_id=0)
    (ack,) = rig.take_acks()
    assert [entry for _, entry, _ in places(ack)] == [1]
    rig.tell(answer(ack))
    assert rig.heard() == [{"type": "receipt", "requestId": 0, "notHeld": [gone, strange]}]
    rig.ack(strange, request_id=1)
    assert rig.take_acks() == []
    assert rig.heard() == [{"type": "receipt", "requestId": 1, "notHeld": [strange]}]


@pytest.mark.parametrize(("errors", "told"), [((None, "b"), "b"), (("a", None), "a"), (("a", "b"), "a")])
def test_a_receipt_waits_for_every_partition(errors: tuple[str | None, str | None], told: str) -> None:
    """One receipt for the command, with the first error."""
    rig = WebsocketRig().join(3)
    ids = [id_of(1, partition=partition) for partition in (0, 2)]
    for consumer_id in (0, 2):
        rig.deliver(1, single(), consumer_id)
    rig.heard()
    rig.ack(*ids, request_id=7)
    first, second = rig.take_acks()
    assert (first.consumer_id, second.consumer_id) == (0, 2)
    rig.tell(answer(first, errors[0]))
    assert rig.heard() == []
    rig.tell(answer(second, errors[1]))
    assert rig.heard() == [{"type": "receipt", "requestId": 7, "error": told}]


@pytest.mark.parametrize("text", ["no", ""])
@pytest.mark.parametrize("kind", [T.ERROR, T.ACK_RESPONSE])
def test_an_error_without_words_is_an_error(kind: int, text: str) -> None:
    """Whichever command says so: the client must not take it for done."""
    rig = WebsocketRig().join()
    rig.ack(id_of(1), request_id=7)
    (ack,) = rig.take_acks()
    rig.tell(answer(ack, text) if kind == T.ACK_RESPONSE else commands.error(ack.request_id, pb.UnknownError, text))
    assert "error" in rig.heard()[0]


def test_a_refused_message_waits_before_it_is_asked_for_again() -> None:
    """It makes room at once, and once: neither the delay's end nor a second refusal makes more."""
    rig = WebsocketRig(outstanding_max=2, nack_delay_s=10.0).join()
    rig.deliver(1, single())
    rig.nack(id_of(1))
    assert rig.session.granted == {0: 3}
    rig.clock.advance(9.9)
    assert rig.take() == []
    rig.clock.advance(0.2)
    assert rig.take_redelivers() == [(0, [1])]
    rig.ack(id_of(1))
    assert rig.session.granted == {0: 3}
    rig.clock.advance(100)
    assert len(rig.take_acks()) == 1


def test_refusing_again_begins_the_delay_again() -> None:
    """And makes no more room."""
    rig = WebsocketRig(outstanding_max=2, nack_delay_s=10.0).join()
    rig.deliver(1, single())
    rig.nack(id_of(1))
    rig.clock.advance(6)
    rig.nack(id_of(1))
    rig.clock.advance(6)
    assert rig.take() == []
    rig.clock.advance(6)
    assert rig.take_redelivers() == [(0, [1])]
    assert rig.session.granted == {0: 3}


def test_an_acknowledgement_takes_a_refusal_back() -> None:
    """It is never asked for again, and there is no room for it twice."""
    rig = WebsocketRig(outstanding_max=2).join()
    rig.deliver(1, single())
    rig.nack(id_of(1))
    rig.ack(id_of(1))
    assert len(rig.take_acks()) == 1
    rig.clock.advance(100)
    assert rig.take() == []
    assert rig.session.granted == {0: 3}


def test_what_is_not_held_cannot_be_refused() -> None:
    """Nothing is asked for, and nothing is granted."""
    rig = WebsocketRig(outstanding_max=2).join()
    rig.nack(id_of(1))
    rig.clock.advance(100)
    assert rig.take() == []
    assert rig.session.granted == {0: 2}


def test_all_of_a_batch_goes_back_with_one_of_it() -> None:
    """But what is acknowledged: a batch comes again as a whole, so its other messages are not the client's any more."""
    rig = WebsocketRig(outstanding_max=4).join()
    rig.deliver(1, numbered(4))
    ids = rig.got_ids()
    rig.ack(ids[0])
    rig.nack(ids[1])
    rig.nack(ids[2])
    assert rig.session.granted == {0: 4 + 3}
    rig.take()
    rig.clock.advance(11)
    assert rig.take_redelivers() == [(0, [1])]
    assert rig.session.granted == {0: 4 + 4}
    rig.ack(ids[3], request_id=1)
    assert rig.take_acks() == []
    assert rig.heard() == [{"type": "receipt", "requestId": 1, "notHeld": [ids[3]]}]
    assert rig.session.granted == {0: 4 + 4}


def test_what_has_not_begun_to_be_delivered_goes_back_too() -> None:
    """Or later messages of a key would come before those that were refused; what has begun, goes on."""
    rig = WebsocketRig(outstanding_max=5).join()
    rig.worker.writability_changed(False)
    rig.deliver(1, single())
    rig.worker.writability_changed(True)
    rig.clock.settle()
    rig.nack(id_of(1))
    rig.worker.writability_changed(False)
    rig.deliver(2, numbered(2))
    rig.deliver(3, single())
    rig.clock.advance(11)
    assert rig.take_redelivers() == [(0, [1, 2, 3])]
    rig.worker.writability_changed(True)
    rig.clock.settle()
    assert rig.got_ids() == [id_of(1)]
    assert rig.session.granted == {0: 5 + 1 + 3}, "room for five again"


def test_what_was_on_its_way_is_dropped_when_others_are_asked_for_again() -> None:
    """It comes again behind them, and what its client has goes on; what it took of the room is free again."""
    rig = WebsocketRig(outstanding_max=5, nack_delay_s=1.0).join()
    rig.deliver(1, single())
    rig.deliver(2, single())
    assert rig.got_ids() == [id_of(1), id_of(2)]
    rig.nack(id_of(1))
    rig.session.sends(0, 3, 1)
    on_its_way = message_frame(0, LEDGER, 3, 0, single())
    rig.clock.advance(2)
    assert rig.take_redelivers() == [(0, [1, 3])]
    granted = rig.session.granted[0]
    rig.tell(on_its_way)
    assert rig.got_ids() == []
    assert rig.session.granted[0] == granted + 1
    for entry in (1, 3):
        rig.deliver(entry, single(), tries=1)
    assert rig.got_ids() == [id_of(1), id_of(3)]
    rig.ack(id_of(2))
    assert len(rig.take_acks()) == 1


def test_refused_messages_of_several_partitions_are_asked_for_where_they_came_from() -> None:
    """One command for each consumer, entries in order."""
    rig = WebsocketRig().join(2)
    for consumer_id, entry in ((0, 2), (0, 1), (1, 3)):
        rig.deliver(entry, single(), consumer_id)
    rig.nack(*rig.got_ids())
    rig.clock.advance(11)
    assert sorted(rig.take_redelivers()) == [(0, [1, 2]), (1, [3])]


@pytest.mark.parametrize("held", [200, 400])
def test_refusals_one_after_the_other_go_back_together_where_the_client_keeps_many(held: int) -> None:
    """Each command to give some back names all that are kept: it is sent the seldomer, the more they are."""
    rig = WebsocketRig(outstanding_max=held).join()
    for entry in range(held):
        rig.deliver(entry, single())
    refused = list(range(0, 100, 2))
    for entry in refused:
        rig.nack(id_of(entry))
        rig.clock.advance(0.0001)
    rig.clock.advance(11)
    given_back = rig.take_redelivers()
    assert [entry for _, entries in given_back for entry in entries] == refused
    assert len(given_back) <= 3


def test_a_redelivered_message_is_a_new_one() -> None:
    """It can be refused and acknowledged as the first time."""
    rig = WebsocketRig(outstanding_max=1).join()
    rig.deliver(1, single())
    for tries in range(1, 4):
        rig.nack(id_of(1))
        rig.clock.advance(11)
        assert rig.take_redelivers() == [(0, [1])]
        rig.deliver(1, single(), tries=tries)
    assert [said["attempt"] for said in rig.heard()] == [1, 2, 3, 4]
    rig.ack(id_of(1))
    assert rig.session.granted == {0: 5}


def test_what_is_not_acknowledged_in_time_is_asked_for_again() -> None:
    """If the client wanted that; it makes room, and an acknowledgement in time prevents it."""
    rig = WebsocketRig(outstanding_max=3, ack_timeout_s=20.0).join()
    rig.deliver(1, single())
    rig.clock.advance(10)
    rig.deliver(2, single())
    rig.deliver(3, single())
    rig.ack(id_of(3))
    rig.take()
    rig.clock.advance(10.1)
    assert rig.take_redelivers() == [(0, [1])]
    assert rig.session.granted == {0: 3 + 2}
    rig.clock.advance(10)
    assert rig.take_redelivers() == [(0, [2])]
    rig.clock.advance(100)
    assert rig.take() == []


def test_without_a_time_limit_nothing_is_asked_for_again() -> None:
    """A client may take as long as it likes."""
    rig = WebsocketRig(ack_timeout_s=0).join()
    rig.deliver(1, single())
    rig.clock.advance(100_000)
    assert rig.take() == []


def test_a_refused_message_waits_out_its_own_delay() -> None:
    """The time to acknowledge is for those that were neither acknowledged nor refused."""
    rig = WebsocketRig(ack_timeout_s=20.0, nack_delay_s=60.0).join()
    rig.deliver(1, single())
    rig.nack(id_of(1))
    rig.clock.advance(59)
    assert rig.take_redelivers() == []
    rig.clock.advance(2)
    assert rig.take_redelivers() == [(0, [1])]
    assert rig.session.granted == {0: 1001}


def test_a_batch_forgotten_in_part_makes_room_once_for_each_message() -> None:
    """Refused ones had their room already."""
    rig = WebsocketRig(outstanding_max=3, ack_timeout_s=20.0, nack_delay_s=60.0).join()
    rig.deliver(1, numbered(3))
    rig.nack(id_of(1, 0, 3))
    rig.clock.advance(200)
    assert rig.take_redelivers() == [(0, [1])]
    assert rig.session.granted == {0: 6}


def test_nothing_is_asked_for_after_the_end() -> None:
    """No timer is left behind by a client that has gone."""
    rig = WebsocketRig(ack_timeout_s=20.0).join()
    rig.deliver(1, numbered(2))
    rig.nack(id_of(1, 0, 2))
    rig.worker.closed("gone")
    rig.clock.settle()
    assert rig.clock.waiting == 0


def test_acknowledgements_of_one_turn_are_one_command() -> None:
    """Of each consumer: a client that acknowledges message by message costs no command for each."""
    rig = WebsocketRig(dialect="v2").join(2)
    for entry in (1, 2, 3):
        rig.deliver(entry, single(), entry % 2)
    for entry in (1, 2, 3):
        rig.worker.received(json.dumps({"messageId": id_of(entry, partition=entry % 2)}))
    rig.clock.settle()
    acks = {ack.consumer_id: places(ack) for ack in rig.take_acks()}
    assert acks == {1: [(7, 1, []), (7, 3, [])], 0: [(7, 2, [])]}
    rig.say(messageId=id_of(2, partition=0))
    assert [places(ack) for ack in rig.take_acks()] == [[(7, 2, [])]]


def test_nothing_overtakes_an_acknowledgement() -> None:
    """Said in the same turn: neither a receipt's, nor what is to be given again, nor the end of the subscription."""
    rig = WebsocketRig(nack_delay_s=0.0).join()
    for entry in (1, 2, 3, 4):
        rig.deliver(entry, single())
    words: list[dict[str, object]] = [
        {"type": "ack", "messageIds": [id_of(1)]},
        {"type": "ack", "messageIds": [id_of(2)], "requestId": 1},
        {"type": "ack", "messageIds": [id_of(3)]},
        {"type": "unsubscribe"},
    ]
    for word in words:
        rig.worker.received(json.dumps(word))
    rig.clock.settle()
    commands_said = rig.take()
    assert [command.type for command in commands_said] == [T.ACK, T.ACK, T.ACK, T.UNSUBSCRIBE]
    assert [[place.entryId for place in command.ack.message_id] for command in commands_said[:3]] == [[1], [2], [3]]


def test_what_is_given_again_is_asked_for_behind_the_acknowledgements() -> None:
    """A timeout that ends in the turn of an acknowledgement takes back nothing that was acknowledged."""
    rig = WebsocketRig(ack_timeout_s=20.0).join()
    rig.deliver(1, single())
    rig.deliver(2, single())
    rig.worker.received(json.dumps({"type": "ack", "messageIds": [id_of(1)]}))
    rig.worker._settling._take_back([MessagePosition(-1, LEDGER, 2, WHOLE, 0)])
    rig.clock.settle()
    assert [command.type for command in rig.take()] == [T.ACK, T.REDELIVER_UNACKNOWLEDGED_MESSAGES]


def test_what_was_acknowledged_in_the_last_turn_is_passed_on() -> None:
    """Before the session hears of the end."""
    rig = WebsocketRig().join()
    rig.deliver(1, single())
    rig.worker.received(json.dumps({"type": "ack", "messageIds": [id_of(1)]}))
    rig.worker.closed("gone")
    rig.clock.settle()
    assert [places(ack) for ack in rig.take_acks()] == [[(7, 1, [])]]
    assert rig.session.ends
