"""Finds out what clients can do through the gateway: `python -m integration.compatibility`.

What does not work is a finding. Exit code 1: a broker, the gateway or a program did not run as it should.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path
from typing import Final

from integration.artifacts import PULSAR_VERSIONS
from integration.compatibility.clients import CLIENTS
from integration.compatibility.outcomes import Findings, Word
from integration.compatibility.runs import run_probes
from integration.compatibility.table import Page, parse, render
from integration.errors import DownloadError, IntegrationError, ToolMissingError

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "compatibility.md"


def main() -> int:
    """Run the probes, and print or write the page."""
    names = [client.name for client in CLIENTS]
    parser = argparse.ArgumentParser(prog="python -m integration.compatibility", description=__doc__)
    parser.add_argument("--version", action="append", choices=PULSAR_VERSIONS, help="of Pulsar; by default all")
    parser.add_argument("--clients", default=",".join(names), help="by default %(default)s")
    parser.add_argument("--write", action="store_true", help=f"write docs/{DOCUMENT.name}, which takes all versions")
    parser.add_argument("--replicas", type=int, default=1, help="gateways that share the work, in owner mode")
    options = parser.parse_args()
    versions = tuple(options.version or PULSAR_VERSIONS)
    clients = options.clients.split(",")
    if unknown := set(clients) - set(names):
        parser.error(f"unknown clients: {', '.join(sorted(unknown))}")
    if options.write and options.replicas > 1:
        parser.error("--write writes the page of one gateway; with --replicas, compare with it")
    if options.write and set(versions) != set(PULSAR_VERSIONS):
        parser.error("a page about some versions only would be wrong: --write takes all")
    try:
        found = _find(versions, _programs(clients), options.replicas)
        text = _page(found)
    except IntegrationError as error:
        print(f"compatibility: {error}", file=sys.stderr)
        return 1
    if options.write:
        DOCUMENT.write_text(text)
    else:
        print(text)
    return 0


def _programs(clients: list[str]) -> dict[str, list[str]]:
    programs = {}
    for client in CLIENTS:
        if client.name in clients:
            try:
                programs[client.name] = client.prepare()
            except (ToolMissingError, DownloadError) as error:
                print(f"without {client.title}: {error}", file=sys.stderr)
    return programs


def _find(versions: tuple[str, ...], programs: dict[str, list[str]], replicas: int) -> dict[str, dict[str, Findings]]:
    found = {}
    for version in versions:
        with tempfile.TemporaryDirectory(prefix="keyline-compatibility-") as directory:
            found[version] = run_probes(version, programs, Path(directory), replicas)
        for client, findings in found[version].items():
            for feature, trial in findings.trials.items():
                if trial.word is not Word.YES:
                    print(f"{version} {client} {feature}: {trial.word}", file=sys.stderr)
                    print(f"    directly: {trial.direct.detail}", file=sys.stderr)
                    print(f"    through the gateway: {trial.through.detail}", file=sys.stderr)
    return found


def _page(found: dict[str, dict[str, Findings]]) -> str:
    page = parse(DOCUMENT.read_text()) if DOCUMENT.exists() else Page()
    page.update(found)
    return render(page)


if __name__ == "__main__":
    sys.exit(main())
