"""A subscription that this replica owns: nothing without a lease, one consumer that lets no other in, one hand-over."""

from __future__ import annotations

import pytest

from proxy.errors import OwnedElsewhere
from proxy.net.subscription.owned import OwnedSubscription
from proxy.net.subscription.sentinel import AGAIN_S, AGAIN_S_MAX, FOLLOW_S, LATEST, SUFFIX
from proxy.net.subscription.upstream import BESIDE_S
from proxy.wire import pulsar_pb2 as pb
from tests.net.subscription_rig import SubscriptionRig, Worker
from tests.net.subscription_rig_broker import TOPIC, T, single

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
            raise OwnedElsewhere(message)

    def began(self, owned: OwnedSubscription) -> None:
        """As the port says."""
        self.owned[owned.key] = owned

    def ended(self, key: tuple[str, str]) -> None:
        """As the port says."""
        del self.owned[key]


class Rig(SubscriptionRig):
    """In owner mode."""

    def __init__(self, *migrating: str) -> None:
        super().__init__(migrating_subscriptions=migrating)
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
    assert rig.link.doubts == 1, "or a replica that was cut off waits there for an answer until the keep-alive ends"


def test_a_connection_that_may_have_died_while_there_was_no_lease_is_asked() -> None:
    """The broker may have given it up, and what it said of that may be lost: keys would wait for the keep-alive."""
    rig = Rig()
    rig.worker(permits=1)
    rig.lease()
    before = rig.link.doubts
    rig.owned.hold()
    assert rig.link.doubts == before + 1
    rig.lease()
    assert rig.link.doubts == before + 2


def test_a_subscription_of_streams_asks_no_owner_and_consumes_nothing_whole() -> None:
    """Also at a replica that owns others: its group says which slots it consumes, and its end is no owner's."""
    rig = Rig()
    rig.owner.owns = False
    rig.streamed_names = {"s"}
    worker = rig.worker("a", permits=1)
    assert not rig.owner.owned
    assert not len(rig.subscription.consumers)
    code, _ = rig.subscribe("b", subscription="other").error()
    assert code == pb.ServiceNotReady, "that one has an owner, which is another"
    worker.close()
    assert not len(rig.subscriptions)


@pytest.mark.parametrize("pattern", ["* s", "other s"])
def test_what_direct_workers_share_is_consumed_beside_them(pattern: str) -> None:
    """Everything else lets nobody in."""
    rig = Rig(pattern)
    rig.worker()
    subscribe, *others = rig.link.sent(T.SUBSCRIBE)
    meta = subscribe.subscribe.keySharedMeta
    migrates = pattern == "* s"
    assert meta.keySharedMode == (pb.AUTO_SPLIT if migrates else pb.STICKY)
    assert len(meta.hashRanges) == (0 if migrates else 1)
    assert len(others) == (1 if migrates else 0), "one sentinel beside it"


class Watched(Rig):
    """The owner of a subscription that direct workers share."""

    def __init__(self) -> None:
        super().__init__("* s")
        self.first = self.worker(permits=10)

    def sentinel(self) -> pb.CommandSubscribe:
        """The one that came with the consumer, or for it, since the last look."""
        sent = [command.subscribe for command in self.link.taken(T.SUBSCRIBE)]
        (found,) = (each for each in sent if each.subscription == "s" + SUFFIX)
        return found


def test_an_owner_beside_direct_workers_has_a_sentinel_on_its_connection() -> None:
    """Exclusive, so that others can ask for its place; not durable, so that it holds nothing back; without messages."""
    rig = Watched()
    sentinel = rig.sentinel()
    assert sentinel.topic == TOPIC
    assert (sentinel.subType, sentinel.durable) == (pb.CommandSubscribe.Exclusive, False)
    assert (sentinel.start_message_id.ledgerId, sentinel.start_message_id.entryId) == (LATEST, LATEST)
    assert not sentinel.force_topic_creation
    assert sentinel.consumer_id not in [command.flow.consumer_id for command in rig.link.sent(T.FLOW)]


def test_a_sentinel_leaves_with_the_owner_and_comes_back_with_its_connection() -> None:
    """Where the owner's consumer is, it is, and nowhere else."""
    rig = Watched()
    rig.sentinel()
    before = rig.link
    rig.brokers.new_link()
    before.lose()
    rig.clock.settle()
    again = rig.worker("b", permits=10)
    rig.clock.advance(AGAIN_S)
    sentinel = rig.sentinel()
    again.close()
    assert sentinel.consumer_id in [command.close_consumer.consumer_id for command in rig.link.taken(T.CLOSE_CONSUMER)]
    rig.clock.advance(2 * FOLLOW_S)
    assert rig.link.consumers == {}
    assert rig.link.taken(T.SUBSCRIBE) == []


def test_a_sentinel_whose_place_is_taken_asks_again() -> None:
    """By a former owner, about which the broker finds out meanwhile, or by a client; workers notice nothing of it."""
    rig = Watched()
    sentinel = rig.sentinel()
    rig.link.refusals[T.SUBSCRIBE] = (pb.ConsumerBusy, "Exclusive consumer is already connected")
    rig.link.close_consumer(sentinel.consumer_id)
    rig.clock.advance(3 * AGAIN_S)
    assert len(rig.link.taken(T.SUBSCRIBE)) == 2
    rig.link.refusals.clear()
    rig.clock.advance(4 * AGAIN_S)
    assert rig.sentinel().subscription == "s" + SUFFIX
    assert rig.first.answers() == []


def test_a_sentinel_that_is_refused_for_good_asks_seldom() -> None:
    """It may not consume its subscription; and if it may again, it stands within a minute and is as quick as before."""
    rig = Watched()
    sentinel = rig.sentinel()
    rig.link.refusals[T.SUBSCRIBE] = (pb.AuthorizationError, "not for the gateway")
    rig.link.close_consumer(sentinel.consumer_id)
    rig.clock.advance(10 * AGAIN_S_MAX)
    assert len(rig.link.taken(T.SUBSCRIBE)) < 20
    rig.link.refusals.clear()
    rig.clock.advance(AGAIN_S_MAX)
    sentinel = rig.sentinel()
    rig.link.close_consumer(sentinel.consumer_id)
    rig.clock.advance(AGAIN_S)
    assert rig.sentinel().consumer_id != sentinel.consumer_id


def test_a_sentinels_cursor_follows_what_came() -> None:
    """Else its subscription would show a backlog that grows for as long as the migration lasts."""
    rig = Watched()
    sentinel = rig.sentinel()
    rig.lease()
    rig.link.deliver((0, single("k", b"0")), (1, single("k", b"1")), to=min(rig.link.consumers))
    rig.clock.advance(FOLLOW_S)
    followed = [command.ack for command in rig.link.taken(T.ACK) if command.ack.consumer_id == sentinel.consumer_id]
    assert [(ack.ack_type, ack.message_id[0].entryId) for ack in followed] == [(pb.CommandAck.Cumulative, 1)]
    rig.clock.advance(FOLLOW_S)
    assert rig.link.taken(T.ACK) == []


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


@pytest.mark.parametrize("cause", ["refused before", "answered late", "neither"])
def test_one_that_may_have_been_let_in_beside_a_dead_owner_comes_again(cause: str) -> None:
    """What that one had would come as redeliveries, out of the order of batches; and nothing is fetched before."""
    rig = Rig()
    worker = rig.subscribe(settle=False)
    if cause == "refused before":
        rig.brokers.link.refusals[T.SUBSCRIBE] = (pb.ConsumerAssignError, "Range conflict with consumer")
        rig.clock.settle()
        rig.link.refusals.clear()
        rig.link.log.clear()
        rig.clock.advance(1.1)
    else:
        rig.brokers.link.held.add(T.SUBSCRIBE)
        rig.clock.settle()
        rig.clock.advance(BESIDE_S if cause == "answered late" else BESIDE_S / 2)
        rig.link.held.clear()
        rig.link.answer(T.SUBSCRIBE)
        rig.clock.settle()
    worker.flow(1)
    log = [command.type for command in rig.link.log if command.type in (T.SUBSCRIBE, T.CLOSE_CONSUMER, T.FLOW)]
    once = [T.SUBSCRIBE, T.FLOW]
    assert log == (once if cause == "neither" else [T.SUBSCRIBE, T.CLOSE_CONSUMER, *once])
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
    rig.owned.renew(rig.clock.now() + LEASE_S, rig.clock.now())
    rig.clock.settle()
    assert worker.entries() == [1]
    assert worker.limits[-1] == LEASE_S + SEND_S


def test_a_lease_that_is_renewed_in_time_goes_on_to_its_new_end_and_no_further() -> None:
    """What comes after the former end is delivered, what comes after the new one is not."""
    rig = Rig()
    worker = rig.worker(permits=10)
    rig.lease()
    rig.clock.advance(LEASE_S / 2)
    rig.owned.renew(rig.clock.now() + LEASE_S, rig.clock.now())
    rig.clock.advance(LEASE_S * 0.75)
    rig.link.deliver((0, single("k", b"0")))
    assert worker.entries() == [0]
    rig.clock.advance(LEASE_S / 4)
    rig.link.deliver((1, single("k", b"1")))
    assert worker.entries() == []


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


def lost_with_messages_that_wait(rig: Rig) -> Worker:
    """A worker with one message, and another message that waits for it; the broker closes the gateway's consumer."""
    worker = rig.worker(permits=1)
    rig.lease()
    rig.link.deliver((0, single("k", b"0")), (1, single("k", b"1")))
    assert worker.entries() == [0]
    (consumer_id,) = rig.link.consumers
    rig.link.held.add(T.SUBSCRIBE)
    rig.link.close_consumer(consumer_id)
    rig.clock.advance(BESIDE_S / 2)
    worker.flow(10)
    assert worker.entries() == []
    return worker


def test_nothing_is_delivered_while_its_consumer_is_lost() -> None:
    """Another may be let in meanwhile that no lease keeps away; if none was, all goes on. A lease changes neither."""
    rig = Rig()
    worker = lost_with_messages_that_wait(rig)
    rig.lease()
    assert worker.entries() == []
    rig.link.held.clear()
    rig.link.answer(T.SUBSCRIBE)
    rig.clock.settle()
    assert worker.entries() == [1]


def test_one_that_stands_again_delivers_nothing_without_a_lease() -> None:
    """It is held by then."""
    rig = Rig()
    worker = lost_with_messages_that_wait(rig)
    rig.owned.hold()
    rig.link.held.clear()
    rig.link.answer(T.SUBSCRIBE)
    rig.clock.settle()
    assert worker.entries() == []
    rig.lease()
    assert worker.entries() == [1]


def test_where_another_has_taken_its_place_workers_come_again() -> None:
    """What is here is that one's to deliver: streams', while replicas are configured differently. It waits for them."""
    rig = Rig()
    worker = lost_with_messages_that_wait(rig)
    rig.link.held.clear()
    rig.link.refusals[T.SUBSCRIBE] = (pb.ConsumerAssignError, "Range conflict with consumer")
    rig.link.refuse(T.SUBSCRIBE, *rig.link.refusals[T.SUBSCRIBE])
    assert worker.answers() == [T.CLOSE_CONSUMER]
    assert not rig.owner.owned
    again = rig.subscribe()
    rig.clock.advance(2)
    assert again.answers() == []
    rig.link.refusals.clear()
    rig.clock.advance(1.1)
    assert again.answers() == [T.SUCCESS]


def test_beside_direct_workers_one_that_has_lost_its_consumer_is_over() -> None:
    """The broker has given them what it had; the next begins with what the broker has for it. No lease changes that."""
    rig = Rig("* s")
    worker = rig.worker(permits=1)
    rig.lease()
    rig.link.deliver((0, single("k", b"0")), (1, single("k", b"1")), to=min(rig.link.consumers))
    assert worker.entries() == [0]
    before = rig.link
    rig.brokers.new_link()
    before.lose()
    assert worker.answers() == [T.CLOSE_CONSUMER]
    assert not rig.owner.owned
    again = rig.worker("b", permits=10)
    rig.lease()
    assert again.entries() == []
    rig.link.deliver((0, single("k", b"0")), to=min(rig.link.consumers))
    assert again.entries() == [0]


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


def test_a_hand_over_does_not_wait_for_an_answer_that_is_not_read() -> None:
    """Other subscriptions use up the memory: the broker's answer would come when these go on, and the leader waits."""
    rig = Rig()
    rig.worker(permits=10)
    rig.lease()
    rig.link.held = {T.CLOSE_CONSUMER}
    rig.link.pause_reading(rig)
    rig.owned.hold()
    rig.give_up()
    assert len(rig.link.sent(T.CLOSE_CONSUMER)) == 1
    assert rig.given_up == 1
    rig.link.resume_reading(rig)
    rig.link.answer(T.CLOSE_CONSUMER)
    rig.clock.settle()
    assert rig.given_up == 1, "the answer that comes then is nothing new"


def test_a_worker_that_comes_too_late_is_told_to_try_again() -> None:
    """Also where the subscription is here still: its bundle may be on its way to another replica."""
    rig = Rig()
    rig.worker(permits=1)
    rig.owner.owns = False
    late = rig.subscribe()
    assert late.error()[0] == pb.ServiceNotReady


def test_a_worker_that_comes_too_late_is_led_on() -> None:
    """Where its session can do that, the client hears nothing of it."""
    rig = Rig()
    rig.worker(permits=1)
    rig.owner.owns = False
    late = rig.subscribe(settle=False)
    late.leads_on = True
    rig.clock.settle()
    assert late.led_on
    assert late.commands() == []


@pytest.mark.parametrize("leads_on", [True, False])
def test_a_worker_that_waits_while_its_subscription_moves_away_is_led_on(*, leads_on: bool) -> None:
    """Its SUBSCRIBE is the next owner's to answer; only who cannot be led there is told to try again."""
    rig = Rig()
    waiting = rig.subscribe(settle=False)
    waiting.leads_on = leads_on
    rig.brokers.link.refusals[T.SUBSCRIBE] = (pb.ConsumerAssignError, "Range conflict with consumer")
    rig.clock.settle()
    rig.owned.hold()
    rig.give_up()
    assert rig.given_up == 1
    assert waiting.led_on == leads_on
    assert waiting.forgotten == (not leads_on)
    assert [answer.error.error for answer in waiting.commands()] == ([] if leads_on else [pb.ServiceNotReady])
    assert rig.count == 0


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
