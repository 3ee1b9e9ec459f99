"""`python -m integration.cluster`: a cluster that has the gateway's image and a broker's, until it is interrupted."""

from __future__ import annotations

import argparse
import signal
import sys

from integration.artifacts import DEFAULT_VERSION
from integration.cluster.cluster import kubernetes
from integration.errors import IntegrationError


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m integration.cluster", description=__doc__)
    parser.add_argument("--pulsar", default=DEFAULT_VERSION, help="the broker's version (%(default)s)")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with kubernetes() as cluster:
            images = cluster.load_images(options.pulsar)
            print(f"images: {', '.join(images)}\nexport KUBECONFIG={cluster.kubeconfig}", flush=True)
            signal.pause()
    except IntegrationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
