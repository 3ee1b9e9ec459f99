"""The internal port as those see it who should not come in, and as replicas do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.net.owner.dialling import ANSWER_S_MAX, ReplicaDialler
from proxy.net.owner.door import PROVE_S_MAX, UNPROVEN_MAX, ReplicaDoor
from proxy.net.owner.proof import (
    ANSWER_BYTES,
    HELLO_BYTES,
    LENGTH_BYTES,
    MAGIC,
    NUMBER_BYTES,
    PROOF_BYTES,
    TOLD_BYTES_MAX,
    Secret,
    Told,
    hello,
)
from proxy.net.owner.pulses import Pulses
from proxy.net.owner.standstill import Standstill
from tests.net.fakes import FakeClock, FakeConnector, FakeTransport
from tests.net.session_rig import connect

if TYPE_CHECKING:
    from proxy.net.ports import Receiver, Transport

KEY = b"k" * 32
OTHER_KEY = b"o" * 32
TOLD = Told("b-1", "a-1", "192.0.2.9:4711", b"a certificate")


def numbers(start: int) -> Callable[[], bytes]:
    """Numbers that nobody else gives."""
    given = count(start)
    return lambda: next(given).to_bytes(NUMBER_BYTES, "big")


class Client:
    """The session that is made for a client that was let in."""

    def __init__(self) -> None:
        self.transport: Transport | None = None
        self.heard = b""
        self.writable: list[bool] = []
        self.reason: str | None = None
        self.unacked = 0

    def opened(self, transport: Transport) -> None:
        """As the port says."""
        self.transport = transport

    def received(self, data: bytes) -> None:
        """As the port says."""
        self.heard += data

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - mirrors the port
        """As the port says."""
        self.writable.append(writable)

    def closed(self, reason: str) -> None:
        """As the port says."""
        self.reason = reason


GAP_S = 1.5
PULSE_S = 2.5


def new_pulses(clock: FakeClock) -> Pulses:
    """Of replica ``b-1``, which dials nobody."""

    def dial(address: str, told: Told, receiver: Receiver) -> None:
        raise AssertionError((address, told, receiver))

    return Pulses("b-1", clock, PULSE_S, dial, lambda _replica: None)


class Rig:
    """A replica's door, and what others do to it."""

    def __init__(self, secret: Secret | None = None) -> None:
        self.clock = FakeClock()
        self.standstill = Standstill(self.clock, GAP_S)
        self.clients: list[Client] = []
        self.addresses: list[str] = []
        self.door = ReplicaDoor(
            "b-1", secret or Secret((KEY,)), self.clock, numbers(1), self.admit, new_pulses(self.clock)
        )

    def admit(self, told: Told) -> Client:
        """A session for a client from there."""
        self.addresses.append(told.peer)
        self.clients.append(Client())
        return self.clients[-1]

    def knock(self) -> FakeTransport:
        """Connect."""
        transport = FakeTransport(self.clock, self.door.knock(), "10.0.0.3:50000")
        transport.open()
        return transport

    def dial(self, secret: Secret | None = None, told: Told = TOLD) -> Dialled:
        """Connect as a replica does."""
        return Dialled(self, secret or Secret((KEY,)), told)


class Dialled:
    """A replica's end and the door's end, with bytes carried between them."""

    def __init__(self, rig: Rig, secret: Secret, told: Told) -> None:
        self.rig = rig
        self.leg = Client()
        connector = FakeConnector(rig.clock)
        dialler = ReplicaDialler(connector, secret, rig.clock, numbers(1_000), rig.standstill)
        dialler.dial("pulsar://b:6670", told, self.leg)
        assert connector.last.address == "pulsar://b:6670"
        self.near = connector.last.accept()
        self.far = rig.knock()

    def carry(self) -> None:
        """Until nobody says anything more."""
        while self.near.written or self.far.written:
            self.far.deliver(self.near.take())
            self.near.deliver(self.far.take())

    @property
    def client(self) -> Client:
        """The session at the door's side."""
        return self.rig.clients[-1]


def test_a_replica_comes_in_and_tells_whose_connection_it_is() -> None:
    """From then on the client's bytes pass both ways, and the session sees the client's address and certificate."""
    dialled = Rig().dial()
    dialled.carry()
    assert dialled.leg.transport is not None
    dialled.leg.transport.write(connect())
    dialled.carry()
    client = dialled.client
    assert client.heard == connect()
    assert client.transport is not None
    assert (client.transport.peer, client.transport.peer_certificate) == (TOLD.peer, TOLD.certificate)
    assert dialled.rig.addresses == [TOLD.peer]
    client.transport.write(b"an answer")
    dialled.carry()
    assert dialled.leg.heard == b"an answer"
    assert dialled.rig.door.statistics().proven_total == 1
    assert dialled.rig.door.statistics().unproven == 0


def test_a_client_without_a_certificate_is_told_without() -> None:
    """As if it had come to a listener that asks for none."""
    dialled = Rig().dial(told=Told("b-1", "a-1", "192.0.2.9:4711"))
    dialled.carry()
    assert dialled.client.transport is not None
    assert dialled.client.transport.peer_certificate is None


def test_both_ends_pass_on_water_marks_and_the_end() -> None:
    """As on any connection."""
    dialled = Rig().dial()
    dialled.carry()
    dialled.far.set_writable(False)
    dialled.near.set_writable(False)
    assert (dialled.client.writable, dialled.leg.writable) == ([False], [False])
    assert dialled.client.transport is not None
    assert not dialled.client.transport.writable
    dialled.far.lose("reset")
    dialled.near.lose("gone")
    assert (dialled.client.reason, dialled.leg.reason) == ("reset", "gone")
    assert dialled.rig.door.statistics().refused_total == 0


@pytest.mark.parametrize(
    ("teller", "number", "superseded"),
    [
        pytest.param("a-1", 7, True, id="the same client"),
        pytest.param("a-1", 8, False, id="another client there"),
        pytest.param("c-1", 7, False, id="a client of another replica"),
        pytest.param("a-1", 0, False, id="a client without a number"),
    ],
)
def test_another_leg_of_a_client_ends_the_one_before(teller: str, number: int, superseded: bool) -> None:  # noqa: FBT001
    """Whatever became of what told of its end; its later end changes nothing for the one that took its place."""
    rig = Rig()
    first = rig.dial(told=replace(TOLD, client=7))
    first.carry()
    second = rig.dial(told=replace(TOLD, teller=teller, client=number))
    second.carry()
    assert first.far.aborted is superseded
    first.far.lose("it is gone")
    third = rig.dial(told=replace(TOLD, teller=teller, client=number))
    third.carry()
    assert second.far.aborted is (number != 0)
    assert not third.far.aborted


def test_clients_without_a_number_have_as_many_legs_as_they_like() -> None:
    """A replica of an older release gives none."""
    rig = Rig()
    legs = [rig.dial() for _ in range(3)]
    for leg in legs:
        leg.carry()
    assert not any(leg.far.aborted for leg in legs)


def test_bytes_that_come_with_the_proof_are_the_clients() -> None:
    """However the network cuts them."""
    dialled = Rig().dial()
    dialled.far.deliver(dialled.near.take())
    dialled.near.deliver(dialled.far.take())
    for byte in dialled.near.take() + connect():
        dialled.far.deliver(bytes([byte]))
    assert dialled.client.heard == connect()


def test_a_wrong_secret_is_no_secret() -> None:
    """The one who dials notices first, and tells nothing of its client to whoever is there."""
    dialled = Rig().dial(Secret((OTHER_KEY,)))
    dialled.carry()
    assert dialled.near.aborted
    assert dialled.leg.reason == "the other end does not know the replicas' secret"
    assert not dialled.rig.clients


def test_one_who_dials_without_the_secret_gets_nowhere() -> None:
    """Whatever it makes of the answer: the door cuts it off without a word."""
    rig = Rig()
    stranger = rig.knock()
    stranger.deliver(hello(b"n" * NUMBER_BYTES))
    assert len(stranger.take()) == ANSWER_BYTES
    stranger.deliver(b"p" * PROOF_BYTES + (2).to_bytes(LENGTH_BYTES, "big") + b"{}")
    assert stranger.aborted
    assert not stranger.written
    assert not rig.clients
    assert rig.door.statistics().refused_total == 1
    assert rig.door.statistics().unproven == 0


def recorded(rig: Rig) -> tuple[bytes, bytes]:
    """HELLO and PREAMBLE of a replica that came in."""
    dialled = rig.dial()
    greeting = dialled.near.take()
    dialled.far.deliver(greeting)
    dialled.near.deliver(dialled.far.take())
    preamble = dialled.near.take()
    dialled.far.deliver(preamble)
    assert len(rig.clients) == 1
    return greeting, preamble


def test_what_was_recorded_does_not_open_the_door_again() -> None:
    """The door's number is another one for each connection."""
    rig = Rig()
    greeting, preamble = recorded(rig)
    again = rig.knock()
    again.deliver(greeting)
    again.take()
    again.deliver(preamble)
    assert again.aborted
    assert len(rig.clients) == 1


def test_a_proof_is_not_good_for_another_client() -> None:
    """What is told is a part of what is proven: an address cannot be changed on the way."""
    rig = Rig()
    dialled = rig.dial()
    dialled.far.deliver(dialled.near.take())
    dialled.near.deliver(dialled.far.take())
    dialled.far.deliver(dialled.near.take().replace(b"192.0.2.9", b"192.0.2.8"))
    assert dialled.far.aborted
    assert not rig.clients


def test_the_doors_own_proof_is_none_of_one_who_dials() -> None:
    """Who has the door prove something and says it back proves nothing."""
    rig = Rig()
    mirror = rig.knock()
    mirror.deliver(hello(b"n" * NUMBER_BYTES))
    proof = mirror.take()[HELLO_BYTES:]
    mirror.deliver(proof + bytes(LENGTH_BYTES))
    assert mirror.aborted
    assert not rig.clients


def test_a_connection_for_another_replica_is_refused() -> None:
    """Its address may be another replica's by now."""
    dialled = Rig().dial(told=Told("c-1", "a-1", TOLD.peer))
    dialled.carry()
    assert dialled.far.aborted
    assert not dialled.rig.clients


@pytest.mark.parametrize(
    "first",
    [
        connect(auth_method_name="token", auth_data=b"an admin's token"),
        b"GET / HTTP/1.1\r\nAuthorization: Bearer admin\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        MAGIC.replace(b"1", b"2"),
        b"\x00",
        hello(b"n" * NUMBER_BYTES) + b"x",
    ],
    ids=["a client with a token", "a browser", "TLS", "another release", "a zero", "impatience"],
)
def test_anybody_else_is_cut_off_at_the_first_byte_that_is_wrong(first: bytes) -> None:
    """And hears nothing."""
    rig = Rig()
    stranger = rig.knock()
    stranger.deliver(first)
    assert stranger.aborted
    assert not stranger.written
    assert not rig.clients


@given(st.lists(st.binary(max_size=200), max_size=5))
@settings(max_examples=200)
def test_no_garbage_comes_in(pieces: list[bytes]) -> None:
    """Whatever it is, before HELLO or after it: nothing is raised, and nobody is let in."""
    for prefix in (b"", hello(b"n" * NUMBER_BYTES)):
        rig = Rig()
        stranger = rig.knock()
        if prefix:
            stranger.deliver(prefix)
        for piece in pieces:
            stranger.deliver(piece)
        assert not rig.clients


def test_nobody_may_tell_very_much() -> None:
    """It is refused by its length, before it has come."""
    rig = Rig()
    stranger = rig.knock()
    stranger.deliver(hello(b"n" * NUMBER_BYTES))
    stranger.take()
    stranger.deliver(bytes(PROOF_BYTES) + (TOLD_BYTES_MAX + 1).to_bytes(LENGTH_BYTES, "big"))
    assert stranger.aborted


@pytest.mark.parametrize("said", [b"", MAGIC[:5], hello(b"n" * NUMBER_BYTES)], ids=["nothing", "a little", "hello"])
def test_who_is_slow_is_cut_off(said: bytes) -> None:
    """After some seconds, whatever it has said."""
    rig = Rig()
    slow = rig.knock()
    if said:
        slow.deliver(said)
    rig.clock.advance(PROVE_S_MAX - 0.1)
    early = slow.aborted
    rig.clock.advance(0.1)
    assert (early, slow.aborted) == (False, True)
    assert rig.door.statistics().refused_total == 1


def test_strangers_at_the_door_keep_no_replica_out() -> None:
    """However many are there and say nothing, or begin as replicas do: the one that has waited longest gives way."""
    rig = Rig()
    strangers = [rig.knock() for _ in range(UNPROVEN_MAX)]
    for each in strangers[::2]:
        each.deliver(hello(b"n" * NUMBER_BYTES))
    dialled = rig.dial()
    dialled.carry()
    assert dialled.client.transport is not None
    assert [each.aborted for each in strangers] == [True] + [False] * (UNPROVEN_MAX - 1)
    assert rig.door.statistics().unproven == UNPROVEN_MAX - 1
    assert rig.door.statistics().refused_total == 1


def test_who_gave_way_before_it_was_opened_does_not_come_in() -> None:
    """Its connection is cut off as soon as it stands."""
    rig = Rig()
    early = rig.door.knock()
    for _ in range(UNPROVEN_MAX):
        rig.knock()
    transport = FakeTransport(rig.clock, early, "10.0.0.3:50000")
    transport.open()
    assert transport.aborted
    assert rig.door.statistics().unproven == UNPROVEN_MAX


def test_all_clients_of_a_replica_may_be_led_at_once() -> None:
    """Their connections are accepted before the first of them is read."""
    rig = Rig()
    led = [rig.dial() for _ in range(UNPROVEN_MAX)]
    for each in led:
        each.carry()
    assert len(rig.clients) == UNPROVEN_MAX


def test_a_stopping_replica_keeps_nobody_at_the_door() -> None:
    """Those that are in stay."""
    rig = Rig()
    dialled = rig.dial()
    dialled.carry()
    waiting = rig.knock()
    rig.door.close()
    assert waiting.aborted
    assert not dialled.far.aborted


@pytest.mark.parametrize("answer", [b"x" * ANSWER_BYTES, MAGIC + bytes(ANSWER_BYTES - len(MAGIC))])
def test_whoever_dials_tells_nothing_to_one_that_proves_nothing(answer: bytes) -> None:
    """A stranger at a replica's address learns neither a client's address nor its credentials."""
    dialled = Rig().dial()
    greeting = dialled.near.take()
    assert len(greeting) == HELLO_BYTES
    dialled.near.deliver(answer)
    assert dialled.near.aborted
    assert not dialled.near.written
    assert dialled.leg.transport is None
    assert dialled.leg.reason is not None


def test_whoever_dials_does_not_wait_for_ever() -> None:
    """For one that takes the connection and says nothing."""
    dialled = Rig().dial()
    dialled.rig.clock.advance(ANSWER_S_MAX)
    assert dialled.leg.reason == f"the replica proved nothing in {ANSWER_S_MAX:g} s"


def test_a_leg_that_cannot_be_had_is_closed() -> None:
    """With the reason."""
    leg = Client()
    clock = FakeClock()
    connector = FakeConnector(clock)
    dialler = ReplicaDialler(connector, Secret((KEY,)), clock, numbers(1), Standstill(clock, GAP_S))
    dialler.dial("pulsar://b:6670", TOLD, leg)
    connector.last.refuse()
    assert leg.reason == "connection refused"


@pytest.mark.parametrize(("old", "new"), [((KEY,), (OTHER_KEY, KEY)), ((OTHER_KEY, KEY), (KEY,))])
def test_a_secret_is_replaced_one_replica_after_the_other(old: tuple[bytes, ...], new: tuple[bytes, ...]) -> None:
    """A replica with both believes those that have the former still; one that has only that does not know the new."""
    first = Rig(Secret(new)).dial(Secret(old))
    first.carry()
    believed = old[0] in new and new[0] in old
    assert bool(first.rig.clients) == believed


def test_both_keys_are_believed_while_both_are_there() -> None:
    """In whichever order: so every replica gets both first, and then loses the former."""
    dialled = Rig(Secret((KEY, OTHER_KEY))).dial(Secret((OTHER_KEY, KEY)))
    dialled.carry()
    assert dialled.rig.clients


@pytest.mark.parametrize("text", [b"", b"\n\n", b"short", KEY + b"\nshort\n"])
def test_a_secret_that_could_be_guessed_is_none(text: bytes) -> None:
    """Nor is an empty file."""
    with pytest.raises(ValueError, match="32 bytes"):
        Secret.of_lines(text)


def test_a_file_holds_a_key_in_each_line() -> None:
    """Blank lines and white space at the ends do not count."""
    secret = Secret.of_lines(b"\n" + KEY + b"  \n\n" + OTHER_KEY)
    dialled = Rig(Secret((OTHER_KEY, KEY))).dial(secret)
    dialled.carry()
    assert dialled.rig.clients


@pytest.mark.parametrize("first", ["socket", "timer"])
def test_what_comes_to_a_replica_that_stood_still_reaches_nobody(first: str) -> None:
    """Its owner may have given the client up meanwhile; whether sockets or timers are looked at first as it goes on."""
    rig = Rig()
    dialled, other = rig.dial(), rig.dial()
    dialled.carry()
    other.carry()
    rig.clock.advance(10 * GAP_S)
    dialled.near.deliver(b"soon")
    assert dialled.leg.heard == b"soon"
    rig.clock.oversleep(GAP_S + 0.1)
    if first == "timer":
        rig.clock.advance(0.0)
    dialled.near.deliver(b" of long ago")
    rig.clock.advance(0.0)
    assert dialled.leg.heard == b"soon"
    for leg in (dialled.leg, other.leg):
        assert leg.reason == "the replica at the client's side stood still"
    again = rig.dial()
    again.carry()
    again.near.deliver(b"new")
    assert again.leg.heard == b"new"


def test_a_replica_without_legs_may_stand_still() -> None:
    """And a leg that is opened then is like any other."""
    rig = Rig()
    rig.clock.oversleep(10 * GAP_S)
    dialled = rig.dial()
    dialled.carry()
    dialled.near.deliver(b"new")
    assert dialled.leg.heard == b"new"


def test_clients_of_a_replica_that_stops_get_nothing_more() -> None:
    """Those that are here and those that come yet, until they have acknowledged what they have; others go on."""
    rig = Rig()
    first, other = rig.dial(), rig.dial(told=replace(TOLD, teller="c-1"))
    for dialled in (first, other):
        dialled.carry()
    rig.clients[0].unacked, rig.clients[1].unacked = 5, 7
    assert rig.door.stand_down("a-1") == 5
    assert (rig.clients[0].writable, rig.clients[1].writable) == ([False], [])
    first.far.set_writable(True)
    assert rig.clients[0].writable == [False, False]
    late = rig.dial()
    late.carry()
    assert late.client.transport is not None
    assert not late.client.transport.writable
    rig.clients[0].unacked = 0
    assert rig.door.stand_down("a-1") == 0
    for dialled in (first, late):
        dialled.far.lose("gone")
    assert rig.door.stand_down("a-1") == 0
    assert rig.door.stand_down("nobody") == 0


def test_a_replica_that_stops_hears_the_answer_to_its_question() -> None:
    """The question is a connection of its own, and not one of its clients': it would be cut off by what it asks for."""
    rig = Rig()
    asking = rig.dial(told=replace(TOLD, purpose="question"))
    asking.carry()
    rig.clients[0].unacked = 9
    assert rig.door.stand_down("a-1") == 0
    assert rig.clients[0].writable == []
    again = rig.dial(told=replace(TOLD, purpose="question"))
    again.carry()
    assert again.client.transport is not None
    assert again.client.transport.writable
    asking.far.lose("answered")


def test_the_clients_of_a_replica_that_shows_no_sign_of_life_are_given_up() -> None:
    """After two intervals, whatever their own connections say; a question's is not one of them."""
    rig = Rig()
    legs = [rig.dial(), rig.dial(told=replace(TOLD, purpose="question"))]
    for leg in legs:
        leg.carry()
    rig.clock.advance(1.9 * PULSE_S)
    legs[0].near.write(connect())
    legs[0].carry()
    given_up = [leg.far.aborted for leg in legs]
    rig.clock.advance(0.5 * PULSE_S)
    assert (given_up, [leg.far.aborted for leg in legs]) == ([False, False], [True, False])
    assert rig.clients[0].reason is not None
