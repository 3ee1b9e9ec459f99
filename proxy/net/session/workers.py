"""The workers of one client connection: consumers that the gateway serves, not the broker.

A client numbers its consumers itself, so an id is unique only within its connection: here it leads to the worker's
port, or otherwise to the broker, which answers for unknown consumers as without a gateway. A worker joins its
subscription only after the broker has confirmed the client's permission (`permission`).

A worker that was refused for what passes, as a connection to a broker that broke, is tried again here, within a bound:
it may be another client's work that broke the connection, and a client does not always ask again. One of C++, or on top
of that, waits until its time is up when the first SUBSCRIBE of a consumer is refused so (seen with 3.13).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from proxy.errors import (
    ClientError,
    KeylineError,
    LimitExceeded,
    OwnedElsewhere,
    Stopping,
    UpstreamUnavailable,
    broker_code,
)
from proxy.limits import NAME_CHARACTERS_MAX
from proxy.net.relay.requests import BYTES_FULL, leaves_no_room
from proxy.net.session.permission import Permission, PermissionWatch, Place, Unjoined
from proxy.net.session.worker import Unanswered, Worker
from proxy.net.subscription.policy import refuse_oversized, refuse_repeated_keys
from proxy.net.subscription.refusals import PASSING
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import error_frame

if TYPE_CHECKING:
    from proxy.net.ports import Clock, Step, SubscriptionDirectory, Transport, WorkerPort
    from proxy.net.relay.statistics import SessionCounters
    from proxy.net.slices import Slices

log = structlog.get_logger("keyline.session")

JOIN_S_MAX: Final = 20.0
"""How long a SUBSCRIBE is tried before its client is told to try again; clients wait for 30 s."""


class SessionWorkers:
    """All workers of one connection, by consumer id."""

    def __init__(
        self,
        transport: Transport,
        connect: pb.CommandConnect,
        directory: SubscriptionDirectory,
        counters: SessionCounters,
        slices: Slices,
        first: Callable[[Step], None],
        workers_max: int,
        check_liveness: Callable[[Callable[[], None]], None],
        clock: Clock,
        *,
        try_again: bool,
    ) -> None:
        """`transport` is the client's, with at most `workers_max` workers. No permission is checked before `judge`.

        `first` does something before the client's next command, and `check_liveness` asks whether the client lives; see
        `ports.WorkerLink`. With `try_again` a SUBSCRIBE is tried again as the module says; another replica sees to that
        itself.
        """
        self._clock = clock
        self._tries_again = try_again
        self._check_liveness = check_liveness
        self._transport = transport
        self._connect = connect
        self._directory = directory
        self._counters = counters
        self._slices = slices
        self._first = first
        self._workers_max = workers_max
        self._workers: dict[int, Worker] = {}
        self._unanswered_bytes = 0
        """Of SUBSCRIBEs, which may have megabytes each and wait for the broker for as long as the client likes."""
        self._permission: Permission | None = None
        self._watch: PermissionWatch | None = None

    def judge(self, permission: Permission, again_s: float) -> None:
        """From now on ask the broker what this client may consume; again every `again_s`, 0 for never."""
        self._permission = permission
        self._watch = PermissionWatch(
            permission, self._clock, self._slices, again_s, self._transport.peer, self._places, self._away, self._denied
        )

    def __len__(self) -> int:
        """Count workers, joined or joining."""
        return len(self._workers)

    @property
    def unacked(self) -> int:
        """Messages that all of them have."""
        return sum(worker.port.unacked for worker in self._workers.values() if worker.port is not None)

    def __bool__(self) -> bool:
        """Whether there is a worker."""
        return bool(self._workers)

    def __contains__(self, consumer_id: int) -> bool:
        """Whether this id is a worker's."""
        return consumer_id in self._workers

    def ready(self, consumer_id: int) -> bool:
        """Whether this worker's SUBSCRIBE was answered."""
        return self._workers[consumer_id].answered

    @property
    def deadline(self) -> float:
        """Until when a SUBSCRIBE that comes now is tried."""
        return self._clock.now() + JOIN_S_MAX

    def subscribe(self, command: pb.CommandSubscribe, until: float, lead_on: Callable[[], None] | None = None) -> None:
        """Let a new worker join, and try `until` then; `command.topic` is complete.

        `lead_on` is called instead of an answer if the subscription moves to another replica meanwhile.
        """
        consumer_id = command.consumer_id
        assert consumer_id not in self._workers
        size_bytes = command.ByteSize()
        try:
            self._check(command, size_bytes)
        except ClientError as error:
            self._counters.workers_refused_total += 1
            self._transport.write(error_frame(error.wire_code, str(error), command.request_id))
            return
        asked = Unanswered(command, size_bytes, until, lead_on, self._clock, self._transport.peer)
        worker = Worker(
            self._transport, self._connect, asked, self._first,
            self._forget, self._check_liveness, self._let_go, self._try_again,
        )  # fmt: skip
        self._unanswered_bytes += size_bytes
        self._workers[consumer_id] = worker
        self._begin(worker, asked)

    def refuse_topic_name(self, command: pb.CommandSubscribe) -> None:
        """Answer a SUBSCRIBE that cannot be served here, and must not pass: a broker may know the topic it names."""
        self._counters.workers_refused_total += 1
        name = command.topic[:NAME_CHARACTERS_MAX]
        message = f"{name!r} is not the name of a topic for Key_Shared; write it as persistent://tenant/namespace/topic"
        self._transport.write(error_frame(pb.InvalidTopicName, message, command.request_id))

    def _check(self, command: pb.CommandSubscribe, size_bytes: int) -> None:
        """Raise `ClientError` if it is not taken, whatever the client may.

        A question keeps the names, and has to be answered also when its worker is closed.
        """
        if len(self._workers) >= self._workers_max:
            raise ClientError(f"Connection reached max consumers limit: {self._workers_max}", pb.ConsumerBusy)
        if leaves_no_room(self._unanswered_bytes, size_bytes):
            raise ClientError(BYTES_FULL, pb.TooManyRequests)
        if self._permission is not None and self._permission.under_way >= 2 * self._workers_max:
            raise ClientError("the broker is asked for too many permissions of this connection", pb.TooManyRequests)
        refuse_oversized(command)
        refuse_repeated_keys(command)

    def _begin(self, worker: Worker, asked: Unanswered) -> None:
        if self._permission is None:
            self._join(worker, asked)
        else:
            self._ask(self._permission, worker, asked)

    def _ask(self, permission: Permission, worker: Worker, asked: Unanswered) -> None:
        def left() -> None:
            permission.forget(worker.place, judged)
            self._forget(worker)

        waiting = self._wait(worker, left)

        def judged(refusal: KeylineError | None) -> None:
            self._judged(worker, waiting, asked, refusal)

        permission.ask(worker.place, judged)

    def _wait(self, worker: Worker, left: Callable[[], None]) -> Unjoined:
        """Keep what the client grants, now as before; `left` is called if it closes the worker."""
        worker.port = waiting = Unjoined(worker.consumer_id, self._transport.write, left, worker.early_permits)
        return waiting

    def _judged(self, worker: Worker, waiting: Unjoined, asked: Unanswered, refusal: KeylineError | None) -> None:
        """The broker's answer, or why there is none; the client may have closed the worker, or gone."""
        if worker.port is not waiting:
            return
        waiting.over()
        if refusal is not None:
            worker.refuse(refusal)
            return
        self._join(worker, asked)
        if self._watch is not None:
            self._watch.begin()

    def _join(self, worker: Worker, asked: Unanswered) -> None:
        early_permits = worker.early_permits
        try:
            worker.port = port = self._directory.subscribe(worker, asked.command)
        except KeylineError as error:
            worker.refuse(error)
            return
        if early_permits:
            port.flow(early_permits)

    def _try_again(self, worker: Worker, asked: Unanswered, error: Exception) -> bool:
        """As the module says. Thousands may be refused at once: each waits for a time of its own, and then its turn."""
        if not self._tries_again or not _passes(error) or self._clock.now() >= asked.until:
            return False
        if not asked.tried_again:
            log.info(
                "join is tried again",
                peer=self._transport.peer,
                topic=worker.place.topic,
                subscription=worker.place.subscription,
                reason=str(error),
            )
        waiting = self._wait(worker, lambda: self._forget(worker))

        def again(port: Unjoined) -> None:
            if worker.port is port:
                self._begin(worker, asked)

        asked.again.set(asked.next_pause_s(), lambda: self._slices.each((waiting,), again))
        return True

    def transaction_ended(self, request: pb.CommandEndTxn) -> None:
        """Tell the subscriptions of the gateway that the coordinator has done what was asked for."""
        self._directory.transaction_ended(
            (request.txnid_most_bits, request.txnid_least_bits), committed=request.txn_action == pb.COMMIT
        )

    def port(self, consumer_id: int) -> WorkerPort | None:
        """The port for this consumer's commands; None if the gateway does not serve it."""
        worker = self._workers.get(consumer_id)
        return None if worker is None else worker.port

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - the port's one bit of news
        """The client's socket filled up or emptied."""
        for worker in list(self._workers.values()):
            if worker.port is not None:
                worker.port.writability_changed(writable)

    def lose(self, reason: str) -> None:
        """The connection is gone; every port hears so once, in the order they joined, and is sent nothing till then."""
        if self._watch is not None:
            self._watch.stop()
            self._watch = None  # which has methods of this
        workers, self._workers = self._workers, {}
        for worker in workers.values():
            worker.gone = True
            self._let_go(worker)

        def lose(worker: Worker) -> None:
            if worker.port is not None:
                worker.port.lost(reason)
                worker.port = None

        self._slices.each(workers.values(), lose)

    def answer_duplicate(self, request_id: int, *, ready: bool) -> None:
        """Answer a SUBSCRIBE for an id in use: a client that gave up waiting asks again, and is told what is.

        Success when the consumer stands; an error while it is being made. (`ServerCnx.handleSubscribe`.)
        """
        if ready:
            self._transport.write(commands.success(request_id))
        else:
            message = "Consumer is already present on the connection"
            self._transport.write(error_frame(pb.ServiceNotReady, message, request_id))

    def answer_no_consumer(self, asked: pb.CommandAck) -> None:
        """Refuse an ACK of a consumer that is not there, as one that the gateway has just closed.

        A broker never answers it (`ServerCnx.handleAck`): the client waits in vain, and the relay would for ever.
        """
        message = f"there is no consumer {asked.consumer_id} on this connection; its messages are delivered again"
        self._transport.write(commands.ack_response(asked.consumer_id, asked, pb.ConsumerNotFound, message))

    def _places(self) -> set[Place]:
        return {worker.place for worker in self._workers.values()}

    def _away(self) -> set[Place]:
        workers = self._workers.values()
        return {worker.place for worker in workers if worker.port is not None and worker.port.broker_away}

    def _denied(self, place: Place, error: KeylineError) -> None:
        """What was permitted is no more: its workers go, and what they have is delivered to others.

        Those whose own question is not answered yet wait for that: this answer is older than their SUBSCRIBE.
        """
        judged = [worker for worker in self._workers.values() if not isinstance(worker.port, Unjoined)]
        for worker in [worker for worker in judged if worker.place == place]:
            log.warning(
                "permission revoked",
                peer=self._transport.peer,
                topic=place.topic,
                subscription=place.subscription,
                reason=str(error),
            )
            self._counters.permissions_revoked_total += 1
            port = worker.port
            if worker.answered:
                self._forget(worker)
                self._transport.write(commands.close_consumer(worker.consumer_id, 0))
            else:
                worker.refuse(error)
            if port is not None:
                port.lost(f"its permission was revoked: {error}")

    def _forget(self, worker: Worker) -> None:
        if self._workers.get(worker.consumer_id) is worker:  # its id may be in use again
            del self._workers[worker.consumer_id]
            self._let_go(worker)
        worker.port = None

    def _let_go(self, worker: Worker) -> None:
        """Its SUBSCRIBE is kept no longer; once more changes nothing."""
        asked, worker.asked = worker.asked, None
        if asked is not None:
            self._unanswered_bytes -= asked.size_bytes
            asked.again.cancel()


def _passes(error: Exception) -> bool:
    """Whether it may be over soon: a broker was lost, or has a fault of its own, or too much is looked up at once."""
    if isinstance(error, OwnedElsewhere | Stopping):
        return False
    return isinstance(error, UpstreamUnavailable | LimitExceeded) or broker_code(error) in PASSING
