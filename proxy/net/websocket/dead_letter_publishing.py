"""Messages at their last attempt, and messages being published to the dead letter topic.

A batch can be returned only as a whole: while one of its messages is being published, the others wait, because
otherwise it would be delivered again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from proxy.net.websocket.in_flight import EntryKey, entry_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.websocket.dead_letters import DeadLetters
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.message_position import MessagePosition


class DeadLetterPublishing:
    """The dead letters of one worker."""

    def __init__(
        self,
        redeliveries_max: int | None,
        dead_letters: DeadLetters,
        gone: Callable[[MessagePosition], None],
        again: Callable[[set[MessagePosition]], None],
    ) -> None:
        """`gone` gets each published message; `again` the messages of an entry that are to be returned now.

        Without `redeliveries_max` there is no last attempt.
        """
        self._redeliveries_max = redeliveries_max
        self._dead_letters = dead_letters
        self._gone = gone
        self._again = again
        self._last_tries: dict[MessagePosition, SocketMessage] = {}
        self._under_way: dict[EntryKey, set[MessagePosition]] = {}
        self._held_up: dict[EntryKey, set[MessagePosition]] = {}
        """To be returned once no message of the entry is being published."""

    def __contains__(self, position: MessagePosition) -> bool:
        """Whether it is being published."""
        return position in self._under_way.get(entry_key(position), ())

    def sent(self, message: SocketMessage) -> None:
        """The client has it, possibly at its last attempt."""
        # A message that its producer encrypted cannot be published again here.
        if self._redeliveries_max is None or message.encryption is not None:
            return
        if message.redelivery_count >= self._redeliveries_max:
            self._last_tries[message.position] = message

    def settled(self, position: MessagePosition) -> None:
        """The client has settled it."""
        self._last_tries.pop(position, None)

    def stop(self) -> None:
        """The worker has left."""
        self._last_tries.clear()
        self._under_way.clear()
        self._dead_letters.stop()

    def take(self, positions: Iterable[MessagePosition]) -> set[MessagePosition]:
        """Publish messages at their last attempt; returns the others that may be returned now."""
        rest = set()
        for position in positions:
            message = self._last_tries.pop(position, None)
            if message is None:
                rest.add(position)
            else:
                self._under_way.setdefault(entry_key(position), set()).add(position)
                self._dead_letters.put(message, partial(self._done, position))
        for position in list(rest):
            if entry_key(position) in self._under_way:
                rest.discard(position)
                self._held_up.setdefault(entry_key(position), set()).add(position)
        return rest

    def _done(self, position: MessagePosition, kept: bool) -> None:  # noqa: FBT001 - `dead_letters.Done`
        key = entry_key(position)
        under_way = self._under_way.get(key)
        if under_way is None:
            return
        under_way.discard(position)
        if kept:
            self._gone(position)
        else:
            self._held_up.setdefault(key, set()).add(position)
        if not under_way:
            del self._under_way[key]
            if held_up := self._held_up.pop(key, None):
                self._again(held_up)
