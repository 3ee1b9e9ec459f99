"""Redriven messages under an id that the original topic uses for another one: such a copy is none of the gateway's own.

Problem: a redriven message is delivered by its former id, and a worker's acks name ids. A client that may publish to
the parking topic can have a copy there claim the id of any message. Rule kept: no two messages with one id are on their
way to workers. A copy is not fed while the original topic's message of that id is here, as one of another slot; and if
that comes later, the copy is taken back, and its redrive ends. One of the same slot waits anyway until the redrive is
over. What the original topic sends is never held up.

Functions of a dispatcher's state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core import parking
from proxy.core.acknowledgement import redeliver
from proxy.core.entry import Batch

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part


def is_taken(dispatcher: Dispatcher, part: Part) -> bool:
    """Whether a part that is to be fed has the id of something else that is here."""
    if any(each.indexes == part.indexes for each in dispatcher.diversions.fed.get(part.position, ())):
        return True
    entry = dispatcher.outstanding.entries.get(part.position)
    own = () if entry is None else entry.parts if isinstance(entry, Batch) else (entry,)
    return any(_is_another(each, part) for each in own)


def take_back(dispatcher: Dispatcher, own: Part, now: float) -> None:
    """The original topic sends this: what was fed by its id and is of another slot goes back to the lot."""
    diversions = dispatcher.diversions
    for part in [each for each in diversions.fed.get(own.position, ()) if _is_another(own, each)]:
        parking.give_up(dispatcher, part)
        diversions.forged += 1
        worker = None if part.holder is None else dispatcher.workers.get(part.holder.index)
        if worker is not None and worker.pending.get(part.key) is part:
            redeliver(dispatcher, worker, (part.key,), now)


def _is_another(own: Part, fed: Part) -> bool:
    """Whether they share messages' ids, and not the slot."""
    if fed.slot in own.distinct_slots():
        return False
    return own.indexes is None or fed.indexes is None or fed.indexes[0] in own.indexes
