"""Reads log files: their ends for error messages, so that the cause is in the message, and what gateways tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

LINE_BYTES = 400
"""A generous average line, to decide how much of a large file's end to read."""


def tail(path: Path, line_count: int = 40) -> str:
    """Return the last lines of a file, or a remark when there is none."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - line_count * LINE_BYTES))
            text = file.read().decode(errors="replace")
    except FileNotFoundError:
        return f"(no log at {path})"
    return "\n".join(text.splitlines()[-line_count:]) or "(the log is empty)"


def lines(log: Path) -> list[dict[str, Any]]:
    """What a gateway's log tells, in order, without a line that is being written and what it prints besides."""
    whole, _, _ = log.read_text().rpartition("\n")
    return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]
