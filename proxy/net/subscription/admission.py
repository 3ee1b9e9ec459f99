"""Admission of workers: from SUBSCRIBE to Success or Error.

A worker waits until the gateway's consumer is subscribed at the broker, and, if it has properties that the broker has
not checked yet (another schema, another durability), until a probe has checked them. In any case (the worker leaves,
all others leave, a seek, the gateway stops) it is answered once or has left, and a subscription without workers ends.

In a group of replicas, a worker is admitted whether this replica has a stream or not, because a replica gets streams
for its workers. So the broker checks also the first one by a probe, on a connection that is looked up if no consumer of
the gateway has one; one probe serves all workers with the same properties.

One that names hash slots which another worker has waits until that one's client has shown whether it lives, as at a
broker: a client that comes back after its host has vanished would be refused until the keep-alive.

`MOVES` has all transitions of a worker here. Joined workers belong to the membership.
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from proxy.errors import ClientError, UpstreamError
from proxy.net.broker.consumer import close_at
from proxy.net.subscription.membership import GROUP_MAX
from proxy.net.subscription.policy import check_agreement, refuse_in_group
from proxy.net.subscription.upstream import UpstreamState
from proxy.net.subscription.upstream_consumers import WHOLE
from proxy.net.subscription.workers import SubscribedWorker
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import kept_of
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.net.ports import BrokerLink, WorkerLink
    from proxy.net.subscription.membership import Membership
    from proxy.net.subscription.requests import SubscriptionRequests
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import Lifecycle, SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumers
    from proxy.wire.messages import MessageHead


class Stage(Enum):
    """Where a worker stands on its way in."""

    ASKED = "asked"
    """It is looked at in one of the next turns."""
    OPENING = "opening"
    """It waits for our consumer, for a connection to ask the broker on, or for the answer about one that is alike."""
    PROBING = "probing"
    """The broker is asked about it; the subscription stays until it has answered, whether the worker does or not."""
    CONTENDING = "contending"
    """It waits for a sign of life of the worker that has its hash slots, or for the end of that."""
    JOINED = "joined"
    REFUSED = "refused"


MOVES: Final = {
    Stage.ASKED: frozenset({Stage.ASKED, Stage.OPENING, Stage.PROBING, Stage.CONTENDING, Stage.JOINED, Stage.REFUSED}),
    Stage.OPENING: frozenset({Stage.ASKED, Stage.REFUSED}),
    Stage.PROBING: frozenset({Stage.ASKED, Stage.REFUSED}),
    Stage.CONTENDING: frozenset({Stage.ASKED, Stage.JOINED, Stage.REFUSED}),
    Stage.JOINED: frozenset[Stage](),
    Stage.REFUSED: frozenset[Stage](),
}
"""A worker may also leave, from any of the first four."""


class Admission:
    """Owner of the workers of one subscription that have not joined yet; implements `WorkerOwner`."""

    def __init__(
        self,
        state: SubscriptionState,
        services: Services,
        consumers: UpstreamConsumers,
        membership: Membership,
        requests: SubscriptionRequests,
        lifecycle: Lifecycle,
        first: pb.CommandSubscribe,
    ) -> None:
        """`first` is what an ordinary subscription's consumer is made of: the broker judges that with it."""
        self._state = state
        self._services = services
        self._consumers = consumers
        self._membership = membership
        self._requests = requests
        self._lifecycle = lifecycle
        self.model = first
        """What our consumers are made of: the first worker's SUBSCRIBE, or of a group's the first that was let in."""
        self.held = False
        """Whether all wait, even those that the broker permits: what is parked is not known yet."""
        self._stages: dict[SubscribedWorker, Stage] = {}
        """In the order they came; who was probed stands behind those that came by then."""
        self._gone = 0
        """How many of those that are probed have left."""
        self._due: list[SubscribedWorker] = []
        """Those that are looked at next, and some that have gone since. A list as in `membership`."""
        self._contending: dict[SubscribedWorker, SubscribedWorker] = {}
        """Who has the hash slots that each of these names."""
        self._admitting = False
        self._asked_at: BrokerLink | None = None
        """Where the broker can be asked besides."""
        self._judged = set() if state.streamed else {_judged_by_broker(first)}
        self._asking: dict[tuple[bytes, bool], None] = {}
        """What a group's probes under way are about."""
        self._locating = False

    def __len__(self) -> int:
        """How many are on their way in."""
        return len(self._stages) - self._gone

    @property
    def busy(self) -> bool:
        """Whether the subscription is still needed here."""
        return bool(self._stages)

    def add(self, link: WorkerLink, command: pb.CommandSubscribe) -> SubscribedWorker:
        """A worker wants to join; it is answered through its link."""
        state = self._state
        subscriber = SubscribedWorker(state, self._services, self._consumers, self._requests, self, link, command)
        try:
            if state.streamed:
                refuse_in_group(command)
            check_agreement(state.policy, command, state.asked)
        except ClientError as error:
            refusal = error
            state.clock.call_soon(lambda: self._disagreed(subscriber, refusal))
            return subscriber
        self._stages[subscriber] = Stage.ASKED
        whole = None if state.streamed else self._consumers.get(WHOLE)
        if whole is None or (whole.upstream.connects and not self.held):
            self._look_at(subscriber)
            return subscriber
        self._move(subscriber, Stage.OPENING)
        if whole.upstream.state is UpstreamState.IDLE:
            whole.upstream.open()
        return subscriber

    def admit(self, located: BrokerLink | None = None) -> None:
        """The broker can be asked, by our consumer or where it was `located`: let in who waits, in order."""
        self._asked_at = located
        self._due = self._waiting()
        for subscriber in self._due:
            self._move(subscriber, Stage.ASKED)
        self._begin()

    def workers_changed(self) -> None:
        """Workers have come or left: those whose hash slots are free now may have them."""
        for subscriber, holder in list(self._contending.items()):
            if not holder.is_joined:
                self._move(subscriber, Stage.ASKED)
                self._look_at(subscriber)

    def refuse_all(self, error: Exception) -> None:
        """None of those who are here will join this subscription."""
        for subscriber in self._waiting():
            self._refuse(subscriber, error)
        for subscriber in self._stages:
            self._gone += not subscriber.ended
            subscriber.refuse(error)

    def leave(self, subscriber: SubscribedWorker, reason: str, done: Callable[[], None] | None = None) -> None:
        """As `WorkerOwner` says."""
        _ = reason
        self._contending.pop(subscriber, None)
        if self._stages.get(subscriber) is Stage.PROBING:
            self._gone += 1
            subscriber.command = kept_of(subscriber.command)  # the broker may take long, for thousands of these
        else:
            self._stages.pop(subscriber, None)
        if not self._lifecycle.end_if_empty(done) and done is not None:
            done()

    lose = leave

    # ---- steps ------------------------------------------------------------------------------------------------

    def _move(self, subscriber: SubscribedWorker, to: Stage) -> None:
        stages = self._stages
        assert to in MOVES[stages[subscriber]], (stages[subscriber], to)
        self._contending.pop(subscriber, None)
        if stages[subscriber] is Stage.PROBING or not MOVES[to]:
            del stages[subscriber]
        if MOVES[to]:
            stages[subscriber] = to

    def _waiting(self) -> list[SubscribedWorker]:
        """Those that are not asked about, in order."""
        return [subscriber for subscriber, stage in self._stages.items() if stage is not Stage.PROBING]

    def _refuse(self, subscriber: SubscribedWorker, error: Exception) -> None:
        self._move(subscriber, Stage.REFUSED)
        subscriber.refuse(error)

    def _disagreed(self, subscriber: SubscribedWorker, error: ClientError) -> None:
        """This one never was on its way; if the subscription was made for it, it is needed no more."""
        subscriber.refuse(error)
        self._lifecycle.end_if_empty()

    def _look_at(self, subscriber: SubscribedWorker) -> None:
        """Let this one in, or ask the broker about it."""
        self._due.append(subscriber)
        self._begin()

    def _begin(self) -> None:
        if not self._admitting:
            self._admitting = True
            self._services.slices.add(self._admit_some)

    def _admit_some(self, end: float) -> bool:
        """A step: let in a group of those who are due."""
        ready = self._consumers.first_ready()
        link = self._asked_at if ready is None else ready.upstream.link
        self._membership.join(self._coming(link, end))
        if self._due:
            return True
        self._admitting = False
        if self._state.streamed and any(not self._is_asked(subscriber) for subscriber in self._waiting()):
            self._locate()
        self._lifecycle.end_if_empty()
        return False

    def _coming(self, link: BrokerLink | None, end: float) -> Iterator[SubscribedWorker]:
        """Those of a group that may join now, one by one: each has joined before the clock is looked at."""
        count = 0
        while self._due and count < GROUP_MAX:
            subscriber = self._due.pop(0)
            if self._stages.get(subscriber) is Stage.ASKED:
                self._move(subscriber, self._next(subscriber, link))
                stage = self._stages.get(subscriber, Stage.JOINED)
                if stage is Stage.JOINED:
                    count += 1
                    yield subscriber
                elif stage is Stage.PROBING:
                    assert link is not None
                    self._probe(link, subscriber)
                elif stage is Stage.CONTENDING:
                    self._contend(subscriber)
            if self._state.clock.now() >= end:
                return

    def _next(self, subscriber: SubscribedWorker, link: BrokerLink | None) -> Stage:
        """What becomes of one that is looked at: what the broker has not judged yet is put to it before."""
        if _judged_by_broker(subscriber.command) in self._judged:
            return Stage.JOINED if self._membership.in_the_way(subscriber) is None else Stage.CONTENDING
        if link is None or self._is_asked(subscriber):
            return Stage.OPENING  # `admit` follows: with the link, or with the answer
        return Stage.PROBING

    def _contend(self, subscriber: SubscribedWorker) -> None:
        """Have the client asked that has its hash slots: if it lives, those keep their worker, which says so."""
        holder = self._membership.in_the_way(subscriber)
        assert holder is not None
        self._contending[subscriber] = holder

        def alive() -> None:
            self._state.clock.call_soon(refused)  # it may be asked amid a join

        def refused() -> None:
            if self._contending.get(subscriber) is holder:
                self._move(subscriber, Stage.JOINED)
                self._membership.join((subscriber,))
                self._lifecycle.end_if_empty()

        holder.link.check_liveness(alive)

    def _probe(self, link: BrokerLink, subscriber: SubscribedWorker) -> None:
        judged = _judged_by_broker(subscriber.command)

        def answered(error: Exception | None) -> None:
            if error is None and (self._judged or not subscriber.ended):
                if not self._judged:
                    self.model = subscriber.command
                self._judged.add(judged)
            if subscriber.ended:
                self._gone -= 1
                del self._stages[subscriber]
            elif error is not None:
                self._refuse(subscriber, error)
            else:
                self._move(subscriber, Stage.ASKED)
                self._look_at(subscriber)
            if self._state.streamed:
                self._share(judged, error)
            self._lifecycle.end_if_empty()

        if self._state.streamed:
            self._asking[judged] = None
        probe(link, subscriber.command, answered)

    # ---- of a group -------------------------------------------------------------------------------------------

    def _is_asked(self, subscriber: SubscribedWorker) -> bool:
        """Whether the broker is being asked about another who brings the same."""
        return _judged_by_broker(subscriber.command) in self._asking

    def _share(self, judged: tuple[bytes, bool], error: Exception | None) -> None:
        """An answer is for all who bring the same; if it is no, each of them would get that."""
        self._asking.pop(judged, None)
        if error is not None:
            for subscriber in self._waiting():
                if _judged_by_broker(subscriber.command) == judged:
                    self._refuse(subscriber, error)
        self.admit()

    def _locate(self) -> None:
        """Find a connection to ask on."""
        if not self._locating:
            self._locating = True
            self._services.brokers.locate(self._state.topic, self._located)

    def _located(self, result: BrokerLink | Exception) -> None:
        """Where to ask. If a waiting worker was let in meanwhile, or none is left, nothing happens."""
        self._locating = False
        if not isinstance(result, Exception):
            self.admit(result)
            return
        for subscriber in self._waiting():
            if not self._is_asked(subscriber):
                self._refuse(subscriber, result)
        self._lifecycle.end_if_empty()


def probe(link: BrokerLink, command: pb.CommandSubscribe, answered: Callable[[Exception | None], None]) -> None:
    """Ask the broker what it thinks of a worker's schema and options, without letting the worker in.

    A consumer of type Exclusive is refused as busy while the gateway's is connected, but only after its schema was
    found compatible: so ConsumerBusy means yes. If it is admitted, the gateway's was disconnected; the probe leaves at
    once.
    """
    ours = pb.CommandSubscribe()
    ours.CopyFrom(command)
    ours.subType = pb.CommandSubscribe.Exclusive
    ours.ClearField("keySharedMeta")
    ours.consumer_id = probe_id = link.new_consumer(_NullOwner())

    def build(request_id: int) -> bytes:
        ours.request_id = request_id
        return encode_command(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=ours))

    def replied(reply: pb.BaseCommand | Exception) -> None:
        if isinstance(reply, UpstreamError):
            link.drop_consumer(probe_id)
        else:
            # Admitted, or possibly admitted later: an Exclusive consumer would block all others.
            close_at(link, probe_id)
        busy = isinstance(reply, UpstreamError) and reply.wire_code == pb.ConsumerBusy
        answered(reply if isinstance(reply, Exception) and not busy else None)

    link.request(build, replied)


def _judged_by_broker(command: pb.CommandSubscribe) -> tuple[bytes, bool]:
    """What the broker may refuse a later worker for: its schema's digest, empty for none, and its durability.

    Not the schema itself: what was judged is remembered, and each worker may bring another of megabytes.
    """
    return sha256(command.schema.SerializeToString()).digest() if command.HasField("schema") else b"", command.durable


class _NullOwner:
    """The consumer behind a probe: it is never sent anything that matters."""

    def message(self, head: MessageHead) -> None:
        """It grants no permits, so none comes."""

    def messages_end(self) -> None:
        """See `message`."""

    def closed_by_broker(self, reason: str) -> None:
        """It was to leave anyway."""

    def connection_lost(self, reason: str) -> None:
        """The probe's own request is told."""

    def reached_end_of_topic(self) -> None:
        """Of no interest."""
