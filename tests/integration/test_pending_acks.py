"""What brokers do with acknowledgements that are pending in a transaction when the cursor moves.

The simulator's checkers of transactions are worth what its made-up broker is. So each scene is played at a real broker,
of each version, and at the made-up one, by the same commands.
"""

from __future__ import annotations

import itertools
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeAlias

import pytest

from integration.artifacts import PULSAR_VERSIONS
from integration.standalone import PulsarStandalone
from proxy.net.subscription.acks import words_of
from proxy.wire import frames
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.metadata import build_tail
from tests.integration.exclusive_rig import administer
from tests.integration.raw_client import RawClient, T, frame
from tests.sim.broker import Broker, BrokerSession
from tests.sim.cluster import GOOD_MANNERS, Cluster
from tests.sim.machine import Process, Schedule
from tests.sim.storage import Storage, bits_of
from tests.sim.transactions import Coordinator
from tests.wire.builders import Written, batch_of

BATCH: Final = (1, 2, 3)
ENTRIES: Final = ((0,), BATCH, (4,), (5,))
"""Numbers of the messages of each entry."""
LAST: Final = 5
"""Is never acknowledged: what came before it is all that comes."""
COORDINATORS: Final = "persistent://pulsar/system/transaction_coordinator_assign-partition-0"
Brokers: TypeAlias = Iterator[PulsarStandalone]
TTL_MS: Final = 600_000
"""Longer than any scene."""


class Side(ABC):
    """One subscription of a topic with these entries, its one consumer, and one transaction."""

    def __init__(self) -> None:
        self.consumer_id = 0
        self.ids = (0, 0)
        self.places: list[pb.MessageIdData] = []

    @abstractmethod
    def ask(self, kind: int, body: Any) -> pb.BaseCommand | None:
        """What the broker answers; None if that is nothing."""

    @abstractmethod
    def subscribe(self) -> None:
        """A consumer more, which may have everything."""

    @abstractmethod
    def sent(self) -> list[pb.CommandMessage]:
        """What the consumer is sent, up to the last message."""

    @abstractmethod
    def unload(self) -> None:
        """Let the broker load the topic anew."""

    # ---- what scenes do

    def comes(self) -> list[int]:
        """Numbers of the messages that a consumer in place of the one before is sent."""
        if self.consumer_id:
            self.ask(T.CLOSE_CONSUMER, pb.CommandCloseConsumer(consumer_id=self.consumer_id))
        self.consumer_id += 1
        self.subscribe()
        numbers: list[int] = []
        for message in self.sent():
            of_entry = ENTRIES[self.place_of(message.message_id)]
            left = bits_of(message.ack_set) if message.ack_set else -1
            numbers += [number for bit, number in enumerate(of_entry) if left >> bit & 1]
        return numbers

    def place_of(self, place: pb.MessageIdData) -> int:
        """Which entry that is."""
        found = [(each.ledgerId, each.entryId) for each in self.places]
        return found.index((place.ledgerId, place.entryId))

    def ack(self, *numbers: int) -> str:
        """Acknowledge messages of one entry, or all of it; what the broker says to that."""
        return self._acknowledge(numbers, None)

    def claim(self, *numbers: int) -> str:
        """The same in the transaction."""
        return self._acknowledge(numbers, self.ids)

    def seek(self, number: int) -> None:
        """To this message."""
        place = self.places[_entry_of(number)]
        answer = self.ask(T.SEEK, pb.CommandSeek(consumer_id=self.consumer_id, message_id=place))
        assert answer is not None
        assert answer.type == T.SUCCESS, answer

    def end(self, *, committed: bool) -> None:
        """The transaction's."""
        most, least = self.ids
        action = pb.COMMIT if committed else pb.ABORT
        body = pb.CommandEndTxn(txnid_most_bits=most, txnid_least_bits=least, txn_action=action)
        answer = self.ask(T.END_TXN, body)
        assert answer is not None
        assert not answer.endTxnResponse.HasField("error"), answer

    def _acknowledge(self, numbers: tuple[int, ...], transaction: tuple[int, int] | None) -> str:
        entry = _entry_of(numbers[0])
        of_entry, place = ENTRIES[entry], self.places[entry]
        wanted = pb.MessageIdData(ledgerId=place.ledgerId, entryId=place.entryId)
        left = sum(1 << bit for bit, number in enumerate(of_entry) if number not in numbers)
        if len(of_entry) > 1:
            wanted.batch_size = len(of_entry)
            wanted.ack_set.extend(words_of(left) if left else [])
        kind = pb.CommandAck.Individual
        body = pb.CommandAck(consumer_id=self.consumer_id, ack_type=kind, message_id=[wanted])
        if transaction is not None:
            body.txnid_most_bits, body.txnid_least_bits = transaction
        answer = self.ask(T.ACK, body)
        if answer is None:
            return "nothing"
        told = answer.ackResponse
        return pb.ServerError.Name(told.error) if told.HasField("error") else "done"


def _entry_of(number: int) -> int:
    return next(place for place, numbers in enumerate(ENTRIES) if number in numbers)


class RealSide(Side):
    """At a broker with a transaction coordinator."""

    def __init__(self, broker: PulsarStandalone, client: RawClient, topic: str) -> None:
        super().__init__()
        self._broker = broker
        self._client = client
        self._topic = topic
        client.locate(COORDINATORS)
        client.ask(T.TC_CLIENT_CONNECT_REQUEST, pb.CommandTcClientConnectRequest(tc_id=0))
        begun = client.ask(T.NEW_TXN, pb.CommandNewTxn(txn_ttl_millis=TTL_MS, tc_id=0)).newTxnResponse
        assert not begun.HasField("error"), begun
        self.ids = begun.txnid_most_bits, begun.txnid_least_bits
        client.locate(topic)
        for numbers in ENTRIES:
            several = {"num_messages_in_batch": len(numbers)} if len(numbers) > 1 else {}
            self.places += client.produce(topic, [("k", _payload(numbers))], **several)
        body = pb.CommandAddSubscriptionToTxn(txnid_most_bits=self.ids[0], txnid_least_bits=self.ids[1])
        body.subscription.add(topic=topic, subscription="s")
        added = client.ask(T.ADD_SUBSCRIPTION_TO_TXN, body).addSubscriptionToTxnResponse
        assert not added.HasField("error"), added

    def ask(self, kind: int, body: Any) -> pb.BaseCommand | None:
        """As the base says: to an acknowledgement of a consumer that is gone a broker says nothing, ever."""
        if kind != T.ACK or self._is_here:
            return self._client.ask(kind, body)
        body.request_id = 1 << 40
        self._client.send(frame(kind, body))
        self._client.ping()
        # Whatever it said is here; its answer to a later question, too.
        assert self._client.ask(T.LOOKUP, pb.CommandLookupTopic(topic=self._topic)).type == T.LOOKUP_RESPONSE
        assert not [each for each in self._client.pushed if each.type == T.ACK_RESPONSE]
        return None

    def subscribe(self) -> None:
        """As the base says."""
        self._client.joined(self._topic, consumer_id=self.consumer_id)
        self._client.flow(1_000, self.consumer_id)

    def sent(self) -> list[pb.CommandMessage]:
        """As the base says."""
        came: list[pb.CommandMessage] = []
        while not came or self.place_of(came[-1].message_id) != _entry_of(LAST):
            (message,) = self._client.messages(1)
            if message.command.consumer_id == self.consumer_id:
                came.append(message.command)
        return came

    def unload(self) -> None:
        """As the base says."""
        administer(self._broker, "PUT", self._topic, "unload")
        self._client.locate(self._topic)

    @property
    def _is_here(self) -> bool:
        closed = (each.close_consumer.consumer_id for each in self._client.pushed if each.type == T.CLOSE_CONSUMER)
        return self.consumer_id not in closed


class SimulatedSide(Side):
    """At the simulator's broker, by one connection and without a network."""

    def __init__(self) -> None:
        super().__init__()
        schedule, dice = Schedule(), random.Random(1)  # noqa: S311 - a simulation, no secret
        process = Process(schedule, 1, "broker")
        self._storage = Storage()
        self._cluster = Cluster(self._storage, dice, ["here"], GOOD_MANNERS, process.now)
        coordinator = self._cluster.coordinator = Coordinator(process, self._storage, dice)
        coordinator.on_given_back = lambda entry, _bits: self._cluster.give_back(entry)
        self._session = _Session(Broker(process, "here", self._cluster))
        self._requests = itertools.count(1)
        self.ids = coordinator.begin().ids
        for numbers in ENTRIES:
            metadata = pb.MessageMetadata(producer_name=b"p", sequence_id=0, publish_time=1, partition_key=b"k")
            if len(numbers) > 1:
                metadata.num_messages_in_batch = len(numbers)
            entry = self._storage.append(build_tail(metadata, _payload(numbers)), ["k"] * len(numbers), "k")
            self.places.append(pb.MessageIdData(ledgerId=entry.ledger, entryId=entry.entry))

    def ask(self, kind: int, body: Any) -> pb.BaseCommand | None:
        """As the base says."""
        body.request_id = next(self._requests)
        answer = self._session.answer(kind, body)
        return frames.parse_command(answer) if answer else None

    def subscribe(self) -> None:
        """As the base says."""
        body = pb.CommandSubscribe(topic="t", subscription="s", consumer_id=self.consumer_id)
        body.subType = pb.CommandSubscribe.Key_Shared
        self.ask(T.SUBSCRIBE, body)
        (consumer,) = self._cluster.consumers
        consumer.permits += 1_000

    def sent(self) -> list[pb.CommandMessage]:
        """As the base says."""
        del self._session.told[:]
        self._cluster.dispatch()
        told = [command.message for command in map(frames.parse_command, self._session.told)]
        assert self.place_of(told[-1].message_id) == _entry_of(LAST)
        return told

    def unload(self) -> None:
        """As the base says."""
        self._cluster.move()


class _Session(BrokerSession):
    """Keeps what it would send."""

    def __init__(self, broker: Broker) -> None:
        super().__init__(broker)
        self.told: list[bytes] = []

    def send(self, data: bytes) -> None:
        self.told.append(data)

    def answer(self, kind: int, body: Any) -> bytes:
        return self._HANDLERS[kind](self, body)


def _payload(numbers: tuple[int, ...]) -> bytes:
    if len(numbers) == 1:
        return b"%d" % numbers[0]
    return batch_of(Written(b"%d" % number, b"k", sequence_id=number) for number in numbers)


# ---- scenes


def pending_through_a_seek_back_and_aborted(side: Side) -> None:
    """It is not sent before the end, and then comes."""
    assert side.comes() == [0, 1, 2, 3, 4, 5]
    assert (side.claim(0), side.claim(2)) == ("done", "done")
    side.seek(0)
    assert side.comes() == [1, 3, 4, 5]
    side.end(committed=False)
    assert side.comes() == [0, 1, 2, 3, 4, 5]


def pending_through_a_seek_back_and_committed(side: Side) -> None:
    """It never comes: the commit counts behind the seek."""
    assert side.comes() == [0, 1, 2, 3, 4, 5]
    assert (side.claim(0), side.claim(2)) == ("done", "done")
    side.seek(0)
    assert side.comes() == [1, 3, 4, 5]
    side.end(committed=True)
    assert side.comes() == [1, 3, 4, 5]


def pending_through_a_seek_beyond_it_and_back(side: Side) -> None:
    """Neither seek changes it."""
    assert side.comes() == [0, 1, 2, 3, 4, 5]
    assert (side.claim(0), side.claim(2)) == ("done", "done")
    side.seek(4)
    assert side.comes() == [4, 5]
    side.seek(0)
    assert side.comes() == [1, 3, 4, 5]
    side.end(committed=False)
    assert side.comes() == [0, 1, 2, 3, 4, 5]


def pending_when_something_behind_is_acknowledged_beyond_it(side: Side) -> None:
    """Then the broker forgets it: after a seek back it comes, though its transaction is open; a commit counts still."""
    assert side.comes() == [0, 1, 2, 3, 4, 5]
    assert (side.claim(0), side.claim(2)) == ("done", "done")
    side.seek(4)
    assert side.comes() == [4, 5]
    assert side.ack(4) == "done"
    assert side.comes() == [5]
    side.seek(0)
    assert side.comes() == [0, 1, 2, 3, 4, 5]
    side.end(committed=True)
    assert side.comes() == [1, 3, 4, 5]


def committed_before_a_seek_back(side: Side) -> None:
    """What was all of an entry comes; what was some of one is kept back, as if it were pending."""
    assert side.comes() == [0, 1, 2, 3, 4, 5]
    assert (side.claim(0), side.claim(2), side.ack(4)) == ("done", "done", "done")
    side.end(committed=True)
    assert side.comes() == [1, 3, 5]
    side.seek(0)
    assert side.comes() == [0, 1, 3, 4, 5]


def committed_before_a_seek_back_and_an_unload(side: Side) -> None:
    """What loads the topic commits it once more, by the log."""
    committed_before_a_seek_back(side)
    side.unload()
    assert side.comes() == [1, 3, 4, 5]
    assert (side.ack(1), side.ack(3)) == ("done", "done")
    assert side.comes() == [4, 5]


def acknowledged_after_a_seek_by_a_consumer_that_it_closed(side: Side) -> None:
    """It counts for nothing, is pending nowhere, and no answer comes."""
    assert side.comes() == [0, 1, 2, 3, 4, 5]
    side.seek(0)
    assert (side.claim(0), side.ack(4)) == ("nothing", "nothing")
    assert side.comes() == [0, 1, 2, 3, 4, 5]


def acknowledged_after_a_seek_beyond_it(side: Side) -> None:
    """Nothing is pending of what the seek skipped."""
    assert side.comes() == [0, 1, 2, 3, 4, 5]
    side.seek(4)
    assert side.comes() == [4, 5]
    assert side.claim(0) == "TransactionConflict"
    side.seek(0)
    assert side.comes() == [0, 1, 2, 3, 4, 5]


SCENES: Final[tuple[Callable[[Side], None], ...]] = (
    pending_through_a_seek_back_and_aborted,
    pending_through_a_seek_back_and_committed,
    pending_through_a_seek_beyond_it_and_back,
    pending_when_something_behind_is_acknowledged_beyond_it,
    committed_before_a_seek_back,
    committed_before_a_seek_back_and_an_unload,
    acknowledged_after_a_seek_by_a_consumer_that_it_closed,
    acknowledged_after_a_seek_beyond_it,
)


@pytest.fixture(scope="module", params=PULSAR_VERSIONS)
def coordinating(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[PulsarStandalone]:
    """A broker of each version with a transaction coordinator."""
    data = tmp_path_factory.mktemp("pending-acks")
    with PulsarStandalone(request.param, data=data, transactions=True) as broker:
        yield broker


@pytest.mark.slow
@pytest.mark.broker
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_a_broker_keeps_what_is_pending(
    scene: Callable[[Side], None], coordinating: PulsarStandalone, new_topic: Callable[[str], str]
) -> None:
    """As the scene says."""
    with RawClient(coordinating.service_url) as client:
        scene(RealSide(coordinating, client, new_topic("pending")))


@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.__name__)
def test_the_made_up_broker_does_as_real_ones(scene: Callable[[Side], None]) -> None:
    """The same scenes."""
    scene(SimulatedSide())
