"""Writes Prometheus's rules with the address of your runbook: `python -m dashboards.alert_rules --runbook-url URL`.

A link in a pager must be absolute, and where the runbook is published is known to who publishes it.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

RULES: Final = Path(__file__).parent / "rules" / "keyline.rules.yml"
UNSAFE: Final = frozenset(" \"'\n")
"""What would end the value in YAML, or the link."""
RELATIVE: Final = "runbook_url: docs/runbook.md#"


def rules_with(runbook_url: str) -> str:
    """All recording and alert rules; each alert links to its heading of the page at `runbook_url`.

    Raises:
        ValueError: it is not absolute, or leads into a page.
    """
    parts = urlsplit(runbook_url)
    absolute = parts.scheme in {"http", "https"} and parts.hostname
    if not absolute or parts.fragment or not UNSAFE.isdisjoint(runbook_url):
        raise ValueError(
            f"--runbook-url {runbook_url!r} must be the page's whole address without a fragment: "
            "https://HOST/keyline/runbook"
        )
    return RULES.read_text(encoding="utf-8").replace(RELATIVE, f"runbook_url: {runbook_url}#")


def main(arguments: list[str] | None = None) -> int:
    """Print them; 2 for an address that is none."""
    parser = argparse.ArgumentParser(prog="python -m dashboards.alert_rules", description="Prometheus's rules.")
    parser.add_argument("--runbook-url", required=True, metavar="URL", help="where docs/runbook.md is published")
    try:
        sys.stdout.write(rules_with(parser.parse_args(arguments).runbook_url))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
