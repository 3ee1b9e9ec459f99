"""Entry point of `python -m integration.bench`."""

import sys

from integration.bench.cli import main

if __name__ == "__main__":
    sys.exit(main())
