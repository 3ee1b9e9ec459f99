"""The interface between a WebSocket worker and the owner of its socket."""

from __future__ import annotations

from typing import Protocol, TypeAlias

Frame: TypeAlias = str | bytes
"""A WebSocket message, text or binary."""


class CloseCode:
    """Close codes of WebSockets, by RFC 6455 and IANA's registry."""

    NORMAL = 1000
    INVALID_DATA = 1007
    POLICY = 1008
    TOO_BIG = 1009
    INTERNAL = 1011
    SERVICE_RESTART = 1012
    """Reconnect: the gateway stops, or has closed the consumer."""


class WorkerSocket(Protocol):
    """The socket as its worker sees it. No method calls back into the worker."""

    def accept(self) -> None:
        """The worker has joined: upgrade the connection."""

    def refuse(self, status: int, detail: str) -> None:
        """It cannot join: answer the upgrade with this HTTP status."""

    def send(self, frame: Frame) -> None:
        """Queue a message to the client."""

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close."""
