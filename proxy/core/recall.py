"""What is kept of messages' attempts as a subscription ends, and recalled as its messages come again.

Functions of a dispatcher's state. What used its last attempt as the subscription ended goes to the dead letter topic
when it comes again, or parks its key, without another delivery. A batch comes whole again, and each of its messages is
delivered alone, as it would have been before.
"""

from __future__ import annotations

from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING

from proxy.core import parking
from proxy.core.diversions import is_last_attempt
from proxy.core.earlier_attempts import ALL, MESSAGES_MAX, Earlier
from proxy.core.entry import Batch
from proxy.core.index_bits import indexes_to_bits
from proxy.core.whole_messages import message_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.earlier_attempts import ByPosition
    from proxy.core.entry import Part
    from proxy.core.serving import Serving


def attempts_of(dispatcher: Serving) -> ByPosition:
    """What is to be kept: of those that have been at a worker the ones with most attempts, and what has not come yet.

    Nothing without a bound of attempts.
    """
    if not dispatcher.policy.max_attempts:
        return {}
    found = {position: list(known) for position, known in dispatcher.diversions.earlier.items()}
    entries = dispatcher.outstanding.entries.values()
    parts = chain.from_iterable(entry.parts if isinstance(entry, Batch) else (entry,) for entry in entries)
    delivered = (part for part in parts if part.attempts)
    for part in nsmallest(MESSAGES_MAX - len(found), delivered, key=_most_attempts_first):
        bits = ALL if part.indexes is None else indexes_to_bits(part.indexes, part.total)
        given_up, last = _is_given_up(dispatcher, part), dispatcher.diversions.last_of(part)
        earlier = Earlier(bits, part.attempts, part.redeliveries, part.spared, given_up, last)
        found.setdefault(part.position, []).append(earlier)
    return found


def recalled(dispatcher: Serving, part: Part) -> Iterable[Part]:
    """What has come, in pieces that know their attempts; the caller places them. Of most nothing is known."""
    known = dispatcher.diversions.recollect(part.position)
    if not known:
        return (part,)
    pieces = parking.each_alone(dispatcher, part)
    for piece in pieces:
        index = piece.message_indexes()[0]
        for earlier in known:
            if earlier.bits >> index & 1:
                _apply(dispatcher, piece, earlier)
    return pieces


def _apply(dispatcher: Serving, piece: Part, earlier: Earlier) -> None:
    piece.attempts = earlier.attempts
    piece.redeliveries = max(piece.redeliveries, earlier.redeliveries)
    piece.spared = earlier.spared
    if earlier.given_up and dispatcher.policy.max_attempts and not dispatcher.diversions.has(piece):
        parking.give_up(dispatcher, piece)
        # Of others nothing may be known. Of a parked key all goes, once no worker has any of it.
        if dispatcher.policy.dead_letter_after and piece.chunk is not None and not piece.chunk.is_last:
            dispatcher.diversions.expect(message_of(piece), last=earlier.last)


def _most_attempts_first(part: Part) -> tuple[int, tuple[int, int]]:
    return -part.attempts_used, part.order


def _is_given_up(dispatcher: Serving, part: Part) -> bool:
    """Whether it goes to another topic. If it parked its slot, that topic may know nothing of it yet."""
    diversions = dispatcher.diversions
    parked = part.slot in diversions.parked and is_last_attempt(part, dispatcher.policy.max_attempts)
    return parked or diversions.has(part)
