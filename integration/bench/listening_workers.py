"""Key_Shared workers of which each listens by a client of its own, for programs that a bench starts and kills.

Why not one client: its listeners share a thread, and a slow one would hold up the others.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn

import pulsar

from integration.bench.drain import WORKERS
from integration.load.client import OPERATION_TIMEOUT_S

if TYPE_CHECKING:
    from collections.abc import Callable

    Listener = Callable[[pulsar.Consumer, pulsar.Message], None]


def listen(
    service_url: str, topic: str, subscription: str, listener_of: Callable[[int], Listener], **options: Any
) -> NoReturn:
    """Subscribe all, from the topic's begin, and leave the rest to their listeners, given by number from 0.

    `options` are those of `pulsar.Client.subscribe`. Runs until it is killed.
    """
    clients = []
    for number in range(WORKERS):
        logger = pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn)
        clients.append(pulsar.Client(service_url, operation_timeout_seconds=OPERATION_TIMEOUT_S, logger=logger))
        clients[-1].subscribe(
            topic,
            subscription,
            consumer_type=pulsar.ConsumerType.KeyShared,
            initial_position=pulsar.InitialPosition.Earliest,
            message_listener=listener_of(number),
            **options,
        )
    while True:
        time.sleep(1)
