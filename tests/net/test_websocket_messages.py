"""From entries to a WebSocket client's messages: single ones, batches, what is left of a batch, and what they say."""

from __future__ import annotations

import json
from base64 import b64encode

import pytest

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.codecs import compress
from tests.net.websocket_rig import TOPIC, WebsocketRig, batch, id_of, member, numbered, single

CODECS = [pb.NONE, pb.LZ4, pb.ZLIB, pb.ZSTD, pb.SNAPPY]


def keyless_member() -> bytes:
    """One message of a batch, of no key."""
    head = pb.SingleMessageMetadata(payload_size=0).SerializeToString()
    return len(head).to_bytes(4, "big") + head


def unchecked(tail: bytes) -> bytes:
    """A tail without its checksum, as very old producers write it."""
    return tail[6:]


def test_v1_says_all_that_a_message_has() -> None:
    """And nothing of what it has not."""
    rig = WebsocketRig().join()
    property_ = pb.KeyValue(key="shop", value="9")
    tail = single(b"\x00\xff", ordering_key=b"ord", event_time=1_000, schema_version=b"\x01", properties=[property_])
    rig.deliver(5, tail, tries=2)
    assert rig.heard() == [
        {
            "type": "message",
            "messageId": id_of(5),
            "topic": TOPIC,
            "slot": len("ord"),
            "attempt": 3,
            "key": "k",
            "orderingKey": "ord",
            "properties": {"shop": "9"},
            "publishTime": "2023-11-14T22:13:20.88Z",
            "producerName": "shop",
            "sequenceId": 3,
            "eventTime": "1970-01-01T00:00:01Z",
            "schemaVersion": "AQ==",
            "payload": "AP8=",
        }
    ]
    rig.deliver(6, batch(member(b"")))
    (said,) = rig.heard()
    assert not {"orderingKey", "eventTime", "schemaVersion", "encryptionContext"} & said.keys()


def test_v2_says_what_pulsar_s_service_says() -> None:
    """Under the same names."""
    rig = WebsocketRig(dialect="v2").join()
    rig.deliver(5, single(b"abc", event_time=1_000), tries=1)
    assert rig.heard() == [
        {
            "messageId": id_of(5),
            "payload": "YWJj",
            "properties": {},
            "publishTime": "2023-11-14T22:13:20.88Z",
            "redeliveryCount": 1,
            "eventTime": "1970-01-01T00:00:01Z",
            "key": "k",
        }
    ]


def test_binary_messages_carry_their_payload_as_it_is() -> None:
    """Header size, header, payload; the rest of the talk stays text."""
    rig = WebsocketRig(binary=True).join()
    rig.deliver(1, single(b"\x00\xff{"))
    (frame,) = rig.socket.frames
    assert isinstance(frame, bytes)
    size = int.from_bytes(frame[:4], "big")
    assert json.loads(frame[4 : 4 + size])["messageId"] == id_of(1)
    assert frame[4 + size :] == b"\x00\xff{"


@pytest.mark.parametrize("partition", [-1, 0, 2])
def test_a_batch_becomes_messages_with_ids_of_their_own(partition: int) -> None:
    """In order, each with its index and its partition; a batch of one is a batch."""
    rig = WebsocketRig().join(partition + 1)
    rig.deliver(1, numbered(3), max(partition, 0))
    rig.deliver(2, numbered(1), max(partition, 0))
    places = [(1, 0, 3), (1, 1, 3), (1, 2, 3), (2, 0, 1)]
    assert rig.got() == [(id_of(entry, index, size, partition), str(index).encode()) for entry, index, size in places]


@pytest.mark.parametrize(
    ("count", "ack_set", "left"),
    [
        (3, (0b101,), [0, 2]),
        (70, (0, 1 << 1), [65]),
        (70, (-(1 << 63), 0b100001), [63, 64, 69]),
        (70, (1,), [0]),
        (3, (-1, -1), [0, 1, 2]),
    ],
)
def test_what_was_acknowledged_of_a_batch_does_not_come(count: int, ack_set: tuple[int, ...], left: list[int]) -> None:
    """The broker's words are signed, and may be more or fewer than the batch needs."""
    rig = WebsocketRig().join()
    rig.deliver(1, numbered(count), ack_set=ack_set)
    assert rig.got_ids() == [id_of(1, index, count) for index in left]


@pytest.mark.parametrize("codec", CODECS)
def test_compressed_payloads_are_opened(codec: pb.CompressionType) -> None:
    """Of single messages and of batches."""
    rig = WebsocketRig().join()
    plain = b"abc" * 50
    rig.deliver(1, single(compress(codec, plain), compression=codec, uncompressed_size=len(plain)))
    both = member(b"one") + member(b"two")
    fields = {"num_messages_in_batch": 2, "compression": codec, "uncompressed_size": len(both)}
    rig.deliver(2, single(compress(codec, both), **fields))
    assert [payload for _, payload in rig.got()] == [plain, b"one", b"two"]


def test_what_compaction_took_out_is_passed_over() -> None:
    """The others keep their indexes, and it takes no room."""
    rig = WebsocketRig(outstanding_max=2).join()
    rig.deliver(1, batch(member(b"old", compacted_out=True), member(b"new"), member(b"newer")))
    assert rig.got() == [(id_of(1, 1, 3), b"new"), (id_of(1, 2, 3), b"newer")]


def test_a_null_value_is_an_empty_payload() -> None:
    """A tombstone reaches the client, alone or in a batch."""
    rig = WebsocketRig().join()
    rig.deliver(1, single(b"", null_value=True))
    rig.deliver(2, batch(member(b"", null_value=True)))
    assert [payload for _, payload in rig.got()] == [b"", b""]


@pytest.mark.parametrize(("own", "outer", "second"), [(2_000, 1_000, 2), (0, 1_000, 1), (2_000, 0, 2)])
def test_event_time_is_the_message_s_own_or_its_batch_s(own: int, outer: int, second: int) -> None:
    """The nearer one counts."""
    rig = WebsocketRig().join()
    rig.deliver(1, batch(member(b"", event_time=own), event_time=outer))
    assert rig.heard()[0]["eventTime"] == f"1970-01-01T00:00:0{second}Z"


def test_a_member_has_its_own_key_and_properties() -> None:
    """The batch's are the first message's at most."""
    rig = WebsocketRig().join()
    own = pb.KeyValue(key="a", value="b")
    first = member(b"", partition_key=b"first", ordering_key=b"order")
    second = member(b"", partition_key=b"2nd", properties=[own], sequence_id=8)
    rig.deliver(1, batch(first, second, partition_key=b"outer", properties=[pb.KeyValue(key="x", value="y")]))
    said = rig.heard()
    assert [(each["key"], each.get("orderingKey"), each["slot"]) for each in said] == [
        ("first", "order", 5),
        ("2nd", None, 3),
    ]
    assert [each["properties"] for each in said] == [{}, {"a": "b"}]
    assert [each["sequenceId"] for each in said] == [3, 8]


@pytest.mark.parametrize(
    ("key", "encoded", "said"),
    [
        (b"plain", False, {"key": "plain"}),
        (b"", False, {"key": ""}),
        ("\u00e9".encode(), False, {"key": "\u00e9"}),
        (b64encode(b"text"), True, {"key": "text"}),
        (b64encode(b"\xff\x00"), True, {"keyBase64": "/wA="}),
        (b"\xff", False, {"keyBase64": "/w=="}),
        (b"dGV4dA", True, {"key": "text"}),
        (b"!", True, {"key": "!"}),
        (b"abcde", True, {"key": "abcde"}),
    ],
)
def test_v1_tells_keys_as_text_where_they_are_text(key: bytes, encoded: bool, said: dict[str, str]) -> None:  # noqa: FBT001 - a case
    """Base64 of the producer's making is undone; what is no text says so by its name."""
    rig = WebsocketRig().join()
    rig.deliver(1, single(partition_key=key, partition_key_b64_encoded=encoded))
    heard = rig.heard()[0]
    assert {name: value for name, value in heard.items() if name.startswith("key")} == said


def test_v2_tells_keys_as_they_came() -> None:
    """Base64 stays what it is, and a missing key is not said."""
    rig = WebsocketRig(dialect="v2").join()
    rig.deliver(1, single(partition_key=b64encode(b"text"), partition_key_b64_encoded=True))
    rig.deliver(2, batch(keyless_member()))
    first, second = rig.heard()
    assert first["key"] == b64encode(b"text").decode()
    assert "key" not in second


@pytest.mark.parametrize("dialect", ["v1", "v2"])
def test_text_that_is_no_utf_8_does_not_stop_the_flow(dialect: str) -> None:
    """Such a property is read as bytes, which JSON does not know; the message comes all the same."""
    tail = single(properties=[pb.KeyValue(key="@@@", value="v")])
    rig = WebsocketRig(dialect=dialect).join()
    rig.deliver(1, unchecked(tail.replace(b"@@@", b"\xff\xfe\xfd")))
    rig.deliver(2, single())
    assert [said["messageId"] for said in rig.heard()] == [id_of(1), id_of(2)]


def test_more_than_one_turn_s_worth_arrives_in_order() -> None:
    """Messages go out a few in a turn, and none is left behind."""
    rig = WebsocketRig().join()
    rig.deliver(1, numbered(100))
    rig.deliver(2, numbered(3))
    assert rig.got_ids() == [id_of(1, index, 100) for index in range(100)] + [id_of(2, index, 3) for index in range(3)]


def test_an_absurd_publish_time_is_told_as_a_number() -> None:
    """No calendar goes so far, and the message comes all the same."""
    rig = WebsocketRig().join()
    rig.deliver(1, single(publish_time=2**63))
    assert rig.heard()[0]["publishTime"] == str(2**63)
