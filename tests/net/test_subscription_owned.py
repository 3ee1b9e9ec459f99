"""A subscription that this replica owns: nothing without a lease, one consumer that lets no other in, one hand-over."""

from __future__ import annotations

import pytest

from proxy.errors import UpstreamUnavailable
from proxy.net.subscription.owned import OwnedSubscription
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import T, single

LEASE_S = 5.0
SEND_S = 0.25


class Owner:
    """Says that the replica owns everything, or nothing."""

    def __init__(self) -> None:
        self.owns = True
        self.owned: dict[tuple[str, str], OwnedSubscription] = {}

    def check(self, key: tuple[str, str]) -> None:
        """As the port says."""
        if not self.owns:
            message = f"{key} is not here"
            raise UpstreamUnavailable(message)

    def began(self, owned: OwnedSubscription) -> None:
        """As the port says."""
        self.owned[owned.key] = owned

    def ended(self, key: tuple[str, str]) -> None:
        """As the port says."""
        del self.owned[key]


class Rig(SubscriptionRig):
    """In owner mode."""

    def __init__(self) -> None:
        super().__init__()
        self.owner = Owner()
        self.subscriptions.ownership = self.owner
        self.given_up = 0

    @property
    def owned(self) -> OwnedSubscription:
        """The one subscription."""
        (owned,) = self.owner.owned.values()
        return owned

    def lease(self) -> None:
        """It may deliver for a while."""
        self.owned.open(self.clock.now() + LEASE_S, SEND_S)
        self.clock.settle()

    def give_up(self) -> None:
        """Hand it over."""
        self.owned.give_up(self._gone)
        self.clock.settle()

    def _gone(self) -> None:
        self.given_up += 1


def test_the_owners_consumer_has_all_slots_for_itself() -> None:
    """The broker lets nobody in beside it, a former owner that does not know yet among them."""
    rig = Rig()
    rig.worker(permits=1)
    (subscribe,) = rig.link.sent(T.SUBSCRIBE)
    meta = subscribe.subscribe.keySharedMeta
    assert meta.keySharedMode == pb.STICKY
    assert [(span.start, span.end) for span in meta.hashRanges] == [(0, 65_535)]


def test_workers_wait_while_a_former_owner_is_at_the_broker() -> None:
    """It goes, or the broker finds it gone: our consumer asks again, and the workers hear nothing of it."""
    rig = Rig()
    worker = rig.subscribe(settle=False)
    rig.brokers.link.refusals[T.SUBSCRIBE] = (pb.ConsumerAssignError, "Range conflict with consumer")
    rig.clock.settle()
    rig.clock.advance(3)
    assert worker.commands() == []
    assert len(rig.link.taken(T.SUBSCRIBE)) >= 3
    rig.link.refusals.clear()
    rig.clock.advance(1.1)
    assert worker.answers() == [T.SUCCESS]


def test_what_the_broker_refuses_for_good_workers_hear_at_once() -> None:
    """As with a single gateway."""
    rig = Rig()
    worker = rig.subscribe(settle=False)
    rig.brokers.link.refusals[T.SUBSCRIBE] = (pb.AuthorizationError, "not allowed")
    rig.clock.settle()
    assert worker.error()[0] == pb.AuthorizationError


def test_nothing_is_delivered_without_a_lease() -> None:
    """Not before the first, nor after the end of one; what waits goes out when there is one again."""
    rig = Rig()
    worker = rig.worker(permits=10)
    rig.link.deliver((0, single("k", b"0")))
    assert worker.entries() == []
    rig.lease()
    assert worker.entries() == [0]
    rig.clock.advance(LEASE_S)
    rig.link.deliver((1, single("k", b"1")))
    assert worker.entries() == []
    rig.owned.renew(rig.clock.now() + LEASE_S)
    rig.clock.settle()
    assert worker.entries() == [1]
    assert worker.limits[-1] == LEASE_S + SEND_S


def test_a_subscription_that_is_held_keeps_what_workers_have() -> None:
    """They acknowledge it; nothing new comes until it is open again."""
    rig = Rig()
    worker = rig.worker(permits=10)
    rig.lease()
    rig.link.deliver((0, single("k", b"0")))
    rig.owned.hold()
    rig.link.deliver((1, single("k", b"1")))
    assert worker.entries() == [0]
    busy = not rig.owned.idle
    worker.ack(0)
    assert (busy, rig.owned.idle) == (True, True)
    rig.lease()
    assert worker.entries() == [1]


def test_a_subscription_that_is_given_up_closes_every_consumer() -> None:
    """The workers', so that they come again, and ours, behind the acknowledgements; then the next owner may come."""
    rig = Rig()
    workers = [rig.worker(permits=10), rig.worker(permits=10)]
    rig.lease()
    rig.owned.hold()
    rig.give_up()
    assert [worker.answers() for worker in workers] == [[T.CLOSE_CONSUMER]] * 2
    assert len(rig.link.taken(T.CLOSE_CONSUMER)) == 1
    assert rig.given_up == 1
    assert not rig.owner.owned
    assert rig.count == 0


def test_a_worker_that_comes_too_late_is_told_to_try_again() -> None:
    """Also where the subscription is here still: its bundle may be on its way to another replica."""
    rig = Rig()
    rig.worker(permits=1)
    rig.owner.owns = False
    late = rig.subscribe()
    assert late.error()[0] == pb.ServiceNotReady


@pytest.mark.parametrize("owned", [True, False])
def test_a_subscription_ends_with_its_last_worker(*, owned: bool) -> None:
    """Whether it is owned or of a single gateway."""
    rig = Rig()
    if not owned:
        rig.subscriptions.ownership = None
    worker = rig.worker(permits=1)
    worker.close()
    assert rig.count == 0
    assert not rig.owner.owned
