"""A client's credentials on its way to owners: the latest, and fresh ones where a broker takes those no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from proxy.net.owner.legs import AGAIN_S, OWNER_S_MAX
from proxy.wire import pulsar_pb2 as pb
from tests.net.session_rig import T, connected, encode, lookup, parse, subscribe, success
from tests.net.test_owner_legs import CLOSED_BY_OWNER, Rig, topic_of

if TYPE_CHECKING:
    from tests.net.fakes import FakeTransport

OLD, FRESH = b"old", b"fresh"
EXPIRED = "the token has expired"


def with_token(*, refreshes: bool = True) -> Rig:
    """A client with a token; owners have bundles 3 and 5."""
    flags = pb.FeatureFlags(supports_auth_refresh=refreshes)
    rig = Rig(auth_method_name="token", auth_data=OLD, feature_flags=flags)
    rig.own((3, "b"), (5, "c"))
    return rig


def answer(token: bytes) -> bytes:
    """Build AUTH_RESPONSE."""
    response = pb.AuthData(auth_method_name="token", auth_data=token)
    return encode(T.AUTH_RESPONSE, pb.CommandAuthResponse(response=response))


def refuse(leg: FakeTransport, code: pb.ServerError = pb.AuthenticationError) -> None:
    """An owner passes on that its broker does not let the client in."""
    leg.deliver(encode(T.ERROR, pb.CommandError(request_id=CLOSED_BY_OWNER, error=code, message=EXPIRED)))


def token_on(leg: FakeTransport) -> bytes:
    """What a leg began with."""
    (command,) = parse(leg.take())
    return command.connect.auth_data


def challenged(rig: Rig) -> bool:
    """Whether the client is asked for fresh credentials, and told nothing else."""
    commands = rig.to_client()
    for command in commands:
        assert command.type == T.AUTH_CHALLENGE
        assert command.authChallenge.challenge.auth_data == b"PulsarAuthRefresh"
        assert command.authChallenge.challenge.auth_method_name == "token"
    return bool(commands)


def test_a_leg_whose_token_has_expired_is_opened_again_with_a_fresh_one() -> None:
    """The client is asked, as its broker will ask it at its next look; its consumer is let in."""
    rig = with_token()
    rig.subscribe(1, 3)
    leg = rig.dialled.last.accept()
    assert token_on(leg) == OLD
    refuse(leg)
    assert challenged(rig)
    rig.clock.advance(2 * AGAIN_S)
    assert len(rig.dialled.attempts) == 1, "nothing is tried with the old one"
    rig.client.deliver(answer(FRESH))
    assert not rig.broker.take(), "who has not asked gets no answer"
    leg = rig.dialled.last.accept()
    assert token_on(leg) == FRESH
    leg.deliver(connected())
    assert leg.take() == subscribe(1, 101, topic=topic_of(3))
    leg.deliver(success(101))
    assert rig.client.take() == success(101)


def test_all_that_wait_share_one_question() -> None:
    """Consumers of several owners, and those that come meanwhile."""
    rig = with_token()
    rig.subscribe(1, 3)
    rig.subscribe(2, 5)
    refused = [attempt.accept() for attempt in rig.dialled.attempts]
    refuse(refused[0])
    assert challenged(rig)
    rig.subscribe(3, 3)
    assert len(rig.dialled.attempts) == 2
    rig.client.deliver(answer(FRESH))
    assert len(rig.dialled.attempts) == 3
    refuse(refused[1])
    assert not challenged(rig), "there is a fresh one already"
    rig.clock.advance(2 * AGAIN_S)
    legs = [attempt.accept() for attempt in rig.dialled.attempts[2:]]
    assert [token_on(leg) for leg in legs] == [FRESH, FRESH]
    for leg in legs:
        leg.deliver(connected())
    assert [command.subscribe.consumer_id for leg in legs for command in parse(leg.take())] == [1, 3, 2]


@pytest.mark.parametrize("token", [OLD, FRESH])
def test_an_answer_that_is_refused_is_the_last(token: bytes) -> None:
    """The client hears the broker's own word, and is not asked again for it."""
    rig = with_token()
    rig.subscribe(1, 3)
    refuse(rig.dialled.last.accept())
    assert challenged(rig)
    rig.client.deliver(answer(token))
    refuse(rig.dialled.last.accept())
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (101, pb.AuthenticationError)
    assert len(rig.dialled.attempts) == 2


def test_an_answer_that_does_not_come_is_waited_for_within_a_bound() -> None:
    """And the client hears why it was asked."""
    rig = with_token()
    rig.subscribe(1, 3)
    refuse(rig.dialled.last.accept())
    assert challenged(rig)
    rig.clock.advance(OWNER_S_MAX)
    (command,) = rig.to_client()
    assert (command.error.error, command.error.message) == (pb.AuthenticationError, EXPIRED)


@pytest.mark.parametrize(
    ("refreshes", "code"), [(False, pb.AuthenticationError), (True, pb.AuthorizationError)], ids=["cannot", "may not"]
)
def test_who_has_no_other_credentials_is_refused_at_once(refreshes: bool, code: pb.ServerError) -> None:  # noqa: FBT001 - a case
    """A client that cannot be asked, and one whose role is the matter."""
    rig = with_token(refreshes=refreshes)
    rig.subscribe(1, 3)
    refuse(rig.dialled.last.accept(), code)
    (command,) = rig.to_client()
    assert (command.error.request_id, command.error.error) == (101, code)


def test_it_is_asked_again_when_a_later_token_has_expired() -> None:
    """An owner has let it in meanwhile."""
    rig = with_token()
    rig.subscribe(1, 3)
    refuse(rig.dialled.last.accept())
    assert challenged(rig)
    rig.client.deliver(answer(FRESH))
    rig.let_in().deliver(success(101))
    assert [command.type for command in rig.to_client()] == [T.SUCCESS]
    rig.subscribe(2, 5)
    refuse(rig.dialled.last.accept())
    assert challenged(rig)


def test_what_one_asked_for_is_what_the_others_are_told_next() -> None:
    """A token for the broker is that of later legs, and one for an owner is that of the broker's next connection."""
    rig = with_token()
    rig.client.deliver(answer(FRESH))
    assert rig.broker.take() == answer(FRESH)
    rig.subscribe(1, 3)
    leg = rig.dialled.last.accept()
    assert token_on(leg) == FRESH
    leg.deliver(connected())
    leg.deliver(success(101))
    leg.deliver(encode(T.AUTH_CHALLENGE, pb.CommandAuthChallenge(server_version="x")))
    rig.client.deliver(answer(b"fresher"))
    assert not rig.broker.take()
    rig.broker.lose()
    rig.client.deliver(lookup(7))
    assert token_on(rig.connector.last.accept()) == b"fresher"
