"""What a client acknowledged before it went is read by its owners: they close its consumers, and then legs end."""

from __future__ import annotations

from proxy.net.owner.leaving import LEAVES_S_MAX
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import UNASKED
from tests.net.fakes import FakeTransport
from tests.net.session_rig import T, ack, message, parse, success
from tests.net.test_owner_legs import Rig


def left(*consumers: int) -> tuple[Rig, FakeTransport, list[pb.BaseCommand]]:
    """A client that acknowledges a message by each and goes; its leg, and what came by it."""
    rig = Rig()
    rig.own((3, "b"))
    leg = [rig.consumer(each, 3) for each in consumers][-1]
    leg.take()
    for each in consumers:
        rig.client.deliver(ack(each))
    rig.client.lose()
    rig.clock.settle()
    return rig, leg, parse(leg.take())


def test_the_last_acknowledgements_are_followed_by_the_ends_of_consumers() -> None:
    """The leg stands until the owner has confirmed all of these."""
    rig, leg, heard = left(1, 2)
    assert [command.type for command in heard] == [T.ACK, T.ACK, T.CLOSE_CONSUMER, T.CLOSE_CONSUMER]
    first, second = (command.close_consumer for command in heard[2:])
    assert {first.consumer_id, second.consumer_id} == {1, 2}
    leg.deliver(success(first.request_id))
    leg.deliver(message(2, 2) + commands.close_consumer(2, UNASKED) + commands.ping())
    stood = not leg.closing
    leg.deliver(success(second.request_id))
    assert (stood, leg.closing) == (True, True)
    assert rig.clock.waiting == 1, "all but that for signs of life, which this rig does not ask for"


def test_the_answers_are_read_though_the_client_read_nothing() -> None:
    """Its leg was not read then."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    leg.take()
    rig.client.set_writable(False)
    assert not leg.reading
    rig.client.lose()
    rig.clock.settle()
    (command,) = parse(leg.take())
    leg.deliver(success(command.close_consumer.request_id))
    assert leg.closing


def test_a_close_that_was_on_its_way_is_waited_for() -> None:
    """The acknowledgements are before that one."""
    rig = Rig()
    rig.own((3, "b"))
    leg = rig.consumer(1, 3)
    rig.client.deliver(ack(1) + commands.close_consumer(1, 9))
    rig.client.lose()
    rig.clock.settle()
    *_, again = parse(leg.take())
    leg.deliver(success(9))
    stood = not leg.closing
    leg.deliver(success(again.close_consumer.request_id))
    assert (stood, leg.closing) == (True, True)


def test_an_owner_that_does_not_answer_is_left() -> None:
    """It may stand still for long."""
    rig, leg, _ = left(1)
    rig.clock.advance(LEAVES_S_MAX - 0.1)
    stood = not leg.closing
    rig.clock.advance(0.2)
    assert (stood, leg.closing) == (True, True)


def test_an_owner_that_goes_too_leaves_no_timer() -> None:
    """There is nothing more to wait for."""
    rig, leg, _ = left(1)
    leg.lose()
    assert rig.clock.waiting == 1, "all but that for signs of life, which this rig does not ask for"
