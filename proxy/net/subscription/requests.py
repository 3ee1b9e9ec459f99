"""Requests of workers that the broker answers: unsubscribe, seek, last message id.

They travel on the subscription's own consumer, since the broker knows no other. A seek and an unsubscribe concern all
workers: the broker disconnects every consumer of the subscription, and so do we. While one of them is under way the
subscription does not end, and a consumer that the broker closes is not opened again before the answer says why it was
closed: to subscribe at once would bring back what was just deleted.

Where a group of replicas shares the subscription, both would concern the workers of the others too, which have no say
in it: they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core import reposition
from proxy.errors import ClientError, UpstreamError, UpstreamUnavailable
from proxy.net.subscription.upstream import ended_meanwhile
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import BrokerLink
    from proxy.net.subscription.inflow import Inflow
    from proxy.net.subscription.subscription import Subscription
    from proxy.net.subscription.workers import SubscribedWorker

_SEEK_GROUP: Final = (
    "it would move the cursor under the workers of all replicas; let the group move it, for all at once "
    "(keyline replay)"
)
_UNSUBSCRIBE_GROUP: Final = (
    "it would delete the subscription under the workers of all replicas; close the workers of the whole group, then "
    "delete it at the broker (pulsar-admin topics unsubscribe)"
)


class SubscriptionRequests:
    """Passes one subscription's requests on."""

    def __init__(self, subscription: Subscription) -> None:
        """None under way."""
        self._subscription = subscription
        self._under_way = ""
        self._consumer_closed = False

    @property
    def busy(self) -> bool:
        """Whether a seek or an unsubscribe is under way."""
        return bool(self._under_way)

    def consumer_closed(self) -> None:
        """The broker closed our consumer while busy: what follows depends on the answer."""
        self._consumer_closed = True

    def get_last_message_id(self, asker: SubscribedWorker, command: pb.CommandGetLastMessageId) -> None:
        """The broker's answer, under the asker's request id."""
        ready = self._ready(asker, command.request_id)
        if ready is None:
            return
        inflow, link = ready
        consumer_id = inflow.upstream.consumer_id

        def answered(reply: pb.BaseCommand | Exception) -> None:
            if isinstance(reply, Exception):
                asker.tell_error(command.request_id, reply)
                return
            reply.getLastMessageIdResponse.request_id = command.request_id
            asker.tell(encode_command(reply))

        link.request(lambda request_id: commands.get_last_message_id(consumer_id, request_id), answered)

    def unsubscribe(self, asker: SubscribedWorker, command: pb.CommandUnsubscribe) -> None:
        """Delete the subscription at the broker."""
        if self._not_alone(asker, command.request_id, "unsubscribe", _UNSUBSCRIBE_GROUP):
            return
        if len(self._subscription.subscribers) > 1 and not command.force:
            text = "Unconnected or shared consumer attempting to unsubscribe: other consumers are connected"
            asker.tell_error(command.request_id, ClientError(text, pb.MetadataError))
            return
        ours = pb.CommandUnsubscribe()
        ours.CopyFrom(command)

        def build(consumer_id: int, request_id: int) -> bytes:
            ours.consumer_id = consumer_id
            ours.request_id = request_id
            return encode_command(pb.BaseCommand(type=pb.BaseCommand.UNSUBSCRIBE, unsubscribe=ours))

        self._ask_for_all(asker, command.request_id, "unsubscribe", build)

    def seek(self, asker: SubscribedWorker, command: pb.CommandSeek) -> None:
        """Move the cursor, for everybody."""
        if self._not_alone(asker, command.request_id, "seek", _SEEK_GROUP):
            return
        ours = pb.CommandSeek()
        ours.CopyFrom(command)

        def build(consumer_id: int, request_id: int) -> bytes:
            ours.consumer_id = consumer_id
            ours.request_id = request_id
            return encode_command(pb.BaseCommand(type=pb.BaseCommand.SEEK, seek=ours))

        self._ask_for_all(asker, command.request_id, "seek", build)

    def _not_alone(self, asker: SubscribedWorker, request_id: int, what: str, instead: str) -> bool:
        """Whether a group shares the subscription; the asker is told so, and what to do `instead`."""
        if self._subscription.streamed:
            text = f"a replica in a group cannot {what} on its own: {instead}"
            asker.tell_error(request_id, ClientError(text, pb.NotAllowedError))
        return self._subscription.streamed

    def _ask_for_all(self, asker: SubscribedWorker, wanted: int, what: str, build: Callable[[int, int], bytes]) -> None:
        """A request that disconnects everybody if the broker grants it."""
        ready = self._ready(asker, wanted)
        if ready is None:
            return
        inflow, link = ready
        if self._under_way:
            text = f"another request of this subscription is under way ({self._under_way}); try again"
            asker.tell_error(wanted, UpstreamUnavailable(text))
            return
        self._subscription.flush()
        self._under_way = what
        self._consumer_closed = False

        def answered(reply: pb.BaseCommand | Exception) -> None:
            self._under_way = ""
            if isinstance(reply, Exception):
                asker.tell_error(wanted, reply)
                self._refused(inflow, what, reply)
            else:
                self._granted(asker, wanted, what)

        link.request(lambda request_id: build(inflow.upstream.consumer_id, request_id), answered)

    def _granted(self, asker: SubscribedWorker, wanted: int, what: str) -> None:
        """The broker closed our consumer: the workers come again, those who sought too."""
        subscription = self._subscription
        if what == "unsubscribe":
            asker.deleted()
        subscription.acks.fail_receipts(ended_meanwhile())
        reposition.reset(subscription.dispatcher, subscription.now())
        subscription.disconnect_workers()
        asker.tell(commands.success(wanted))
        if not subscription.ended:
            subscription.finish()
            subscription.inflows.close(tell_broker=False)

    def _refused(self, inflow: Inflow, what: str, error: Exception) -> None:
        """Our consumer may be gone all the same."""
        subscription = self._subscription
        subscription.end_if_empty()
        if subscription.ended or inflow.upstream.link is None:
            return
        if not isinstance(error, UpstreamError):
            # It may have been done, or be done yet. If the cursor was moved back, nothing may be taken for confirmed.
            subscription.cursor.moved()
            inflow.lost(f"the outcome of a request ({what}) is not known", tell_broker=True)
        elif self._consumer_closed:
            inflow.lost(f"the broker closed the consumer and refused the request ({what})")
        elif what == "unsubscribe" and error.wire_code != pb.MetadataError:
            # Not refused but failed, and a broker removes the consumer before it tries, without a word.
            inflow.lost("an unsubscribe failed", tell_broker=True)

    def _ready(self, asker: SubscribedWorker, request_id: int) -> tuple[Inflow, BrokerLink] | None:
        """By which consumer of ours to ask, and where; without one the asker is told to try again."""
        subscription = self._subscription
        inflow = subscription.inflows.first_ready()
        link = inflow.upstream.link if inflow is not None else None
        if inflow is None or link is None or asker.worker is None or subscription.ended:
            text = "the subscription is not connected to its broker now; try again"
            if subscription.streamed and not len(subscription.inflows):
                text = "no stream of this group is at this replica now, so the broker cannot be asked; try again"
            asker.tell_error(request_id, UpstreamUnavailable(text))
            return None
        return inflow, link
