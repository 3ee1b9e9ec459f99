"""Workers on their way in: from SUBSCRIBE to Success or Error.

A worker waits until our own consumer stands at the broker, and, if it brings something the broker has not judged yet
(another schema, another durability), until a probe has asked. Whatever happens meanwhile (the worker leaves, all others
leave, a seek, the gateway stops) it is answered once or has gone, and a subscription that nobody is left to join ends.

In a group of replicas, a worker comes in whether this replica has a stream or not: it is for its workers that it gets
them. So the broker judges the first one too by a probe, on a connection that is looked up for that where no consumer of
ours has one; one probe serves all who bring the same.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from proxy.errors import ClientError, UpstreamError
from proxy.net.broker.consumer import close_at
from proxy.net.subscription.inflow import WHOLE
from proxy.net.subscription.membership import GROUP_MAX
from proxy.net.subscription.policy import check_agreement, refuse_in_group
from proxy.net.subscription.upstream import UpstreamState
from proxy.net.subscription.workers import SubscribedWorker
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from proxy.net.ports import BrokerLink, WorkerLink
    from proxy.net.subscription.subscription import Subscription
    from proxy.wire.messages import MessageHead


class Admission:
    """Owner of the workers of one subscription that have not joined yet."""

    def __init__(self, subscription: Subscription, first: pb.CommandSubscribe) -> None:
        """`first` is what an ordinary subscription's consumer is made of: the broker judges that with it."""
        self._subscription = subscription
        self.model = first
        """What our consumers are made of: the first worker's SUBSCRIBE, or of a group's the first that was let in."""
        self._waiting: dict[SubscribedWorker, None] = {}
        """In the order they came."""
        self._due: deque[SubscribedWorker] = deque()
        """Those of them that are looked at next, and some that have gone since."""
        self._admitting = False
        self._asked_at: BrokerLink | None = None
        """Where the broker can be asked besides."""
        self._probed: list[SubscribedWorker] = []
        """Those with a probe under way, gone or not: the subscription stays until the broker has answered."""
        self._judged = set() if subscription.streamed else {_judged_by_broker(first)}
        self._asking: set[tuple[bytes, bool]] = set()
        """What a group's probes under way are about."""
        self._locating = False

    def __len__(self) -> int:
        """How many wait."""
        return len(self._waiting) + sum(not subscriber.ended for subscriber in self._probed)

    @property
    def busy(self) -> bool:
        """Whether the subscription is still needed here."""
        return bool(self._waiting or self._probed)

    def add(self, link: WorkerLink, command: pb.CommandSubscribe) -> SubscribedWorker:
        """A worker wants to join; it is answered through its link."""
        subscription = self._subscription
        subscriber = SubscribedWorker(subscription, link, command)
        try:
            if subscription.streamed:
                refuse_in_group(command)
            check_agreement(subscription.policy, command, subscription.settings)
        except ClientError as error:
            refusal = error
            subscription.clock.call_soon(lambda: self._refuse(subscriber, refusal))
            return subscriber
        self._waiting[subscriber] = None
        whole = subscription.inflows.get(WHOLE) if not subscription.streamed else None
        if whole is not None and whole.upstream.state is UpstreamState.IDLE:
            whole.upstream.open()
        elif whole is None or whole.upstream.connects:
            self._look_at(subscriber)
        return subscriber

    def _refuse(self, subscriber: SubscribedWorker, error: ClientError) -> None:
        """This one does not fit; if the subscription was made for it, it is needed no more."""
        subscriber.refuse(error)
        self._subscription.end_if_empty()

    def admit(self, located: BrokerLink | None = None) -> None:
        """The broker can be asked, by our consumer or where it was `located`: let in who waits, in order."""
        self._asked_at = located
        self._due = deque(self._waiting)
        self._begin()

    def _look_at(self, subscriber: SubscribedWorker) -> None:
        """This one waits: let it in, or ask the broker about it."""
        self._due.append(subscriber)
        self._begin()

    def _begin(self) -> None:
        if not self._admitting:
            self._admitting = True
            self._subscription.directory.slices.add(self._admit_some)

    def _admit_some(self, end: float) -> bool:
        """A step: let in a group of those who are due."""
        subscription = self._subscription
        ready = subscription.inflows.first_ready()
        link = self._asked_at if ready is None else ready.upstream.link
        subscription.membership.join(self._coming(link, end))
        if self._due:
            return True
        self._admitting = False
        if subscription.streamed and any(not self._is_asked(subscriber) for subscriber in self._waiting):
            self._locate()
        subscription.end_if_empty()
        return False

    def _coming(self, link: BrokerLink | None, end: float) -> Iterator[SubscribedWorker]:
        """Those of a group that may join now, one by one: each has joined before the clock is looked at."""
        count = 0
        while self._due and count < GROUP_MAX:
            subscriber = self._due.popleft()
            if subscriber in self._waiting and self._may_join(subscriber, link):
                count += 1
                yield subscriber
            if self._subscription.clock.now() >= end:
                return

    def leave(self, subscriber: SubscribedWorker) -> None:
        """A worker is gone; harmless for one that does not wait."""
        self._waiting.pop(subscriber, None)

    def refuse_all(self, error: Exception) -> None:
        """None of those who wait will join this subscription."""
        waiting, self._waiting = self._waiting, {}
        for subscriber in [*waiting, *self._probed]:
            subscriber.refuse(error)

    def _may_join(self, subscriber: SubscribedWorker, link: BrokerLink | None) -> bool:
        """Whether it may come in now; what the broker has not judged yet is put to it before."""
        judged = _judged_by_broker(subscriber.command)
        if judged in self._judged:
            del self._waiting[subscriber]
            return True
        if link is None or self._is_asked(subscriber):
            return False  # `admit` follows: with the link, or with the answer

        def answered(error: Exception | None) -> None:
            self._probed.remove(subscriber)
            if error is None:
                self._agreed(judged, subscriber)
            else:
                subscriber.refuse(error)
            if self._subscription.streamed:
                self._share(judged, error)
            self._subscription.end_if_empty()

        del self._waiting[subscriber]
        self._probed.append(subscriber)
        if self._subscription.streamed:
            self._asking.add(judged)
        probe(link, subscriber.command, answered)
        return False

    def _agreed(self, judged: tuple[bytes, bool], subscriber: SubscribedWorker) -> None:
        """The broker says yes."""
        if not self._judged:
            self.model = subscriber.command
        self._judged.add(judged)
        if not subscriber.ended:
            self._waiting[subscriber] = None
            self._look_at(subscriber)

    # ---- of a group -------------------------------------------------------------------------------------------

    def _is_asked(self, subscriber: SubscribedWorker) -> bool:
        """Whether the broker is being asked about another who brings the same."""
        return _judged_by_broker(subscriber.command) in self._asking

    def _share(self, judged: tuple[bytes, bool], error: Exception | None) -> None:
        """An answer is for all who bring the same; if it is no, each of them would get that."""
        self._asking.discard(judged)
        if error is not None:
            alike = [subscriber for subscriber in self._waiting if _judged_by_broker(subscriber.command) == judged]
            for subscriber in alike:
                del self._waiting[subscriber]
                subscriber.refuse(error)
        self.admit()

    def _locate(self) -> None:
        """Find a connection to ask on."""
        if not self._locating:
            self._locating = True
            subscription = self._subscription
            subscription.directory.brokers.locate(subscription.topic, self._located)

    def _located(self, result: BrokerLink | Exception) -> None:
        """Whoever still waits may have come meanwhile, and nobody be left: then nothing happens."""
        self._locating = False
        if not isinstance(result, Exception):
            self.admit(result)
            return
        for subscriber in [subscriber for subscriber in self._waiting if not self._is_asked(subscriber)]:
            del self._waiting[subscriber]
            subscriber.refuse(result)
        self._subscription.end_if_empty()


def probe(link: BrokerLink, command: pb.CommandSubscribe, answered: Callable[[Exception | None], None]) -> None:
    """Ask the broker what it thinks of a worker's schema and options, without letting the worker in.

    A consumer of type Exclusive is refused as busy while ours is connected, but only after its schema was found
    compatible: so ConsumerBusy is a yes. Should it be let in after all, ours was away; it leaves at once.
    """
    ours = pb.CommandSubscribe()
    ours.CopyFrom(command)
    ours.subType = pb.CommandSubscribe.Exclusive
    ours.ClearField("keySharedMeta")
    ours.consumer_id = probe_id = link.new_consumer(_Nobody())

    def build(request_id: int) -> bytes:
        ours.request_id = request_id
        return encode_command(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=ours))

    def replied(reply: pb.BaseCommand | Exception) -> None:
        if isinstance(reply, UpstreamError):
            link.drop_consumer(probe_id)
        else:
            # In, or so late that it may be let in yet: an Exclusive consumer would keep everybody out.
            close_at(link, probe_id)
        busy = isinstance(reply, UpstreamError) and reply.wire_code == pb.ConsumerBusy
        answered(reply if isinstance(reply, Exception) and not busy else None)

    link.request(build, replied)


def _judged_by_broker(command: pb.CommandSubscribe) -> tuple[bytes, bool]:
    """What the broker may refuse a later worker for: its schema as bytes, empty for none, and its durability."""
    return command.schema.SerializeToString() if command.HasField("schema") else b"", command.durable


class _Nobody:
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
