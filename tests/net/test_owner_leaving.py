"""What a client acknowledged before it went is read by its owners, which end its legs then."""

from __future__ import annotations

from structlog.testing import capture_logs

from proxy.net.owner.leaving import LEAVES_S_MAX
from proxy.wire import commands
from proxy.wire.client_commands import UNASKED
from tests.net.fakes import FakeTransport
from tests.net.session_rig import SessionRig, ack, message, success
from tests.net.test_owner_legs import Rig


def left() -> tuple[Rig, FakeTransport, bytes]:
    """A client that acknowledges messages by two consumers and goes; its leg, and what came by it."""
    rig = Rig()
    rig.own((3, "b"))
    rig.consumer(1, 3)
    leg = rig.consumer(2, 3)
    leg.take()
    rig.client.deliver(ack(1))
    rig.client.deliver(ack(2))
    rig.client.lose()
    rig.clock.settle()
    return rig, leg, leg.take()


def test_the_owner_ends_the_leg_behind_the_last_acknowledgements() -> None:
    """What is on its way from there is dropped."""
    rig, leg, heard = left()
    assert heard == ack(1) + ack(2) + commands.client_gone()
    leg.deliver(message(2, 2) + commands.close_consumer(2, UNASKED) + success(7))
    assert not leg.closing
    leg.lose()
    assert rig.clock.waiting == 1, "all but that for signs of life, which this rig does not ask for"


def test_an_owner_takes_what_was_acknowledged_and_lets_all_consumers_go_at_once() -> None:
    """In the very bytes of the other replica; the end is no fault of anyone's."""
    _, _, heard = left()
    owner = SessionRig(of_replica=True).connect()
    ports = [owner.worker(1), owner.worker(2, 102)]
    with capture_logs() as logs:
        owner.client.deliver(heard)
        owner.clock.settle()
    assert [[call[0] for call in port.calls] for port in ports] == [["ack", "lost"]] * 2
    assert (owner.cause, owner.client.closing) == ("client_left", True)
    assert {entry["log_level"] for entry in logs} == {"debug"}


def test_the_end_is_read_though_the_client_read_nothing() -> None:
    """Its leg was not read then."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.set_writable(False)
    read_before = leg.reading
    rig.client.lose()
    rig.clock.settle()
    assert (read_before, leg.reading) == (False, True)


def test_a_close_that_was_on_its_way_is_waited_for() -> None:
    """The acknowledgements are before that one."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    leg.take()
    close = commands.close_consumer(1, 9)
    rig.client.deliver(ack(1) + close)
    rig.client.lose()
    rig.clock.settle()
    assert leg.take() == ack(1) + close + commands.client_gone()
    assert not leg.closing


def test_a_leg_that_carries_nothing_ends_at_once() -> None:
    """Its last consumer was closed, and the owner has confirmed it."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(commands.close_consumer(1, 9))
    leg.deliver(success(9))
    leg.take()
    rig.client.lose()
    rig.clock.settle()
    assert (leg.closing, leg.take()) == (True, b"")


def test_an_owner_that_stands_still_is_left() -> None:
    """It may do so for long."""
    rig, leg, _ = left()
    rig.clock.advance(LEAVES_S_MAX - 0.1)
    stood = not leg.closing
    rig.clock.advance(0.2)
    assert (stood, leg.closing) == (True, True)
