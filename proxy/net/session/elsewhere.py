"""The seam between a client's session and the replicas that own what it consumes.

A session does not know where owners are, nor how they are reached. It asks here where a consumer goes, and what names
that consumer afterwards goes the same way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from proxy.net.ports import ElsewhereClient, Transport
    from proxy.wire import pulsar_pb2 as pb


class Elsewhere(Protocol):
    """The Key_Shared consumers of one client that other replicas serve, and those whose owner is not known yet."""

    def __contains__(self, consumer_id: int) -> bool:
        """Whether commands for this id go there."""

    def __len__(self) -> int:
        """Count them."""

    def ready(self, consumer_id: int) -> bool:
        """Whether the SUBSCRIBE of one of them was answered."""

    def subscribe(self, command: pb.CommandSubscribe, frame: bytes, here: Callable[[], None]) -> None:
        """Lead a new consumer to its owner: `here` is called if that is this replica, at once or later."""

    def data(self, consumer_id: int, frame: bytes) -> None:
        """Pass on a command without an answer, or an acknowledgement."""

    def request(self, kind: int, body: Any, frame: bytes) -> None:
        """Pass on a command with a request id, and see to it that it is answered."""

    def transaction_ended(self, request: pb.CommandEndTxn) -> None:
        """The coordinator has ended a transaction of the client's: the owners of its consumers hear so."""

    def auth_response(self, response: pb.AuthData, frame: bytes) -> bool:
        """Record a client's fresh credentials; returns whether only an owner had asked for them."""

    def client_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """The client's socket filled up or emptied."""

    def close(self) -> None:
        """The client has gone."""


MakeElsewhere: TypeAlias = "Callable[[ElsewhereClient, pb.CommandConnect, Transport], Elsewhere]"
"""Makes it for one client, from its CONNECT and its connection."""
