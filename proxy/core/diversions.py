"""Messages that leave the subscription for another topic: which, and what waits until that topic has them.

Problem: a message that every worker gives back blocks its key for ever, or comes again for ever. After as many attempts
as the policy allows it goes to the dead letter topic, and its key goes on. Rules kept: the entry is acknowledged when
the other topic's broker has confirmed the copy, and not before; until then nothing of its slot is delivered, so while
that topic cannot be reached the key waits and nothing is lost. A message on its way stays where it is, first of what is
blocked of its slot: so it counts, is shown and is dropped like all that waits.

An attempt is a delivery that came back, and at which its worker had been: `attempts` says. Its number is the broker's
count of redeliveries and ours, whichever is larger, without those that used none (`Part.attempts_used`).

A chunked message goes whole, its chunks in order, and its originals are acknowledged when the other topic has all of
them: else a gateway that ends in between would leave a part of it in either topic, and nothing to read in any.

Source: design section 9.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.entry import topic_order
from proxy.core.whole_messages import is_whole, message_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.earlier_attempts import ByPosition, Earlier
    from proxy.core.entry import Batch, Part
    from proxy.core.whole_messages import Name

EXPECTED_MAX: Final = 1_000
"""Messages given up of which chunks are still expected; the oldest are forgotten first."""


class Diversions:
    """Messages of one subscription on their way to another topic."""

    __slots__ = (
        "_stored",
        "awaited",
        "done",
        "dirty",
        "earlier",
        "ended",
        "expected",
        "failed",
        "fed",
        "forged",
        "fresh",
        "held",
        "knows_some",
        "make_way",
        "messages_total",
        "parked",
        "stray",
        "taken_out",
        "trouble",
        "wants_turn",
    )

    def __init__(self) -> None:
        """None."""
        self.held: dict[int, dict[int, Part]] = {}
        """Slot to those of its messages that are on their way, by object id; nothing of it is delivered."""
        self.fresh: list[Part] = []
        """Those that the caller was not given yet; the caller takes them once a turn."""
        self._stored: set[int] = set()
        """Object ids of chunks that have arrived there, of messages of which others have not."""
        self.expected: dict[Name, None] = {}
        """Chunked messages that were given up before all of them was here: what comes of them goes, too."""
        self.awaited: dict[Name, int] = {}
        """Those of them all of which was here in an earlier life, with the position of the last chunk: nothing of them
        is done before that has come, or what is behind it."""
        self.ended: list[Part] = []
        """One chunk of each message of which no more is awaited, and all that is here has arrived there: the caller
        says so once more."""
        self.wants_turn = False
        """Whether the caller is to look here at the end of a turn: there are fresh ones, or slots are parked."""
        self.messages_total = 0
        """Messages that have arrived there."""
        self.trouble = ""
        """Why they do not arrive, if they do not; set by the caller."""
        self.parked: set[int] = set()
        """Slots of which everything goes, as it comes: see `parking`. Each is in `held`."""
        self.taken_out: dict[int, bool] = {}
        """Parked slots of which nothing new goes, by order of an operator: what comes waits. Whether what was parked is
        delivered already."""
        self.dirty: dict[int, None] = {}
        """Parked slots of which something may wait that is to go; the caller looks at them once a turn."""
        self.stray: dict[int, None] = {}
        """Those of which something may wait for its worker's permits still."""
        self.done: list[Batch] = []
        """What was parked and is acknowledged, for the caller to take."""
        self.failed: dict[int, None] = {}
        """Slots of which something has used its attempts once more, for the caller to take."""
        self.fed: dict[int, list[Part]] = {}
        """What is redriven and here, by its position."""
        self.make_way: Callable[[Part, float], None] = lambda own, now: None  # noqa: ARG005 - nothing is fed
        """Is called before something waits that has the position of what is redriven; set by who redrives."""
        self.earlier: ByPosition = {}
        """What is known of messages that have not come yet, from an earlier life of the subscription: see `recall`."""
        self.knows_some = False
        """Whether some position is known: of what is redriven, or from an earlier life."""
        self.forged = 0
        """Those of them that were taken back because another message has their id: see `foreign_ids`."""

    def holds(self, slot: int, part: Part) -> bool:
        """Whether what the part has of the slot may not be delivered now; a batch may have messages of others."""
        if slot not in self.held:
            return False
        batch = part.batch
        return not self.taken_out.get(slot) or batch is None or not batch.foreign

    def add(self, part: Part) -> None:
        """This one goes; the caller of the dispatcher places it with its slot's other messages."""
        self.held.setdefault(part.slot, {})[id(part)] = part
        self.fresh.append(part)
        self.wants_turn = True

    def expect(self, name: Name, *, last: int = -1) -> None:
        """The message is given up, and its last chunk has not come, which comes from this position if that is known."""
        self.expected.pop(name, None)
        self.expected[name] = None
        if last >= 0:
            self.awaited[name] = last
            self.knows_some = True
        if len(self.expected) > EXPECTED_MAX:
            first = next(iter(self.expected))
            self._await_no_more(first)
            del self.expected[first]

    def follows(self, part: Part) -> bool:
        """Whether it is a chunk, new here, of a message that was given up before it came.

        With a first chunk a message begins anew, or another: a producer may use a uuid again.
        """
        if part.chunk is None or part.foreign:
            return False
        name, index = message_of(part), part.chunk.index
        if name not in self.expected:
            return False
        if not index or part.chunk.is_last:
            del self.expected[name]
        if not index:
            self._await_no_more(name)
        elif part.chunk.is_last:
            self.awaited.pop(name, None)
        return index > 0

    def take_fresh(self) -> list[Part]:
        """Those that are new, in the order in which they go."""
        fresh, self.fresh = self.fresh, []
        self.wants_turn = bool(self.parked)
        return fresh

    def take_ended(self) -> list[Part]:
        """Those that are new."""
        ended, self.ended = self.ended, []
        return ended

    def has(self, part: Part) -> bool:
        """Whether it is still to go: it may have been dropped since it was taken."""
        return id(part) in self.held.get(part.slot, ())

    def stored(self, part: Part) -> list[Part]:
        """The other topic has it; returns what is done with that: of a chunked message nothing, or all of it."""
        if part.chunk is None or part.slot in self.parked:
            return [part]
        self._stored.add(id(part))
        message = self.message(part)
        awaited = message_of(part) in self.awaited
        return message if not awaited and all(id(each) in self._stored for each in message) else []

    def take_stored(self, part: Part) -> list[Part]:
        """Chunks of the part's message that the other topic has, in order: they have to go once more."""
        again = [each for each in self.message(part) if id(each) in self._stored]
        self._stored.difference_update(map(id, again))
        return again

    def message(self, part: Part) -> list[Part]:
        """All chunks that go of the part's message, in order; none if it is no chunk, or goes no more."""
        if part.chunk is None or part.slot in self.parked or not self.has(part):
            return []
        return self._of(message_of(part))

    def last_of(self, part: Part) -> int:
        """Where the last chunk of its message is, if all of that goes or it is known that the rest comes; else -1."""
        message = self.message(part)
        if message and is_whole(message):
            return message[-1].position
        return self.awaited.get(message_of(part), -1) if message else -1

    def _of(self, name: Name) -> list[Part]:
        """Chunks that go of a message, in order."""
        parts = self.held.get(name[1], {}).values()
        return sorted((each for each in parts if each.chunk is not None and message_of(each) == name), key=topic_order)

    @property
    def stored_chunks(self) -> int:
        """How many have arrived there, and wait for the others of their message alone."""
        return len(self._stored)

    def remove(self, part: Part) -> None:
        """It is on its way no more."""
        self._stored.discard(id(part))
        parts = self.held[part.slot]
        del parts[id(part)]
        if not parts and part.slot not in self.parked:
            del self.held[part.slot]

    def drop(self, part: Part) -> None:
        """The part is here no more: if it was on its way, it is so no longer."""
        self.unfeed(part)
        if self.has(part):
            self.remove(part)

    def feed(self, part: Part) -> None:
        """It is redriven."""
        self.fed.setdefault(part.position, []).append(part)
        self.knows_some = True

    def feeds(self, part: Part) -> bool:
        """Whether it is redriven, and waits or is at a worker."""
        return any(each is part for each in self.fed.get(part.position, ()))

    def unfeed(self, part: Part) -> None:
        """If it is redriven, it is so no longer."""
        parts = self.fed.get(part.position)
        if parts is not None:
            left = [each for each in parts if each is not part]
            if left:
                self.fed[part.position] = left
            else:
                del self.fed[part.position]
                self._look_whether_known()

    def remember(self, earlier: ByPosition) -> None:
        """This is known from an earlier life; nothing was known before."""
        self.earlier = earlier
        self.knows_some = bool(earlier)

    def recollect(self, position: int) -> Sequence[Earlier]:
        """What is known of a position, that something has come of.

        A broker sends in order: when something comes that is behind all that is known, the rest was acknowledged,
        skipped, or has expired.
        """
        known = self.earlier.pop(position, ())
        if not known and self.earlier and position > max(self.earlier):
            self.earlier.clear()
        for name in [name for name, last in self.awaited.items() if last <= position]:
            self._await_no_more(name)
        self._look_whether_known()
        return known

    def nothing_comes(self) -> bool:
        """What waits here is in the way of last chunks: messages all chunks of which have gone are done without them.

        Returns whether there are any, which want a turn.
        """
        ended = [name for name in self.awaited if all(id(part) in self._stored for part in self._of(name))]
        for name in ended:
            self._await_no_more(name)
        self._look_whether_known()
        return bool(ended)

    def _await_no_more(self, name: Name) -> None:
        """If all that is here of the message has arrived there, it is done."""
        if self.awaited.pop(name, None) is not None:
            parts = self._of(name)
            if parts and all(id(part) in self._stored for part in parts):
                self.ended.append(parts[-1])
                self.wants_turn = True

    def _look_whether_known(self) -> None:
        self.knows_some = bool(self.fed or self.earlier or self.awaited)

    def clear(self) -> None:
        """None goes any more."""
        self.held = {slot: {} for slot in self.parked}
        self.stray.clear()
        self.taken_out.clear()
        self.dirty.clear()
        self.fresh.clear()
        self.ended.clear()
        self._stored.clear()
        self.expected.clear()
        self.awaited.clear()
        self.done.clear()
        self.fed.clear()
        self.failed.clear()
        self.earlier.clear()
        self.knows_some = False


def place_of(part: Part) -> tuple[int, int]:
    """Where it begins in the topic: its entry, and its first message there, -1 for all of them."""
    return part.position, part.indexes[0] if part.indexes else -1


def is_last_attempt(part: Part, max_attempts: int) -> bool:
    """Whether a part that came back is not to be delivered again."""
    return part.attempts_used >= max_attempts and (part.count == 1 or not part.divisible)
