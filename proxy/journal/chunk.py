"""What goes from the event loop to the writer's thread: rows of one table, made into columns there."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

from proxy.journal.arrow import batch_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from proxy.journal.schema import Table


class Chunk(Protocol):
    """Immutable rows."""

    @property
    def table(self) -> Table:
        """Whose rows they are."""

    @property
    def size_bytes(self) -> int:
        """Memory that they take, about."""

    def counted(self) -> Mapping[str, int]:
        """How many rows there are, by kind, for messages about lost rows."""

    def batch(self) -> pa.RecordBatch:
        """All of them, in the order in which they happened."""


class RowChunk:
    """Rows that were gathered one by one, as tuples of the table's columns behind `life`."""

    def __init__(self, table: Table, run_id: str, rows: Sequence[tuple[Any, ...]], size_bytes: int) -> None:
        """At least one row."""
        self.table = table
        self.size_bytes = size_bytes
        self._run_id = run_id
        self._rows = rows

    def counted(self) -> Mapping[str, int]:
        """Events by their kind, other rows by their table's name."""
        if "kind" not in self.table.names:
            return {self.table.name: len(self._rows)}
        place = self.table.names.index("kind") - 1
        return Counter(row[place] for row in self._rows)

    def batch(self) -> pa.RecordBatch:
        """As the protocol says."""
        columns = dict(zip(self.table.names[1:], map(list, zip(*self._rows, strict=True)), strict=True))
        return batch_of(self.table, {"life": self._run_id, **columns})
