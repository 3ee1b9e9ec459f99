"""The event loop's side of the journal: rows are gathered here and handed to the writer's thread once a second.

A part that has something to tell calls a method and goes on: nothing here waits, and what the thread does not take in
time is lost and counted (`spool`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from proxy.journal.chunk import RowChunk
from proxy.journal.deliveries import DeliveryLog, SubscriptionRecorder
from proxy.journal.schema import DRAINS, EVENTS, METRICS, REDELIVERIES, TABLES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from proxy.core.dispatcher import HandOver
    from proxy.journal.digest import KeyDigests
    from proxy.journal.schema import Table
    from proxy.journal.spool import Spool
    from proxy.net.events import Event

    Row = tuple[Any, ...]

HAND_IN_S: Final = 1.0
"""How often rows go to the writer: what is gathered for so long a killed process takes with it."""
ROW_BYTES: Final = 300
"""What a row takes as a tuple, its texts aside, about."""
ROWS_AT_A_TIME: Final = 10_000
"""Number of rows of a table after which they are handed in at once."""


class Journal:
    """Gathers rows of one run of the gateway. Implements `proxy.net.events.EventRecorder`."""

    def __init__(
        self,
        run_id: str,
        spool: Spool,
        wall_ns: Callable[[], int],
        now: Callable[[], float],
        digests: KeyDigests | None = None,
    ) -> None:
        """`now` is the run's own clock, in seconds; `wall_ns` the wall's, in nanoseconds since 1970.

        With `digests` a record of each message is kept.
        """
        self.run_id = run_id
        self._digests = digests
        self._spool = spool
        self._wall_ns = wall_ns
        self._now = now
        self._deliveries = (
            None if digests is None else DeliveryLog(run_id, digests, spool.put, self.wall_minus_clock_ns)
        )
        self._rows: dict[str, list[Row]] = {}
        self._sizes: dict[str, int] = {}

    # ---- what is told

    def happened(self, event: Event) -> None:
        """One of the admin API's events."""
        facts = json.dumps(event.facts, separators=(",", ":"), default=str)
        at_ns, wall_ns = self._times(event.at)
        row = (
            event.topic,
            event.subscription,
            at_ns,
            wall_ns,
            event.number,
            event.kind,
            event.facts.get("worker"),
            facts,
        )
        self._add(EVENTS, row, len(facts))

    def handed_over(self, key: tuple[str, str], hand_overs: Sequence[HandOver]) -> None:
        """Slots drained and went to their new owners."""
        ahead_ns = self.wall_minus_clock_ns()
        for item in hand_overs:
            at_ns = nanoseconds(item.ended_at)
            began_ns = nanoseconds(item.began_at)
            row = (
                *key,
                at_ns,
                at_ns + ahead_ns,
                item.slot,
                item.holder,
                item.owner,
                began_ns,
                at_ns - began_ns,
                item.waiting_messages,
                "worker_joined" if item.cause.joined else "worker_left",
                item.cause.worker,
            )
            self._add(DRAINS, row)

    def came_back(self, key: tuple[str, str], worker: str, messages: int) -> None:
        """Messages that a worker had are to be delivered again."""
        at_ns, wall_ns = self._times(self._now())
        self._add(REDELIVERIES, (*key, at_ns, wall_ns, worker, messages))

    def recorder(self, key: tuple[str, str]) -> SubscriptionRecorder | None:
        """As the port says."""
        if self._deliveries is None or self._digests is None:
            return None
        return SubscriptionRecorder(key, self._deliveries, self._digests.of)

    def measured(self, rows: Sequence[Row]) -> None:
        """Numbers of a snapshot: name, topic, subscription, consumer, other labels, value."""
        at_ns, wall_ns = self._times(self._now())
        for row in rows:
            self._add(METRICS, (at_ns, wall_ns, *row), ROW_BYTES)

    @property
    def unlisted(self) -> int:
        """Messages that were sent and have no row of their own, as their producers count them."""
        return 0 if self._deliveries is None else self._deliveries.unlisted

    def hand_in(self) -> None:
        """Let the writer have what was gathered."""
        for name in list(self._rows):
            self._hand_in(name)
        if self._deliveries is not None:
            self._deliveries.hand_in()

    def wall_minus_clock_ns(self) -> int:
        """What to add to a moment of the run's clock."""
        return self._wall_ns() - nanoseconds(self._now())

    # ---- within

    def _add(self, table: Table, row: Row, size_bytes: int = 0) -> None:
        rows = self._rows.setdefault(table.name, [])
        rows.append(row)
        self._sizes[table.name] = self._sizes.get(table.name, 0) + ROW_BYTES + size_bytes
        if len(rows) >= ROWS_AT_A_TIME:
            self._hand_in(table.name)

    def _hand_in(self, name: str) -> None:
        rows = self._rows.pop(name)
        self._spool.put(RowChunk(TABLES[name], self.run_id, rows, self._sizes.pop(name)))

    def _times(self, at: float) -> tuple[int, int]:
        """A moment of the run's clock, and what the wall's clock showed then."""
        at_ns = nanoseconds(at)
        return at_ns, at_ns + self.wall_minus_clock_ns()


def nanoseconds(seconds: float) -> int:
    """Seconds of a clock as a whole number of nanoseconds."""
    return round(seconds * 1e9)
