"""The documentation's page: read, brought up to date with what a run found, and written again.

A run need not have every client: columns of others stay as the page has them. That is why the page is read at all.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from integration.artifacts import DEFAULT_VERSION, PULSAR_VERSIONS
from integration.compatibility.clients import CLIENTS, LEFT_OUT
from integration.compatibility.features import FEATURES
from integration.compatibility.notes import NOTES, PAGE
from integration.compatibility.outcomes import Findings, Served, Word
from integration.errors import IntegrationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CLIENT_HEADER: Final = ("client", "library", "calls itself")
FEATURE_HEADER: Final = ("feature", "served")
WIDTH: Final = 120
TITLES: Final = {client.title: client.name for client in CLIENTS}
NAMES: Final = {feature.title: feature.name for feature in FEATURES}


@dataclass
class Page:
    """What the page says."""

    served: dict[str, str] = field(default_factory=dict)
    """By feature."""
    cells: dict[tuple[str, str], str] = field(default_factory=dict)
    """By client and feature."""
    clients: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Library and what the broker heard, by client."""

    def word(self, client: str, feature: str, version: str) -> str:
        """What it says of a client's feature with one version of the broker; empty if it does not know it."""
        for part in self.cells.get((client, feature), "").split("; "):
            word, _, only = part.partition(" with ")
            if not only or version in only:
                return word
        return ""

    def update(self, found: Mapping[str, Mapping[str, Findings]], *, versions: bool = True) -> None:
        """Say what was found, by version of the broker and client.

        Args:
            found: all versions have the same clients.
            versions: whether to say the clients' versions too.

        Raises:
            IntegrationError: two clients are served in different ways, so that one column cannot tell.
        """
        by_client: dict[str, dict[str, Findings]] = {}
        for version, findings in found.items():
            for client, finding in findings.items():
                by_client.setdefault(client, {})[version] = finding
        for client, findings in by_client.items():
            one = next(iter(findings.values()))
            if versions:
                self.clients[client] = one.library, one.calls_itself
            for feature in FEATURES:
                words = {version: finding.trials[feature.name].word for version, finding in findings.items()}
                self.cells[client, feature.name] = merged(words)
        for feature in FEATURES:
            self._serve(feature.name, [finding for findings in by_client.values() for finding in findings.values()])

    def _serve(self, feature: str, findings: Iterable[Findings]) -> None:
        trials = [finding.trials[feature] for finding in findings]
        served = {trial.served for trial in trials if trial.word is not Word.NOT_OFFERED}
        if len(served) > 1:
            raise IntegrationError(f"{feature} is served in several ways: {sorted(served)}")
        for way in served:
            self.served[feature] = way


def merged(words: Mapping[str, str]) -> str:
    """One cell for all versions of the broker: what they agree on, or what is true with each."""
    if len(set(words.values())) == 1:
        return next(iter(words.values()))
    return "; ".join(f"{word} with {version}" for version, word in words.items())


def render(page: Page) -> str:
    """Write the page.

    Raises:
        IntegrationError: a cell says that something does not work as usual, and no note says what to do.
    """
    columns = [client for client in CLIENTS if client.name in page.clients]
    rows = [
        (
            feature.title,
            page.served.get(feature.name, Word.NOT_OFFERED),
            *(page.cells[client.name, feature.name] for client in columns),
        )
        for feature in FEATURES
    ]
    for (_, feature), cell in page.cells.items():
        if cell not in {Word.YES, Word.NOT_OFFERED} and feature not in NOTES:
            raise IntegrationError(f"{feature} needs a note, for a cell is {cell!r}")
    return PAGE.format(
        brokers=" and ".join(PULSAR_VERSIONS),
        newest=DEFAULT_VERSION,
        clients=_table(CLIENT_HEADER, [(client.title, *_quoted(page.clients[client.name])) for client in columns]),
        left_out="\n".join(_wrapped(f"Left out: {title}. {reason}") for title, reason in LEFT_OUT.items()),
        table=_table((*FEATURE_HEADER, *(client.title for client in columns)), rows),
        notes="\n".join(
            _wrapped(f"- **{feature.title}**: {NOTES[feature.name]}", "  ")
            for feature in FEATURES
            if feature.name in NOTES
        ),
        **{word.name.lower(): word.value for kind in (Word, Served) for word in kind},
    )


def parse(text: str) -> Page:
    """Read a page that `render` wrote; what it does not know it leaves out."""
    page = Page()
    columns: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] == FEATURE_HEADER[0]:
            columns = [TITLES.get(title, "") for title in cells[2:]]
        elif cells[0] in TITLES and len(cells) == len(CLIENT_HEADER):
            page.clients[TITLES[cells[0]]] = cells[1], cells[2].strip("`")
        elif cells[0] in NAMES and len(cells) == len(columns) + 2:
            feature = NAMES[cells[0]]
            page.served[feature] = cells[1]
            page.cells |= {(client, feature): cell for client, cell in zip(columns, cells[2:], strict=True) if client}
    return page


def _wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(text, WIDTH, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _quoted(versions: tuple[str, str]) -> tuple[str, str]:
    library, calls_itself = versions
    return library, f"`{calls_itself}`"


def _table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    header = tuple(header)
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines).replace("| --- ", "|---").replace("--- |", "---|")
