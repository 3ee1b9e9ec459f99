"""The pieces of a WebSocket's worker: ids, permits, deadlines, the in-flight registry and chunks."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.net.websocket.deadlines import Deadlines
from proxy.net.websocket.in_flight import InFlight, entry_key
from proxy.net.websocket.message_position import WHOLE, MessagePosition, read_message_position
from proxy.net.websocket.permits import ROOM_MAX, Permits
from proxy.wire import pulsar_pb2 as pb
from tests.net.fakes import FakeClock
from tests.net.websocket_rig import WebsocketRig, id_of

A, B, C = MessagePosition(0, 7, 1, 0, 2), MessagePosition(0, 7, 1, 1, 2), MessagePosition(0, 7, 2, WHOLE, 0)
NUMBERS = st.integers(0, 2**64 - 1)
PARTITIONS = st.integers(-1, 2**31 - 1)
MEMBERS = st.tuples(st.integers(0, 999), st.integers(1_000, 2_000))


def encoded(**fields: object) -> str:
    """An id of these fields, right or not."""
    return b64encode(pb.MessageIdData(**fields).SerializePartialToString()).decode()  # type: ignore[arg-type]


# ---- ids


@given(PARTITIONS, NUMBERS, NUMBERS, st.one_of(st.just((WHOLE, 0)), MEMBERS))
def test_an_id_means_the_place_it_was_made_for(
    partition: int, ledger: int, entry: int, member: tuple[int, int]
) -> None:
    """Whatever its numbers."""
    position = MessagePosition(partition, ledger, entry, *member)
    assert read_message_position(position.message_id) == position


def test_ids_are_those_of_pulsar_s_clients() -> None:
    """The serialized `MessageIdData`, index and size only where there is a batch; their own ids are read too."""
    read = pb.MessageIdData.FromString
    assert encoded(ledgerId=7, entryId=2, partition=0, batch_size=0) == C.message_id
    assert encoded(ledgerId=7, entryId=1, partition=0, batch_index=1, batch_size=2) == B.message_id
    assert read_message_position(encoded(ledgerId=7, entryId=2, partition=0, batch_index=-1, batch_size=0)) == C
    assert read_message_position(encoded(ledgerId=7, entryId=2)) == C._replace(partition=-1)
    assert not C.to_acknowledge().ack_set
    assert B.to_acknowledge() == pb.MessageIdData(ledgerId=7, entryId=1, ack_set=[0b01])
    assert read(C.to_acknowledge().SerializeToString()) == pb.MessageIdData(ledgerId=7, entryId=2)


MALFORMED = {
    "empty": "",
    "no Base64": "?",
    "not ASCII": "\u00e9",
    "cut": C.message_id[:-1],
    "with a line's end": C.message_id + "\n",
    "no protobuf": b64encode(b"\xff" * 9).decode(),
    "no entry": encoded(ledgerId=7),
    "no ledger": encoded(entryId=7),
    "an index and no size": encoded(ledgerId=7, entryId=1, batch_index=0),
    "an index behind the end": encoded(ledgerId=7, entryId=1, batch_index=2, batch_size=2),
    "a size below nothing": encoded(ledgerId=7, entryId=1, batch_index=0, batch_size=-1),
    "a huge size": encoded(ledgerId=7, entryId=1, batch_index=0, batch_size=2**31 - 1),
}


@pytest.mark.parametrize("message_id", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_id_is_named(message_id: str) -> None:
    """So that whoever made it up finds it."""
    with pytest.raises(ValueError, match=re.escape(repr(message_id))):
        read_message_position(message_id)


def test_a_long_malformed_id_is_named_in_part() -> None:
    """An error is not a way to have megabytes repeated."""
    with pytest.raises(ValueError, match=r"^'x{100}' ") as caught:
        read_message_position("x" * 100_001)
    assert len(str(caught.value)) < 300


def test_ids_made_up_by_a_client_fit_into_a_frame() -> None:
    """Whatever batches it claims: its session would take a larger frame for a broken one, and end."""
    rig = WebsocketRig().join()
    rig.ack(*(id_of(entry, 5, 1 << 20) for entry in range(40)))
    assert rig.session.ends == []


# ---- permits


STEPS = st.lists(st.tuples(st.sampled_from(["come", "send", "settle", "grant"]), st.integers(0, 2), st.integers(1, 9)))


@dataclass
class Room:
    """A client and a gateway that play by the permits."""

    permits: Permits
    maximum: int
    consumers: int
    overshoots: bool
    """Whether entries may come that are larger than what is left of the permits."""
    waiting: list[int] = field(default_factory=list)
    held: int = 0
    gateway: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Nothing was granted yet."""
        self.permits.open(self.consumers)
        self.gateway = [0] * self.consumers

    def come(self, consumer_id: int, size: int) -> None:
        """An entry comes, if the gateway has a permit for it."""
        if self.gateway[consumer_id] > 0:
            size = size if self.overshoots else min(size, self.gateway[consumer_id])
            self.gateway[consumer_id] -= size
            self.waiting += [consumer_id] * size

    def send(self) -> None:
        """A message goes to the client, if there is room."""
        if self.waiting and self.permits.room > 0:
            self.permits.sent(self.waiting.pop(0))
            self.held += 1

    def settle(self) -> None:
        """The client is done with a message."""
        if self.held:
            self.held -= 1
            self.permits.settled()

    def grant(self) -> None:
        """What is granted fills a consumer's share of the room, and no more."""
        for consumer_id, permits in self.permits.to_grant():
            assert permits > 0
            self.gateway[consumer_id] += permits
            there = self.gateway[consumer_id] + self.waiting.count(consumer_id)
            assert there == -(-self.permits.room // self.consumers)


@pytest.mark.parametrize("overshoots", [False, True])
@given(maximum=st.integers(1, 20), consumers=st.integers(1, 3), steps=STEPS)
def test_permits_keep_their_bound_and_starve_nobody(
    *, maximum: int, consumers: int, overshoots: bool, steps: list[tuple[str, int, int]]
) -> None:
    """Room is what the client does not hold, never below nothing, and all of it is granted again in the end."""
    room = Room(Permits(maximum, pull=False), maximum, consumers, overshoots)
    for step, consumer_id, size in steps:
        if step == "come":
            room.come(consumer_id % consumers, size)
        else:
            {"send": room.send, "settle": room.settle, "grant": room.grant}[step]()
        assert room.permits.room == maximum - room.held >= 0
    while room.waiting or room.held:
        room.send()
        room.settle()
    room.grant()
    assert room.permits.room == maximum
    assert room.gateway == [-(-maximum // consumers)] * consumers


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 9))))
def test_pull_mode_grants_exactly_what_was_permitted(steps: list[tuple[bool, int]]) -> None:
    """With one consumer, however messages and permits take turns; what the client is done with makes no room."""
    permits = Permits(5, pull=True)
    permits.open(1)
    permitted = granted = sent = 0
    for permit, number in steps:
        if permit:
            permits.permitted(number)
            permitted += number
        else:
            for _ in range(min(number, granted - sent)):
                permits.sent(0)
                permits.settled()
                sent += 1
        granted += sum(more for _, more in permits.to_grant())
        assert granted == permitted
        assert permits.room == permitted - sent


def test_room_has_an_end() -> None:
    """A FLOW holds no larger number."""
    permits = Permits(5, pull=True)
    permits.open(1)
    for _ in range(3):
        permits.permitted(ROOM_MAX)
    assert permits.to_grant() == [(0, ROOM_MAX)]


# ---- deadlines, in_flight, chunks


def test_each_is_due_after_its_own_time() -> None:
    """In order, with one timer for all, and none where nothing waits."""
    clock = FakeClock()
    due: list[list[MessagePosition]] = []
    deadlines = Deadlines(clock, 10.0, due.append)
    deadlines.add(A)
    deadlines.add(C)
    clock.advance(5)
    deadlines.add(B)
    assert clock.waiting == 1
    clock.advance(5)
    assert due == [[A, C]]
    assert (A in deadlines, B in deadlines) == (False, True)
    clock.advance(5)
    assert due == [[A, C], [B]]
    assert clock.waiting == 0


def test_added_again_its_time_begins_again() -> None:
    """And behind those that are due before it."""
    clock = FakeClock()
    due: list[list[MessagePosition]] = []
    deadlines = Deadlines(clock, 10.0, due.append)
    deadlines.add(A)
    deadlines.add(B)
    clock.advance(5)
    deadlines.add(A)
    clock.advance(5)
    assert due == [[B]]
    clock.advance(5)
    assert due == [[B], [A]]


def test_forgotten_ones_are_never_due() -> None:
    """One by one, or all; those that are due may be added again at once."""
    clock = FakeClock()
    due: list[list[MessagePosition]] = []

    def over(positions: list[MessagePosition]) -> None:
        due.append(positions)
        deadlines.add(C)

    deadlines = Deadlines(clock, 10.0, over)
    deadlines.add(A)
    deadlines.add(B)
    assert (deadlines.discard(A), deadlines.discard(A)) == (True, False)
    clock.advance(10)
    clock.advance(10)
    assert due == [[B], [C]]
    deadlines.stop()
    clock.advance(100)
    assert (len(due), clock.waiting) == (2, 0)


def test_what_is_added_while_others_are_due_waits_out_the_pause() -> None:
    """What is due meanwhile is due together, also if it comes of what was due."""
    clock = FakeClock()
    due: list[list[MessagePosition]] = []

    def over(positions: list[MessagePosition]) -> None:
        due.append(positions)
        if positions == [A]:
            deadlines.add(B)

    deadlines = Deadlines(clock, 0.0, over, lambda: 1.0)
    deadlines.add(A)
    clock.advance(0)
    deadlines.add(C)
    clock.advance(0.9)
    assert due == [[A]]
    clock.advance(0.1)
    assert due == [[A], [B, C]]


def test_the_in_flight_registry_forgets_a_batch_as_a_whole() -> None:
    """What was acknowledged of it is not among what goes back."""
    in_flight = InFlight()
    for position, with_it in ((A, ()), (B, ()), (C, (A,))):
        in_flight.sent(position, with_it)
        in_flight.sent(position, with_it)
    assert (len(in_flight), A in in_flight) == (3, True)
    assert (in_flight.acknowledged(A), in_flight.acknowledged(A), in_flight.acknowledged(C)) == ((), None, (A,))
    in_flight.sent(A)
    assert in_flight.given_back(entry_key(B)) == [(B, ()), (A, ())]
    assert (len(in_flight), B in in_flight, in_flight.given_back(entry_key(B))) == (0, False, [])
