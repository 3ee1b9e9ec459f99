"""Lets a topic's changes of owner go to the broker so that none meets another that it must not meet.

A broker writes a topic's epoch without the lock under which it admits producers. A producer that fences while another
leaves or is admitted may be given an epoch that somebody has, and may lock the broker up for good: the fencing waits
for the producer that is being closed, which waits for the topic that the fencing holds (seen with 4.0.7 and 4.2.4).

So one that takes the topic passes alone, and everything else may pass together: what has come first is first. What
the broker begins by itself (it promotes who waits there, it takes off whose connection broke) joins those that pass.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class _Change(NamedTuple):
    token: object
    begin: Callable[[], None]
    alone: bool


class Turnstile:
    """Of one topic."""

    __slots__ = ("_alone", "_passing", "_waiting")

    def __init__(self) -> None:
        """Nothing is under way."""
        self._waiting: deque[_Change] = deque()
        self._passing: set[object] = set()
        self._alone: object | None = None
        """Who passes that is to meet nobody."""

    @property
    def idle(self) -> bool:
        """Whether nothing is under way and nothing waits."""
        return not self._passing and not self._waiting

    def begin(self, token: object, begin: Callable[[], None], *, alone: bool) -> None:
        """Call `begin` as soon as that change may be under way; it is until `end` is told the same token."""
        self._waiting.append(_Change(token, begin, alone))
        self._admit()

    def join(self, token: object) -> None:
        """That change is under way, whoever else passes; it is until `end` is told the same token."""
        self._passing.add(token)

    def take_over(self, token: object, former: object) -> bool:
        """If `former` is under way, `token` is so from now on in its place, alone if it was; else False.

        False also while another passes alone, beside whom `former` joined: nothing new may be done then.
        """
        if former not in self._passing or self._alone not in (None, former):
            return False
        self._passing.remove(former)
        self._passing.add(token)
        if self._alone is former:
            self._alone = token
        return True

    def end(self, token: object) -> None:
        """It is done, or is not to be begun; said again, or of what never began, it changes nothing."""
        if token in self._passing:
            self._passing.remove(token)
            if token is self._alone:
                self._alone = None
        elif any(change.token is token for change in self._waiting):
            self._waiting = deque(change for change in self._waiting if change.token is not token)
        self._admit()

    def _admit(self) -> None:
        while self._waiting and self._alone is None:
            change = self._waiting[0]
            if change.alone and self._passing:
                return
            self._waiting.popleft()
            self._passing.add(change.token)
            if change.alone:
                self._alone = change.token
            change.begin()
