"""Message ids of slices: what a worker calls a part of an entry.

A worker that gets only some messages of an entry gets them as a smaller batch. Its client acknowledges that batch by
(ledger, entry) alone, so two slices of one entry must not bear the same id, nor may a late acknowledgement of one ever
count for another: not at the same worker, not after a reconnect, not after the gateway was restarted and cut the entry
again. A counter cannot guarantee that. So the id is made from the content: the same messages of the same entry always
have the same id, other messages another one.

Layout of the 63 usable bits: bit 62 set | entry (27) | first index (15) | digest of the indexes (20). Ids of slices
therefore sort by entry, then by first message. A whole entry always keeps its real id.

Two slices of one entry that are out at the same time share no message, so their first indexes differ, and so do their
ids: with certainty, not merely with the digest's probability. That is why the first index has room for any batch that
may be cut. The digest tells apart what is out now from what was out earlier and began with the same message.

Entries beyond 2**27 of a ledger (the default rolls over at 50,000) and batches of more than 2**15 messages (the
clients' default ends a batch at 128 KB or 1,000 messages) cannot be sliced; `sliceable` says so.
"""

from __future__ import annotations

import zlib
from array import array
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

SLICE_FLAG: Final = 1 << 62
ENTRY_BITS: Final = 27
FIRST_INDEX_BITS: Final = 15
DIGEST_BITS: Final = 20

_ENTRY_SHIFT: Final = FIRST_INDEX_BITS + DIGEST_BITS
_ENTRY_MASK: Final = (1 << ENTRY_BITS) - 1
_DIGEST_MASK: Final = (1 << DIGEST_BITS) - 1

SLICED_MESSAGES_MAX: Final = 1 << FIRST_INDEX_BITS
"""Messages of a batch that may be cut."""


def sliceable(entry: int, messages: int = 1) -> bool:
    """Whether slices of a batch of `messages` with this entry id can have ids."""
    return 0 <= entry <= _ENTRY_MASK and messages <= SLICED_MESSAGES_MAX


def slice_id(entry: int, indexes: Sequence[int]) -> int:
    """Id for the messages `indexes` (ascending, of the original batch) of `entry`."""
    assert indexes, "a slice has at least one message"
    first = indexes[0]
    right = 0 <= entry <= _ENTRY_MASK and 0 <= first < SLICED_MESSAGES_MAX
    assert right, f"entry {entry} from message {first} on cannot be sliced"
    digest = zlib.crc32(array("I", indexes)) & _DIGEST_MASK
    return SLICE_FLAG | (entry << _ENTRY_SHIFT) | (first << DIGEST_BITS) | digest


def original_entry(entry_id: int) -> int:
    """The entry a wire id speaks of: itself, or the entry a slice was cut from."""
    return (entry_id >> _ENTRY_SHIFT) & _ENTRY_MASK if entry_id & SLICE_FLAG else entry_id
