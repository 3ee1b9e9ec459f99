"""Which of the messages that came back have used their attempts, and what goes with them.

Functions of a dispatcher's state.

An attempt is a delivery that came back. Two deliveries that came back are no last attempt:

- one of several messages, which a client gives back together: each of them is delivered alone once more;
- one that a worker had when it left, if it also had an earlier message of the slot: it worked at that one.

So no message is given up that no worker has had in its hands. A chunked message is in a worker's hands when that has
all of it. Its attempts are those of the chunk that came back most often, since clients may ask for one chunk and mean
the message. It is given up with all its chunks, so that none is delivered any more: those that wait here go at once,
those that come later when they come. (What is parked needs no such care: all of its slot goes.) One that is asked for
although its worker lacks chunks was dropped by its client: that is an attempt, too, or it would come again for ever if
they never come.

Source: design section 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core import parking
from proxy.core.diversions import is_last_attempt
from proxy.core.entry import topic_order
from proxy.core.whole_messages import by_message, is_whole, message_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.whole_messages import Name


def judge(
    dispatcher: Dispatcher, returned: Collection[Part], seen: Collection[Part], now: float, *, wanted: bool
) -> Container[int]:
    """Give up what has used its attempts of what has been `returned`; returns its object ids. The caller places it.

    `seen` are those of them that the worker got, in the order sent, `wanted` if it asked for them. They are counted
    already.
    """
    if not dispatcher.policy.max_attempts:
        return ()
    over = _used_up(dispatcher, returned, seen, wanted=wanted)
    if over:
        given_up = sorted((part for part in returned if id(part) in over), key=topic_order)
        for part in given_up:
            parking.give_up(dispatcher, part)
        if dispatcher.policy.dead_letter_after:
            _give_up_rest(dispatcher, given_up, now)
    return over


def _used_up(dispatcher: Dispatcher, returned: Collection[Part], seen: Collection[Part], *, wanted: bool) -> set[int]:
    """As `judge` says. One without bytes, which may be since the policy was another, is delivered once more."""
    attempts, lacks = dispatcher.policy.max_attempts, dispatcher.outstanding.spill.lacks
    over: set[int] = set()
    in_hands: dict[Name, None] = {}
    before: set[int] = set()
    for part in seen:
        if part.chunk is not None and not (wanted or part.chunk.is_last):
            continue
        if wanted or part.slot not in before:
            if part.chunk is not None:
                in_hands[message_of(part)] = None
            elif is_last_attempt(part, attempts) and not lacks(part):
                over.add(id(part))
        before.add(part.slot)
    expected = dispatcher.diversions.expected
    if in_hands or expected:
        for name, chunks in by_message(returned).items():
            if name in expected or (name in in_hands and _is_over(dispatcher, name, chunks, wanted=wanted)):
                over.update(map(id, chunks))
    return over


def _is_over(dispatcher: Dispatcher, name: Name, chunks: Collection[Part], *, wanted: bool) -> bool:
    """Whether a message is not to be delivered again of which these chunks came back."""
    if max(part.redeliveries for part in chunks) < dispatcher.policy.max_attempts:
        return False
    if not (wanted or is_whole(chunks)):
        return False
    return not any(map(dispatcher.outstanding.spill.lacks, (*chunks, *_waiting_of(dispatcher, name))))


def _waiting_of(dispatcher: Dispatcher, name: Name) -> list[Part]:
    """Chunks of the message that wait here. Walks what waits of its slot, and for all workers."""
    return [part for part in dispatcher.waiting_in(name[1]) if part.chunk is not None and message_of(part) == name]


def _give_up_rest(dispatcher: Dispatcher, given_up: Iterable[Part], now: float) -> None:
    """What else there is of chunked messages of which these chunks came back and go to the dead letter topic."""
    diversions = dispatcher.diversions
    for name, chunks in by_message(part for part in given_up if not part.foreign).items():
        waiting = _waiting_of(dispatcher, name)
        for part in waiting:
            if not diversions.has(part):
                diversions.add(part)
        for worker in dispatcher.workers.values():
            moved = [part for part in waiting if part in worker.ready]
            for part in moved:
                worker.ready.remove(part)
            dispatcher.place(moved, now)
        if not is_whole([*chunks, *waiting]):
            diversions.expect(name)
