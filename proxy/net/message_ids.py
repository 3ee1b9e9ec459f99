"""Message ids that a client stored at the gateway and now sends to the broker.

A worker that got a slice of a batch knows it by a synthetic id (`core.slice_id`). Its application may store that id and
start a reader there, or seek another subscription to it: the broker must get the id of the slice's entry. An index
within the slice has no meaning in the entry and is removed: the reader starts at the whole entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.slice_id import SLICE_FLAG, original_entry

if TYPE_CHECKING:
    from proxy.wire import pulsar_pb2 as pb

UINT64_MAX: Final = 2**64 - 1
"""The wire's ids have no sign: a ledger or an entry of -1 is this, as is any below 0 behind this mask."""

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
