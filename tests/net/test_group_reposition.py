"""Moving a shared subscription's cursor at the broker."""

from __future__ import annotations

import pytest

from proxy.groups.messages import ReplayTarget
from proxy.net.group.reposition import AGAIN_S, ANSWER_S_MAX, TRIES, GroupReposition
from proxy.wire import pulsar_pb2 as pb
from tests.groups.rig import GROUP
from tests.net.broker_fakes import T, error, success
from tests.net.gateway_rig import PlayedBroker, close_consumer

BY_TIME = ReplayTarget(published_ms=1_234)


class Rig:
    """One move, begun."""

    def __init__(self, target: ReplayTarget = BY_TIME) -> None:
        self.broker = PlayedBroker()
        self.said: list[str | None] = []
        self.move = GroupReposition(GROUP, target, self.broker, self.broker.clock, self.said.append)
        self.move.begin()

    def subscribed(self) -> pb.CommandSeek:
        """The broker lets it have all slots; what it wants then."""
        subscribe = self.broker.next(T.SUBSCRIBE).subscribe
        (span,) = subscribe.keySharedMeta.hashRanges
        assert (subscribe.subType, span.start, span.end) == (pb.CommandSubscribe.Key_Shared, 0, 65_535)
        self.broker.say(success(subscribe.request_id))
        return self.broker.next(T.SEEK).seek


def test_it_asks_with_a_consumer_of_all_slots_which_fetches_nothing() -> None:
    """The broker closes it before it answers; then it is done."""
    rig = Rig()
    seek = rig.subscribed()
    assert seek.message_publish_time == 1_234
    rig.broker.say(close_consumer(seek.consumer_id))
    assert rig.said == []
    rig.broker.say(success(seek.request_id))
    assert rig.said == [None]
    rig.broker.clock.advance(ANSWER_S_MAX)
    assert rig.said == [None]


@pytest.mark.parametrize(
    ("position", "told"), [((7, 3), (7, 3)), ((-1, -1), ((1 << 64) - 1, (1 << 64) - 1))], ids=["a message", "earliest"]
)
def test_a_position_is_told_as_clients_tell_it(position: tuple[int, int], told: tuple[int, int]) -> None:
    """Unsigned."""
    seek = Rig(ReplayTarget(position=position)).subscribed()
    assert (seek.message_id.ledgerId, seek.message_id.entryId) == told


def test_somebody_who_consumes_after_all_is_left_alone() -> None:
    """The broker's words are passed on; nothing was asked of it."""
    rig = Rig()
    rig.broker.refuse(rig.broker.next(T.SUBSCRIBE).subscribe.request_id, "Range conflict with consumer w1")
    (problem,) = rig.said
    assert problem is not None
    assert "Range conflict" in problem


def test_one_who_has_a_place_for_a_moment_is_waited_for() -> None:
    """It may have asked whether a replica is alive, and leaves at once; who stays is left alone."""
    rig = Rig()
    for _ in range(TRIES - 1):
        asked = rig.broker.next(T.SUBSCRIBE).subscribe
        rig.broker.say(error(asked.request_id, pb.ConsumerAssignError, "Range conflict with consumer a-1-probe"))
        assert rig.said == []
        rig.broker.clock.advance(AGAIN_S)
    rig.subscribed()
    rig = Rig()
    for _ in range(TRIES):
        asked = rig.broker.next(T.SUBSCRIBE).subscribe
        rig.broker.say(error(asked.request_id, pb.ConsumerAssignError, "Range conflict with consumer w1"))
        rig.broker.clock.advance(AGAIN_S)
    (problem,) = rig.said
    assert problem is not None
    assert "Range conflict" in problem


def test_a_refusal_is_passed_on_and_the_consumer_closed() -> None:
    """Or it would keep all slots."""
    rig = Rig()
    seek = rig.subscribed()
    rig.broker.refuse(seek.request_id, "no such ledger")
    assert rig.broker.next(T.CLOSE_CONSUMER).close_consumer.consumer_id == seek.consumer_id
    (problem,) = rig.said
    assert problem is not None
    assert "no such ledger" in problem


def test_a_broker_that_does_not_answer_is_not_waited_for() -> None:
    """What has become of the cursor is not known, and said to be so."""
    rig = Rig()
    rig.subscribed()
    rig.broker.live(ANSWER_S_MAX + 1)
    (problem,) = rig.said
    assert problem is not None
    assert "not known" in problem
