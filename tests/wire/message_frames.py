"""MESSAGE frames as the gateway writes them, with an ack set too: brokers send one, the gateway never does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.wire import messages
from proxy.wire.messages import NO_EXTRAS, Extras, message_start
from proxy.wire.varints import varint

if TYPE_CHECKING:
    from collections.abc import Sequence


def message_frame(
    consumer_id: int,
    ledger: int,
    entry: int,
    redelivery_count: int,
    tail: bytes,
    ack_set: Sequence[int] = (),
    extras: Extras = NO_EXTRAS,
) -> bytes:
    """A whole frame; `ack_set` holds 64-bit words, signed or not.

    Raises ValueError where a number does not fit its field.
    """
    if not ack_set:
        return message_start(consumer_id, ledger, entry, redelivery_count, extras).of(entry, len(tail)) + tail
    encoded = varint(entry)
    before, after = messages._wrap(consumer_id, ledger, len(encoded), redelivery_count, extras, ack_set)
    size = len(before) + len(encoded) + len(after) + len(tail)
    return b"".join((messages._pack_size(size), before, encoded, after, tail))
