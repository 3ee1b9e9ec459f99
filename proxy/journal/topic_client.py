"""The official client, as the gateway's configuration has it, for `topic`."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pulsar
import pulsar.asyncio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from pathlib import Path

    from proxy.journal.topic import Producer


def producer_of(
    topic: str, broker_url: str, token: str | None, token_file: Path | None, ca_file: Path | None
) -> Callable[[], Awaitable[Producer]]:
    """Opens a producer; the token's file is read again at each connection."""
    options: dict[str, Any] = {"logger": _quiet()}
    if token_file is not None:
        options["authentication"] = pulsar.AuthenticationToken(lambda: token_file.read_text().strip())
    elif token is not None:
        options["authentication"] = pulsar.AuthenticationToken(token)
    if ca_file is not None:
        options["tls_trust_certs_file_path"] = str(ca_file)
    client: pulsar.asyncio.Client | None = None

    async def open_producer() -> Producer:
        nonlocal client
        if client is None:
            client = pulsar.asyncio.Client(broker_url, **options)
        made: Producer = await client.create_producer(topic, block_if_queue_full=False)
        return made

    return open_producer


def _quiet() -> logging.Logger:
    """The client's own log: errors and warnings only, in its own format."""
    logger = logging.getLogger("pulsar")
    logger.setLevel(logging.ERROR)
    return logger
