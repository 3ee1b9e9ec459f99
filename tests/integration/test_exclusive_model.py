"""The model of a topic that the gateway's own tests run against says what real brokers say.

Every script here is driven at the model and at a broker directly, past any gateway; each connection must be told the
same by both: kinds of answers, ready flags, epochs. So what `tests/net/model_topic.py` claims of brokers stays true,
and with it the reasons for what the gateway does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from integration.standalone import PulsarStandalone
from tests.integration.exclusive_rig import EXCLUSIVE, FENCE, READY, SHARED, WAIT, TopicClient, administer, told
from tests.net.model_topic import Connection, ModelTopic
from tests.net.producer_rig import close, want
from tests.net.session_rig import parse


class Both:
    """The same topic twice, at a broker and in the model, with the same connections to both."""

    def __init__(self, broker: PulsarStandalone, topic: str, clients: ExitStack) -> None:
        """Nobody is connected yet."""
        self._broker = broker
        self._topic = topic
        self._clients = clients
        self._model = ModelTopic()
        self._connections: dict[str, tuple[TopicClient, Connection]] = {}
        self._requests = 0

    def want(
        self, name: str, mode: int = WAIT, *, producer_id: int = 1, epoch: int | None = None, called: str = ""
    ) -> None:
        """Let a connection, new or known, ask for a producer."""
        self._requests += 1
        frame = want(self._requests, mode=mode, topic=self._topic, producer_id=producer_id, epoch=epoch, name=called)
        self._say(name, frame)

    def close(self, name: str, producer_id: int = 1) -> None:
        """Let a connection close a producer."""
        self._requests += 1
        self._say(name, close(self._requests, producer_id))

    def drop(self, name: str) -> None:
        """Break a connection.

        One that owned the topic has somebody to follow it: else nothing would tell when the broker has noticed, and a
        fencer that comes at that moment may stop a broker for good.
        """
        client, connection = self._connections.pop(name)
        client.close()
        self._model.drop(connection)
        self._compare()

    def unload(self) -> None:
        """Unload the topic."""
        administer(self._broker, "PUT", self._topic, "unload")
        self._model.unload()
        self._compare()

    def check_end(self) -> None:
        """Nobody was told anything else, and the epoch is the same: one that takes the topic is given the next."""
        self.want("last", FENCE)
        for name, (client, _) in self._connections.items():
            assert not client.heard(), name

    def _say(self, name: str, frame: bytes) -> None:
        if name not in self._connections:
            client = self._clients.enter_context(TopicClient(self._broker.service_url, self._topic))
            self._connections[name] = client, Connection()
        client, connection = self._connections[name]
        client.send(frame)
        (command,) = parse(frame)
        self._model.take(connection, command)
        self._compare()

    def _compare(self) -> None:
        """Read as many answers as the model has; names are the server's and differ."""
        self._model.come_to_rest()
        for name, (client, connection) in self._connections.items():
            while connection.out:
                (command,) = parse(connection.out.popleft())
                expected, answer = told(command), client.hears()
                if expected.word == "closed":
                    assert (answer.word, answer.request_id) == (expected.word, expected.request_id), name
                else:
                    assert answer[:3] == expected[:3], f"{name}: {answer}"


@pytest.fixture
def both(broker: PulsarStandalone, new_topic: Callable[[str], str]) -> Iterator[Both]:
    """A topic of the test's own, compared a last time when the test's script has ended."""
    with ExitStack() as clients:
        pair = Both(broker, new_topic("model"), clients)
        yield pair
        pair.check_end()


def test_those_that_wait_are_promoted_in_order_of_arrival(both: Both) -> None:
    """Told at once that they are not ready, later that they are, each with one more epoch."""
    for name in ("owner", "first", "second", "third"):
        both.want(name)
    both.close("owner")
    both.close("first")
    both.drop("second")


def test_one_that_waited_and_left_costs_an_epoch(both: Both) -> None:
    """A close of one that waits is a success, and its place in the queue stays; so does that of a lost connection."""
    for name in ("owner", "closed", "dropped", "alive"):
        both.want(name)
    both.close("closed")
    both.drop("dropped")
    both.close("owner")


def test_a_producer_id_is_taken_while_it_waits_and_answered_again_when_it_owns(both: Both) -> None:
    """An error first, then success without an epoch."""
    both.want("owner")
    both.want("waiter")
    both.want("waiter")
    both.want("owner")


def test_closing_a_producer_that_is_not_known_is_a_success(both: Both) -> None:
    """So a close may be said twice."""
    both.want("owner")
    both.close("owner", producer_id=77)
    both.close("owner")
    both.close("owner")


def test_an_epoch_that_is_too_old_is_refused_at_admission(both: Both) -> None:
    """One that is not resumes with it, and spends none."""
    both.want("first")
    both.close("first")
    both.want("second")
    both.close("second")
    both.want("first", epoch=0, called="former")
    both.want("second", epoch=1, called="owner")


def test_a_promotion_does_not_look_at_the_epoch_that_comes_along(both: Both) -> None:
    """The topic's epoch goes back, and who was fenced owns it again: why former owners never wait at a broker."""
    for name in ("first", "second"):
        both.want(name)
        both.close(name)
    both.want("owner")
    both.want("former", epoch=0, called="former")
    both.close("owner")


@pytest.mark.parametrize("mode", [SHARED, EXCLUSIVE], ids=["Shared", "Exclusive"])
def test_who_does_not_wait_is_refused_while_anybody_owns_the_topic(both: Both, mode: int) -> None:
    """With another error for each mode, while one waits besides and while none does."""
    both.want("owner")
    both.want("other", mode)
    both.want("waiter")
    both.want("other", mode)
    both.close("owner")
    both.want("other", mode)


def test_who_waits_behind_shared_producers_waits_for_all_of_them(both: Both) -> None:
    """New ones, shared or exclusive, are refused meanwhile."""
    both.want("one", SHARED)
    both.want("two", SHARED)
    both.want("exclusive", EXCLUSIVE)
    both.want("waiter")
    both.want("late", SHARED)
    both.want("exclusive", EXCLUSIVE)
    both.close("one")
    both.close("two")


def test_fencing_fails_all_that_wait_and_tells_the_owner_nothing(both: Both) -> None:
    """It takes the topic whoever has it."""
    for name in ("owner", "first", "second"):
        both.want(name)
    both.want("fencer", FENCE)
    both.want("third")
    both.close("owner")
    both.close("fencer")


def test_fencing_ends_shared_producers_silently(both: Both) -> None:
    """As it does an owner."""
    both.want("one", SHARED)
    both.want("two", SHARED)
    both.want("fencer", FENCE)
    both.close("one")
    both.close("fencer")
    both.want("next")


def test_an_unload_fails_the_first_that_waits_and_forgets_the_others(both: Both) -> None:
    """The epoch spent for the first fences the owner that comes back; the others are told nothing ever."""
    for name in ("owner", "first", "forgotten"):
        both.want(name)
    both.unload()
    both.want("owner", epoch=0, called="owner")
    both.want("next")
    both.close("next")


def test_an_owner_resumes_after_an_unload_when_nobody_waits(both: Both) -> None:
    """With the epoch that it has."""
    both.want("owner")
    both.unload()
    both.want("owner", epoch=0, called="owner")
    both.want("waiter")
    both.close("owner")


@pytest.mark.parametrize("answers", [True, False], ids=["lives", "hangs"])
def test_a_name_is_another_connections_only_when_its_own_is_gone(
    broker: PulsarStandalone, new_topic: Callable[[str], str], *, answers: bool
) -> None:
    """The broker asks whether it lives. So what the first sent stands before all that the second sends.

    The gateway's own producers rely on it (`proxy.net.broker.producer`).
    """
    topic = new_topic("named")
    with TopicClient(broker.service_url, topic) as first, TopicClient(broker.service_url, topic) as second:
        first.want(mode=SHARED, name="name", chosen=False)
        assert first.hears().word == READY
        second.want(mode=SHARED, name="name", chosen=False)
        if answers:
            assert first.received() == []  # a PING, which it answers
            assert second.hears().word == "ProducerBusy"
            first.leaves()
            second.want(mode=SHARED, name="name", chosen=False)
        assert second.hears().word == READY
        if not answers:
            assert first.ended() == []
