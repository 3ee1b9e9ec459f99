"""A SUBSCRIBE that is refused for what passes is tried again by the gateway, and its client hears nothing of that."""

from __future__ import annotations

import itertools

import pytest

from proxy.errors import (
    ClientError,
    KeylineError,
    LimitExceeded,
    OwnedElsewhere,
    Stopping,
    UpstreamError,
    UpstreamUnavailable,
)
from proxy.limits import Limits
from proxy.net.session.worker import AGAIN_S, AGAIN_S_MAX, SPREAD
from proxy.net.session.workers import JOIN_S_MAX
from proxy.wire import pulsar_pb2 as pb
from tests.net.session_rig import SessionRig, encode, flow, subscribe

T = pb.BaseCommand
QUIET = Limits(keep_alive_s=3_600)
PASSING = {
    "a connection that broke": UpstreamUnavailable("lost the broker"),
    "a topic that moves": UpstreamError("the bundle is being unloaded", pb.ServiceNotReady),
    "a fault of the broker's": UpstreamError("the broker answered UnknownError without a message", pb.UnknownError),
    "too many lookups": LimitExceeded("1000 topics are being looked up already; try again"),
}
FINAL = {
    "a word of the broker": UpstreamError("no such schema", pb.IncompatibleSchema),
    "a word of the gateway's": ClientError("not like that"),
    "a fault of the gateway's": KeylineError("a bug"),
    "another replica's": OwnedElsewhere("it is another's"),
    "the end of this gateway": Stopping("the gateway is shutting down"),
}


def joining(**options: object) -> SessionRig:
    """A client whose first worker is on its way in."""
    rig = SessionRig(QUIET, **options).connect()  # type: ignore[arg-type]  # of several types
    rig.client.deliver(subscribe(1, 100))
    return rig


def refused(rig: SessionRig) -> list[tuple[int, int]]:
    """What the client was told since the last look: requests and codes."""
    told = rig.to_client()
    assert {command.type for command in told} <= {T.ERROR}
    return [(command.error.request_id, command.error.error) for command in told]


@pytest.mark.parametrize("error", PASSING.values(), ids=PASSING)
def test_what_passes_is_waited_for(error: Exception) -> None:
    """The same SUBSCRIBE goes to the directory again, and its answer is the client's."""
    rig = joining()
    rig.directory.workers[0].link.refuse(error)
    rig.clock.advance(0.9 * SPREAD * AGAIN_S)
    assert (len(rig.directory.workers), rig.workers_count, refused(rig)) == (1, 1, [])
    rig.clock.advance(AGAIN_S)
    first, second = rig.directory.workers
    assert second.command == first.command
    second.link.subscribed()
    assert [command.success.request_id for command in rig.to_client()] == [100]


@pytest.mark.parametrize("error", FINAL.values(), ids=FINAL)
def test_what_does_not_pass_is_the_answer(error: Exception) -> None:
    """At once."""
    rig = joining()
    rig.directory.workers[0].link.refuse(error)
    assert [number for number, _ in refused(rig)] == [100]
    rig.clock.advance(JOIN_S_MAX)
    assert (len(rig.directory.workers), rig.workers_count) == (1, 0)


def test_it_is_tried_ever_more_rarely_and_then_the_client_is_told() -> None:
    """Before the client's own time is up, so that it hears why."""
    rig = joining()
    began = rig.clock.now()
    tried: list[float] = []
    while not (told := refused(rig)):
        assert rig.clock.now() < began + JOIN_S_MAX + AGAIN_S_MAX + 1
        if len(rig.directory.workers) > len(tried):
            tried.append(rig.clock.now())
            rig.directory.workers[-1].link.refuse(UpstreamUnavailable("still away"))
        else:
            rig.clock.advance(AGAIN_S / 4)
    assert told == [(100, pb.ServiceNotReady)]
    pauses = [later - earlier for earlier, later in itertools.pairwise(tried)]
    longest = [min(AGAIN_S * 2**number, AGAIN_S_MAX) for number in range(len(pauses))]
    for pause, most in zip(pauses, longest, strict=True):
        assert (1 - SPREAD) * most <= pause <= most + AGAIN_S / 4
    assert tried[-1] - began >= JOIN_S_MAX
    assert rig.workers_count == 0


def test_those_that_are_refused_together_come_apart_and_each_in_its_turn() -> None:
    """A client may have ten thousand, and one turn of the loop is for all clients."""
    rig = SessionRig(QUIET).connect()
    count = 500
    rig.client.deliver(b"".join(subscribe(number, 100 + number, topic=f"t{number}") for number in range(count)))
    rig.clock.settle()
    workers = list(rig.directory.workers)
    assert len(workers) == count
    for port in workers:
        port.link.refuse(UpstreamUnavailable("away"))
    at_once = []
    while len(rig.directory.workers) < 2 * count:
        before = len(rig.directory.workers)
        rig.clock.advance(AGAIN_S / 100)
        at_once.append(len(rig.directory.workers) - before)
    assert max(at_once) < count / 10


@pytest.mark.parametrize("before", [True, False])
def test_what_the_client_grants_meanwhile_is_kept(before: bool) -> None:  # noqa: FBT001 - a parameter
    """Before it was refused and while it waits: a client does so once."""
    rig = joining()
    if before:
        rig.directory.workers[0].early_permits = 7
    rig.directory.workers[0].link.refuse(UpstreamUnavailable("away"))
    if not before:
        rig.client.deliver(flow(1, 7))
    rig.clock.advance(AGAIN_S)
    assert rig.directory.workers[1].calls == [("flow", 7)]


def test_what_the_client_has_granted_is_kept_once_where_there_is_no_room_for_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A directory may refuse at once."""
    rig = joining()
    rig.directory.workers[0].early_permits = 7
    rig.directory.workers[0].link.refuse(UpstreamUnavailable("away"))

    def refuse(*_: object) -> None:
        raise UpstreamUnavailable("still away")

    with monkeypatch.context() as patch:
        patch.setattr(rig.directory, "subscribe", refuse)
        rig.clock.advance(AGAIN_S)
    rig.clock.advance(2 * AGAIN_S)
    assert rig.directory.workers[1].calls == [("flow", 7)]


def test_its_permission_is_asked_for_again() -> None:
    """A yes is for a SUBSCRIBE that came before it was asked for, and not for the next 20 s."""
    rig = joining(authorize=True)
    for number in range(1, 3):
        (probe,) = (command.subscribe for command in rig.to_broker())
        yes = pb.CommandError(request_id=probe.request_id, error=pb.NotAllowedError, message="")
        rig.broker.deliver(encode(T.ERROR, yes))
        assert len(rig.directory.workers) == number
        rig.directory.workers[-1].link.refuse(UpstreamUnavailable("away"))
        rig.clock.advance(number * AGAIN_S)
    assert refused(rig) == []


@pytest.mark.parametrize("how", ["closed", "lost"])
def test_who_goes_meanwhile_does_not_come_again(how: str) -> None:
    """A client that closes the consumer is answered; of one that is gone nothing is left."""
    rig = joining()
    rig.directory.workers[0].link.refuse(UpstreamUnavailable("away"))
    if how == "lost":
        rig.client.lose()
    else:
        rig.client.deliver(encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=1, request_id=101)))
        assert [command.success.request_id for command in rig.to_client()] == [101]
    rig.clock.advance(JOIN_S_MAX)
    assert (len(rig.directory.workers), rig.workers_count) == (1, 0)


def test_an_id_that_is_used_anew_has_nothing_of_the_one_before() -> None:
    """Neither its attempts nor its permits."""
    rig = joining()
    rig.directory.workers[0].link.refuse(UpstreamUnavailable("away"))
    rig.client.deliver(flow(1, 7) + encode(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=1, request_id=101)))
    rig.client.deliver(subscribe(1, 102, topic="other"))
    rig.clock.advance(JOIN_S_MAX)
    assert [port.command.request_id for port in rig.directory.workers] == [100, 102]
    assert rig.directory.workers[1].calls == []


def test_another_replica_is_told_at_once() -> None:
    """It leads its client to another owner then, and tries again itself."""
    rig = joining(of_replica=True)
    rig.directory.workers[0].link.refuse(UpstreamUnavailable("away"))
    assert refused(rig) == [(100, pb.ServiceNotReady)]


def test_who_was_let_in_is_not_led_through_that_again() -> None:
    """Its consumer is closed by the gateway, and its client subscribes anew."""
    rig = joining()
    port = rig.directory.workers[0]
    port.link.subscribed()
    rig.take_all()
    port.link.refuse(UpstreamUnavailable("away"))
    assert refused(rig) == [(100, pb.ServiceNotReady)]
    rig.clock.advance(JOIN_S_MAX)
    assert len(rig.directory.workers) == 1
