"""Requests of workers that the broker answers: unsubscribe, seek, last message id.

They travel on the subscription's own consumer, since the broker knows no other. A seek and an unsubscribe concern all
workers: the broker disconnects every consumer of the subscription, and so do we. While one of them is under way the
subscription does not end, and a consumer that the broker closes is not opened again before the answer says why it was
closed: to subscribe at once would bring back what was just deleted.

Where a group of replicas shares the subscription, both would concern the workers of the others too, which have no say
in it: they are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from proxy.core import reposition
from proxy.errors import ClientError, LimitExceeded, UpstreamError, UpstreamUnavailable
from proxy.net.subscription.state import ended_meanwhile
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

if TYPE_CHECKING:
    from proxy.net.ports import BrokerLink
    from proxy.net.subscription.state import Lifecycle, SubscriptionState
    from proxy.net.subscription.upstream_consumers import UpstreamConsumer, UpstreamConsumers

LAST_IDS_ASKED_MAX: Final = 10_000
"""Requests for the last message id of one subscription without an answer. They go to the broker by a connection that
all subscriptions there share: beside a slow broker those of one client would else make it too full for all."""

_SEEK_GROUP: Final = (
    "it would move the cursor under the workers of all replicas; let the group move it, for all at once "
    "(keyline replay)"
)
_UNSUBSCRIBE_GROUP: Final = (
    "it would delete the subscription under the workers of all replicas; close the workers of the whole group, then "
    "delete it at the broker (pulsar-admin topics unsubscribe)"
)


class Asker(Protocol):
    """The worker that asks, as the answers know it."""

    @property
    def is_joined(self) -> bool:
        """Whether it takes part now."""

    def tell(self, frame: bytes) -> None:
        """Send its client something, if that is still there."""

    def tell_error(self, request_id: int, error: Exception) -> None:
        """Fail one of its requests."""

    def deleted(self) -> None:
        """The subscription was deleted on its own request: its consumer has ended without a word."""


class SubscriptionRequests:
    """Passes one subscription's requests on."""

    def __init__(self, state: SubscriptionState, consumers: UpstreamConsumers, lifecycle: Lifecycle) -> None:
        """None under way."""
        self._state = state
        self._consumers = consumers
        self._lifecycle = lifecycle
        self._last_ids_asked = 0

    def get_last_message_id(self, asker: Asker, command: pb.CommandGetLastMessageId) -> None:
        """The broker's answer, under the asker's request id; beyond `LAST_IDS_ASKED_MAX` it is refused."""
        ready = self._ready(asker, command.request_id)
        if ready is None:
            return
        if self._last_ids_asked >= LAST_IDS_ASKED_MAX:
            text = f"{LAST_IDS_ASKED_MAX} requests of this subscription for the last message id wait for an answer"
            asker.tell_error(command.request_id, LimitExceeded(f"{text}; ask again when one has come"))
            return
        self._last_ids_asked += 1
        consumer, link = ready
        consumer_id = consumer.upstream.consumer_id

        def answered(reply: pb.BaseCommand | Exception) -> None:
            self._last_ids_asked -= 1
            if isinstance(reply, Exception):
                asker.tell_error(command.request_id, reply)
                return
            reply.getLastMessageIdResponse.request_id = command.request_id
            asker.tell(encode_command(reply))

        link.request(lambda request_id: commands.get_last_message_id(consumer_id, request_id), answered)

    def unsubscribe(self, asker: Asker, command: pb.CommandUnsubscribe) -> None:
        """Delete the subscription at the broker."""
        if self._not_alone(asker, command.request_id, "unsubscribe", _UNSUBSCRIBE_GROUP):
            return
        if self._lifecycle.worker_count > 1 and not command.force:
            text = "Unconnected or shared consumer attempting to unsubscribe: other consumers are connected"
            asker.tell_error(command.request_id, ClientError(text, pb.MetadataError))
            return
        request = pb.BaseCommand(type=pb.BaseCommand.UNSUBSCRIBE, unsubscribe=command)
        self._ask_for_all(asker, "unsubscribe", request, request.unsubscribe)

    def seek(self, asker: Asker, command: pb.CommandSeek) -> None:
        """Move the cursor, for all workers."""
        if self._not_alone(asker, command.request_id, "seek", _SEEK_GROUP):
            return
        request = pb.BaseCommand(type=pb.BaseCommand.SEEK, seek=command)
        self._ask_for_all(asker, "seek", request, request.seek)

    def _not_alone(self, asker: Asker, request_id: int, what: str, instead: str) -> bool:
        """Whether a group shares the subscription; the asker is told so, and what to do `instead`."""
        if self._state.streamed:
            text = f"a replica in a group cannot {what} on its own: {instead}"
            asker.tell_error(request_id, ClientError(text, pb.NotAllowedError))
        return self._state.streamed

    def _ask_for_all(
        self, asker: Asker, what: str, request: pb.BaseCommand, body: pb.CommandUnsubscribe | pb.CommandSeek
    ) -> None:
        """A request that disconnects all workers if the broker grants it; `body` is that of `request`."""
        wanted = body.request_id
        request.DiscardUnknownFields()  # a broker may end our connection for one, and with it all subscriptions there
        ready = self._ready(asker, wanted)
        if ready is None:
            return
        consumer, link = ready
        if self._state.request:
            text = f"another request of this subscription is under way ({self._state.request}); try again"
            asker.tell_error(wanted, UpstreamUnavailable(text))
            return
        self._lifecycle.flush()
        self._state.request_began(what)

        def build(request_id: int) -> bytes:
            body.consumer_id, body.request_id = consumer.upstream.consumer_id, request_id
            return encode_command(request)

        def answered(reply: pb.BaseCommand | Exception) -> None:
            self._state.request_answered()
            if isinstance(reply, Exception):
                asker.tell_error(wanted, reply)
                self._refused(consumer, what, reply)
            else:
                self._granted(asker, wanted, what)

        link.request(build, answered)

    def _granted(self, asker: Asker, wanted: int, what: str) -> None:
        """The broker closed our consumer: the workers come again, those who sought too."""
        state = self._state
        if what == "unsubscribe":
            asker.deleted()
        state.acks.fail_receipts(ended_meanwhile())
        state.transactions.end()
        reposition.reset(state.dispatcher, state.now())
        # One that is on its way in makes a deleted subscription anew only if its client asks again.
        gone = ClientError("the subscription was deleted meanwhile; try again", pb.ServiceNotReady)
        self._lifecycle.disconnect_workers(gone if what == "unsubscribe" else None)
        asker.tell(commands.success(wanted))
        if not state.ended:
            self._lifecycle.finish()
            self._consumers.close(tell_broker=False)

    def _refused(self, consumer: UpstreamConsumer, what: str, error: Exception) -> None:
        """Our consumer may be gone all the same."""
        self._lifecycle.end_if_empty()
        if self._state.ended or consumer.upstream.link is None:
            return
        if not isinstance(error, UpstreamError):
            # It may have been done, or be done yet. If the cursor was moved back, nothing may be taken for confirmed.
            self._state.cursor.moved()
            consumer.lost(f"the outcome of a request ({what}) is not known", tell_broker=True)
        elif self._state.closed_by_request:
            consumer.lost(f"the broker closed the consumer and refused the request ({what})")
        elif what == "unsubscribe" and error.wire_code != pb.MetadataError:
            # Not refused but failed, and a broker removes the consumer before it tries, without a word.
            consumer.lost("an unsubscribe failed", tell_broker=True)

    def _ready(self, asker: Asker, request_id: int) -> tuple[UpstreamConsumer, BrokerLink] | None:
        """The gateway's consumer for the request, and its link; without one the caller gets a retryable error."""
        consumer = self._consumers.first_ready()
        link = consumer.upstream.link if consumer is not None else None
        if consumer is None or link is None or not asker.is_joined or self._state.ended:
            text = "the subscription is not connected to its broker now; try again"
            if self._state.streamed and not len(self._consumers):
                text = "no stream of this group is at this replica now, so the broker cannot be asked; try again"
            asker.tell_error(request_id, UpstreamUnavailable(text))
            return None
        return consumer, link
