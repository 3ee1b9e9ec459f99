"""The end of a message that left for another topic: see `diversions`. A function of a dispatcher's state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.acknowledgement import complete

if TYPE_CHECKING:
    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part


def arrived(dispatcher: Dispatcher, part: Part, now: float) -> None:
    """The other topic has the part: it is done, and its slot goes on. Nothing happens if it was dropped meanwhile.

    Nor, if it is a chunk, before that topic has all of its message.
    """
    diversions = dispatcher.diversions
    if diversions.has(part):
        for each in diversions.stored(part):
            _leave(dispatcher, each, now)


def _leave(dispatcher: Dispatcher, part: Part, now: float) -> None:
    diversions = dispatcher.diversions
    diversions.remove(part)
    diversions.messages_total += part.count
    slot = part.slot
    parts = dispatcher.blocked[slot].parts
    parts.remove(part)
    dispatcher.waiting_messages -= part.count
    if not parts:
        # Before a join gate opens and a worker is served: a slot is blocked only while something of it waits.
        dispatcher.forget_blocked(slot)
    complete(dispatcher, part, now)
    dispatcher.chunked.give_up(part)
    if slot not in diversions.held:
        dispatcher.settle((slot,), now)
        dispatcher.serve_begun(now)
