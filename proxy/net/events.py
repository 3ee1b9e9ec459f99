"""What happens to subscriptions, told to whoever listens: joins, leaves, moved hashes, drains, hand-overs, orders.

A stateful worker learns here which keys it gained and lost (apache/pulsar issue 6555), a console what to draw anew. The
latest events are kept, so that a listener whose connection broke goes on where it was. A listener that does not keep
up loses events rather than memory, and is told so.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from proxy.core.delivery_log import Ending
    from proxy.core.dispatcher import HandOver
    from proxy.core.entry import Part
    from proxy.core.hash_ranges import RangeMove
    from proxy.core.worker import Worker

    Key = tuple[str, str]

KEPT_MAX: Final = 200
"""Events for listeners that come again."""
QUEUED_MAX: Final = 1_000
"""Events that a listener may be behind."""
LISTED_MAX: Final = 300
"""Ranges and hashes listed in one event; counts are whole. With the other bounds, at most some 15 MB."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that happened."""

    number: int
    """One more than the event's before it."""
    kind: str
    at: float
    """On the gateway's clock."""
    topic: str
    subscription: str
    facts: dict[str, Any]
    """By kind; plain values only."""
    concerned: frozenset[str]
    """Names of workers that it tells of, those included that are not listed."""


class DeliveryRecorder(Protocol):
    """Keeps a record of each message of one subscription."""

    def digest(self, key: bytes) -> int:
        """What stands for a key in the record; 0 for one whose messages are not recorded."""

    def sent(self, worker: Worker, units: Sequence[Part], now: float) -> None:
        """These were written to the worker's socket."""

    def ended(self, endings: Sequence[Ending]) -> None:
        """These ended."""


class Chronicler(Protocol):
    """Writes down what happens at this gateway. Nothing waits for it, and it never fails."""

    def happened(self, event: Event) -> None:
        """As `Events` tells it."""

    def handed_over(self, key: tuple[str, str], hand_overs: Sequence[HandOver]) -> None:
        """Hashes of a subscription drained and went to their new owners."""

    def came_back(self, key: tuple[str, str], consumer: str, messages: int) -> None:
        """A worker gave messages of a subscription back, or left them behind."""

    def recorder(self, key: tuple[str, str]) -> DeliveryRecorder | None:
        """For one subscription; None if no record of messages is kept."""


class Listener:
    """Somebody's place in the stream. Implements `admin_api.ports.EventListener`."""

    def __init__(self, events: Events, wake: Callable[[], None], wanted: Callable[[Event], bool]) -> None:
        """`wake` is called when there is something `wanted` to take after there was nothing, and at the end."""
        self._events = events
        self._wake = wake
        self._wanted = wanted
        self._queue: deque[Event] = deque()
        self.missed = 0
        """Events lost since the last `take`."""

    @property
    def ended(self) -> bool:
        """No more will come: the gateway stops."""
        return self._events.closed

    def take(self) -> tuple[int, list[Event]]:
        """How many were lost before these, and all that came since the last look."""
        missed, self.missed = self.missed, 0
        taken = list(self._queue)
        self._queue.clear()
        return missed, taken

    def close(self) -> None:
        """Listen no more."""
        self._events.listeners.discard(self)

    def put(self, event: Event) -> None:
        """One more, if it is wanted, or the oldest is lost for it."""
        if not self._wanted(event):
            return
        if len(self._queue) >= QUEUED_MAX:
            self._queue.popleft()
            self.missed += 1
        self._queue.append(event)
        if len(self._queue) == 1:
            self._wake()

    def end(self) -> None:
        """Wake whoever waits, for the last time."""
        self._wake()


class Events:
    """The stream of one gateway."""

    def __init__(self, now: Callable[[], float]) -> None:
        """Nothing has happened."""
        self._now = now
        self._kept: deque[Event] = deque(maxlen=KEPT_MAX)
        self._first = self._latest = 0
        self.listeners: set[Listener] = set()
        self.chronicler: Chronicler | None = None
        """Who writes everything down, as nobody else is told of it: whole, and whether or not anybody listens."""
        self.closed = False

    def number_from(self, number: int) -> None:
        """Let the first event's number come after this one; before anything happened.

        With numbers that grow from one life of the gateway to the next, a listener that was here before is known.
        """
        assert not self._kept, "events are numbered already"
        self._first = self._latest = number

    def listen(
        self, wake: Callable[[], None], after: int | None = None, wanted: Callable[[Event], bool] = lambda _: True
    ) -> Listener:
        """Everything wanted from now on, or `after` an event's number as far as it is kept; after 0 all that is.

        Who had an event of an earlier life of the gateway missed something, though nobody knows how much.
        """
        listener = Listener(self, wake, wanted)
        if after is not None:
            kept = [event for event in self._kept if event.number > after or after > self._latest]
            if after > self._latest or 0 < after < self._first:
                listener.missed = 1
            elif after:
                listener.missed = self._latest - after - len(kept)
            for event in kept:
                listener.put(event)
        self.listeners.add(listener)
        return listener

    def close(self) -> None:
        """The gateway stops: every listener's stream ends."""
        self.closed = True
        for listener in list(self.listeners):
            listener.end()

    def happened(self, kind: str, key: Key, *, concerned: Iterable[str | None] = (), **facts: Any) -> None:
        """Tell it; `concerned` are workers besides the one that the fact `consumer` names."""
        self._latest += 1
        names = frozenset(name for name in (*concerned, facts.get("consumer")) if name is not None)
        event = Event(self._latest, kind, self._now(), *key, facts, names)
        self._kept.append(event)
        if self.chronicler is not None:
            self.chronicler.happened(event)
        for listener in self.listeners:
            listener.put(event)

    def joined(self, key: Key, consumer: str, address: str, moves: Sequence[RangeMove[Worker]]) -> None:
        """A worker joined and hashes moved."""
        told, concerned = _moved(moves)
        self.happened("worker_joined", key, concerned=concerned, consumer=consumer, address=address, **told)

    def left(self, key: Key, consumer: str, reason: str, moves: Sequence[RangeMove[Worker]]) -> None:
        """A worker left, likewise."""
        told, concerned = _moved(moves)
        self.happened("worker_left", key, concerned=concerned, consumer=consumer, reason=reason, **told)

    def drains_began(self, key: Key, began: int, draining: int) -> None:
        """So many hashes began to drain, if any; so many drain now."""
        if began:
            self.happened("drains_began", key, began_count=began, draining_hashes_count=draining)

    def handed_over(self, key: Key, hand_overs: Sequence[HandOver], draining: int) -> None:
        """Hashes drained and went to their new owners; so many drain still."""
        if self.chronicler is not None:
            self.chronicler.handed_over(key, hand_overs)
        done = [
            {
                "hash": item.slot,
                "source": item.holder,
                "target": item.owner,
                "duration_s": item.ended_at - item.began_at,
            }
            for item in hand_overs
        ]
        facts = {"hand_overs_count": len(done), "hand_overs": done[:LISTED_MAX], "draining_hashes_count": draining}
        concerned = {name for item in hand_overs for name in (item.holder, item.owner)}
        self.happened("drains_ended", key, concerned=concerned, **facts)

    def came_back(self, key: Key, comebacks: Iterable[tuple[str, int]]) -> None:
        """Messages came back from these workers: written down only, for there may be very many occasions."""
        if self.chronicler is not None:
            for consumer, messages in comebacks:
                self.chronicler.came_back(key, consumer, messages)


def _moved(moves: Sequence[RangeMove[Worker]]) -> tuple[dict[str, Any], set[str]]:
    """Hashes with a new owner: first and last, both inclusive, whose they were and whose they are; and all of those."""
    told = [
        {
            "start": move.start,
            "end": move.end,
            "source": move.before.name if move.before is not None else None,
            "target": move.after.name if move.after is not None else None,
        }
        for move in moves
    ]
    concerned = {owner.name for move in moves for owner in (move.before, move.after) if owner is not None}
    return {"moves_count": len(told), "moves": told[:LISTED_MAX]}, concerned
