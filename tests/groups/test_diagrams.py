"""The diagrams in docs/streams.md are those of the tables."""

from __future__ import annotations

import pytest

from tests.groups.diagrams import DOCUMENT, MACHINES, drawn


@pytest.mark.parametrize("name", MACHINES)
def test_the_document_shows_the_table(name: str) -> None:
    """`python -m tests.groups.diagrams` draws them anew."""
    assert drawn(name) in DOCUMENT.read_text()
