"""The producers, or the consumers, that a client has at its broker or has asked for, by the ids that it gave them.

A client may close one and ask for it anew, with its id, before the broker has answered: so does one that waited too
long for its first answer. Then what ends the former one leaves what was asked for behind the close.
"""

from __future__ import annotations

from itertools import takewhile


class Book:
    """What is open, and what may be."""

    def __init__(self) -> None:
        """Nothing is."""
        self.open: dict[int, bool] = {}
        """By id, whether it stands; else it is asked for."""
        self._asked: dict[int, dict[int, int]] = {}
        """By id, its requests without an answer in their order: each one's id and number; the higher, the later."""
        self._closing: dict[int, int] = {}
        """Of these, the number of the latest close: what was asked for before makes nothing stand."""

    def asked(self, name: int, request_id: int, number: int) -> None:
        """It is asked for, maybe once more."""
        self._asked.setdefault(name, {})[request_id] = number
        self.open.setdefault(name, False)

    def asked_before(self, name: int, number: int) -> list[int]:
        """Give the ids of its requests without an answer that are older than that one."""
        older = takewhile(lambda each: each[1] < number, self._asked.get(name, {}).items())
        return [request_id for request_id, _ in older]

    def closing(self, name: int, number: int) -> None:
        """Its client closes it."""
        if name in self._asked:
            self._closing[name] = number

    def struck(self, name: int, request_id: int) -> None:
        """This request waits for its answer no more."""
        asked = self._asked[name]
        del asked[request_id]
        if not asked:
            del self._asked[name]
            self._closing.pop(name, None)

    def answered(self, name: int, number: int, *, succeeded: bool) -> None:
        """A request that was just struck has this answer; of one that was closed meanwhile it says nothing."""
        if succeeded and name in self.open and number > self._closing.get(name, 0):
            self.open[name] = True
        elif not succeeded and name not in self._asked and self.open.get(name) is False:
            del self.open[name]

    def closed(self, name: int) -> None:
        """It stands no more; what was asked for anew may stand later."""
        if name in self._asked:
            self.open[name] = False
        else:
            self.open.pop(name, None)
