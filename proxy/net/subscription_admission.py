"""Workers on their way in: from SUBSCRIBE to Success or Error.

A worker waits until our own consumer stands at the broker, and, if it brings something the broker has not judged yet
(another schema, another durability), until a probe has asked. Whatever happens meanwhile (the worker leaves, all others
leave, a seek, the gateway stops) it is answered once or has gone, and a subscription that nobody is left to join ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.errors import ClientError, UpstreamError
from proxy.net.subscription_policy import check_agreement
from proxy.net.subscription_upstream import UpstreamState, close_at
from proxy.net.subscription_workers import SubscribedWorker
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import BrokerLink, WorkerLink
    from proxy.net.subscription import Subscription
    from proxy.wire.messages import MessageHead


class Admission:
    """Owner of the workers of one subscription that have not joined yet."""

    def __init__(self, subscription: Subscription, first: pb.CommandSubscribe) -> None:
        """`first` is what our own consumer is made of: the broker judges that with it."""
        self._subscription = subscription
        self._waiting: list[SubscribedWorker] = []
        self._probed: list[SubscribedWorker] = []
        """Those with a probe under way, gone or not: the subscription stays until the broker has answered."""
        self._judged = {_judged_by_broker(first)}

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
            check_agreement(subscription.policy, command, subscription.settings)
        except ClientError as error:
            refusal = error
            subscription.clock.call_soon(lambda: subscriber.refuse(refusal))
            return subscriber
        self._waiting.append(subscriber)
        if subscription.upstream.state is UpstreamState.IDLE:
            subscription.upstream.open()
        elif subscription.upstream.connects:
            subscription.clock.call_soon(self.admit)
        return subscriber

    def admit(self) -> None:
        """The consumer at the broker stands: let in who waits, in the order they came."""
        waiting, self._waiting = self._waiting, []
        for subscriber in waiting:
            self._admit(subscriber)
        self._subscription.end_if_empty()

    def leave(self, subscriber: SubscribedWorker) -> None:
        """A worker is gone; harmless for one that does not wait."""
        if subscriber in self._waiting:
            self._waiting.remove(subscriber)

    def refuse_all(self, error: Exception) -> None:
        """None of those who wait will join this subscription."""
        waiting, self._waiting = self._waiting, []
        for subscriber in [*waiting, *self._probed]:
            subscriber.refuse(error)

    def _admit(self, subscriber: SubscribedWorker) -> None:
        """What the broker has not judged yet is put to it before the worker joins."""
        judged = _judged_by_broker(subscriber.command)
        link = self._subscription.upstream.link
        if judged in self._judged:
            self._subscription.join(subscriber)
            return
        if link is None:
            self._waiting.append(subscriber)  # nobody can judge it now; `admit` follows with the reconnect
            return

        def answered(error: Exception | None) -> None:
            self._probed.remove(subscriber)
            if error is None:
                self._judged.add(judged)
                self._subscription.join(subscriber)
            else:
                subscriber.refuse(error)
            self._subscription.end_if_empty()

        self._probed.append(subscriber)
        probe(link, subscriber.command, answered)


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
