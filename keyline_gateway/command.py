"""Entry point of the `keyline` script."""

from __future__ import annotations

from keyline_gateway.start import own_packages_first


def main() -> None:
    """Run a command, with our own packages first on the path."""
    own_packages_first()
    from proxy.cli.main import main as command  # noqa: PLC0415 - ours only from here on

    command()
