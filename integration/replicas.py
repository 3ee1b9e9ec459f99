"""Several gateways in owner mode, as processes of this machine."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from integration.gateway import KeylineGateway, service_url_of
from integration.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import ExitStack
    from pathlib import Path

    from integration.standalone import PulsarStandalone

SECRET_BYTES: Final = 32


def at_once(actions: Sequence[Callable[[], object]]) -> None:
    """Do all of these, each in a thread. When it returns or raises, none is under way any more."""
    with ThreadPoolExecutor(len(actions)) as pool:
        for done in [pool.submit(action) for action in actions]:
            done.result()


class Replicas:
    """Gateways in owner mode on one broker; they end with `stack`."""

    def __init__(
        self,
        stack: ExitStack,
        broker: PulsarStandalone,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        ways: Sequence[tuple[str, str]] = (),
        between: Callable[[int], int] | None = None,
    ) -> None:
        """`settings` are further ones of all of them.

        `ways` are their ways to the broker, if not the direct one: a service URL, and the listener's name that leads
        there. `between` makes the port at which others reach a replica's own.
        """
        self._between = between
        self._stack = stack
        self._broker = broker
        self._directory = directory
        self._settings = dict(settings or {})
        self._ways = ways
        self._secret = directory / "secret"
        self._secret.write_text(f"{secrets.token_urlsafe(SECRET_BYTES)}\n")
        self.gateways: list[KeylineGateway] = []
        self.ports: list[int] = []
        """Those for replicas, of each gateway."""

    @property
    def service_url(self) -> str:
        """What clients connect to: all of them."""
        return service_url_of(self.gateways)

    def start(self, count: int = 1) -> KeylineGateway:
        """So many more, at the same time: each spends most of its start waiting. The first of them."""
        ports = free_ports(3 * count)  # all at once: nothing reserves them
        more = [self._made(*ports[3 * number : 3 * number + 3]) for number in range(count)]
        self._stack.callback(lambda: at_once([gateway.close for gateway in more]))
        at_once([gateway.start for gateway in more])
        self.gateways += more
        return more[0]

    def _made(self, port: int, admin_port: int, replica_port: int) -> KeylineGateway:
        number = len(self.ports)
        self.ports.append(replica_port)
        url, listener = self._ways[number] if self._ways else (self._broker.service_url, "")
        return KeylineGateway(
            url,
            self._broker.admin_url,
            self._directory / f"replica-{number}",
            port=port,
            admin_port=admin_port,
            settings={
                "replica_name": f"replica-{number}",
                "groups_enabled": "true",
                "groups_mode": "owner",
                "replica_listen": f"{LOOPBACK}:{replica_port}",
                "replica_secret_file": str(self._secret),
            }
            | ({"broker_listener_name": listener} if listener else {})
            | ({"replica_address": f"{LOOPBACK}:{self._between(replica_port)}"} if self._between else {})
            | self._settings,
        )
