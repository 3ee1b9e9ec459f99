"""The dispatcher against the reference in `model`, step by step, in every mode and with every selector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from proxy.core.dispatcher import OrderingMode
from proxy.core.errors import ConsumerAssignError
from proxy.core.selectors.auto_split import AutoSplit
from proxy.core.selectors.consistent_hashing import ConsistentHashing
from proxy.core.selectors.sticky_ranges import StickyRanges
from proxy.core.worker import Worker
from tests.core.model import Client, World
from tests.lives import lives

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.core.selectors.base import Selector

SLOTS = (1, 9_000, 20_000, 33_000, 45_000, 65_000)
STICKY = ((0, 10_000), (10_001, 30_000), (30_001, 40_000), (40_001, 65_535))
FIRST_POSITION = 1 << 40
WORKERS_MAX = 5
INTERVALS_S = (0.0, 0.0, 2.5, 12.0)
"""Unblocking intervals; a step takes a second."""

SELECTORS: dict[str, Callable[[], Selector[Worker]]] = {
    "consistent hashing": lambda: ConsistentHashing[Worker](3),
    "auto-split": AutoSplit[Worker],
    "sticky": StickyRanges[Worker],
}

slots = st.sampled_from(SLOTS)
some = st.integers(0, 1 << 16)
"""A number that picks one of however many there are."""
has_clients = precondition(lambda self: self.world.clients)


class Subscription(RuleBasedStateMachine):
    """Workers and a broker do what they may, in any order."""

    @initialize(
        mode=st.sampled_from(OrderingMode),
        selector=st.sampled_from(sorted(SELECTORS)),
        permits=st.integers(0, 20),
        interval_s=st.sampled_from(INTERVALS_S),
    )
    def begin(self, mode: OrderingMode, selector: str, permits: int, interval_s: float) -> None:
        """A subscription with one worker."""
        self.world = World(SELECTORS[selector](), mode, interval_s)
        self.world.flow(self.world.join(Worker("a", sticky_ranges=STICKY[:2])), permits)

    def pick(self, number: int) -> Client:
        """One of the clients."""
        return self.world.clients[number % len(self.world.clients)]

    def key(self, client: Client, number: int) -> int:
        """What the client has, mostly; what it had, else; or what another had."""
        keys = [*list(client.held) * 3, *client.seen, *(key for other in self.world.clients for key in other.seen)]
        return keys[number % len(keys)] if keys else number

    # ---- the topic --------------------------------------------------------------------------------------------

    @rule(slot=slots, count=st.sampled_from([1, 1, 1, 2, 5]))
    def an_entry_of_one_key_arrives(self, slot: int, count: int) -> None:
        """A message, or a batch."""
        self.world.arrive([slot] * count)

    @rule(members=st.lists(slots, min_size=2, max_size=6))
    def a_mixed_batch_arrives(self, members: list[int]) -> None:
        """Messages of several keys."""
        self.world.arrive(members)

    @rule(members=st.lists(st.one_of(st.none(), slots), min_size=2, max_size=6).filter(any))
    def a_batch_acknowledged_in_part_arrives(self, members: list[int | None]) -> None:
        """An earlier life acknowledged some of its messages."""
        self.world.arrive(members)

    @rule(slot=slots, count=st.integers(1, 4), partly=st.booleans())
    def an_opaque_batch_arrives(self, slot: int, count: int, *, partly: bool) -> None:
        """Encrypted: nobody knows what is in it."""
        self.world.arrive([None, *[slot] * count] if partly else [slot] * count, opaque=True)

    @rule(count=st.integers(1, 6))
    def the_broker_confirms_acks(self, count: int) -> None:
        """The oldest first."""
        self.world.confirm(count)

    @rule(seen=st.integers(0, 3), forgotten=st.sampled_from([0, 0, 2]))
    def the_upstream_consumer_is_lost_and_comes_back(self, seen: int, forgotten: int) -> None:
        """The broker sends everything again that it has no ack of."""
        self.world.reconnect(seen=seen, forgotten=forgotten)

    @rule(number=some)
    def an_operator_skips_messages(self, number: int) -> None:
        """The mark-delete position moves ahead of the acks, now and then."""
        arrived = self.world.next_position - FIRST_POSITION
        if arrived and number % 3 == 0:
            self.world.mark_delete(FIRST_POSITION + number % arrived)

    # ---- workers ----------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.world.clients) < WORKERS_MAX)
    @rule(
        name=st.sampled_from("abc"),
        ranges=st.sets(st.sampled_from(STICKY), min_size=1, max_size=3),
        max_unacked=st.sampled_from([0, 0, 0, 1, 4]),
        permits=st.sampled_from([0, 3, 20]),
    )
    def a_worker_joins(self, name: str, ranges: set[tuple[int, int]], max_unacked: int, permits: int) -> None:
        """Perhaps one of the same name as another, perhaps refused."""
        try:
            client = self.world.join(Worker(name, sticky_ranges=sorted(ranges), max_unacked=max_unacked))
            self.world.flow(client, permits)
        except ConsumerAssignError:
            assert isinstance(self.world.dispatcher.selector, StickyRanges)

    @has_clients
    @rule(who=some)
    def a_worker_leaves(self, who: int) -> None:
        """Or crashes: it is the same."""
        self.world.leave(self.pick(who))

    @has_clients
    @rule(who=some, permits=st.sampled_from([1, 2, 5, 20, 50]))
    def a_worker_grants_permits(self, who: int, permits: int) -> None:
        """FLOW."""
        self.world.flow(self.pick(who), permits)

    @has_clients
    @rule(who=some, what=some)
    def a_worker_acknowledges(self, who: int, what: int) -> None:
        """ACK, also twice, late, or for what another has."""
        client = self.pick(who)
        self.world.ack(client, self.key(client, what))

    @has_clients
    @rule(who=some, what=some, bits=st.integers(1, 63))
    def a_worker_acknowledges_some_messages(self, who: int, what: int, bits: int) -> None:
        """ACK with an ack_set."""
        client = self.pick(who)
        self.world.ack(client, self.key(client, what), bits)

    @has_clients
    @rule(who=some, what=st.lists(some, min_size=1, max_size=3))
    def a_worker_wants_some_again(self, who: int, what: list[int]) -> None:
        """REDELIVER with ids."""
        client = self.pick(who)
        self.world.nack(client, [self.key(client, number) for number in what])

    @has_clients
    @rule(who=some)
    def a_worker_wants_all_again(self, who: int) -> None:
        """REDELIVER without ids."""
        self.world.nack(self.pick(who), None)

    @has_clients
    @rule(who=some, writable=st.sampled_from([True, True, False]))
    def a_socket_fills_or_empties(self, who: int, *, writable: bool) -> None:
        """Backpressure."""
        self.world.dispatcher.set_writable(self.pick(who).worker, writable, self.world.now)

    @has_clients
    @rule(who=some, drained=st.sampled_from([True, False, False]))
    def an_operator_drains_a_worker_or_lets_it(self, who: int, *, drained: bool) -> None:
        """From the admin API."""
        self.world.dispatcher.set_drained(self.pick(who).worker, drained, self.world.now)

    @rule(paused=st.sampled_from([True, False, False, False]))
    def an_operator_pauses_or_resumes(self, *, paused: bool) -> None:
        """From the admin API."""
        if paused:
            self.world.dispatcher.pause()
        else:
            self.world.dispatcher.resume(self.world.now)

    @rule(still_open=st.sampled_from([True, False, False]))
    def a_turn_of_the_loop_goes_on_or_ends(self, *, still_open: bool) -> None:
        """While it goes on, nothing leaves the outboxes."""
        self.world.turn_open = still_open

    # ---- always -----------------------------------------------------------------------------------------------

    @invariant()
    def the_guarantees_hold(self) -> None:
        """See `World.check`."""
        if hasattr(self, "world"):
            self.world.now += 1.0
            self.world.check()

    def teardown(self) -> None:
        """Whatever happened, everything is delivered and acknowledged in the end, and nothing stays behind."""
        if hasattr(self, "world"):
            world = self.world
            world.turn_open = False
            world.check()
            fresh = [] if world.clients else [Worker("z", sticky_ranges=[(0, 65_535)])]
            if isinstance(world.dispatcher.selector, StickyRanges):
                for client in list(world.clients):
                    world.leave(client)
                fresh = [Worker("z", sticky_ranges=[(0, 65_535)])]
            world.drain(fresh)


TestModel = Subscription.TestCase
"""After every step the guarantees hold and the tables are right; in the end nothing is left."""

TestModel.settings = lives(300, 50)
