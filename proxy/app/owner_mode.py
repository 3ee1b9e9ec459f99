"""Owner mode put together: the deployment, the door for other replicas, and the legs of clients to other owners."""

from __future__ import annotations

import secrets
from functools import partial
from typing import TYPE_CHECKING

import structlog

from proxy.aio.clock_and_connector import AioConnector
from proxy.aio.tls_door import BACKLOG, TlsDoor
from proxy.aio.transport import AioTransport
from proxy.app.owner_parts import OwnerParts
from proxy.app.parts import new_name, picked
from proxy.config.types import split_host_port
from proxy.errors import StartFailure
from proxy.net.group.settings import GroupSettings
from proxy.net.owner.proof import NUMBER_BYTES, Secret
from proxy.service_url import PLAIN, TLS

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from proxy.aio.turns import LoopTurns
    from proxy.app.host_process import HostProcess
    from proxy.app.security import ReplicaTls
    from proxy.config.settings import Config
    from proxy.limits import Limits
    from proxy.net.group.groups import Groups
    from proxy.net.owner.door import Led, ReplicaDoor
    from proxy.net.owner.questions import AnswerQuestion
    from proxy.net.ports import Brokers, Clock, Receiver

log = structlog.get_logger("keyline.owner")


class OwnerMode(OwnerParts):
    """What a gateway has besides in owner mode, on its event loop."""

    def __init__(
        self,
        config: Config,
        loop: asyncio.AbstractEventLoop,
        brokers: Brokers,
        clock: Clock,
        limits: Limits,
        tls: ReplicaTls | None,
        process: HostProcess | None = None,
        turns: LoopTurns | None = None,
    ) -> None:
        """Nothing listens or connects yet; `tls` is None where replicas talk without. Raises `StartFailure`.

        `turns` as for `AioTransport`.
        """
        self._turns = turns
        replicas = config.replicas
        self._loop = loop
        self._limits = limits
        self._listen = replicas.replica_listen
        of_host = None if process is None else process.secret
        secret = _secret(config) if of_host is None else of_host
        self._shared = of_host is not None
        """Whether the supervisor keeps the address; else another process's at the same one is to be noticed."""
        self._tls = tls
        address = f"{PLAIN if tls is None else TLS}://{replicas.replica_address or replicas.replica_listen}"
        connector = (
            AioConnector(loop, limits, turns=turns)
            if tls is None
            else AioConnector(loop, limits, tls.connects.context, tls_only=True, turns=turns)
        )
        settings = picked(GroupSettings, config)
        migrating = replicas.migrating_subscriptions
        number = partial(secrets.token_bytes, NUMBER_BYTES)
        super().__init__(
            new_name(config), address, connector, secret, number, brokers, clock, limits, settings, migrating
        )
        self._server: asyncio.Server | TlsDoor | None = None
        if process is not None:
            process.takes_part(self.deployment.replica, address, self.dialler)

    async def start(self, admit: Callable[[str], Led], answer: AnswerQuestion) -> None:
        """Let other replicas in, and take part; `admit` gives the receiver for their clients.

        `answer` answers what they ask for an operator. Raises `StartFailure` when the address cannot be had.
        """
        door = self.new_door(admit, answer)
        try:
            self._server = await self._open(door)
        except OSError as error:
            raise StartFailure(f"replica_listen {self._listen}: {error.strerror or error}") from error
        log.info("replica port opened", address=self._listen, replica=self.deployment.replica, tls=bool(self._tls))
        self.deployment.start()

    async def _open(self, door: ReplicaDoor) -> asyncio.Server | TlsDoor:
        """Accept connections. Raises `OSError`."""
        host, port = split_host_port(self._listen)
        if self._tls is not None:
            tls_door = TlsDoor(_Handshakes(door), self._limits, self._loop, self._tls.accepts.context, self._turns)
            await tls_door.open(host, port, shared=self._shared)
            return tls_door

        def accept() -> AioTransport:
            return AioTransport(lambda _: door.knock(), self._loop, self._limits, self._turns)

        return await self._loop.create_server(accept, host, port, backlog=BACKLOG, reuse_port=self._shared)

    def stop_accepting(self) -> None:
        """Refuse further connections."""
        if self._server is not None:
            self._server.close()
        if self.door is not None:
            self.door.close()

    def close(self) -> None:
        """Take part no more."""
        self.deployment.close()


class _Handshakes:
    """Implements `tls_door.Places`: `TlsDoor` bounds handshakes, and `ReplicaDoor` what has yet to prove itself."""

    def __init__(self, door: ReplicaDoor) -> None:
        self._door = door

    def reserve(self, _peer: str) -> bool:
        """Any may try."""
        return True

    def give_up(self, _peer: str) -> None:
        """Nothing was reserved."""

    def admit(self, _peer: str) -> Receiver:
        """The certificate is verified, and it has yet to prove the secret."""
        return self._door.knock()


def _secret(config: Config) -> Secret:
    file = config.replicas.replica_secret_file
    assert file is not None, "the configuration is not valid without it"
    try:
        return Secret.of_lines(file.read_bytes())
    except (OSError, ValueError) as error:
        raise StartFailure(f"replica_secret_file {file}: {error}") from error


def replica_of(groups: Groups | None, owner: OwnerMode | None) -> str | None:
    """Name of this process among its replicas; None for a gateway that is alone."""
    if owner is not None:
        return owner.deployment.replica
    return None if groups is None else groups.replica
