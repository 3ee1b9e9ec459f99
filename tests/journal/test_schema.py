"""The journal's tables: what other people's programs rely on."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from proxy.journal.arrow import arrow_schema
from proxy.journal.document import documentation
from proxy.journal.schema import SCHEMA_VERSION, TABLES, Field, Kind, Table
from tests.journal.rig import KEY, JournalRig

DOCS = Path(__file__).parents[2] / "docs/journal-tables.md"

PUBLISHED = {
    "events": "1 life 2 topic 3 subscription 4 at_ns 5 wall_ns 6 number 7 kind 8 consumer 9 facts",
    "drains": "1 life 2 topic 3 subscription 4 at_ns 5 wall_ns 6 slot 7 source 8 target 9 began_ns 10 duration_ns "
    "11 waiting_messages 12 cause 13 cause_consumer",
    "redeliveries": "1 life 2 topic 3 subscription 4 at_ns 5 wall_ns 6 consumer 7 messages",
    "deliveries": "1 life 2 topic 3 subscription 4 at_ns 5 wall_ns 6 event 7 consumer 8 ledger 9 entry 10 batch_index "
    "11 slot 12 key_digest 13 key 14 attempt 15 size_bytes 16 received_ns 17 sent_ns 18 why",
    "metrics": "1 life 4 at_ns 5 wall_ns 6 name 7 topic 8 subscription 9 consumer 10 labels 11 value",
}
"""Up to version 3. Only ever to be added to: files of it are in people's stores."""


def test_ids_and_names_stay_what_they_were() -> None:
    """A field is never removed, renamed or numbered anew."""
    for name, published in PUBLISHED.items():
        words = published.split()
        expected = dict(zip(map(int, words[::2]), words[1::2], strict=True))
        fields = {field.id: field.name for field in TABLES[name].fields}
        assert {number: fields.get(number) for number in expected} == expected


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_a_table_is_well_made(table: Table) -> None:
    """Ids and names once each; what came later may be missing in older files, so it may be null; all is explained."""
    assert len({field.id for field in table.fields}) == len({field.name for field in table.fields}) == len(table.fields)
    for field in table.fields:
        assert field.text.endswith(".")
        assert 1 <= field.since <= SCHEMA_VERSION
        assert field.since == 1 or field.optional


def test_the_documentation_is_of_these_tables() -> None:
    """As it is written by the command that it names."""
    assert DOCS.read_text(encoding="utf-8") == documentation()


def test_older_files_are_read_by_newer_jobs_and_newer_ones_by_older(tmp_path: Path) -> None:
    """By name: what a file lacks is null, what a reader does not know it does not see."""
    rig = JournalRig(tmp_path)
    rig.journal.came_back(KEY, "w1", 3)
    rig.end()
    table = TABLES["redeliveries"]
    grown = Table(
        table.name, table.text, (*table.fields, Field(8, "reason", Kind.STRING, "Why.", optional=True, since=2))
    )
    (row,) = ds.dataset(tmp_path / "redeliveries", schema=arrow_schema(grown)).to_table().to_pylist()
    assert (row["messages"], row["reason"]) == (3, None)
    newer = pa.table({**{name: [row[name]] for name in table.names}, "reason": ["nack"]})
    pa.parquet.write_table(newer, tmp_path / "newer.parquet")
    read = ds.dataset(tmp_path / "newer.parquet", schema=pa.schema([("messages", pa.int64())])).to_table()
    assert read.to_pylist() == [{"messages": 3}]
