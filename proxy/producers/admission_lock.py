"""Serialises ownership changes of a topic: a fencing producer runs alone, all others may run together.

A broker writes a topic's epoch without the lock under which it admits producers. A producer that fences while another
leaves or is admitted may get an epoch that is already in use, and may lock up the broker permanently: the fencing waits
for the producer that is being closed, which waits for the topic that the fencing holds (seen with 4.0.7 and 4.2.4).

So a fencing producer is admitted alone, and all other changes may run together, first come, first served. Changes that
the broker starts by itself (promotions of its queue, removals after broken connections) join the running ones.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable


class _Change(NamedTuple):
    begin: Callable[[], None]
    alone: bool


class AdmissionLock:
    """Of one topic."""

    __slots__ = ("_admitting", "_alone", "_ended", "_passing", "_waiting")

    def __init__(self, ended: Callable[[object | None], None]) -> None:
        """No running change.

        `ended` is called with each `end`, before others begin: with the token of a change that ran, or with None.
        """
        self._ended: Callable[[object | None], None] = ended
        self._waiting: OrderedDict[object, _Change] = OrderedDict()
        """By token, the first to come first: one client may have thousands here, and give all of them up."""
        self._admitting = False
        self._passing: set[object] = set()
        self._alone: object | None = None
        """The change that runs alone."""

    @property
    def idle(self) -> bool:
        """Whether no change runs or waits."""
        return not self._passing and not self._waiting

    def begin(self, token: object, begin: Callable[[], None], *, alone: bool) -> None:
        """Call `begin` as soon as the change may run; it runs until `end` is called with the same token."""
        assert token not in self._waiting
        self._waiting[token] = _Change(begin, alone)
        self._admit()

    def begin_again(self, token: object, begin: Callable[[], None]) -> None:
        """One that runs alone has not changed anything yet: it begins anew, behind those that joined it only."""
        assert token is self._alone
        self._alone = None
        self._passing.remove(token)
        self._waiting[token] = _Change(begin, alone=True)
        self._waiting.move_to_end(token, last=False)
        self._admit()

    def join(self, token: object) -> None:
        """The change is already running, independent of others; it runs until `end` is called with the same token."""
        self._passing.add(token)

    def take_over(self, token: object, former: object) -> bool:
        """If `former` is running, `token` replaces it, alone if it was alone; otherwise False.

        Also False while another change runs alone that `former` joined: no new change may start then.
        """
        if former not in self._passing or self._alone not in (None, former):
            return False
        self._passing.remove(former)
        self._passing.add(token)
        if self._alone is former:
            self._alone = token
        return True

    def end(self, token: object) -> None:
        """The change is done or cancelled; idempotent, and without effect for an unknown token."""
        ran = token in self._passing
        if ran:
            self._passing.remove(token)
            if token is self._alone:
                self._alone = None
        else:
            self._waiting.pop(token, None)
        self._ended(token if ran else None)
        self._admit()

    def _admit(self) -> None:
        """Begin what may. One that ends while it begins comes back here, and thousands may do so one after another."""
        if self._admitting:
            return
        self._admitting = True
        try:
            while self._waiting and self._alone is None:
                token, change = next(iter(self._waiting.items()))
                if change.alone and self._passing:
                    return
                del self._waiting[token]
                self._passing.add(token)
                if change.alone:
                    self._alone = token
                change.begin()
        finally:
            self._admitting = False
