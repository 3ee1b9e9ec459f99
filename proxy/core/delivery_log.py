"""The endings of deliveries, recorded for the journal.

A dispatcher notes nothing unless it is asked to (`Dispatcher.endings`). What is noted is what was true in that moment:
a returned message may be on its way to the next worker before the note is read.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from proxy.core.entry import Part
    from proxy.core.worker import Worker


class How(IntEnum):
    """What ended it."""

    ACKED = 1
    RETURNED = 2
    """Its worker gave it back, or left: it is to be delivered again."""
    DROPPED = 3
    """It is here no more: its stream went to another replica, the cursor was moved, or it was acknowledged in a
    transaction whose end is not seen."""
    ASKED_FOR = 4
    """Its worker asked for it again: it is to be delivered when the policy's pause is over, and nothing of its slot
    before."""
    GIVEN_UP = 5
    """It came back for the last time: it goes to another topic, or its slot is parked."""
    COMMITTED = 6
    """Acknowledged in a transaction, which was committed."""
    ABORTED = 7
    """Acknowledged in one that was aborted: it is to be delivered again."""


ENDED: Final = {
    How.ACKED: "acked",
    How.RETURNED: "returned",
    How.DROPPED: "dropped",
    How.ASKED_FOR: "returned",
    How.GIVEN_UP: "returned",
    How.COMMITTED: "acked",
    How.ABORTED: "returned",
}
"""What it is called by those who need not know why."""

LISTED_MAX: Final = 1 << 12
"""Up to so many messages of an entry that cannot be cut are noted one by one. A client's batch has 1,000 by default."""

Ending: TypeAlias = "tuple[How, Part, Worker, float, float, int, Sequence[int] | None]"
"""How, what, whose it was, when, when it had been sent, which attempt it was, and which messages of the entry by their
indexes; None for all that the part has, which is so where it is its last, and for what is noted `as_one`. A plain
tuple: one is made for every message.
"""


def as_one(part: Part) -> bool:
    """Whether a delivery of the part is noted as one, which ends with its last message.

    An entry that cannot be cut may claim a million messages in a hundred bytes, and a client could have each of them
    noted with one command. What can be cut has 32,768 at most.
    """
    return part.count > LISTED_MAX and part.slots is None and part.digest.__class__ is int and not part.divisible


def note(endings: list[Ending], how: How, part: Part, worker: Worker, now: float) -> None:
    """A part ended, but for what of it was acknowledged one by one before."""
    indexes: Sequence[int] | None = None
    # What comes back may be cut or joined before the note is read.
    some = part.acked or (how is not How.ACKED and (part.count > 1 or part.batch is not None))
    if some and not as_one(part):
        indexes = part.unacked_indexes()
    endings.append((how, part, worker, now, part.sent_at, part.attempts, indexes))


def tell_why(endings: list[Ending], places: Iterable[int], given_up: Container[int], *, wanted: bool) -> None:
    """What the notes at these places are in truth: that is known only when all was taken back.

    Of what was `given_up`, by object id, and of the others, if the worker `wanted` them again.
    """
    for place in places:
        ending = endings[place]
        over = id(ending[1]) in given_up
        if over or wanted:
            endings[place] = (How.GIVEN_UP if over else How.ASKED_FOR, *ending[1:])
