"""What a relay needs of the client's session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from proxy.net.relay.requests import Pending
    from proxy.service_url import ServiceUrl
    from proxy.wire import pulsar_pb2 as pb


class RelayClient(Protocol):
    """The client's side, as its relay needs it."""

    def relay_connected(self, connected: pb.CommandConnected) -> None:
        """The first leg stands; said once."""

    def relay_refused(self, reason: str, refusal: pb.CommandError | None) -> None:
        """There is no first leg; `refusal` is the broker's own word, if it said one."""

    def relay_target_refused(self, target: ServiceUrl) -> None:
        """The broker that the client named is none that the cluster names."""

    def relay_lost(self, reason: str) -> bool:
        """A leg that stood is lost; answer whether the client's connection is to stay."""

    def relay_dropped(self, *, returns: bool) -> None:
        """The client was told of everything that was open on a lost leg, or asked for.

        Not `returns` if it cannot go back to the broker that it named: then it must look up again.
        """

    def relay_producer_answered(self, pending: Pending, command: pb.BaseCommand) -> bool:
        """The broker answered PRODUCER or CLOSE_PRODUCER; answer whether the client is to hear it."""

    def relay_own_answered(self, pending: Pending, command: pb.BaseCommand) -> None:
        """The broker answered any other request of the gateway's own (`requests.OWN_REQUESTS`)."""

    def relay_transaction_ended(self, request: pb.CommandEndTxn) -> None:
        """The coordinator has done what the client asked for."""

    def relay_producer_closed(self, producer_id: int) -> bool:
        """The broker closed a producer; answer whether the client is to hear it."""

    def send(self, frame: bytes) -> None:
        """Queue whole frames to the client."""

    @property
    def writable(self) -> bool:
        """False while the client leaves its socket unread."""

    def relay_writable(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """The broker began or ceased to leave too much unread."""
