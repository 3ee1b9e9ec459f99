"""Whether a client may consume, or have a topic for itself: the broker is asked, on the client's own connection.

Problem: many workers share one consumer of the gateway's, which the broker lets in by the gateway's role. Whether each
of them may have messages of this topic and subscription is for the broker to say, by rules that only it knows:
permissions of namespaces, topics and subscriptions, names that must begin with a role, a provider of the operator's.

Rule: before a worker joins, and again every while for as long as it stays, a SUBSCRIBE goes to the broker that cannot
succeed: type Shared and reading compacted at once. A broker looks at the permission first, then at the topic, and then
refuses what contradicts itself; no cursor, consumer or topic comes of it. Seen on Pulsar 4.0.7 and 4.2.4:
AuthorizationError without permission, NotAllowedError (or TopicNotFound) with it. Any other answer is passed to the
worker: no worker joins on a guess. No answer serves a SUBSCRIBE that came after its question was sent.
SUBSCRIBEs that come while their place is asked for share the next question: thousands of questions at once block a
broker's connection, and all its users, for most of a second. A joined worker stays while the broker does not answer,
but only within a bound: the question uses the client's own connection to the broker, and a client that closes that
connection again and again could keep a revoked permission. So after `UNANSWERED_MAX` questions without an answer, while
the gateway itself reaches the broker, the client must subscribe again.

Why not a probe of type Exclusive, which is refused as busy: it succeeds while the gateway's consumer is disconnected,
and then blocks all others, or has created an unwanted subscription.

Producers that want a topic for themselves wait for each other here, in an order that clients choose. So who may not
have it must not be among them: for each request of its the others would wait for the broker's refusal. Where there are
others a PRODUCER goes to the broker first whose schema cannot be. A broker looks at the permission, then at the topic
(which it makes for who may have that made), and then at the schema; no producer and no schema comes of it. Seen on
Pulsar 4.0.7 and 4.2.4: AuthorizationError without permission, IncompatibleSchema with it. Everything but a refusal lets
the producer wait: the broker judges it again when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from proxy.errors import ClientError, KeylineError, UpstreamError, UpstreamUnavailable
from proxy.net.alarm import Alarm
from proxy.net.spread import share_of
from proxy.net.subscription.pending_worker import PendingWorker
from proxy.wire import commands, frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import body_of, error_frame

if TYPE_CHECKING:
    from proxy.net.ports import Clock
    from proxy.net.relay.relay import Relay
    from proxy.net.relay.requests import Pending
    from proxy.net.relay.statistics import SessionCounters
    from proxy.net.slices import Slices

_T = pb.BaseCommand

ALLOWED: Final = frozenset({pb.NotAllowedError, pb.TopicNotFound, pb.SubscriptionNotFound, pb.ServiceNotReady})
"""What a broker says only to who may: that it makes no sense, and before that, that topic or subscription is not there
or that another broker has it (`ServerCnx.handleSubscribe`). Our own subscribing comes to terms with these."""
DENIED: Final = frozenset({pb.AuthorizationError, pb.AuthenticationError})

UNANSWERED_MAX: Final = 3
"""Questions in a row that may go without an answer; a broker's restart takes less than one interval of them."""

Answered = Callable[["KeylineError | None"], None]
"""Takes None for yes, and else what the client is to be told."""


class Place(NamedTuple):
    """What is consumed."""

    topic: str
    subscription: str

    def probe(self, number: int) -> tuple[int, Any]:
        """The kind of the request that cannot succeed, and its body."""
        return _T.SUBSCRIBE, pb.CommandSubscribe(
            topic=self.topic,
            subscription=self.subscription,
            subType=pb.CommandSubscribe.Shared,
            consumer_id=number,
            request_id=number,
            read_compacted=True,
            force_topic_creation=False,
        )

    def is_denied_by(self, error: int) -> bool:
        """Whether this answer lets no worker join."""
        return error not in ALLOWED


class OwnTopic(NamedTuple):
    """What a producer wants for itself."""

    topic: str

    def probe(self, number: int) -> tuple[int, Any]:
        """As for a `Place`. Where brokers keep no schemas it succeeds, and is closed at once: so it is a shared one."""
        return _T.PRODUCER, pb.CommandProducer(
            topic=self.topic,
            producer_id=number,
            request_id=number,
            producer_access_mode=pb.Shared,
            schema=pb.Schema(name="keyline", type=pb.Schema.Avro, schema_data=b"none"),
        )

    def is_denied_by(self, error: int) -> bool:
        """Whether this answer lets the producer not wait."""
        return error in DENIED


class UnjudgedProducer(NamedTuple):
    """A producer whose permission is asked for."""

    own_topic: OwnTopic
    judged: Answered
    room: int
    """Memory set aside for its request."""


class Question:
    """One to the broker, and who asks: what is kept for them may be large, and goes when they do."""

    __slots__ = ("asking", "later", "place")

    def __init__(self, place: Place | OwnTopic, asking: dict[Answered, None]) -> None:
        """Not sent yet."""
        self.place = place
        self.asking = asking
        self.later: dict[Answered, None] = {}
        """Who came while it was under way: no answer serves those."""


class Permission:
    """What one client may."""

    def __init__(self, relay: Relay, counters: SessionCounters, slices: Slices) -> None:
        """`relay` is the client's way to its broker."""
        self._relay = relay
        self._counters = counters
        self._slices = slices
        self._questions: dict[int, Question] = {}
        """Under way, by their ids."""
        self._places: dict[Place | OwnTopic, Question] = {}
        """The same, one for each place."""

    @property
    def under_way(self) -> int:
        """Questions that have no answer; the workers that they are about may have gone."""
        return len(self._questions)

    def ask(self, place: Place | OwnTopic, answered: Answered) -> None:
        """Ask the broker; the answer follows, at once if the relay takes no more."""
        question = self._places.get(place)
        if question is not None:
            question.later[answered] = None
        else:
            self._send(Question(place, {answered: None}))

    def forget(self, place: Place | OwnTopic, answered: Answered) -> None:
        """The client that asked has gone, and is not told."""
        question = self._places.get(place)
        if question is not None:
            question.asking.pop(answered, None)
            question.later.pop(answered, None)

    def _send(self, question: Question) -> None:
        number = self._relay.own_id()
        place = question.place
        self._counters.permissions_asked_total += 1
        self._questions[number] = self._places[place] = question
        kind, probe = place.probe(number)
        if not self._relay.request(kind, probe, _framed(kind, probe)):
            del self._questions[number], self._places[place]
            refusal = UpstreamUnavailable("too much waits for the broker to ask it for a permission")
            self._tell(question.asking, refusal)

    def replied(self, pending: Pending, command: pb.BaseCommand) -> None:
        """The broker's answer to one of these questions."""
        question = self._questions.pop(pending.body.request_id, None)
        if question is None:
            return
        if command.type != _T.ERROR:  # a broker that lets such a consumer in: it goes at once
            self._leave(pending)
        del self._places[question.place]
        if question.later:
            self._send(Question(question.place, question.later))
        self._tell(question.asking, self._refusal(question.place, command))

    def _refusal(self, place: Place | OwnTopic, command: pb.BaseCommand) -> UpstreamError | None:
        """What a client is told, None if it may."""
        error = command.error
        if command.type != _T.ERROR or not place.is_denied_by(error.error):
            return None
        if error.error in DENIED:
            self._counters.permissions_denied_total += 1
        return UpstreamError(error.message, error.error)

    def dropped(self, *, returns: bool) -> None:
        """The broker has gone without an answer; whether the client comes back to one by itself."""
        questions = self._questions.values()
        asking = [answered for question in questions for answered in (*question.asking, *question.later)]
        self._questions, self._places = {}, {}
        text = "the broker went before it said whether this is permitted"
        self._tell(asking, UpstreamUnavailable(text) if returns else ClientError(text, pb.ServiceNotReady))

    def _tell(self, asking: Collection[Answered], refusal: KeylineError | None) -> None:
        """The same to each of these; there may be thousands, and each may join now."""
        self._slices.each(asking, lambda answered: answered(refusal))

    def _leave(self, pending: Pending) -> None:
        number = self._relay.own_id()
        kind: int
        close: pb.CommandCloseConsumer | pb.CommandCloseProducer
        if pending.kind == _T.SUBSCRIBE:
            kind, close = _T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=pending.body.consumer_id)
        else:
            kind, close = _T.CLOSE_PRODUCER, pb.CommandCloseProducer(producer_id=pending.body.producer_id)
        close.request_id = number
        self._relay.request(kind, close, _framed(kind, close))


def _framed(kind: int, body: Any) -> bytes:
    command = _T(type=kind)  # type: ignore[arg-type]  # a plain number will do
    body_of(command).CopyFrom(body)
    return frames.encode_command(command)


class PermissionWatch:
    """Asks again for what is consumed, for as long as anything is."""

    def __init__(
        self,
        permission: Permission,
        clock: Clock,
        slices: Slices,
        again_s: float,
        peer: str,
        places: Callable[[], set[Place]],
        away: Callable[[], set[Place]],
        denied: Callable[[Place, KeylineError], None],
    ) -> None:
        """`places` are those that the client consumes now; `peer` spreads the questions of many clients over time.

        `away` are those whose broker the gateway itself does not reach; they are asked for once, since there may be
        thousands of places.
        """
        self._permission = permission
        self._slices = slices
        self._again_s = again_s
        self._first_s = again_s * (1 + share_of(peer)) / 2
        self._places = places
        self._away = away
        self._denied = denied
        self._unanswered: dict[Place, int] = {}
        self._timer = Alarm(clock)

    def begin(self) -> None:
        """Something is consumed."""
        if not self._timer.is_set and self._again_s:
            self._timer.set(self._first_s, self._ask)

    def stop(self) -> None:
        """The client has gone."""
        self._timer.cancel()

    def _ask(self) -> None:
        places = self._places()
        self._unanswered = {place: self._unanswered.get(place, 0) for place in places}
        away = self._away()
        self._slices.each(sorted(places), lambda place: self._ask_for(place, away=place in away))
        if places:
            self._timer.set(self._again_s, self._ask)

    def _ask_for(self, place: Place, *, away: bool) -> None:
        unanswered = self._unanswered.get(place, 0)
        if not away:
            if unanswered >= UNANSWERED_MAX:
                del self._unanswered[place]  # who subscribes again is asked about anew
                text = f"the broker has not answered {unanswered} times whether this is permitted"
                self._denied(place, ClientError(text, pb.ServiceNotReady))
                return
            self._unanswered[place] = unanswered + 1
        self._permission.ask(place, lambda error: self._answered(place, error))

    def _answered(self, place: Place, error: KeylineError | None) -> None:
        """A yes or a no: a broker that has no answer now is asked again in time."""
        if error is None:
            self._unanswered.pop(place, None)
        elif error.wire_code in DENIED:
            self._denied(place, error)


class Unjoined(PendingWorker):
    """The port of a worker whose permission is asked for, or which is about to ask again."""

    def __init__(
        self, consumer_id: int, send: Callable[[bytes], None], left: Callable[[], None], early_permits: int
    ) -> None:
        """`left` is called if the client closes it meanwhile."""
        self._consumer_id = consumer_id
        self._send = send
        self._left = left
        self.early_permits = early_permits

    def flow(self, permits: int) -> None:
        """Kept for the port that follows."""
        self.early_permits += permits

    def ack(self, command: pb.CommandAck) -> None:
        """Of nothing."""
        if command.HasField("request_id"):
            response = pb.CommandAckResponse(consumer_id=self._consumer_id, request_id=command.request_id)
            self._send(frames.encode_command(_T(type=_T.ACK_RESPONSE, ackResponse=response)))

    def refuse(self, request_id: int) -> None:
        """Not yet."""
        self._send(error_frame(pb.ServiceNotReady, "the consumer has not joined yet", request_id))

    def over(self) -> None:
        """It is not waited for any more."""
        self._left = _nothing

    def close(self, request_id: int) -> None:
        """It waits no more."""
        left = self._left
        self.over()
        left()
        self._send(commands.success(request_id))

    def lost(self, reason: str) -> None:
        """As the port says."""
        del reason
        self.over()


def _nothing() -> None:
    """Replaces the callback of a worker that waits no more."""
