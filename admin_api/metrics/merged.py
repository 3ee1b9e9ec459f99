"""The metrics of several processes as one text: each series gets the label ``process``, each family its head once.

Nothing is added up: every process counts what is its own, so a sum over the label is right, and a process that was
started again begins with 0 as any target of Prometheus does.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from prometheus_client import Metric

from admin_api.metrics.formats import Frozen, encoded

if TYPE_CHECKING:
    from admin_api.metrics.formats import Format
    from admin_api.turns import Turns

LABEL: Final = "process"
PIECE: Final = 8 << 10
"""Characters of samples that are labelled at a time, which takes a fraction of a turn."""
_FAMILY: Final = "\n# HELP "
_HEAD: Final = re.compile(r"(?:#[^\n]*\n)+")
_LABELLED: Final = re.compile(r"^([a-zA-Z_:][\w:]*)\{", re.MULTILINE)
_BARE: Final = re.compile(r"^([a-zA-Z_:][\w:]*) ", re.MULTILINE)


class Answers(NamedTuple):
    """What a scrape found, by process."""

    texts: Mapping[str, str]
    """Of those that answered."""
    up: Mapping[str, bool]
    """Of all."""
    restarts: Mapping[str, int]


async def merged(answers: Answers, form: Format, turns: Turns) -> AsyncIterator[str]:
    """All families, and those about the processes themselves; not the format's end."""
    yield encoded(Frozen(_about(answers)), form)
    families: dict[str, dict[str, str]] = {}
    for process, text in answers.texts.items():
        for family in f"\n{text}".rstrip("\n").split(_FAMILY)[1:]:
            family = f"{_FAMILY[1:]}{family}\n"  # noqa: PLW2901 - as it was
            if found := _HEAD.match(family):
                families.setdefault(found[0], {})[process] = family[found.end() :]
            if turns.over:
                await turns.next()
    for head, samples in families.items():
        yield head
        for process, lines in samples.items():
            for piece in _pieces(lines):
                yield labelled(piece, process)
                if turns.over:
                    await turns.next()


def labelled(lines: str, process: str) -> str:
    """Give each sample the label, before its others; label values have no line's end in either format."""
    lines = _LABELLED.sub(rf'\g<1>{{{LABEL}="{process}",', lines)
    return _BARE.sub(rf'\g<1>{{{LABEL}="{process}"}} ', lines)


def _pieces(lines: str) -> Iterator[str]:
    """Whole lines, some at a time."""
    start = 0
    while start < len(lines):
        end = lines.find("\n", start + PIECE) + 1 or len(lines)
        yield lines[start:end]
        start = end


def _about(answers: Answers) -> list[Metric]:
    up = Metric("keyline_process_up", "Whether a process of the host answered this scrape.", "gauge")
    for process, answered in sorted(answers.up.items()):
        up.add_sample(up.name, {LABEL: process}, float(answered))
    restarts = Metric("keyline_process_restarts", "Starts of a process of the host after its first one.", "counter")
    for process, count in sorted(answers.restarts.items()):
        restarts.add_sample(f"{restarts.name}_total", {LABEL: process}, count)
    return [up, restarts]
