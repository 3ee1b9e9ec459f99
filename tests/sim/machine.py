"""Time and processes: who runs when, all of it decided by the events' order and nothing else.

There is one list of events for the whole world. An event belongs to a process and runs there as one turn of its loop:
the call itself, then what it asked to be called soon. A process can be stopped (its events wait, as for SIGSTOP) and
killed (they never come, as for kill -9). Nothing sleeps, and nothing reads a real clock.

A process may take its time: then its clock moves while it runs, and what comes meanwhile comes between its calls, as in
a loop that looks at its sockets between rounds of calls.
"""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

ORIGIN_S = 86_400.25
"""Where simulated time starts: not 0, so that an elapsed time taken for a moment shows."""

TICK_S = 1e-6
"""From one look at a clock that moves to the next."""

CUT_S = 0.001
"""After so long a loop looks for what came meanwhile."""

STOOD_STILL_S = 0.1
"""A clock that moves so far at once is of a process that was stopped."""

TURN_CALLS_MAX = 100_000
"""Calls of one turn; more is a loop that never ends."""


class Event:
    """A call that is due."""

    __slots__ = ("callback", "process")

    def __init__(self, process: Process, callback: Callable[[], None] | None) -> None:
        self.process = process
        self.callback = callback

    def cancel(self) -> None:
        """Forget the call; harmless after it was made. Makes this a `ports.Timer`."""
        self.callback = None


class Timer(Event):
    """A call that a process has asked for itself."""

    __slots__ = ()


class Order(Enum):
    """In which order what was due during a stop is made: it depends on where the process stood."""

    DUE = "due"
    TIMERS_FIRST = "timers first"
    SOCKETS_FIRST = "sockets first"


class Pace:
    """How far a process's clock moves from one look at it to the next."""

    def __init__(self, dice: random.Random, jump_chance: float, jump_s: float) -> None:
        """At a look in so many, by some time whose mean is `jump_s`; else hardly."""
        self._dice = dice
        self.jump_chance = jump_chance
        self._jump_s = jump_s

    def draw(self) -> float:
        """Of one look."""
        jumps = self._dice.random() < self.jump_chance
        return self._dice.expovariate(1.0) * self._jump_s if jumps else TICK_S


class Schedule:
    """The world's list of events."""

    def __init__(self) -> None:
        self.now_s = ORIGIN_S
        self.turns = 0
        self.digest = 0
        """Depends on every turn made: equal digests, equal histories."""
        self._order = itertools.count()
        self._events: list[tuple[float, int, Event]] = []

    def at(self, due_s: float, event: Event) -> None:
        """Make the call at this moment, after all that were asked for the same moment before."""
        assert due_s >= self.now_s, "the past does not change"
        heapq.heappush(self._events, (due_s, next(self._order), event))

    def run_until(self, end_s: float) -> None:
        """Make every call due up to `end_s`."""
        events = self._events
        while events and events[0][0] <= end_s:
            due_s, order, event = heapq.heappop(events)
            self.now_s = due_s
            if event.callback is not None:
                self.turns += 1
                self.digest = hash((self.digest, due_s, order, event.process.number))
                event.process.take(event)
        self.now_s = end_s


class Process:
    """One process; as its clock it implements `ports.Clock`."""

    def __init__(self, schedule: Schedule, number: int, name: str) -> None:
        """`number` is unique in the world."""
        self.number = number
        self.name = name
        self.dead = False
        self.went_on_s = 0.0
        """When it last went on after a stop: what was due meanwhile is made then, one turn after the other."""
        self.after_turn: Callable[[], None] = _nothing
        """Called at the end of each turn, and of each piece of one that is cut: for those who watch."""
        self.pace: Pace | None = None
        """How its clock moves while it runs; not at all without."""
        self.longest_turn_s = 0.0
        """By its clock: what happened in a turn, its programme may have taken for so much later."""
        self._turn_began_s = 0.0
        self._clock_s = 0.0
        """What its clock showed last, if that moves by itself."""
        self._schedule = schedule
        self._soon: deque[Event] = deque()
        self._stopped = False
        self._waiting: list[Event] = []
        self._in_turn = False

    # ---- ports.Clock

    def now(self) -> float:
        """As the port says."""
        if self.pace is None:
            return self._schedule.now_s
        if self._in_turn:
            # Only one that has the world's time jumps: else it would run faster than others' clocks.
            moves_s = self.pace.draw() if self._clock_s < self._schedule.now_s + CUT_S else TICK_S
            self._clock_s = self.clock_s + moves_s
            if moves_s >= STOOD_STILL_S:
                self.went_on_s = self._clock_s
        return self.clock_s

    def time(self) -> float:
        """As the port says; far from `now`, so that mixing them up shows."""
        return 1_700_000_000.0 + self.now()

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> Event:
        """As the port says."""
        event = Timer(self, callback)
        self._schedule.at(self.clock_s + delay_s, event)
        return event

    def call_soon(self, callback: Callable[[], None]) -> Event:
        """As the port says; asked for outside a turn, the call has a turn of its own."""
        event = Event(self, callback)
        if self._in_turn:
            self._soon.append(event)
        else:
            self._schedule.at(self._schedule.now_s, event)
        return event

    # ---- for the world

    @property
    def clock_s(self) -> float:
        """What `now` would show, without a look at it."""
        return max(self._clock_s, self._schedule.now_s)

    @property
    def just_went_on(self) -> bool:
        """Whether there may be more that was due during a stop."""
        return self.went_on_s >= self._schedule.now_s

    @property
    def busy(self) -> bool:
        """Whether its turn was cut, and goes on."""
        return bool(self._soon)

    def take(self, event: Event) -> None:
        """The event is due."""
        if self.dead:
            return
        if self._stopped:
            self._waiting.append(event)
            return
        self._turn(event)

    def run(self, callback: Callable[[], None]) -> None:
        """A turn now: what a person does at this process, between its own events."""
        assert not self._in_turn
        if not self.dead and not self._stopped:
            self._turn(Event(self, callback))

    def stop(self) -> None:
        """As SIGSTOP does."""
        self._stopped = True

    def go_on(self, order: Order = Order.DUE) -> None:
        """As SIGCONT does: everything that was due comes at once, in order."""
        if self._stopped:
            self._stopped = False
            self.went_on_s = self._schedule.now_s
            waiting, self._waiting = self._waiting, []
            if order is not Order.DUE:
                waiting.sort(key=lambda event: isinstance(event, Timer) is (order is Order.SOCKETS_FIRST))
            for event in waiting:
                self._schedule.at(self._schedule.now_s, event)

    @property
    def stopped(self) -> bool:
        """Whether its events wait."""
        return self._stopped

    def _turn(self, event: Event) -> None:
        if self.pace is not None and not self._soon:
            self._turn_began_s = self.clock_s
        self._in_turn = True
        try:
            calls = self._make(len(self._soon))  # what a turn that was cut has left
            if event.callback is not None:
                event.callback()
            while self._soon and not self._is_cut():
                calls += self._make(len(self._soon))
                assert calls < TURN_CALLS_MAX, f"{self.name} is busy for ever in one turn"
        finally:
            self._in_turn = False
        if self.pace is not None and not self._soon:
            self.longest_turn_s = max(self.longest_turn_s, self.clock_s - self._turn_began_s)
        self.after_turn()

    def _make(self, count: int) -> int:
        """The first calls of those that are due."""
        for _ in range(count):
            following = self._soon.popleft()
            if following.callback is not None:
                following.callback()
        return count

    def _is_cut(self) -> bool:
        """Whether what came meanwhile is first: the rest follows when its clock says that it is over."""
        if self.pace is None or self._clock_s < self._schedule.now_s + CUT_S:
            return False
        self._schedule.at(self._clock_s, Event(self, _nothing))
        return True


def _nothing() -> None:
    """Nobody watches."""
