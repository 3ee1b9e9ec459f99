"""`make soak`: a broker, a gateway, thousands of workers, and a report. Exit code 1 if a promise was broken."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from integration import artifacts
from integration.errors import IntegrationError
from integration.gateway import KeylineGateway
from integration.soak.plan import Plan
from integration.soak.run import check_descriptors, soak
from integration.standalone import PulsarStandalone

HEAP_MIB = 1024
WORKERS_PER_ACTIVE_SUBSCRIPTION = 10


def main() -> int:
    """Run one soak."""
    defaults = Plan()
    parser = argparse.ArgumentParser(prog="python -m integration.soak", description=__doc__)
    parser.add_argument("--version", default=artifacts.DEFAULT_VERSION, help="of Pulsar")
    parser.add_argument("--minutes", type=float, default=defaults.seconds / 60)
    parser.add_argument("--idle", type=int, default=defaults.idle_workers, help="workers without messages")
    parser.add_argument("--active", type=int, default=defaults.active_workers, help="workers with messages")
    parser.add_argument("--subscriptions", type=int, default=defaults.subscriptions)
    parser.add_argument("--rate", type=float, default=defaults.messages_per_s, help="messages per second in all")
    options = parser.parse_args()
    plan = Plan(
        seconds=options.minutes * 60,
        idle_workers=options.idle,
        active_workers=options.active,
        active_subscriptions=max(options.active // WORKERS_PER_ACTIVE_SUBSCRIPTION, 1),
        subscriptions=options.subscriptions,
        messages_per_s=options.rate,
    )
    try:
        check_descriptors(plan)
        with tempfile.TemporaryDirectory(prefix="keyline-soak-") as made:
            directory = Path(made)
            with (
                PulsarStandalone(options.version, data=directory / "pulsar", heap_mib=HEAP_MIB) as broker,
                KeylineGateway(broker.service_url, broker.admin_url, directory) as gateway,
            ):
                result = soak(gateway, plan, directory, _tell)
    except IntegrationError as error:
        print(f"soak: {error}", file=sys.stderr)
        return 2
    print("\n".join(result.lines()))
    return 1 if result.failures else 0


def _tell(what: str) -> None:
    print(what, flush=True)


if __name__ == "__main__":
    sys.exit(main())
