"""Make a journal: `python -m integration.journals DIRECTORY --messages 10_000_000`; prints what is in it as JSON."""

from __future__ import annotations

import argparse
import json
from dataclasses import MISSING, asdict, fields
from pathlib import Path

from integration.journals.make import make
from integration.journals.plan import Plan


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(prog="python -m integration.journals", description=__doc__)
    parser.add_argument("directory", type=Path)
    for field in fields(Plan):
        required = field.default is MISSING
        kind = float if isinstance(field.default, float) else int
        parser.add_argument(
            f"--{field.name.replace('_', '-')}",
            type=kind,
            required=required,
            default=None if required else field.default,
        )
    given = vars(parser.parse_args())
    directory = given.pop("directory")
    print(json.dumps(asdict(make(Plan(**given), directory))))


if __name__ == "__main__":
    main()
