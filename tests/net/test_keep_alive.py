"""When a silent peer is pinged and given up, and when silence proves nothing."""

from __future__ import annotations

import pytest

from proxy.net.keep_alive import KeepAlive, Verdict
from proxy.wire import pulsar_pb2 as pb
from tests.net.session_rig import SessionRig, encode

T = pb.BaseCommand


def looks(keep_alive: KeepAlive, *times: float) -> list[Verdict]:
    """What it says at each of these moments."""
    return [keep_alive.check(now, paused=False) for now in times]


def test_a_silent_peer_is_pinged_once_and_then_given_up() -> None:
    """A PING after one interval, the end after two, judged at regular looks."""
    keep_alive = KeepAlive(3.0, 0.0, look_every_s=1.0)
    fine, ping, dead = Verdict.FINE, Verdict.PING, Verdict.DEAD
    assert looks(keep_alive, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0) == [fine, fine, ping, fine, fine, dead]


@pytest.mark.parametrize("looked_s", [1.0, 2.0, 3.0, 5.0])
def test_what_we_slept_through_is_not_the_peers_silence(looked_s: float) -> None:
    """After a pause at any moment the peer is pinged, and has a look's time at least to be heard."""
    keep_alive = KeepAlive(3.0, 0.0, look_every_s=1.0)
    looks(keep_alive, *(float(second) for second in range(1, int(looked_s) + 1)))
    assert looks(keep_alive, 1_000.0) == [Verdict.PING]
    keep_alive.heard = True
    assert looks(keep_alive, 1_001.0, 1_002.0) == [Verdict.FINE, Verdict.FINE]


def test_a_peer_that_is_dead_after_a_pause_is_found_so() -> None:
    """A pause delays the judgement; it does not acquit."""
    keep_alive = KeepAlive(3.0, 0.0, look_every_s=1.0)
    verdicts = looks(keep_alive, 1.0, *(1_000.0 + second for second in range(7)))
    assert verdicts[1] is Verdict.PING
    assert Verdict.DEAD in verdicts


def test_a_peer_that_is_doubted_has_its_time_also_after_a_pause() -> None:
    """And what was heard before it was doubted does not acquit it."""
    keep_alive = KeepAlive(300.0, 0.0, look_every_s=1.0)
    looks(keep_alive, 1.0)
    keep_alive.heard = True
    assert keep_alive.doubt(1.5)
    verdicts = looks(keep_alive, *(1_000.0 + second for second in range(6)))
    assert verdicts == [Verdict.PING, *[Verdict.FINE] * 4, Verdict.DEAD]
    assert not keep_alive.doubt(1_005.0), "it is doubted already"


def test_a_look_that_is_a_little_late_is_a_look() -> None:
    """A busy loop does not keep the dead alive."""
    keep_alive = KeepAlive(3.0, 0.0, look_every_s=1.0)
    assert looks(keep_alive, 1.9, 3.8, 5.7, 7.6)[-1] is Verdict.DEAD


def test_a_gateway_that_was_stopped_keeps_its_silent_clients_and_brokers() -> None:
    """It pings both ends of the session when it goes on, and reads their answers before it judges."""
    rig = SessionRig().connect()
    rig.clock.advance(rig.limits.keep_alive_s / 2)
    rig.clock.oversleep(10 * rig.limits.keep_alive_s)
    rig.clock.advance(0)
    assert rig.cause is None
    assert [command.type for command in rig.to_client()] == [T.PING]
    assert [command.type for command in rig.to_broker()] == [T.PING]
    for transport in (rig.client, rig.broker):
        transport.deliver(encode(T.PONG))
    rig.clock.advance(rig.limits.keep_alive_s / 2)
    assert rig.cause is None
