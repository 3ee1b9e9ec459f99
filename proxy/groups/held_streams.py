"""The streams that a replica has of a group: which are leased to it, and what it still holds of each.

A stream that is released stays here until its workers have acknowledged or its time is over. Nothing is opened while
streams of another cut of the group are still here, because their numbers mean something else now.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from proxy.groups.streams import StreamState

if TYPE_CHECKING:
    from collections.abc import Iterable


class Holding(Enum):
    """What this replica has of a stream."""

    OPEN = "open"
    """It consumes it, or tries to, and delivers while the lease lasts."""
    HELD = "held"
    """It has it still and delivers nothing."""
    RELEASING = "releasing"
    """It delivers nothing more, waits for workers to acknowledge, and closes it."""


@dataclass(frozen=True, slots=True)
class Open:
    """Consume this stream, or go on with it; nothing else of it is at this replica."""

    stream: int


@dataclass(frozen=True, slots=True)
class Hold:
    """Stop delivering this stream, and keep its messages."""

    stream: int


@dataclass(frozen=True, slots=True)
class Release:
    """Deliver nothing of this stream from now on; when nothing is pending, close it and say `released`.

    When `deadline` is reached it is closed in any case.
    """

    stream: int
    deadline: float


StreamAct: TypeAlias = Open | Hold | Release


class HeldStreams:
    """Methods return what is to be done because of them, in order."""

    def __init__(self, drain_s: float) -> None:
        """Nothing is leased yet. Workers have `drain_s` to acknowledge what is released."""
        self.leased: frozenset[int] = frozenset()
        """What the leader leased last."""
        self.leaving = False
        """Whether this replica leaves: it opens nothing that it would release at once."""
        self._drain_s = drain_s
        self._holdings: dict[int, Holding] = {}
        self._forgetting: set[int] = set()
        """Streams of another cut that have not gone yet; nothing is opened before they have."""
        self._finished: set[int] = set()
        """Streams released in this change."""
        self._states: dict[int, StreamState] = {}

    # ---- reads

    @property
    def holdings(self) -> dict[int, Holding]:
        """What is here, by stream."""
        return dict(self._holdings)

    @property
    def empty(self) -> bool:
        """Whether nothing is here and nothing is leased."""
        return not self._holdings and not self.leased

    def state_of(self, stream: int) -> StreamState:
        """How far a stream is, as the leader is told."""
        state = self._states.get(stream, StreamState(stream))
        return replace(state, finished=stream in self._finished)

    def held(self) -> tuple[StreamState, ...]:
        """The states of all that is here.

        Also of what is being released: it is here until it is closed, and a leader that did not know would lease it to
        others, which the broker refuses, or move the cursor of what is still consumed.
        """
        return tuple(self.state_of(stream) for stream in self._holdings)

    def finished(self) -> tuple[StreamState, ...]:
        """The states of what was released in this change."""
        return tuple(self.state_of(stream) for stream in sorted(self._finished))

    def reported(self) -> tuple[StreamState, ...]:
        """The states that say something: of very many streams most are not finished, and nothing is known of them."""
        concerned = sorted((self.leased | self._holdings.keys()) & self._states.keys() | self._finished)
        return tuple(self.state_of(stream) for stream in concerned)

    # ---- what becomes of streams here

    def progressed(self, state: StreamState) -> None:
        """How far a stream is."""
        if state.stream in self._holdings:
            self._states[state.stream] = state

    def note(self, stream: int, *, refused: bool) -> bool:
        """Record whether the broker refuses a stream, and say whether this is news."""
        state = self._states.get(stream, StreamState(stream))
        if stream not in self._holdings or state.refused == refused:
            return False
        self._states[stream] = replace(state, refused=refused)
        return True

    def released(self, streams: Iterable[int]) -> list[int]:
        """Take note that nothing of these is here any more, and say of which of them that is news."""
        gone = [stream for stream in streams if self._holdings.get(stream) is Holding.RELEASING]
        for stream in gone:
            del self._holdings[stream]
            self._forgetting.discard(stream)
        self._finished.update(stream for stream in gone if stream not in self.leased)
        return gone

    # ---- what the leader says

    def adopt(self, streams: Iterable[int], now: float) -> list[StreamAct]:
        """Have these: release the others, and open what can be opened."""
        before, self.leased = self.leased, frozenset(streams)
        self._finished |= before - self.leased - self._holdings.keys()  # never opened
        given_back = sorted(self._holdings.keys() - self.leased)
        acts = [act for stream in given_back for act in self._release(stream, now)]
        return acts + self.open_leased()

    def settle(self) -> None:
        """The change is over."""
        self._finished.clear()

    def hold_all(self) -> list[StreamAct]:
        """Nothing is leased any more: deliver nothing, and keep what is here."""
        self.leased = frozenset()
        self._finished.clear()
        acts: list[StreamAct] = []
        for stream, holding in sorted(self._holdings.items()):
            if holding is Holding.OPEN:
                self._holdings[stream] = Holding.HELD
                acts.append(Hold(stream))
        return acts

    def forget(self, now: float) -> list[StreamAct]:
        """Let everything go at once, also what comes back: it means something else now."""
        self._states.clear()
        acts: list[StreamAct] = [Release(stream, now) for stream in sorted(self._holdings)]
        self._forgetting.update(self._holdings)
        self._holdings = dict.fromkeys(self._holdings, Holding.RELEASING)
        return acts

    def open_leased(self) -> list[StreamAct]:
        """Open all leased streams that can be opened."""
        if self._forgetting or self.leaving:
            return []
        free = [stream for stream in sorted(self.leased) if self._holdings.get(stream) is not Holding.RELEASING]
        return [act for stream in free for act in self._open(stream)]

    def release_all(self, now: float) -> list[StreamAct]:
        """Release everything that is here."""
        return [act for stream in sorted(self._holdings) for act in self._release(stream, now)]

    def tear(self, now: float) -> list[StreamAct]:
        """Release everything now, regardless of unacknowledged messages."""
        acts: list[StreamAct] = [Release(stream, now) for stream in sorted(self._holdings)]
        self._holdings.clear()
        self._forgetting.clear()
        self.leased = frozenset()
        return acts

    def _open(self, stream: int) -> list[StreamAct]:
        before = self._holdings.get(stream)
        self._holdings[stream] = Holding.OPEN
        self._finished.discard(stream)
        return [] if before is Holding.OPEN else [Open(stream)]

    def _release(self, stream: int, now: float) -> list[StreamAct]:
        if self._holdings[stream] is Holding.RELEASING:
            return []
        self._holdings[stream] = Holding.RELEASING
        return [Release(stream, now + self._drain_s)]
