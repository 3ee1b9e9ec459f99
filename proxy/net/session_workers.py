"""The workers of one client connection: consumers that a subscription of ours serves, not the broker.

A client numbers its consumers itself, so the connection is where an id means something: here it leads to the worker's
port, or to nobody and then to the broker, which answers for consumers it does not know as it always did.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from proxy.errors import KeylineError
from proxy.net.session_commands import error_frame
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.ports import SubscriptionDirectory, Transport, WorkerPort


class Worker:
    """One consumer as its subscription sees it; implements `ports.WorkerLink`."""

    __slots__ = (
        "_accepts_broker_entry_metadata",
        "_client_version",
        "_consumer_id",
        "_forget",
        "_transport",
        "answered",
        "port",
    )

    def __init__(
        self, transport: Transport, connect: pb.CommandConnect, consumer_id: int, forget: Callable[[Worker], None]
    ) -> None:
        """`connect` is what the client said of itself."""
        self._transport = transport
        self._consumer_id = consumer_id
        self._client_version = connect.client_version
        self._accepts_broker_entry_metadata = connect.feature_flags.supports_broker_entry_metadata
        self._forget = forget
        self.answered = False
        self.port: WorkerPort | None = None

    @property
    def consumer_id(self) -> int:
        """As the port says."""
        return self._consumer_id

    @property
    def peer(self) -> str:
        """As the port says."""
        return self._transport.peer

    @property
    def client_version(self) -> str:
        """As the port says."""
        return self._client_version

    @property
    def accepts_broker_entry_metadata(self) -> bool:
        """As the port says."""
        return self._accepts_broker_entry_metadata

    @property
    def writable(self) -> bool:
        """As the port says."""
        return self._transport.writable

    def send(self, frame: bytes) -> None:
        """As the port says. The first thing sent to a worker can only be the answer to its SUBSCRIBE."""
        self.answered = True
        self._transport.write(frame)

    def limit(self, seconds: float) -> None:
        """As the port says."""
        self._transport.limit(seconds)

    def forget(self) -> None:
        """As the port says."""
        self._forget(self)


class SessionWorkers:
    """All workers of one connection, by consumer id."""

    def __init__(self, transport: Transport, connect: pb.CommandConnect, directory: SubscriptionDirectory) -> None:
        """`transport` is the client's."""
        self._transport = transport
        self._connect = connect
        self._directory = directory
        self._workers: dict[int, Worker] = {}

    def __len__(self) -> int:
        """Count workers, joined or joining."""
        return len(self._workers)

    def __contains__(self, consumer_id: int) -> bool:
        """Whether commands for this id are ours to take."""
        return consumer_id in self._workers

    def ready(self, consumer_id: int) -> bool:
        """Whether this worker's SUBSCRIBE was answered."""
        return self._workers[consumer_id].answered

    def subscribe(self, command: pb.CommandSubscribe) -> None:
        """Let a new worker join; `command.topic` is complete."""
        consumer_id = command.consumer_id
        assert consumer_id not in self._workers
        worker = Worker(self._transport, self._connect, consumer_id, self._forget)
        self._workers[consumer_id] = worker
        try:
            worker.port = self._directory.subscribe(worker, command)
        except KeylineError as error:
            self._forget(worker)
            self._transport.write(error_frame(error.wire_code, str(error), command.request_id))

    def port(self, consumer_id: int) -> WorkerPort | None:
        """Where this consumer's commands go; None when it is none of ours."""
        worker = self._workers.get(consumer_id)
        return None if worker is None else worker.port

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """The client's socket filled up or emptied."""
        for worker in list(self._workers.values()):
            if worker.port is not None:
                worker.port.writability_changed(writable)

    def lose(self, reason: str) -> None:
        """The connection is gone; every port hears so once, in the order they joined."""
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            if worker.port is not None:
                worker.port.lost(reason)
                worker.port = None

    def answer_duplicate(self, request_id: int, *, ready: bool) -> None:
        """Answer a SUBSCRIBE for an id in use: a client that gave up waiting asks again, and is told what is.

        Success when the consumer stands; an error while it is being made. (`ServerCnx.handleSubscribe`.)
        """
        if ready:
            self._transport.write(commands.success(request_id))
        else:
            message = "Consumer is already present on the connection"
            self._transport.write(error_frame(pb.ServiceNotReady, message, request_id))

    def _forget(self, worker: Worker) -> None:
        if self._workers.get(worker.consumer_id) is worker:  # its id may have been taken anew since
            del self._workers[worker.consumer_id]
        worker.port = None
