"""A container's health check: `python3 -m keyline_gateway.health`. What it asks: `proxy.app.health`."""

from __future__ import annotations

import sys

from keyline_gateway.start import own_packages_first


def main() -> int:
    """Give 0 if the gateway on this host lives."""
    own_packages_first()
    from proxy.app.health import main as check  # noqa: PLC0415 - ours only from here on

    return check()


if __name__ == "__main__":
    sys.exit(main())
