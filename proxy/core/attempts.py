"""Which of the messages that came back have used their attempts, and what goes with them.

Functions of a dispatcher's state.

An attempt is a delivery that came back because its worker asked for it again, or left while it worked at it. What a
worker that leaves has worked at is told by nothing, so `tried_by` goes by two rules:

- It was what the worker was sent first, of all that it had. A worker that ends at a message takes the first messages of
  all its keys with it, and by the time that this one is given up they would be, too.
- A worker that closes its consumer may be one of many that shut down one after another. Each passes what it had on to
  those that remain, which have stopped working as well. So it has tried only what had come back before it joined. A
  message at which each worker ends in good order (an exception that closes the client) has at every new worker an
  attempt, and so comes to its end.

Brokers (4.0.7, 4.2.4) count none of the two, and forget their count when the last consumer leaves.

A delivery of several messages is no last attempt, since a client gives them back together: each of them is delivered
alone once more. So no message is given up that no worker has had in its hands.

A worker has a chunked message in its hands when it has all of it. Its attempts are those of the chunk that came back
most often, since clients may ask for one chunk and mean the message. It is given up with all its chunks, so that none
is delivered any more: those that wait here go at once, those that come later when they come. (What is parked needs no
such care: all of its slot goes.) One that is asked for although its worker lacks chunks was dropped by its client: that
is an attempt, too, or it would come again for ever if they never come.

Source: design section 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core import parking
from proxy.core.diversions import is_last_attempt
from proxy.core.entry import topic_order
from proxy.core.whole_messages import by_message, is_of_one_message, is_whole, message_of

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from proxy.core.dispatcher import Dispatcher
    from proxy.core.entry import Part
    from proxy.core.whole_messages import Name
    from proxy.core.worker import Worker


def tried_by(worker: Worker, *, closed: bool) -> Part | None:
    """What of its deliveries has used an attempt as the worker leaves, if one has; `closed` if it closed its consumer.

    Of a chunked message it is the last chunk. What lies in its outbox was never sent.
    """
    unsent = {id(part) for part in worker.outbox}
    in_hands = (part for part in worker.pending.values() if part.chunk is None or part.chunk.is_last)
    first = next((part for part in in_hands if id(part) not in unsent), None)
    return None if first is None or (closed and not _came_back_before(worker, first)) else first


def _came_back_before(worker: Worker, part: Part) -> bool:
    """Whether the part had come back from another when the worker joined.

    If in an earlier life of the subscription (`earlier_attempts`), it waits since it came.
    """
    return part.attempts > 1 and (part.waits_since <= worker.joined_at or part.waits_since == part.received_at)


def judge(
    dispatcher: Dispatcher,
    returned: Collection[Part],
    seen: Collection[Part],
    now: float,
    *,
    wanted: bool,
    tried: Part | None,
) -> Container[int]:
    """Give up what has used its attempts of what has been `returned`; returns its object ids. The caller places it.

    `seen` are those of them that the worker got, `wanted` if it asked for them; else it left, and `tried` one. They are
    counted as come back already.
    """
    used = seen if wanted else _spare_others(seen, tried)
    if not dispatcher.policy.max_attempts:
        return ()
    over = _used_up(dispatcher, returned, used, wanted=wanted)
    if over:
        given_up = sorted((part for part in returned if id(part) in over), key=topic_order)
        for part in given_up:
            parking.give_up(dispatcher, part)
        if dispatcher.policy.dead_letter_after:
            _give_up_rest(dispatcher, given_up, now)
    return over


def _spare_others(seen: Collection[Part], tried: Part | None) -> list[Part]:
    """Count no attempt but of what was tried, with all chunks of its message; returns that."""
    used = []
    for part in seen:
        if part is tried or (tried is not None and is_of_one_message(part, tried)):
            used.append(part)
        else:
            part.spared += 1
    return used


def _used_up(dispatcher: Dispatcher, returned: Collection[Part], used: Collection[Part], *, wanted: bool) -> set[int]:
    """As `judge` says. One without bytes, which may be since the policy was another, is delivered once more."""
    attempts, lacks = dispatcher.policy.max_attempts, dispatcher.outstanding.spill.lacks
    over: set[int] = set()
    in_hands: dict[Name, None] = {}
    for part in used:
        if part.chunk is not None:
            in_hands[message_of(part)] = None
        elif is_last_attempt(part, attempts) and not lacks(part):
            over.add(id(part))
    expected = dispatcher.diversions.expected
    if in_hands or expected:
        for name, chunks in by_message(returned).items():
            if name in expected or (name in in_hands and _is_over(dispatcher, name, chunks, wanted=wanted)):
                over.update(map(id, chunks))
    return over


def _is_over(dispatcher: Dispatcher, name: Name, chunks: Collection[Part], *, wanted: bool) -> bool:
    """Whether a message is not to be delivered again of which these chunks came back."""
    if max(part.attempts_used for part in chunks) < dispatcher.policy.max_attempts:
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
