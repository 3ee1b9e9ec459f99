"""The two languages of WebSockets: what they read, what they refuse, and what they write."""

from __future__ import annotations

import json
from typing import Any

import pytest

from proxy.net.websocket.dialect_v1 import PLACES_MAX, DialectV1
from proxy.net.websocket.dialect_v2 import DialectV2
from proxy.net.websocket.message import SocketMessage
from proxy.net.websocket.message_position import WHOLE, MessagePosition
from proxy.net.websocket.words import Acknowledge, AskEndOfTopic, Permit, Refuse, Unsubscribe, Word, WordError, moment
from tests.net.websocket_rig import id_of

V1 = DialectV1(len, binary=False)
V2 = DialectV2()
PLACE, MEMBER = MessagePosition(-1, 7, 1, WHOLE, 0), MessagePosition(2, 7, 1, 0, 3)
ID, MEMBER_ID = PLACE.message_id, MEMBER.message_id


def message(**fields: Any) -> SocketMessage:
    """A message with as little as there can be."""
    required: dict[str, Any] = {
        "position": PLACE,
        "topic": "t",
        "payload": b"",
        "key": None,
        "key_base64": False,
        "ordering_key": None,
        "sticky_key": b"",
        "properties": {},
        "publish_time_ms": 0,
        "event_time_ms": 0,
        "producer_name": "p",
        "sequence_id": 0,
        "schema_version": b"",
        "redelivery_count": 0,
        "encryption": None,
    }
    return SocketMessage(**(required | fields))


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"type": "ack", "messageIds": [ID, MEMBER_ID]}, Acknowledge((PLACE, MEMBER), None)),
        ({"type": "ack", "messageIds": [ID], "requestId": 0}, Acknowledge((PLACE,), 0)),
        ({"type": "nack", "messageIds": [MEMBER_ID], "requestId": None}, Refuse((MEMBER,))),
        ({"type": "permit", "messages": 2**31 - 1}, Permit(2**31 - 1)),
        ({"type": "unsubscribe", "more": 1}, Unsubscribe()),
        ({"type": "isEndOfTopic"}, AskEndOfTopic()),
        ({"type": "ack", "messageIds": [ID] * PLACES_MAX}, Acknowledge((PLACE,) * PLACES_MAX, None)),
    ],
)
def test_v1_reads(said: dict[str, Any], word: Word) -> None:
    """Every command; fields nobody knows are passed over."""
    read = V1.read(json.dumps(said))
    assert (type(read), read) == (type(word), word)


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"messageId": ID}, Acknowledge((PLACE,), None)),
        ({"type": "whatever", "messageId": MEMBER_ID, "requestId": 4}, Acknowledge((MEMBER,), None)),
        ({"type": "negativeAcknowledge", "messageId": ID}, Refuse((PLACE,))),
        ({"type": "permit", "permitMessages": 0}, Permit(0)),
        ({"type": "unsubscribe"}, Unsubscribe()),
        ({"type": "isEndOfTopic"}, AskEndOfTopic()),
    ],
)
def test_v2_reads(said: dict[str, Any], word: Word) -> None:
    """What Pulsar's service reads: whatever has no known type acknowledges."""
    read = V2.read(json.dumps(said))
    assert (type(read), read) == (type(word), word)


@pytest.mark.parametrize("dialect", [V1, V2])
@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"{}", "binary frames are not taken"),
        ("", "not JSON"),
        ("{]", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("9" * 5_000, "not JSON"),
        ("[1]", "not a JSON object"),
        ('"ack"', "not a JSON object"),
    ],
)
def test_both_read_objects_only(dialect: DialectV1 | DialectV2, frame: str | bytes, reason: str) -> None:
    """Whatever else comes, the error says so and repeats little of it."""
    with pytest.raises(WordError, match=reason) as caught:
        dialect.read(frame)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "type is 'None'"),
        ({"type": "Ack"}, "type is 'Ack', it should be one of ack, nack"),
        ({"type": ["ack"]}, "it should be one of"),
        ({"type": "x" * 1_000}, "type is 'x{100}'"),
        ({"type": "ack"}, "messageIds should be a list"),
        ({"type": "nack", "messageIds": ID}, "messageIds should be a list"),
        ({"type": "ack", "messageIds": []}, "list of 1 to 1000 ids"),
        ({"type": "ack", "messageIds": [ID] * (PLACES_MAX + 1)}, "list of 1 to 1000 ids"),
        ({"type": "ack", "messageIds": [ID, 5]}, "messageId is '5'"),
        ({"type": "nack", "messageIds": [ID, "?"]}, "'\\?' is not a messageId"),
        ({"type": "permit"}, "messages is 'None'"),
        ({"type": "permit", "messages": 0}, "whole number from 1"),
        ({"type": "permit", "messages": True}, "messages is 'True'"),
        ({"type": "permit", "messages": 1.0}, "messages is '1.0'"),
        ({"type": "permit", "messages": "5"}, "messages is '5'"),
        ({"type": "permit", "messages": 2**31}, "messages is"),
    ],
)
def test_v1_refuses(said: dict[str, Any], reason: str) -> None:
    """Every command that makes no sense; the error says what would, and how its client called it."""
    with pytest.raises(WordError, match=reason) as caught:
        V1.read(json.dumps(said | {"requestId": 9}))
    assert caught.value.request_id == 9
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize("request_id", [-1, 2**31, True, 1.5, "1", []])
def test_v1_refuses_request_ids_that_are_none(request_id: object) -> None:
    """Such an error has none, then."""
    with pytest.raises(WordError, match="requestId is") as caught:
        V1.read(json.dumps({"type": "ack", "messageIds": [ID], "requestId": request_id}))
    assert caught.value.request_id is None


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({}, "messageId is 'None'"),
        ({"messageId": 5}, "messageId is '5'"),
        ({"messageId": [ID]}, "it should be the text that came with the message"),
        ({"type": "negativeAcknowledge", "messageId": "?"}, "'\\?' is not a messageId"),
        ({"type": "permit"}, "permitMessages is 'None'"),
        ({"type": "permit", "permitMessages": -1}, "whole number from 0"),
        ({"type": "permit", "permitMessages": 2**31}, "permitMessages is"),
    ],
)
def test_v2_refuses(said: dict[str, Any], reason: str) -> None:
    """Every command that makes no sense."""
    with pytest.raises(WordError, match=reason):
        V2.read(json.dumps(said))


def test_no_depth_of_nesting_is_too_much() -> None:
    """What can still be read as JSON can be told in the error, too."""
    for depth in range(500, 1_100):
        nested = "[" * depth + "]" * depth
        with pytest.raises(WordError):
            V1.read(f'{{"type": {nested}}}')
        with pytest.raises(WordError):
            V2.read(f'{{"messageId": {nested}}}')


def test_v1_answers() -> None:
    """Each answer says of which kind it is, and nothing that there is not."""
    answers = [
        V1.joined(["a", "b"]),
        V1.receipt(3, [], None),
        V1.receipt(3, [ID], "no"),
        V1.end_of_topic(reached=False, asked=True),
        V1.mistake(WordError("what")),
        V1.mistake(WordError("what", 0)),
    ]
    assert [json.loads(answer) for answer in answers] == [
        {"type": "joined", "topics": ["a", "b"]},
        {"type": "receipt", "requestId": 3},
        {"type": "receipt", "requestId": 3, "notHeld": [ID], "error": "no"},
        {"type": "endOfTopic", "reached": False},
        {"type": "error", "message": "what"},
        {"type": "error", "message": "what", "requestId": 0},
    ]


def test_a_binary_message_is_size_header_and_payload() -> None:
    """The size is the header's, in four bytes, big endian, also where its text takes more bytes than letters."""
    frame = DialectV1(len, binary=True).message(message(payload=b"\xffraw", key="\u20ac".encode()))
    assert isinstance(frame, bytes)
    size = int.from_bytes(frame[:4], "big")
    header = json.loads(frame[4 : 4 + size].decode())
    assert (header["key"], header["messageId"], frame[4 + size :]) == ("\u20ac", id_of(1), b"\xffraw")
    assert "payload" not in header


def test_v1_tells_keys_that_are_no_text_in_base64() -> None:
    """Under names that say so."""
    said = json.loads(V1.message(message(key=b"\xff", ordering_key=b"\xfe")))
    assert {name: value for name, value in said.items() if "key" in name.lower()} == {
        "keyBase64": "/w==",
        "orderingKeyBase64": "/g==",
    }


@pytest.mark.parametrize("text", ["", "plain", 'a"b\\c/', "\0\n\r\t\x1f\x7f", "é€😀\u2028", "</script>"])
def test_v2_writes_what_json_writes(text: str) -> None:
    """Its messages are put together by hand: keys and properties hold whatever their producer likes."""
    properties = {text: text, "two": "2"}
    fields = {"key": text.encode(), "payload": b"\xff\xfe\xfd", "event_time_ms": 1_500, "redelivery_count": 3}
    for has in ({}, properties):
        expected = {
            "messageId": ID,
            "payload": "//79",
            "properties": has,
            "publishTime": "1970-01-01T00:00:00Z",
            "redeliveryCount": 3,
            "eventTime": "1970-01-01T00:00:01.5Z",
            "key": text,
        }
        said = V2.message(message(properties=has, **fields))
        assert said == json.dumps(expected, ensure_ascii=False, separators=(",", ":"))


def test_v2_always_tells_a_key_as_text() -> None:
    """Its clients know nothing else."""
    assert json.loads(V2.message(message(key=b"a\xff")))["key"] == "a\ufffd"


@pytest.mark.parametrize(
    ("milliseconds", "said"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (1_700_000_000_000, "2023-11-14T22:13:20Z"),
        (1_700_000_000_880, "2023-11-14T22:13:20.88Z"),
        (1_700_000_000_008, "2023-11-14T22:13:20.008Z"),
        (1_700_000_000_100, "2023-11-14T22:13:20.1Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59.999Z"),
        (253_402_300_800_000, "253402300800000"),
        (2**64 - 1, str(2**64 - 1)),
    ],
)
def test_a_moment_is_told_as_pulsar_s_service_does(milliseconds: int, said: str) -> None:
    """As many digits as it takes; the number where no calendar goes so far."""
    assert moment(milliseconds) == said
