"""A client is asked for a sign of life: its answer, its silence, and what proves neither."""

from __future__ import annotations

from functools import partial

import pytest

from proxy.limits import Limits
from proxy.net.session.liveness import LED_S, LIVENESS_S, LOOK_S
from proxy.wire import commands
from tests.net.session_rig import SessionRig, T, ack

PONG = commands.pong()


class Asked(SessionRig):
    """A client with a worker whose place another one wants."""

    def __init__(self, *, of_replica: bool = False) -> None:
        super().__init__(Limits(keep_alive_s=600.0), of_replica=of_replica)
        self.connect()
        self.port = self.worker()
        self.alive = 0
        self.ask()

    def ask(self) -> None:
        """Once more."""
        self.port.link.check_liveness(self._lives)

    def wait(self, seconds: float) -> None:
        """Time passes; the process runs."""
        self.clock.advance(seconds)

    def _lives(self) -> None:
        self.alive += 1


def test_a_client_that_answers_lives() -> None:
    """Each who asked hears so, once; and it was asked once."""
    rig = Asked()
    rig.ask()
    assert [command.type for command in rig.to_client()] == [T.PING]
    rig.client.deliver(PONG)
    rig.client.deliver(PONG)
    assert rig.alive == 2
    rig.wait(2 * LIVENESS_S)
    assert rig.cause is None
    rig.ask()
    assert [command.type for command in rig.to_client()] == [T.PING]


def test_a_client_that_shows_no_sign_of_life_is_given_up() -> None:
    """What it did not get must not reach it any more: its connection is cut."""
    rig = Asked()
    rig.wait(LIVENESS_S - 0.5)
    assert rig.cause != "silent"
    rig.wait(1.0)
    assert (rig.cause, rig.alive) == ("silent", 0)
    assert rig.client.aborted
    assert ("lost", f"the client was silent for {LIVENESS_S} s") in rig.port.calls


def test_anything_that_a_client_sends_is_a_sign_of_life() -> None:
    """Its PONG may stand behind much else."""
    rig = Asked()
    rig.client.deliver(ack(1))
    rig.wait(LOOK_S)
    assert (rig.alive, rig.cause) == (1, None)


def test_the_silence_of_a_client_that_is_not_read_proves_nothing() -> None:
    """Its answer may be there."""
    rig = Asked()
    rig.broker.set_writable(False)
    rig.wait(LIVENESS_S)
    assert (rig.alive, rig.cause) == (1, None)


def test_the_time_in_which_this_process_stood_still_is_not_the_clients_silence() -> None:
    """Its answer may be unread when the timer goes off."""
    rig = Asked()
    rig.wait(LIVENESS_S - 1.5 * LOOK_S)
    rig.clock.oversleep(60.0)
    rig.wait(LOOK_S / 2)
    assert rig.cause is None
    rig.client.deliver(PONG)
    assert rig.alive == 1


def test_nothing_is_heard_of_a_client_that_has_gone() -> None:
    """Its worker leaves, which is the answer."""
    rig = Asked()
    rig.client.lose()
    rig.wait(2 * LIVENESS_S)
    assert rig.alive == 0
    assert any(call[0] == "lost" for call in rig.port.calls)


@pytest.mark.parametrize("answers", [True, False])
def test_another_replicas_client_is_asked_for_and_that_replicas_to_judge(*, answers: bool) -> None:
    """It answers a PING itself; so a PONG of its own proves nothing. Without any answer the client counts as alive."""
    rig = Asked(of_replica=True)
    assert rig.client.take() == commands.ask_client()
    rig.client.deliver(PONG + ack(1))
    rig.wait(LIVENESS_S)
    assert rig.alive == 0
    if answers:
        rig.client.deliver(commands.client_lives())
    else:
        rig.wait(LED_S - LIVENESS_S)
    assert (rig.alive, rig.cause) == (1, None)


def test_no_reference_is_left_to_a_client_that_has_gone() -> None:
    """Sessions end without the garbage collector."""
    rig = Asked()
    late = partial(rig.port.link.check_liveness, lambda: None)
    rig.client.lose()
    late()
    rig.wait(2 * LIVENESS_S)
    assert rig.clock.waiting == 0
