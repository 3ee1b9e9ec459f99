"""Requests of workers that the broker answers: unsubscribe, seek, last message id; and the probe of a schema.

They travel on the subscription's own consumer, since the broker knows no other. A seek moves the cursor for all
workers: the broker disconnects every consumer of the subscription, and so do we.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.core import reposition
from proxy.errors import ClientError, UpstreamError, UpstreamUnavailable
from proxy.net.subscription_upstream import close_at
from proxy.net.subscription_workers import error_frame
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import BrokerLink
    from proxy.net.subscription import Subscription
    from proxy.net.subscription_workers import SubscribedWorker
    from proxy.wire.messages import MessageHead


class SubscriptionRequests:
    """The part of `Subscription` that passes requests on."""

    probing = 0
    """Probes under way; the subscription does not end meanwhile."""

    def get_last_message_id(self: Subscription, asker: SubscribedWorker, command: pb.CommandGetLastMessageId) -> None:
        """The broker's answer, under the asker's request id."""
        link = self._ready_link(asker, command.request_id)
        if link is None:
            return

        def build(request_id: int) -> bytes:
            ours = pb.CommandGetLastMessageId(consumer_id=self.upstream.consumer_id, request_id=request_id)
            return encode_command(pb.BaseCommand(type=pb.BaseCommand.GET_LAST_MESSAGE_ID, getLastMessageId=ours))

        def answered(reply: pb.BaseCommand | Exception) -> None:
            if isinstance(reply, Exception):
                asker.link.send(error_frame(command.request_id, reply))
                return
            reply.getLastMessageIdResponse.request_id = command.request_id
            asker.link.send(encode_command(reply))

        link.request(build, answered)

    def unsubscribe(self: Subscription, asker: SubscribedWorker, command: pb.CommandUnsubscribe) -> None:
        """Delete the subscription at the broker."""
        if len(self.subscribers) > 1:
            text = "other consumers are connected to this shared subscription: only its last one may unsubscribe"
            asker.link.send(error_frame(command.request_id, ClientError(text, pb.MetadataError)))
            return
        link = self._ready_link(asker, command.request_id)
        if link is None:
            return
        self.flush()
        ours = pb.CommandUnsubscribe()
        ours.CopyFrom(command)
        ours.consumer_id = self.upstream.consumer_id

        def build(request_id: int) -> bytes:
            ours.request_id = request_id
            return encode_command(pb.BaseCommand(type=pb.BaseCommand.UNSUBSCRIBE, unsubscribe=ours))

        def answered(reply: pb.BaseCommand | Exception) -> None:
            if isinstance(reply, Exception):
                asker.link.send(error_frame(command.request_id, reply))
                return
            asker.ended = True
            asker.link.send(commands.success(command.request_id))
            asker.link.forget()
            self.subscribers.clear()
            if not self.ended:
                self._finish()
                self.upstream.close(tell_broker=False)

        link.request(build, answered)

    def seek(self: Subscription, asker: SubscribedWorker, command: pb.CommandSeek) -> None:
        """Move the cursor, for everybody."""
        link = self._ready_link(asker, command.request_id)
        if link is None:
            return
        if self.seeking:
            text = "another seek of this subscription is under way; try again"
            asker.link.send(error_frame(command.request_id, UpstreamUnavailable(text)))
            return
        self.seeking = True
        self.flush()
        wanted = command.request_id
        ours = pb.CommandSeek()
        ours.CopyFrom(command)
        ours.consumer_id = self.upstream.consumer_id

        def build(request_id: int) -> bytes:
            ours.request_id = request_id
            return encode_command(pb.BaseCommand(type=pb.BaseCommand.SEEK, seek=ours))

        link.request(build, lambda reply: self._sought(asker, wanted, reply))

    def _sought(self: Subscription, asker: SubscribedWorker, request_id: int, reply: object) -> None:
        """The broker moved the cursor and closed our consumer, or refused."""
        self.seeking = False
        if isinstance(reply, Exception):
            asker.link.send(error_frame(request_id, reply))
            if self.upstream.link is not None and not self._end_if_empty():
                # Whether the broker closed our consumer before it failed is not known.
                self.upstream.begin_anew("a seek failed")
            return
        reposition.reset(self.dispatcher)
        self.disconnect_workers()
        asker.link.send(commands.success(request_id))
        if not self.ended:
            self._finish()
            self.upstream.close(tell_broker=False)

    def probe(
        self: Subscription,
        link: BrokerLink,
        command: pb.CommandSubscribe,
        checked: Callable[[Exception | None], None],
    ) -> None:
        """Ask the broker what it thinks of a worker's schema, without letting the worker in.

        A consumer of type Exclusive is refused as busy while ours is connected, but only after its schema was found
        compatible: so ConsumerBusy is a yes. Should it be let in after all, ours was away; it leaves at once.
        """
        probe = pb.CommandSubscribe()
        probe.CopyFrom(command)
        probe.subType = pb.CommandSubscribe.Exclusive
        probe.ClearField("keySharedMeta")
        probe.consumer_id = probe_id = link.new_consumer(_Nobody())

        def build(request_id: int) -> bytes:
            probe.request_id = request_id
            return encode_command(pb.BaseCommand(type=pb.BaseCommand.SUBSCRIBE, subscribe=probe))

        def answered(reply: pb.BaseCommand | Exception) -> None:
            self.probing -= 1
            if isinstance(reply, UpstreamError):
                link.drop_consumer(probe_id)
            else:
                # In, or so late that it may be let in yet: an Exclusive consumer would keep everybody out.
                close_at(link, probe_id)
            busy = isinstance(reply, UpstreamError) and reply.wire_code == pb.ConsumerBusy
            checked(reply if isinstance(reply, Exception) and not busy else None)

        link.request(build, answered)

    def _ready_link(self: Subscription, asker: SubscribedWorker, request_id: int) -> BrokerLink | None:
        """The link to ask on; without one the asker is told to try again."""
        link = self.upstream.link
        if link is None or asker.worker is None or self.ended:
            text = "the subscription is not connected to its broker now; try again"
            asker.link.send(error_frame(request_id, UpstreamUnavailable(text)))
            return None
        return link


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
