"""The journal's tables in words: ``python -m proxy.journal.document > docs/journal-tables.md``."""

from __future__ import annotations

import sys

from proxy.journal.schema import PARTITIONS, SCHEMA_VERSION, TABLES, Kind, Table

_HEAD = f"""\
# The journal's tables

<!-- Written by `python -m proxy.journal.document > docs/journal-tables.md`; change `proxy/journal/schema.py`. -->

Schema version {SCHEMA_VERSION}. Files lie in `TABLE/{"/".join(f"{name}=..." for name in PARTITIONS)}/`.
What a journal is and how to keep one: [journal.md](journal.md).
"""


def documentation() -> str:
    """Write the page."""
    return "\n".join([_HEAD, *map(_section, TABLES.values())])


def _section(table: Table) -> str:
    rows = [
        f"| {field.id} | `{field.name}` | {_kind(field.kind)}{', or null' if field.optional else ''} | {field.since} | "
        f"{field.text} |"
        for field in table.fields
    ]
    head = ["| Id | Column | Type | Since | Meaning |", "|---|---|---|---|---|"]
    return "\n".join([f"## {table.name}", "", table.text, "", *head, *rows, ""])


def _kind(kind: Kind) -> str:
    return str(kind.value).split(",", maxsplit=1)[0] if kind in {Kind.NAME, Kind.DIGEST} else str(kind.value)


if __name__ == "__main__":
    sys.stdout.write(documentation())
