"""JSON of both protocols."""

from __future__ import annotations

import json
from base64 import b64encode
from typing import TYPE_CHECKING, Any

from proxy.net.websocket.message_position import MessagePosition, read_message_position
from proxy.net.websocket.words import WordError

if TYPE_CHECKING:
    from proxy.net.websocket.link import Frame
    from proxy.net.websocket.message import Encryption

SHOWN_MAX = 100
"""Characters of a client's text that an error repeats."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_quote = json.encoder.encode_basestring


def to_json(values: dict[str, Any]) -> str:
    """One object, without white space."""
    return _encode(values)


def quoted(text: str) -> str:
    """A string, with quotation marks."""
    return _quote(text)


def base64(data: bytes) -> str:
    """Bytes as text."""
    return b64encode(data).decode()


def read_object(frame: Frame) -> dict[str, Any]:
    """Read a frame that must be one JSON object. Raises `WordError`."""
    if isinstance(frame, bytes):
        raise WordError("binary frames are not taken; commands are JSON in text frames")
    try:
        value = json.loads(frame)
    except (ValueError, RecursionError) as error:
        message = f"not JSON: {error}: {frame[:SHOWN_MAX]!r}"
        raise WordError(message) from error
    if not isinstance(value, dict):
        message = f"{frame[:SHOWN_MAX]!r} is not a JSON object"
        raise WordError(message)
    return value


def position_of(value: object, request_id: int | None = None) -> MessagePosition:
    """Read a messageId. Raises `WordError`."""
    if not isinstance(value, str):
        message = f"messageId is {str(value)[:SHOWN_MAX]!r}, it should be the text that came with the message"
        raise WordError(message, request_id)
    try:
        return read_message_position(value)
    except ValueError as error:
        raise WordError(str(error), request_id) from error


def encryption_context(encryption: Encryption) -> dict[str, Any]:
    """Pulsar's `EncryptionContext` as its JSON has it."""
    return {
        "keys": {
            name: {"keyValue": base64(value), "metadata": metadata}
            for name, (value, metadata) in encryption.keys.items()
        },
        "param": base64(encryption.param),
        "algorithm": encryption.algorithm,
        "compressionType": encryption.compression,
        "uncompressedMessageSize": encryption.uncompressed_bytes,
        "batchSize": encryption.batch_size,
    }
