"""Writes the dashboards' JSON: `python -m dashboards.build`. A test fails while a file is not what this would write.

Why not JSON by hand: each panel repeats some 60 lines of which five say something, and every query the same selectors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from dashboards.grafana import dashboard_json
from dashboards.groups import GROUPS
from dashboards.key_ordering import KEY_ORDERING
from dashboards.overview import OVERVIEW
from dashboards.producers import PRODUCERS
from dashboards.workers import WORKERS

FOLDER: Final = Path(__file__).parent
DASHBOARDS: Final = (OVERVIEW, KEY_ORDERING, WORKERS, PRODUCERS, GROUPS)


def rendered() -> dict[Path, str]:
    """Each file with the text it must have."""
    return {
        FOLDER / f"{dashboard.name}.json": json.dumps(dashboard_json(dashboard), indent=2) + "\n"
        for dashboard in DASHBOARDS
    }


def main() -> None:
    """Write them."""
    for path, text in rendered().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
