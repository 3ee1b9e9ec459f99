"""Message ids that a client kept from a worker of ours and now shows to the broker.

A worker that got a slice of a batch knows it by an id of our making (`core.slice_id`). Its application may store that
id and start a reader there, or seek another subscription to it: the broker must see the entry the slice was cut from.
An index within the slice means nothing in the entry and is taken out: the reader begins at the whole entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.slice_id import SLICE_FLAG, original_entry

if TYPE_CHECKING:
    from proxy.wire import pulsar_pb2 as pb

LATEST_ENTRY: Final = 2**63 - 1
"""`MessageId.latest`. `MessageId.earliest` is -1, so 2**64 - 1; both have the bit that marks a slice, and are none."""


def unmask(message_id: pb.MessageIdData) -> bool:
    """Turn a slice's id into its entry's, in place; false when it was none."""
    if not SLICE_FLAG <= message_id.entryId < LATEST_ENTRY:
        return False
    message_id.entryId = original_entry(message_id.entryId)
    message_id.ClearField("batch_index")
    message_id.ClearField("batch_size")
    message_id.ClearField("ack_set")
    return True
