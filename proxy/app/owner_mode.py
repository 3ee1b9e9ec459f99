"""Owner mode put together: the deployment, the door for other replicas, and the legs of clients to other owners."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import structlog

from proxy.aio.clock_and_connector import AioConnector
from proxy.aio.tls_door import BACKLOG
from proxy.aio.transport import AioTransport
from proxy.app.parts import new_name, picked
from proxy.config.types import split_host_port
from proxy.errors import StartFailure
from proxy.net.group.settings import GroupSettings
from proxy.net.owner.deployment import Deployment
from proxy.net.owner.dialling import ReplicaDialler
from proxy.net.owner.door import ReplicaDoor
from proxy.net.owner.proof import NUMBER_BYTES, Secret
from proxy.net.owner.ways import Ways
from proxy.service_url import PLAIN

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from proxy.config.settings import Config
    from proxy.limits import Limits
    from proxy.net.ports import BrokerDirectory, Clock, Receiver

log = structlog.get_logger("keyline.owner")


class OwnerMode:
    """What a gateway has besides in owner mode."""

    def __init__(
        self, config: Config, loop: asyncio.AbstractEventLoop, brokers: BrokerDirectory, clock: Clock, limits: Limits
    ) -> None:
        """Nothing listens or connects yet. Raises `StartFailure`."""
        replicas = config.replicas
        self._loop = loop
        self._clock = clock
        self._limits = limits
        self._listen = replicas.replica_listen
        secret = _secret(config)
        address = replicas.replica_address or replicas.replica_listen
        self.deployment = Deployment(
            new_name(config), f"{PLAIN}://{address}", brokers, clock, picked(GroupSettings, config)
        )
        self._secret = secret
        dialler = ReplicaDialler(AioConnector(loop, limits), secret, clock, _number)
        self.ways = Ways(self.deployment.owners, dialler, clock, limits)
        self.door: ReplicaDoor | None = None
        self._server: asyncio.Server | None = None

    async def start(self, admit: Callable[[str], Receiver]) -> None:
        """Let other replicas in, and take part; `admit` gives the receiver for their clients.

        Raises `StartFailure` when the address cannot be had.
        """
        self.door = door = ReplicaDoor(self.deployment.replica, self._secret, self._clock, _number, admit)
        host, port = split_host_port(self._listen)

        def accept() -> AioTransport:
            return AioTransport(lambda _: door.knock(), self._loop, self._limits)

        try:
            self._server = await self._loop.create_server(accept, host, port, backlog=BACKLOG)
        except OSError as error:
            raise StartFailure(f"replica_listen {self._listen}: {error.strerror or error}") from error
        log.info("replica port opened", address=self._listen, replica=self.deployment.replica)
        self.deployment.start()

    def stop_accepting(self) -> None:
        """Refuse further connections."""
        if self._server is not None:
            self._server.close()
        if self.door is not None:
            self.door.close()

    def close(self) -> None:
        """Take part no more."""
        self.deployment.close()


def owner_mode_of(
    config: Config, loop: asyncio.AbstractEventLoop, brokers: BrokerDirectory, clock: Clock, limits: Limits
) -> OwnerMode | None:
    """Make it, if it is configured. Raises `StartFailure`."""
    return OwnerMode(config, loop, brokers, clock, limits) if picked(GroupSettings, config).owned else None


def _secret(config: Config) -> Secret:
    file = config.replicas.replica_secret_file
    if file is None:
        raise StartFailure("replica_secret_file is needed with groups_mode owner: replicas prove to be such by it")
    try:
        return Secret.of_lines(file.read_bytes())
    except (OSError, ValueError) as error:
        raise StartFailure(f"replica_secret_file {file}: {error}") from error


def _number() -> bytes:
    return secrets.token_bytes(NUMBER_BYTES)
