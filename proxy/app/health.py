"""A container's health check of the gateway on this host: `python3 -m keyline_gateway.health`.

It uses only Python's own library, because it starts every half minute.
"""

from __future__ import annotations

import http.client
import os
import ssl
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TIMEOUT_S = 4.0
DEFAULT_LISTEN = "127.0.0.1:8750"
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "[::]": "::1", "": "127.0.0.1"}  # noqa: S104 - where it listens, not we


def connection(environment: Mapping[str, str]) -> http.client.HTTPConnection:
    """Connect to the admin API at the address in the environment or its configuration file.

    Raises:
        OSError, ValueError: the file cannot be read, or an address has no port.
    """
    path = environment.get("KEYLINE_CONFIG")
    settings: dict[str, Any] = tomllib.loads(Path(path).read_text(encoding="utf-8")) if path else {}
    listen = environment.get("KEYLINE_ADMIN_LISTEN") or str(settings.get("admin_listen", DEFAULT_LISTEN))
    secured = str(environment.get("KEYLINE_ADMIN_TLS", settings.get("admin_tls", False))).lower() in {"true", "1"}
    name, _, port = listen.rpartition(":")
    host = EVERYWHERE.get(name, name.strip("[]"))
    if not secured:
        return http.client.HTTPConnection(host, int(port), timeout=TIMEOUT_S)
    # The connection stays on this host and carries no secret: the certificate is not checked here.
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, int(port), timeout=TIMEOUT_S, context=context)


def main() -> int:
    """Return 0 if it is alive; errors go to standard error."""
    try:
        asked = connection(os.environ)
        asked.request("GET", "/livez")
        status = asked.getresponse().status
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"no gateway answers: {error}", file=sys.stderr)  # noqa: T201 - it reports to the container runtime
        return 1
    if status != http.HTTPStatus.OK:
        print(f"/livez answered {status}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
