"""How a WebSocket's worker joins: the token, the partitions, the subscriptions, and what an upgrade is refused with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from proxy.net.websocket.worker import JOIN_S_MAX
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from tests.net.session_rig import connected
from tests.net.websocket_rig import PEER, TOPIC, UNNUMBERED, T, WebsocketRig, no_partitions, partitions, single

STATUSES = [
    (pb.AuthenticationError, 401),
    (pb.AuthorizationError, 403),
    (pb.NotAllowedError, 403),
    (pb.TopicNotFound, 404),
    (pb.SubscriptionNotFound, 404),
    (pb.ConsumerBusy, 409),
    (pb.ConsumerAssignError, 409),
    (pb.IncompatibleSchema, 409),
    (pb.InvalidTopicName, 400),
    (pb.TooManyRequests, 429),
    (pb.ServiceNotReady, 503),
    (pb.UnknownError, 500),
]


@pytest.mark.parametrize("token", ["a.b.c", None])
def test_connect_carries_the_token(token: str | None) -> None:
    """The broker decides by it, as for a binary client; without one nothing is claimed."""
    rig = WebsocketRig(token=token)
    (command,) = rig.take()
    assert command.type == T.CONNECT
    assert rig.admitted == [PEER]
    assert command.connect.HasField("auth_method_name") == (token is not None)
    if token is not None:
        assert (command.connect.auth_method_name, command.connect.auth_data) == ("token", token.encode())


@pytest.mark.parametrize(
    ("count", "topics"),
    [(0, [TOPIC]), (1, [f"{TOPIC}-partition-0"]), (3, [f"{TOPIC}-partition-{number}" for number in range(3)])],
)
def test_every_partition_is_subscribed_to(count: int, topics: list[str]) -> None:
    """A topic without partitions under its own name, else each partition under its own."""
    bodies = WebsocketRig().subscribes(count)
    assert [body.topic for body in bodies] == topics
    assert [body.consumer_id for body in bodies] == list(range(len(topics)))
    assert len({body.request_id for body in bodies}) == len(topics)


def test_wishes_reach_the_subscription() -> None:
    """Name, priority, first position and durability are the client's to choose; the type is not."""
    wishes: dict[str, Any] = {
        "consumer_name": "w",
        "priority_level": 2,
        "earliest": True,
        "durable": False,
        "subscription": "mine",
    }
    (body,) = WebsocketRig(**wishes).subscribes()
    assert (body.subType, body.subscription, body.consumer_name) == (pb.CommandSubscribe.Key_Shared, "mine", "w")
    assert (body.priority_level, body.initialPosition, body.durable) == (2, pb.CommandSubscribe.Earliest, False)
    (body,) = WebsocketRig().subscribes()
    assert (body.HasField("priority_level"), body.initialPosition) == (False, pb.CommandSubscribe.Latest)


def test_it_is_accepted_after_the_last_success() -> None:
    """Not before, and no message may come before either; v1 is told the topics then."""
    rig = WebsocketRig()
    bodies = rig.subscribes(3)
    for body in (bodies[2], bodies[0]):
        rig.tell(commands.success(body.request_id))
        assert (rig.socket.accepts, rig.session.granted.total()) == (0, 0)
    rig.tell(commands.success(bodies[1].request_id))
    assert rig.socket.accepts == 1
    assert rig.session.granted.total() > 0
    assert rig.heard() == [{"type": "joined", "topics": [body.topic for body in bodies]}]


def test_v2_is_told_nothing_first() -> None:
    """Pulsar's language has no word for it."""
    rig = WebsocketRig(dialect="v2")
    (body,) = rig.subscribes()
    rig.tell(commands.success(body.request_id))
    assert (rig.socket.accepts, rig.socket.frames) == (1, [])


@pytest.mark.parametrize(("code", "status"), STATUSES)
def test_a_refused_subscription_refuses_the_upgrade(code: pb.ServerError, status: int) -> None:
    """With the broker's words and the status that fits, and the session is left."""
    rig = WebsocketRig()
    bodies = rig.subscribes(2)
    rig.tell(commands.success(bodies[0].request_id), commands.error(bodies[1].request_id, code, "no, since"))
    assert rig.socket.refusals == [(status, "no, since")]
    assert rig.session.ends == ["no, since"]


@pytest.mark.parametrize("build", [no_partitions, commands.error])
def test_untold_partitions_refuse_the_upgrade(build: Callable[[int, pb.ServerError, str], bytes]) -> None:
    """However the broker says so."""
    rig = WebsocketRig()
    rig.tell(build(rig.ask_partitions(), pb.AuthorizationError, "not yours"))
    assert rig.socket.refusals == [(403, "not yours")]
    assert len(rig.session.ends) == 1


@pytest.mark.parametrize(("code", "status"), STATUSES)
def test_a_refused_connect_refuses_the_upgrade(code: pb.ServerError, status: int) -> None:
    """The session says why without a request id, and closes."""
    rig = WebsocketRig()
    rig.tell(commands.error(UNNUMBERED, code, "no, since"))
    assert not rig.socket.ended
    rig.hang_up()
    full = code == pb.NotAllowedError  # what it means before CONNECTED
    assert rig.socket.refusals == [(429 if full else status, "no, since")]


@pytest.mark.parametrize("after", [(), (connected(),), (connected(), partitions(1, 2))])
def test_a_session_that_ends_while_joining_is_unavailable(after: tuple[bytes, ...]) -> None:
    """503, so that the client tries again, at whichever step it was."""
    rig = WebsocketRig()
    rig.tell(*after)
    rig.hang_up()
    ((status, detail),) = rig.socket.refusals
    assert (status, detail) == (503, "closed by the gateway")


def test_a_consumer_closed_while_joining_refuses_the_upgrade() -> None:
    """There is no WebSocket yet that could be closed: the upgrade would never be answered."""
    rig = WebsocketRig()
    bodies = rig.subscribes(2)
    rig.tell(commands.success(bodies[0].request_id), commands.close_consumer(0, UNNUMBERED))
    assert [status for status, _ in rig.socket.refusals] == [503]


def test_joining_takes_so_long_and_no_longer() -> None:
    """Half a join is no join; the session is left."""
    rig = WebsocketRig()
    bodies = rig.subscribes(2)
    rig.tell(commands.success(bodies[0].request_id))
    rig.clock.advance(JOIN_S_MAX - 0.1)
    assert not rig.socket.ended
    rig.clock.advance(0.2)
    assert [status for status, _ in rig.socket.refusals] == [504]
    assert len(rig.session.ends) == 1


def test_who_has_joined_has_all_the_time() -> None:
    """The time for joining does not run on."""
    rig = WebsocketRig().join()
    rig.clock.advance(10 * JOIN_S_MAX)
    assert not rig.socket.ended
    assert rig.clock.waiting == 0


def test_a_client_that_goes_while_joining_leaves_the_pipe() -> None:
    """The session hears why, the socket nothing more, whatever was on its way."""
    rig = WebsocketRig()
    (body,) = rig.subscribes()
    rig.worker.closed("client gone")
    rig.tell(commands.success(body.request_id))
    rig.clock.advance(2 * JOIN_S_MAX)
    assert rig.session.ends == ["client gone"]
    assert (rig.socket.accepts, rig.socket.ended) == (0, False)


def test_nobody_comes_in_while_the_gateway_stops() -> None:
    """No session is begun for it."""
    rig = WebsocketRig(closed_because="shutting down")
    assert rig.socket.refusals == [(503, "shutting down")]
    assert rig.admitted == []
    rig.clock.advance(2 * JOIN_S_MAX)
    assert len(rig.socket.refusals) == 1


def test_what_a_client_says_before_it_joined_is_not_heard() -> None:
    """A permit given too early counts for nothing."""
    rig = WebsocketRig(pull=True)
    (body,) = rig.subscribes()
    rig.say(type="permit", messages=5)
    rig.tell(commands.success(body.request_id))
    assert rig.session.granted.total() == 0
    rig.deliver(1, single())
    assert [said["type"] for said in rig.heard()] == ["joined"]
