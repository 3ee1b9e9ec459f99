"""Questions between two replicas, from the proof to the last byte of the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from proxy.net.owner.dialling import ReplicaDialler
from proxy.net.owner.door import ReplicaDoor
from proxy.net.owner.proof import Secret, Told
from proxy.net.owner.questions import QUESTION_BYTES_MAX, QUESTION_S_MAX, Answering, Asking, Saying
from proxy.net.owner.standstill import Standstill
from tests.net.fakes import FakeClock, FakeConnector, FakeTransport
from tests.net.test_owner_door import KEY, TOLD, new_pulses, numbers

QUESTION = replace(TOLD, purpose="question")


class Rig:
    """A replica that asks, and one that answers."""

    def __init__(self, question: bytes = b"how are you?") -> None:
        self.clock = FakeClock()
        self.questions: list[bytes] = []
        self.given_up = 0
        self.saying: Saying | None = None
        self.told: list[bytes] = []
        self.end: str | None = None
        self.asking = Asking(question, self)
        connector = FakeConnector(self.clock)
        dialler = ReplicaDialler(connector, Secret((KEY,)), self.clock, numbers(7), Standstill(self.clock, 9.0))
        dialler.dial("pulsar://b:6670", QUESTION, self.asking)
        self.near = connector.last.accept()
        door = ReplicaDoor("b-1", Secret((KEY,)), self.clock, numbers(1), self.admit, new_pulses(self.clock))
        self.far = FakeTransport(self.clock, door.knock(), "10.0.0.3:50000")
        self.far.open()

    def admit(self, told: Told) -> Answering:
        """It is a question."""
        assert told.purpose == "question"
        return Answering(self.answer, self.clock)

    def answer(self, question: bytes, saying: Saying) -> Callable[[], None]:
        """Begin to."""
        self.questions.append(question)
        self.saying = saying

        def give_up() -> None:
            self.given_up += 1

        return give_up

    def heard(self, data: bytes) -> None:
        """As `questions.Hearer` says."""
        self.told.append(data)

    def ended(self, reason: str) -> None:
        """As `questions.Hearer` says."""
        assert self.end is None, "it ended twice"
        self.end = reason

    def carry(self) -> None:
        """Until nothing more is said."""
        while self.near.written or self.far.written:
            self.far.deliver(self.near.take())
            self.near.deliver(self.far.take())


def test_a_question_is_answered_and_the_connection_ends() -> None:
    """In as many pieces as it is said."""
    rig = Rig()
    rig.carry()
    assert rig.questions == [b"how are you?"]
    assert rig.saying is not None
    rig.saying.say(b"well, ")
    rig.carry()
    rig.saying.say(b"and you?")
    rig.saying.end()
    rig.carry()
    assert b"".join(rig.told) == b"well, and you?"
    assert rig.far.closing
    rig.near.lose("closed by the other end")
    assert rig.end == "closed by the other end"


def test_what_follows_a_question_is_no_other() -> None:
    """A connection is for one."""
    rig = Rig()
    rig.carry()
    rig.far.deliver(b"\x00\x00\x00\x01x")
    assert rig.questions == [b"how are you?"]


def test_an_answer_that_is_not_wanted_any_more_is_given_up() -> None:
    """At both ends, and the asker hears nothing of it."""
    rig = Rig()
    rig.carry()
    rig.asking.give_up()
    assert rig.near.aborted
    rig.near.lose("aborted")
    rig.far.lose("reset")
    assert (rig.given_up, rig.end) == (1, None)


def test_a_question_that_was_given_up_before_it_was_asked_is_not_asked() -> None:
    """The connection may have been on its way."""
    rig = Rig()
    rig.asking.give_up()
    rig.carry()
    assert rig.questions == []
    assert rig.near.aborted


def test_a_replica_that_proves_itself_and_asks_nothing_is_cut_off() -> None:
    """Its bytes are few, but its place is one."""
    rig = Rig()
    rig.far.deliver(rig.near.take())
    rig.near.deliver(rig.far.take())
    preamble_and_question = rig.near.take()
    rig.far.deliver(preamble_and_question[: -len(b"how are you?")])
    aborted = []
    for _ in range(2):
        rig.clock.advance(QUESTION_S_MAX * 0.6)
        aborted.append(rig.far.aborted)
    assert aborted == [False, True]
    assert rig.questions == []


def test_a_reader_that_does_not_read_loses_the_rest() -> None:
    """A stream of events would be kept for it for ever; it asks again."""
    rig = Rig()
    rig.carry()
    assert rig.saying is not None
    rig.saying.say(b"x")
    rig.far.set_writable(False)
    assert rig.far.aborted


def test_a_complete_answer_is_sent_to_a_slow_reader() -> None:
    """It may be longer than what may be unread."""
    rig = Rig()
    rig.carry()
    assert rig.saying is not None
    rig.saying.say(b"x" * 1_000)
    rig.saying.end()
    rig.far.set_writable(False)
    assert not rig.far.aborted


def test_too_long_a_question_is_refused_at_both_ends() -> None:
    """Before anything is sent, and before it is held."""
    with pytest.raises(ValueError, match="can be passed on"):
        Asking(b"x" * (QUESTION_BYTES_MAX + 1), Rig())
    rig = Rig(b"")
    rig.far.deliver(rig.near.take())
    rig.near.deliver(rig.far.take())
    rig.far.deliver(rig.near.take()[:-4] + (QUESTION_BYTES_MAX + 1).to_bytes(4, "big"))
    assert rig.far.aborted
