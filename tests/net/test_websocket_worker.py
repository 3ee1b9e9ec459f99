"""A WebSocket's worker that has joined: its end from either side, bad words, keep-alive, and the topic's end."""

from __future__ import annotations

import json

import pytest

from proxy.net.websocket.link import Frame
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from tests.net.websocket_rig import UNNUMBERED, T, WebsocketRig, end_of_topic, id_of, single

BAD_WORDS: list[Frame] = [
    b"{}",
    "",
    "{",
    "[]",
    "[" * 5_000,
    "null",
    "{}",
    '{"messageId": 5}',
    '{"messageId": "?"}',
    '{"type": "permit", "messages": -1, "permitMessages": -1}',
    '{"type": "negativeAcknowledge"}',
    json.dumps({"messageId": "\u00e9" * 500}, ensure_ascii=False),
    "\u20ac" * 500,
    '{"messageId": "\\ud800"}',
]


@pytest.mark.parametrize("words", BAD_WORDS)
def test_v2_ends_with_a_word_that_makes_no_sense(words: Frame) -> None:
    """1007, with a reason that fits into a close frame; nothing more is heard then."""
    rig = WebsocketRig(dialect="v2").join()
    rig.worker.received(words)
    ((code, reason),) = rig.socket.closes
    assert code == 1007
    assert 0 < len(reason.encode()) <= 123
    rig.worker.received(words)
    rig.clock.settle()
    assert len(rig.session.ends) == 1


@pytest.mark.parametrize("words", BAD_WORDS)
def test_v1_forgives_a_word_that_makes_no_sense(words: Frame) -> None:
    """It is told what was wrong, and goes on."""
    rig = WebsocketRig().join()
    rig.worker.received(words)
    (said,) = rig.heard()
    assert said["type"] == "error"
    assert said["message"]
    rig.deliver(1, single())
    rig.ack(*rig.got_ids())
    assert len(rig.take_acks()) == 1


def test_v1_says_which_word_made_no_sense() -> None:
    """By the number its client gave it."""
    rig = WebsocketRig().join()
    rig.ack("?", request_id=12)
    (said,) = rig.heard()
    assert (said["type"], said["requestId"]) == ("error", 12)
    assert "'?'" in said["message"]


def test_a_ping_is_answered_here() -> None:
    """Its client hears nothing of it; its own pings are its socket's business."""
    rig = WebsocketRig().join()
    rig.tell(commands.ping())
    assert [command.type for command in rig.take()] == [T.PONG]
    assert rig.socket.frames == []


@pytest.mark.parametrize("dialect", ["v1", "v2"])
def test_a_closed_consumer_closes_the_websocket(dialect: str) -> None:
    """Come again: of one partition or all, nothing is consumed any more, and the session is left."""
    rig = WebsocketRig(dialect=dialect).join(2)
    rig.tell(commands.close_consumer(1, UNNUMBERED))
    assert [code for code, _ in rig.socket.closes] == [1012]
    assert len(rig.session.ends) == 1


@pytest.mark.parametrize("error", [None, "draining " + "x" * 500])
def test_a_closed_session_closes_the_websocket(error: str | None) -> None:
    """With its last words, as far as they fit."""
    rig = WebsocketRig().join()
    if error is not None:
        rig.tell(commands.error(UNNUMBERED, pb.ServiceNotReady, error))
    rig.hang_up()
    assert rig.socket.closes == [(1012, "closed by the gateway" if error is None else error[:123])]


def test_messages_before_the_end_still_come() -> None:
    """What the session wrote before it closed is not lost, nor doubled."""
    rig = WebsocketRig().join()
    rig.deliver(1, single())
    rig.hang_up()
    assert rig.got_ids() == [id_of(1)]


def test_a_client_that_goes_ends_its_session() -> None:
    """Once; nothing reaches the socket afterwards."""
    rig = WebsocketRig().join()
    rig.deliver(1, single())
    rig.heard()
    rig.worker.closed("gone")
    rig.worker.closed("gone again")
    rig.deliver(2, single())
    rig.nack(id_of(1))
    rig.clock.advance(100)
    assert rig.session.ends == ["gone"]
    assert (rig.socket.frames, rig.socket.ended) == ([], False)


def test_unsubscribing_ends_with_the_last_partition() -> None:
    """Every consumer unsubscribes, and the connection ends well when all have."""
    rig = WebsocketRig().join(2)
    rig.say(type="unsubscribe")
    bodies = [command.unsubscribe for command in rig.take()]
    assert [body.consumer_id for body in bodies] == [0, 1]
    rig.tell(commands.success(bodies[1].request_id))
    assert not rig.socket.ended
    rig.tell(commands.success(bodies[0].request_id))
    assert rig.socket.closes == [(1000, "unsubscribed")]


def test_a_refused_unsubscription_says_why() -> None:
    """Other workers may hold the subscription."""
    rig = WebsocketRig().join(2)
    rig.say(type="unsubscribe")
    first, second = (command.unsubscribe for command in rig.take())
    rig.tell(commands.error(first.request_id, pb.ConsumerBusy, "others consume"), commands.success(second.request_id))
    assert rig.socket.closes == [(1008, "not unsubscribed: others consume")]


def test_the_end_of_a_topic_is_that_of_all_partitions() -> None:
    """V1 hears of it, once."""
    rig = WebsocketRig().join(2)
    rig.tell(end_of_topic(0), end_of_topic(0))
    rig.say(type="isEndOfTopic")
    assert rig.heard() == [{"type": "endOfTopic", "reached": False}]
    rig.tell(end_of_topic(1))
    assert rig.heard() == [{"type": "endOfTopic", "reached": True}]
    rig.say(type="isEndOfTopic")
    assert rig.heard() == [{"type": "endOfTopic", "reached": True}]


def test_v2_hears_of_the_end_of_a_topic_when_it_asks() -> None:
    """There is no word for news."""
    rig = WebsocketRig(dialect="v2").join()
    rig.say(type="isEndOfTopic")
    rig.tell(end_of_topic(0))
    assert rig.heard() == [{"endOfTopic": False}]
    rig.say(type="isEndOfTopic")
    assert rig.heard() == [{"endOfTopic": True}]


@pytest.mark.parametrize("dialect", ["v1", "v2"])
def test_asking_for_the_end_of_a_topic_extends_ack_leases(dialect: str) -> None:
    """By the call that native clients have for it, at each partition's consumer; its answer is of no interest."""
    rig = WebsocketRig(dialect=dialect).join(2)
    rig.take()
    rig.say(type="isEndOfTopic")
    asked = rig.take()
    assert [command.type for command in asked] == [pb.BaseCommand.GET_LAST_MESSAGE_ID] * 2
    assert [command.getLastMessageId.consumer_id for command in asked] == [0, 1]
    rig.heard()
    rig.tell(*(commands.error(command.getLastMessageId.request_id, pb.ServiceNotReady, "later") for command in asked))
    assert rig.heard() == []
