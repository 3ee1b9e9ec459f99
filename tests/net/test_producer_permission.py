"""Who may not produce to a topic is not among those that want it for themselves, who would wait for its refusals."""

from __future__ import annotations

import weakref

import pytest

from proxy.limits import NAME_CHARACTERS_MAX, TOPIC_CHARACTERS_MAX, Limits
from proxy.net.relay.requests import OWN_REQUESTS
from proxy.net.session.permission import OwnTopic, Permission
from proxy.wire import pulsar_pb2 as pb
from tests.net.producer_rig import (
    EXCLUSIVE,
    FENCE,
    TOPIC,
    WAIT,
    Exchange,
    ProducerRig,
    answers,
    close,
    error,
    ready,
    want,
)
from tests.net.session_rig import SessionRig, T, success

DENIED = "Client is not authorized to Produce"
OVER = pb.IncompatibleSchema


def new_rig(**options: object) -> tuple[ProducerRig, SessionRig]:
    """A gateway that asks brokers for permissions, where a client owns the topic; and another client."""
    rig = ProducerRig(1, **options)  # type: ignore[arg-type]
    rig.owner(rig.clients[0])
    return rig, another(rig)


def another(rig: ProducerRig, limits: Limits | None = None) -> SessionRig:
    """One more client, of a gateway that asks."""
    return SessionRig(limits, clock=rig.clock, elections=rig.elections, authorize=True).connect()


def question(client: SessionRig) -> pb.CommandProducer:
    """The only thing that its broker was asked since the last look."""
    (command,) = client.to_broker()
    assert command.type == T.PRODUCER
    assert command.producer.request_id > OWN_REQUESTS
    return command.producer


def answer(client: SessionRig, code: int = OVER) -> None:
    """Let the broker answer the question."""
    client.broker.deliver(error(question(client).request_id, code, DENIED))


@pytest.mark.parametrize("mode", [WAIT, FENCE, EXCLUSIVE])
def test_who_may_not_produce_holds_nobody_up(mode: int) -> None:
    """Whatever priority it claims: it is refused in the broker's words, and was never among the others."""
    rig, client = new_rig()
    client.client.deliver(want(20, 2**31 - 1, mode=mode))
    assert client.to_client() == []
    assert rig.page().waiting == ()
    assert rig.page().summary.owner is not None
    answer(client, pb.AuthorizationError)
    (told,) = client.to_client()
    assert (told.error.request_id, told.error.error, told.error.message) == (20, pb.AuthorizationError, DENIED)
    assert rig.page().summary.counters.arrivals_total == 1
    assert client.session.counters.permissions_denied_total == 1
    assert rig.elections.summary().waiting_bytes == 0


def test_the_question_can_do_nothing_at_the_broker() -> None:
    """Its schema cannot be; where none are kept it is a shared producer's, which is closed at once."""
    rig, client = new_rig()
    client.client.deliver(want(20))
    probe = question(client)
    assert (probe.topic, probe.producer_access_mode, probe.schema.type) == (TOPIC, pb.Shared, pb.Schema.Avro)
    assert probe.producer_id > OWN_REQUESTS
    client.broker.deliver(ready(probe.request_id))
    (command,) = client.to_broker()
    assert command.close_producer.producer_id == probe.producer_id
    client.broker.deliver(success(command.close_producer.request_id))
    assert answers(client) == [(20, "queued")]
    assert len(rig.page().waiting) == 1


@pytest.mark.parametrize("code", [OVER, pb.ServiceNotReady, pb.ProducerBusy, pb.UnknownError])
def test_who_may_produce_waits(code: int) -> None:
    """Whatever else the broker says of the topic now: it says so again when the turn has come."""
    rig, client = new_rig()
    client.client.deliver(want(20))
    answer(client, code)
    assert answers(client) == [(20, "queued")]
    rig.clients[0].client.lose()
    (closing,) = rig.clients[0].to_broker()
    rig.clients[0].broker.deliver(success(closing.close_producer.request_id))
    assert [command.producer.request_id for command in client.to_broker()] == [20]
    client.broker.deliver(ready(20))
    assert answers(client) == [(20, "ready")]


def test_where_nobody_else_wants_the_topic_its_own_request_asks() -> None:
    """It costs nothing there."""
    rig = ProducerRig(0)
    client = another(rig)
    for number, mode in enumerate((WAIT, FENCE, EXCLUSIVE)):
        client.client.deliver(want(20 + number, producer_id=number, mode=mode, topic=f"{TOPIC}-{number}"))
        assert [command.producer.request_id for command in client.to_broker()] == [20 + number]


def test_a_producer_elsewhere_is_one_that_could_be_held_up() -> None:
    """Replicas give way to the best that another one has."""
    exchange = Exchange()
    there = ProducerRig(2, exchange=exchange, replica="r2")
    here = ProducerRig(0, exchange=exchange, replica="r1", clock=there.clock)
    there.owner(there.clients[0])
    there.clients[1].client.deliver(want(10))
    there.clock.advance(1)
    while exchange.under_way["r1"]:
        exchange.deliver("r1")
    client = another(here)
    client.client.deliver(want(20, 2**31 - 1))
    answer(client, pb.AuthorizationError)
    assert answers(client) == [(20, "AuthorizationError")]
    assert here.elections.summary().topics_count == 0


def test_thousands_share_a_question() -> None:
    """The one under way serves those that were there before it."""
    rig, client = new_rig()
    client.client.deliver(b"".join(want(20 + number, producer_id=number) for number in range(2_000)))
    answer(client)
    assert answers(client) == [(20, "queued")]
    answer(client, pb.AuthorizationError)
    assert [told for _, told in answers(client)] == ["AuthorizationError"] * 1_999
    assert len(rig.page().waiting) == 1


def test_who_closes_before_the_answer_does_not_wait() -> None:
    """The answer finds nobody, also if the id is in use again; until then the id is taken."""
    rig, client = new_rig()
    client.client.deliver(want(20) + want(21))
    assert answers(client) == [(21, "ServiceNotReady")]
    client.client.deliver(close(22) + want(23))
    assert answers(client) == [(22, "success")]
    answer(client, pb.AuthorizationError)
    assert answers(client) == []
    answer(client)
    assert answers(client) == [(23, "queued")]
    assert len(rig.page().waiting) == 1


def test_a_client_or_a_broker_that_goes_before_the_answer() -> None:
    """The client is told to try again if it is there; nothing is kept."""
    rig, client = new_rig()
    client.client.deliver(want(20))
    question(client)
    client.client.lose()
    assert rig.elections.summary().waiting_bytes == 0
    busy = another(rig)
    busy.client.deliver(want(30))
    question(busy)
    busy.broker.lose()
    assert rig.elections.summary().waiting_bytes == 0
    assert rig.page().waiting == ()


def test_what_waits_for_the_answer_is_bounded() -> None:
    """As what waits for the topic is."""
    rig, client = new_rig(waiting_producers_bytes_max=3_000)
    client.client.deliver(b"".join(want(20 + number, producer_id=number) for number in range(3)))
    assert answers(client) == [(22, "TooManyRequests")]
    client.client.deliver(close(30, 0))
    assert rig.elections.summary().waiting_bytes < 2_000


def test_nothing_is_kept_of_who_has_gone() -> None:
    """A request may have megabytes, and a client may ask and close again for as long as it leaves the answer unread."""
    client = another(ProducerRig(0))
    parts = client.session._parts
    assert parts is not None
    permission = parts.permission
    assert isinstance(permission, Permission)
    for _ in range(2):  # who is asked for, and who waits for the next question

        def answered(_refusal: object) -> None:
            """Never called."""

        gone = weakref.ref(answered)
        permission.ask(OwnTopic(TOPIC), answered)
        permission.forget(OwnTopic(TOPIC), answered)
        del answered
        assert gone() is None


@pytest.mark.parametrize("mode", [WAIT, FENCE, EXCLUSIVE])
@pytest.mark.parametrize(
    ("what", "names", "most"),
    [
        ("topic", {"topic": "persistent://a/b/" + "\x01" * 900_000}, TOPIC_CHARACTERS_MAX),
        ("topic", {"topic": "x" * TOPIC_CHARACTERS_MAX}, TOPIC_CHARACTERS_MAX),  # longer when it is complete
        ("producer", {"name": "x" * (NAME_CHARACTERS_MAX + 1)}, NAME_CHARACTERS_MAX),
    ],
)
def test_names_that_are_too_long_are_kept_and_told_nowhere(
    mode: int, what: str, names: dict[str, str], most: int
) -> None:
    """Refused before anybody hears of it: no broker, no other replica, no event; other producers come as before."""
    exchange = Exchange()
    rig = ProducerRig(0, exchange=exchange)
    client = another(rig)
    client.client.deliver(want(10, 1, mode=mode, **names))  # type: ignore[arg-type]
    (answered,) = client.to_client()
    assert answered.error.request_id == 10
    assert answered.error.error == pb.NotAllowedError
    assert answered.error.message.startswith(f"a {what} name of ")
    assert answered.error.message.endswith(
        f"at most {most} are allowed with access mode {pb.ProducerAccessMode.Name(mode)}"
    )
    rig.clock.advance(3.0)
    assert client.to_broker() == []
    assert exchange.take("r1") == []
    assert rig.kinds() == []
    fits = "persistent://a/b/".ljust(TOPIC_CHARACTERS_MAX, "x")
    client.client.deliver(want(11, 1, topic=fits, name="x" * NAME_CHARACTERS_MAX, mode=mode))
    assert [each.type for each in client.to_broker()] == [T.PRODUCER]


def test_a_shared_producer_s_names_are_the_broker_s_to_judge() -> None:
    """The gateway keeps nothing of it."""
    rig = ProducerRig(1)
    (client,) = rig.clients
    frame = want(10, mode=pb.Shared, topic="x" * 9_999)
    client.client.deliver(frame)
    assert client.broker.take() == frame
