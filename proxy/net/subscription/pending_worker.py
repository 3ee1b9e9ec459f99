"""The port of a worker that has not joined, or never will: it has nothing, and what it asks is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.wire import pulsar_pb2 as pb


class PendingWorker:
    """Implements `ports.WorkerPort`, but for `refuse`, and for `close` and `lost`, which say what becomes of it."""

    broker_away = False
    """It has sent no request yet."""
    unacked = 0
    """As the port says."""
    early_permits = 0
    """As the port says."""

    def refuse(self, request_id: int) -> None:
        """Answer a request that needs a worker."""
        raise NotImplementedError

    def flow(self, permits: int) -> None:
        """It gets nothing."""

    def ack(self, command: pb.CommandAck) -> None:
        """It has nothing."""

    def acked_whole(self, ids: list[int]) -> None:
        """It has nothing."""

    def redeliver(self, command: pb.CommandRedeliverUnacknowledgedMessages) -> None:
        """It has nothing."""

    def unsubscribe(self, command: pb.CommandUnsubscribe) -> None:
        """Refused."""
        self.refuse(command.request_id)

    def seek(self, command: pb.CommandSeek) -> None:
        """Refused."""
        self.refuse(command.request_id)

    def get_last_message_id(self, command: pb.CommandGetLastMessageId) -> None:
        """Refused."""
        self.refuse(command.request_id)

    def consumer_stats(self, command: pb.CommandConsumerStats) -> None:
        """Refused."""
        self.refuse(command.request_id)

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """It is sent nothing."""
