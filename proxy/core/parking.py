"""Parked keys: a poisoned message and every later one of its slot go to a parking topic, in order, until it is empty.

Problem: what follows a poisoned message may not be worked on before it, and must not hold up the others. Rules kept:

- Into the lot: everything of the slot, in topic order and one message at a time, once no worker has any of it. Each
  entry is acknowledged behind the receipt of its copy, as with dead letters (`diversions`).
- Out of it: what is redriven is delivered under the position that it had, so before all that is newer; it is
  acknowledged in the parking topic (`Batch.foreign`) and is not outstanding here. What comes of the slot meanwhile
  waits. When the lot has nothing more of it, the slot goes on.
- No join gate holds what is redriven, for it stands before what a gate waits for. No worker has any of its slot when it
  begins, which is what gates are for.
- If something that is redriven uses its attempts again, the rest stays in the lot and the slot is parked as before.
  What workers still have of it goes back into the lot if they give it back, until a redrive begins anew.

So what the parking topic has of a slot is older than what the original topic has of it, and the slot is parked as long
as there is any: a reader of the parking topic knows which slots are parked. One exception: what the parking topic
refuses stays behind, and later ones that were published with it may be there. It goes in before a redrive begins
(`collect_up_to`), or there is none.

Functions of a dispatcher's state.

Source: design section 9.
"""

from __future__ import annotations

from itertools import takewhile
from operator import attrgetter
from typing import TYPE_CHECKING

from proxy.core.cutting import batch_of, split
from proxy.core.diversions import place_of
from proxy.core.entry import PART_BYTES, Batch, Part
from proxy.core.waiting import insert_all

if TYPE_CHECKING:
    from collections import deque

    from proxy.core.entry import Chunk
    from proxy.core.serving import Serving


def give_up(dispatcher: Serving, part: Part) -> None:
    """A part that came back has used its attempts; the caller places it."""
    diversions = dispatcher.diversions
    if part.foreign:
        diversions.stray[part.slot] = None
        if diversions.taken_out.get(part.slot):  # else it is of a redrive that is over
            diversions.taken_out[part.slot] = False
            diversions.failed[part.slot] = None
    elif dispatcher.policy.dead_letter_after:
        diversions.add(part)
    else:
        mark(dispatcher, part.slot)


def mark(dispatcher: Serving, slot: int) -> None:
    """The slot is parked: nothing of it is delivered, and what waits goes."""
    diversions = dispatcher.diversions
    diversions.parked.add(slot)
    diversions.wants_turn = True
    diversions.held.setdefault(slot, {})
    diversions.stray[slot] = diversions.dirty[slot] = None


def collect(dispatcher: Serving, now: float) -> None:
    """Find what is to go, of slots of which something came: it is `Diversions.fresh` then."""
    diversions = dispatcher.diversions
    dirty, diversions.dirty = diversions.dirty, {}
    due = [slot for slot in dirty if slot in diversions.parked and not diversions.taken_out.get(slot)]
    stray = {slot for slot in due if slot in diversions.stray}
    if stray:
        _gather(dispatcher, stray, now)
    for slot in due:
        _leave_in_lot(dispatcher, slot)
        entry = dispatcher.blocked.get(slot)
        if entry is None or slot in diversions.taken_out or dispatcher.slots.holder(slot):
            continue  # a worker may give something back that goes before these
        if not _send_off(dispatcher, _new_of(entry.parts, diversions.held[slot]), entry.parts):
            diversions.dirty[slot] = None


def collect_up_to(dispatcher: Serving, slot: int, place: tuple[int, int]) -> bool:
    """Have what waits of a slot at or before a place in the topic go, though it is being taken out; whether any waits.

    Its redrive begins behind that: some later ones were parked before it, since the parking topic had refused it. Only
    once nothing of the slot is on its way, and no worker has any of it.
    """
    entry = dispatcher.blocked.get(slot)
    parts = () if entry is None else entry.parts
    early = list(takewhile(lambda part: place_of(part) <= place, parts))
    assert not any(part.foreign for part in early)
    if entry is not None:
        _send_off(dispatcher, early, entry.parts)
    return bool(early)


def take_out(dispatcher: Serving, slot: int) -> None:
    """What comes of the slot waits from now on; what is on its way to the lot arrives there yet."""
    diversions = dispatcher.diversions
    assert slot in diversions.parked
    diversions.taken_out[slot] = False
    diversions.stray[slot] = diversions.dirty[slot] = None  # what a redrive that is over has handed on
    dispatcher.retries.forget(slot)


def begin_redrive(dispatcher: Serving, slot: int) -> None:
    """What is parked of a slot that is taken out is delivered from now on, as `feed` hands it on.

    No worker has anything of the slot: what came back from an earlier redrive is in the lot, or would overtake what is.
    """
    assert slot in dispatcher.diversions.taken_out
    dispatcher.diversions.taken_out[slot] = True


def feed(dispatcher: Serving, part: Part, now: float) -> None:
    """Deliver what was parked, a part that `restored` made: in the order of the lot, and before what is newer."""
    batch = part.batch
    assert batch is not None
    assert batch.foreign
    dispatcher.diversions.feed(part)
    dispatcher.outstanding.bytes_held += batch.bytes_held
    dispatcher.waiting_messages += part.count
    dispatcher.place((part,), now)
    dispatcher.settle((part.slot,), now)


def release(dispatcher: Serving, slot: int, now: float) -> None:
    """Nothing of the slot is in the lot: it goes on, with what waits."""
    diversions = dispatcher.diversions
    diversions.parked.discard(slot)
    diversions.taken_out.pop(slot, None)
    diversions.dirty.pop(slot, None)
    if not diversions.held[slot]:
        del diversions.held[slot]
    dispatcher.settle((slot,), now)
    dispatcher.serve_begun(now)


def restored(
    position: int, index: int | None, count: int, slot: int, tail: bytes, now: float, chunk: Chunk | None
) -> Part:
    """A message as it was parked: by its former position, and its index in its batch if it was in one."""
    batch = Batch(position, tail, count)
    batch.foreign = True
    part = Part(position, slot, count, tail, 0, now)
    part.batch = batch
    part.chunk = chunk
    part.opaque = count > 1
    if index is not None:
        part.indexes = (index,)
    batch.add(part)
    return part


def _gather(dispatcher: Serving, slots: set[int], now: float) -> None:
    """What waits for its worker's permits waits with the rest of its slot: one look at all workers for all slots."""
    diversions = dispatcher.diversions
    for slot in slots:
        del diversions.stray[slot]
    for worker in dispatcher.workers.values():
        moved = [part for part in worker.ready if part.slot in slots]
        if moved:
            kept = [part for part in worker.ready if part.slot not in slots]
            worker.ready.clear()
            worker.ready.extend(kept)
            dispatcher.place(moved, now)
    for slot in slots:
        diversions.dirty.pop(slot, None)


def _leave_in_lot(dispatcher: Serving, slot: int) -> None:
    """What was redriven and waits again, first of its slot, is in the lot still, and is not to be delivered now.

    But for the rest of a chunked message that a worker has begun.
    """
    entry = dispatcher.blocked.get(slot)
    if entry is None:
        return
    parts = entry.parts
    foreign = list(takewhile(attrgetter("foreign"), parts))
    for part in foreign:
        if dispatcher.needed_by(part) is not None:
            continue
        assert part.batch is not None
        parts.remove(part)
        dispatcher.diversions.unfeed(part)
        dispatcher.waiting_messages -= part.count
        dispatcher.outstanding.bytes_held -= part.batch.bytes_held
        dispatcher.chunked.give_up(part)
    if not parts:
        dispatcher.forget_blocked(slot)


def _send_off(dispatcher: Serving, going: list[Part], parts: deque[Part]) -> bool:
    """These of a slot's waiting parts go, in order; False if some are to be asked for, and cannot be yet."""
    spill = dispatcher.outstanding.spill
    for part in going:
        if spill.lacks(part):
            return spill.ask(part.position, part.total)  # it and what is behind it go when it has come again
        for piece in _pieces_of(dispatcher, part, parts):
            dispatcher.diversions.add(piece)
    return True


def _new_of(parts: deque[Part], held: dict[int, Part]) -> list[Part]:
    """Those that do not go yet, in order; most are the last, and thousands may stand before them."""
    count = len(parts) - len(held)
    found: list[Part] = []
    for part in reversed(parts):
        if len(found) >= count:
            break
        if id(part) not in held:
            found.append(part)
    found.reverse()
    return found


def _pieces_of(dispatcher: Serving, part: Part, parts: deque[Part]) -> list[Part]:
    """Its messages, each alone if it has several: so each can be redriven alone."""
    if part.count == 1 or not part.divisible:
        return [part]
    parts.remove(part)
    pieces = each_alone(dispatcher, part)
    insert_all(parts, pieces)
    return pieces


def each_alone(dispatcher: Serving, part: Part) -> list[Part]:
    """The messages of a part that waits in no queue, taken apart if they can be."""
    if part.count == 1 or not part.divisible:
        return [part]
    if part.batch is None:
        dispatcher.outstanding.replace(part.position, batch_of(part))
    pieces = split(part, [(index,) for index in part.message_indexes()])
    dispatcher.outstanding.grew(PART_BYTES * (len(pieces) - 1))
    return pieces
