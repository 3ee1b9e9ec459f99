"""A message for a WebSocket worker's client."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from proxy.net.websocket.message_position import MessagePosition


class Encryption(NamedTuple):
    """Data for reading a payload that its producer encrypted; Pulsar's `EncryptionContext`."""

    keys: dict[str, tuple[bytes, dict[str, str]]]
    """By name: the encrypted data key, and the producer's metadata of it."""
    param: bytes
    algorithm: str
    compression: str
    uncompressed_bytes: int
    batch_size: int | None
    """Messages in the payload, if it is a batch."""


class SocketMessage(NamedTuple):
    """One message, its payload ready to use unless it is encrypted."""

    position: MessagePosition
    topic: str
    payload: bytes
    key: bytes | None
    """The partition key's bytes, as sent: Base64 where the producer chose that."""
    key_base64: bool
    ordering_key: bytes | None
    sticky_key: bytes
    """What decides about order."""
    properties: dict[str, str]
    publish_time_ms: int
    event_time_ms: int
    """0 for none."""
    producer_name: str
    sequence_id: int
    schema_version: bytes
    redelivery_count: int
    encryption: Encryption | None
