"""What a record of messages must say, kept from what clients see: who has what, since which delivery."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core.delivery_log import How

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from proxy.core.delivery_log import Ending
    from proxy.core.worker import Worker

    Message = tuple[int, int]


class Record:
    """Deliveries that were sent and have not ended, by the dispatcher's own notes."""

    def __init__(self) -> None:
        """None yet."""
        self.open: dict[tuple[Worker, Message], int] = {}
        """To the attempt that it is."""
        self._seen: set[tuple[Worker, Message]] = set()

    def sent(self, worker: Worker, messages: Iterable[Message], attempt: int) -> None:
        """A delivery left."""
        for message in messages:
            assert (worker, message) not in self.open, "sent twice to one worker, and the first has not ended"
            self.open[worker, message] = attempt
            self._seen.add((worker, message))

    def read(self, endings: list[Ending]) -> None:
        """What was noted in a turn: each end is of something that was sent."""
        for how, part, worker, _, _, attempt, indexes in endings:
            for message in [(part.position, index) for index in self._indexes(part.message_indexes(), indexes)]:
                began = self.open.pop((worker, message), None)
                if began is None:
                    # Acknowledged by what it was delivered before, while it was on its way once more.
                    assert how is How.ACKED, f"{message} of {worker!r} ended and was not sent"
                    assert (worker, message) in self._seen
                else:
                    assert began == attempt
        endings.clear()

    def compare(self, hands: dict[Worker, set[Message]]) -> None:
        """What has not ended is what workers have."""
        found: dict[Worker, set[Message]] = {worker: set() for worker in hands}
        for worker, message in self.open:
            found.setdefault(worker, set()).add(message)
        assert found == hands, "the record and the tables differ"

    @staticmethod
    def _indexes(own: Sequence[int], noted: Sequence[int] | None) -> Sequence[int]:
        return own if noted is None else noted
