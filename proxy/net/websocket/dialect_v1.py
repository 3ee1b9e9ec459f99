"""Keyline's own WebSocket protocol, with features that Pulsar's lacks.

Acknowledgements get receipts and may name several messages; a message has its topic, slot, ordering key and
attempt; payloads may be sent as bytes; an invalid command gets an error and keeps the connection. See
docs/websocket.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.net.websocket.json_words import base64, encryption_context, position_of, read_object, to_json
from proxy.net.websocket.words import (
    Acknowledge,
    AskEndOfTopic,
    Permit,
    Refuse,
    Unsubscribe,
    Word,
    WordError,
    moment,
    whole_number,
)
from proxy.wire.metadata import NONE_KEY, decode_key

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.websocket.link import Frame
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.message_position import MessagePosition

PLACES_MAX = 1_000
"""Messages that one command may name."""
_SIZE_BYTES = 4
_TYPES = "ack, nack, permit, unsubscribe, isEndOfTopic"


class DialectV1:
    """Text frames of JSON; with `binary` a message is a binary frame of header size, JSON header and payload."""

    def __init__(self, slot_of: Callable[[bytes], int], *, binary: bool) -> None:
        """`slot_of` gives the slot of a sticky key."""
        self._slot_of = slot_of
        self._binary = binary

    def read(self, frame: Frame) -> Word:
        """As the protocol says."""
        said = read_object(frame)
        request_id = _request_id(said)
        match said.get("type"):
            case "ack":
                return Acknowledge(_places(said, request_id), request_id)
            case "nack":
                return Refuse(_places(said, request_id))
            case "permit":
                return Permit(whole_number(said.get("messages"), "messages", least=1, request_id=request_id))
            case "unsubscribe":
                return Unsubscribe()
            case "isEndOfTopic":
                return AskEndOfTopic()
            case other:
                message = f"type is {str(other)[:100]!r}, it should be one of {_TYPES}"
                raise WordError(message, request_id)

    def message(self, message: SocketMessage) -> Frame:
        """As the protocol says; absent values are omitted."""
        values: dict[str, Any] = {
            "type": "message",
            "messageId": message.position.message_id,
            "topic": message.topic,
            "slot": self._slot_of(message.sticky_key),
            "attempt": message.redelivery_count + 1,
            **_key("key", _decoded(message)),
            **_key("orderingKey", message.ordering_key),
            "properties": message.properties,
            "publishTime": moment(message.publish_time_ms),
            "producerName": message.producer_name,
            "sequenceId": message.sequence_id,
        }
        if message.event_time_ms:
            values["eventTime"] = moment(message.event_time_ms)
        if message.schema_version:
            values["schemaVersion"] = base64(message.schema_version)
        if message.encryption is not None:
            values["encryptionContext"] = encryption_context(message.encryption)
        if not self._binary:
            values["payload"] = base64(message.payload)
            return to_json(values)
        header = to_json(values).encode(errors="replace")
        return b"".join((len(header).to_bytes(_SIZE_BYTES, "big"), header, message.payload))

    def joined(self, topics: list[str]) -> Frame:
        """The topics that are consumed: one, or every partition."""
        return to_json({"type": "joined", "topics": topics})

    def receipt(self, request_id: int, not_held: list[str], error: str | None) -> Frame:
        """With the ids that this worker no longer held, and the error if there was one."""
        values: dict[str, Any] = {"type": "receipt", "requestId": request_id}
        if not_held:
            values["notHeld"] = not_held
        if error is not None:
            values["error"] = error
        return to_json(values)

    def end_of_topic(self, *, reached: bool, asked: bool) -> Frame:  # noqa: ARG002 - the same words
        """Requested or not."""
        return to_json({"type": "endOfTopic", "reached": reached})

    def mistake(self, error: WordError) -> Frame:
        """The error."""
        values: dict[str, Any] = {"type": "error", "message": str(error)}
        if error.request_id is not None:
            values["requestId"] = error.request_id
        return to_json(values)


def _request_id(said: dict[str, Any]) -> int | None:
    value = said.get("requestId")
    return None if value is None else whole_number(value, "requestId")


def _places(said: dict[str, Any], request_id: int | None) -> tuple[MessagePosition, ...]:
    ids = said.get("messageIds")
    if not isinstance(ids, list) or not 1 <= len(ids) <= PLACES_MAX:
        message = f"messageIds should be a list of 1 to {PLACES_MAX} ids"
        raise WordError(message, request_id)
    return tuple(position_of(value, request_id) for value in ids)


def _decoded(message: SocketMessage) -> bytes | None:
    """The key's own bytes; unchanged if they are not valid Base64 although the producer says so."""
    if message.key is None or not message.key_base64:
        return message.key
    decoded = decode_key(message.key)
    return message.key if decoded == NONE_KEY else decoded


def _key(name: str, value: bytes | None) -> dict[str, str]:
    """A key as text; if it is not UTF-8, in Base64 under another name."""
    if value is None:
        return {}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}Base64": base64(value)}
