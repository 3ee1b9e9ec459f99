"""The W3C trace contexts that producers put into their messages' properties.

An entry that is one message has them in its metadata, a batch in the metadata of each of its messages. Only sampled
entries are looked at. A batch is opened for it if that costs little; a larger one is traced without its producers.
Clients write properties: what is too long is no context, and the official propagator judges the rest.

Source: W3C Trace Context; `MessageMetadata` and `SingleMessageMetadata` in `pulsar.proto`.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from proxy.wire.batch import walk_batch
from proxy.wire.codecs import decompress
from proxy.wire.errors import WireError
from proxy.wire.metadata import can_peek, peek

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.wire.pulsar_pb2 import KeyValue

OPENED_BYTES_MAX: Final = 65_536
"""Uncompressed bytes of a batch that is opened."""
CONTEXTS_MAX: Final = 32
"""Messages of a batch whose producers' contexts are kept."""
TRACEPARENT_BYTES: Final = 55
"""Of version 00; a later version may add something, which is not needed to join."""
TRACESTATE_CHARACTERS_MAX: Final = 512


class Context(NamedTuple):
    """As the properties have it."""

    traceparent: str
    tracestate: str


def contexts_of(tail: bytes) -> tuple[Context, ...]:
    """The different contexts of an entry's messages; none where there is none or the entry cannot be read."""
    try:
        metadata, _, start = peek(tail)
        own = _context(metadata.properties)
        if own is not None:
            return (own,)
        if not metadata.HasField("num_messages_in_batch") or not can_peek(metadata):
            return ()
        size = metadata.uncompressed_size if metadata.compression else len(tail) - start
        if size > OPENED_BYTES_MAX:
            return ()
        payload = decompress(metadata.compression, tail[start:], metadata.uncompressed_size, OPENED_BYTES_MAX)
        singles = islice(walk_batch(payload, metadata.num_messages_in_batch), CONTEXTS_MAX)
        found = (_context(single.properties) for single, _, _ in singles)
        return tuple(dict.fromkeys(context for context in found if context is not None))
    except WireError:
        return ()


def _context(properties: Iterable[KeyValue]) -> Context | None:
    """Of one message. What is no UTF-8 protobuf gives as bytes, on which the propagator would fail."""
    parent = state = ""
    for each in properties:
        value: object = each.value
        if not isinstance(value, str):
            continue
        if each.key == "traceparent":
            parent = value
        elif each.key == "tracestate" and len(value) <= TRACESTATE_CHARACTERS_MAX:
            state = value
    return Context(parent, state) if len(parent) == TRACEPARENT_BYTES else None
