"""`python -m integration.containers`: build the gateway's image, and say how large it is and how soon it lives."""

from __future__ import annotations

import argparse
import sys
import time
from typing import TYPE_CHECKING, Final

import httpx

from integration.containers.daemon import docker_daemon
from integration.containers.images import KEYLINE, build_keyline
from integration.containers.keyline import ADMIN_PORT, AS_DEPLOYED
from integration.errors import IntegrationError
from integration.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    import docker

MIB: Final = 1 << 20
LIVES_S_MAX: Final = 30.0
INTERVAL_S: Final = 0.01


def seconds_to_live(client: docker.DockerClient, image: str) -> float:
    """Start a container of it, with no broker anywhere, and return how long until its health check passes."""
    (port,) = free_ports(1)
    began = time.monotonic()
    container = client.containers.run(image, detach=True, ports={f"{ADMIN_PORT}/tcp": (LOOPBACK, port)}, **AS_DEPLOYED)
    try:
        while True:
            try:
                if httpx.get(f"http://{LOOPBACK}:{port}/livez", trust_env=False, timeout=1).is_success:
                    return time.monotonic() - began
            except httpx.TransportError:
                pass
            if time.monotonic() - began > LIVES_S_MAX:
                raise IntegrationError(f"{image} does not live:\n{container.logs().decode()[-2000:]}")
            time.sleep(INTERVAL_S)
    finally:
        container.remove(force=True)


def main() -> int:
    """Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m integration.containers", description=__doc__)
    parser.add_argument("--tag", default=f"{KEYLINE}:local", help="the image's name (%(default)s)")
    parser.add_argument(
        "--base",
        default="",
        help="image to build it on, in pure Python; by default Python's, or a root made here, and compiled",
    )
    parser.add_argument("--save", metavar="FILE", help="also write it as an archive for `docker load`")
    options = parser.parse_args()
    try:
        with docker_daemon() as client:
            image = client.images.get(build_keyline(client, options.tag, options.base))
            print(f"{options.tag}: {image.attrs['Size'] / MIB:.0f} MiB, on {options.base or 'its own base'}")
            print(f"lives {min(seconds_to_live(client, options.tag) for _ in range(3)):.2f} s after its start")
            if options.save:
                with open(options.save, "wb") as file:  # noqa: PTH123 - streamed
                    file.writelines(image.save(named=True))
    except IntegrationError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
