"""What one seed draws for a whole deployment: see `tests.sim.swarm`."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from proxy.limits import Limits
from proxy.net.group.settings import STREAMS as ALL_STREAMS
from proxy.net.group.settings import GroupSettings
from proxy.net.subscription.openings import OpeningLimits
from proxy.net.subscription.settings import SubscriptionSettings
from tests.sim.connection import Weather
from tests.sim.slots import STREAMS
from tests.sim.swarm import patient
from tests.sim.worker import GOOD, SUBSCRIPTION, Temper

if TYPE_CHECKING:
    from collections.abc import Sequence

PLANNED = ("replica_stop", "replica_add", "replica_drain", "worker_leave", "worker_crash")
"""What may happen without anything coming twice but what a worker that crashed had."""
FAULTS = (
    "replica_kill",
    "replica_pause",
    "broker_cut",
    "replicas_parted",
    "replica_alone",
    "connection_cut",
    "worker_pause",
    "worker_stop_reading",
    "broker_pause",
    "broker_restart",
    "unload",
)
TAKE_OUT = ("operator_redrive", "operator_redrive", "operator_drop")
"""What operators order where keys are parked."""
ORDERS = ("operator_pause", "operator_drain", "operator_exclude", "operator_window", "operator_move")
ONE_AT_A_TIME = ("replica_kill", "replica_pause", "broker_cut", "replicas_parted", "replica_alone")
BETWEEN = ("replicas_parted", "leg_forgotten")
"""Of the network between replicas: what needs workers at no particular one to be survived."""
FULL_SHARE = 0.4
"""Of the seeds in which more than what is planned happens."""
UNHEARD_SHARE = 0.3
"""Likewise."""
ORDERLY_SHARE = 0.3
NO_ORDERS_SHARE = 0.5
ANYWHERE_SHARE = 0.5
DELETES_SHARE = 0.35
MIGRATING = f"public/default/orders-* {SUBSCRIPTION}"
ORDER_SHARE = 0.5
"""Of the kinds of orders, where there are any."""
CALM_SHARE = 0.2
SLOW = Temper(think_s=0.4)
"""A worker that has messages when its owner gives them away, and is done with them long before that must be over."""
SLOW_SHARE = 0.7
NACK_CHANCE = 0.05
RARE = 0.2
TRANSACTIONS_SHARE = 0.5
"""Of the seeds in which more than what is planned happens, and nothing that they are not simulated beside."""
PARKED_TRANSACTIONS_SHARE = 0.5
"""Of those of them in which keys are parked."""
STREAMED_SHARE, STREAMED_ORDERLY_SHARE = 0.35, 0.2
"""Of the seeds without parked keys, direct workers and a bound on waiting; the second where all goes as planned."""
STREAMED_TOPICS = 2
"""At least, where one of them is cut into streams."""
ALONE_SHARE = 0.35
"""Of the seeds with streams, in how many there are no owners at all."""
OF_OWNERS = ("replica_drain", "leg_forgotten")
"""Faults that need some."""
LOST_OWNER = ("replica_kill", "replica_pause")
"""What transactions are most at risk from."""
KINDS = ("single", "keyless", "key_batch", "mixed_batch", "mixed_batch")


@dataclass(frozen=True)
class DeploymentSwarm:
    """The options of one deployment."""

    seed: str
    steps: int
    replicas: int
    """At the beginning."""
    replicas_max: int
    topics: int
    keys: int
    kinds: tuple[str, ...]
    orderly: bool
    """Nothing but what is planned happens: then nothing may come twice."""
    calm: bool
    """One replica has one fault at a time, and all workers are well: then no message waits for long."""
    faults: tuple[str, ...]
    fault_weight: float
    workers_max: int
    """At each topic."""
    migrating: bool
    """Every second worker is at the broker itself."""
    deletes: bool
    """Workers delete subscriptions."""
    anywhere: bool
    """Operators give their orders to any replica."""
    transactions: bool
    """Workers acknowledge inside transactions, but for those of streams."""
    streamed: bool
    """The last topic's subscription is cut into streams; the others have owners."""
    alone: bool
    """All are, and there are no owners: `groups_mode=streams`."""
    sticky: bool
    """Workers name the ranges of hashes that they want."""
    tempers: tuple[Temper, ...]
    weather: Weather
    answer_delay_s: float
    mail_loss: float
    settings: SubscriptionSettings
    groups: GroupSettings
    limits: Limits
    openings: OpeningLimits

    def dice(self, what: str) -> random.Random:
        """The dice of one part: what another part draws changes nothing for it."""
        return random.Random(f"deployment/{self.seed}/{what}")  # noqa: S311 - a simulation, no secret


def draw(seed: int | str, steps: int = 60) -> DeploymentSwarm:
    """The options of a seed."""
    dice = random.Random(f"deployment/{seed}/swarm")  # noqa: S311 - as above
    how = dice.random()
    orderly, calm = how < ORDERLY_SHARE, how > 1 - CALM_SHARE
    replicas = _apart(seed, "pair").choice((2, 3, 3)) if calm else dice.choice((2, 3, 3))
    among: tuple[str, ...] = PLANNED if orderly else ONE_AT_A_TIME if calm else PLANNED + FAULTS
    lease_ms = 0 if orderly or calm else _apart(seed, "lease").choice((0, 0, 0, 200, 3_000))
    park_after = 0 if orderly or calm else _apart(seed, "park").choice((0, 0, 1, 2, 3))
    seeks = not (orderly or calm or park_after) and _apart(seed, "seek").random() < RARE
    deletes = not (orderly or calm or park_after) and _apart(seed, "deletes").random() < DELETES_SHARE
    sticky = not (orderly or calm) and _apart(seed, "sticky").random() < RARE
    migrating = not (park_after or seeks or deletes or sticky) and _apart(seed, "beside").random() < RARE
    streamed_share = STREAMED_ORDERLY_SHARE if orderly else STREAMED_SHARE
    streamed = not (calm or park_after or migrating) and _apart(seed, "streamed").random() < streamed_share
    share = PARKED_TRANSACTIONS_SHARE if park_after else TRANSACTIONS_SHARE
    alone = streamed and _apart(seed, "alone").random() < ALONE_SHARE
    transactions = not (orderly or calm or migrating or alone) and _apart(seed, "transactions").random() < share
    orders = () if alone else _orders(seed, orderly=orderly, calm=calm)
    replicas_max = replicas + dice.choice((0, 1, 2))
    topics = max(dice.choice((1, 2, 3)), STREAMED_TOPICS * streamed)
    keys = dice.choice((1, 3, 8, 40))
    kinds = dice.sample(KINDS, dice.randint(1, len(KINDS)))
    groups = GroupSettings(groups_enabled=True, group_bundles=8, group_streams=STREAMS)
    if alone:
        among = tuple(fault for fault in among if fault not in OF_OWNERS)
        groups = replace(groups, groups_mode=ALL_STREAMS)
    elif streamed:
        groups = replace(groups, streamed_subscriptions=(f"public/default/orders-{topics - 1} {SUBSCRIPTION}",))
    return DeploymentSwarm(
        seed=str(seed),
        steps=steps,
        replicas=replicas,
        replicas_max=replicas_max,
        topics=topics,
        keys=keys,
        kinds=divisible(kinds) if migrating else tuple(kinds),
        orderly=orderly,
        calm=calm,
        faults=tuple(fault for fault in among if calm or dice.random() < (0.6 if orderly else 0.3))
        + (("leg_forgotten",) if calm or (not (orderly or alone) and _apart(seed, "forgotten").random() < 0.3) else ())
        + (("broker_unheard",) if not (orderly or calm) and _apart(seed, "unheard").random() < UNHEARD_SHARE else ())
        + (("memory_full", "memory_full") if not orderly and _apart(seed, "full").random() < FULL_SHARE else ())
        + orders
        + (TAKE_OUT if park_after else ())
        + (("seek",) if seeks else ())
        + (("unsubscribe",) if deletes else ())
        + (LOST_OWNER if transactions else ()),
        fault_weight=dice.choice((0.5, 1.0, 3.0)),
        migrating=migrating,
        deletes=deletes,
        transactions=transactions,
        streamed=streamed,
        alone=alone,
        anywhere=bool(orders) and _apart(seed, "anywhere").random() < ANYWHERE_SHARE,
        sticky=sticky,
        workers_max=_apart(seed, "few").choice((1, 2, 5)) if calm else dice.choice((2, 3, 5)),
        tempers=_well(seed, orderly=orderly)
        if orderly or calm
        else tuple(_of_kind(_temper(dice), lease_ms, park_after) for _ in range(3)),
        weather=Weather(
            delay_s=dice.choice((0.0, 0.0005, 0.005)),
            cut_chance=dice.choice((0.0, 0.1, 0.5)),
            high_water_bytes=dice.choice((600, 60_000)),
            low_water_bytes=300,
        ),
        answer_delay_s=dice.choice((0.0, 0.002, 0.02)),
        mail_loss=0.0 if orderly or calm else dice.choice((0.0, 0.0, 0.05)),
        settings=SubscriptionSettings(
            ordering_mode=dice.choice(("draining_hashes", "draining_hashes", "last_sent_position")),
            selector=dice.choice(("consistent_hashing", "auto_split")),
            look_ahead_messages_per_worker=dice.choice((2, 20, 2_000)),
            contract_monitor_one_in=1,
            # Without it what comes again of a batch is all of it, also where only what is planned happens.
            upstream_batch_index_ack=dice.random() < 0.5 or orderly,
            reconnect_backoff_max_ms=2_000,
            key_window=_apart(seed, "window").choice((0, 0, 0, 1, 1, 2, 5)),
            retry_delay_ms=_apart(seed, "retry").choice((0, 0, 5, 400)),
            ack_lease_ms=lease_ms,
            park_after=park_after,
            quarantine_after=_apart(seed, "quarantine").choice((0, 1, 3)),
            quarantine_ms=5_000,
            migrating_subscriptions=(MIGRATING,) if migrating else (),
            key_share_percent=_apart(seed, "share").choice((0, 0, 0.1, 5, 37)),
        ),
        groups=groups,
        limits=Limits(unread_high_water_bytes=1 << 20),
        openings=OpeningLimits(inline_bytes=dice.choice((0, 60, 256 << 10))),
    )


def _apart(seed: int | str, what: str) -> random.Random:
    """Dice for what came later, so that the other draws of a seed stay what they were."""
    return random.Random(f"deployment/{seed}/{what}")  # noqa: S311 - as above


def _orders(seed: int | str, *, orderly: bool, calm: bool) -> tuple[str, ...]:
    """What operators order; one that closes consumers which have messages is not according to plan."""
    dice = _apart(seed, "order")
    if calm or dice.random() < NO_ORDERS_SHARE:
        return ()
    among = [order for order in ORDERS if not (orderly and order == "operator_exclude")]
    return tuple(order for order in among if dice.random() < ORDER_SHARE)


def divisible(kinds: Sequence[str]) -> tuple[str, ...]:
    """Without what a broker cannot divide among its consumers."""
    return tuple(kind for kind in kinds if kind != "mixed_batch") or ("single",)


def _well(seed: int | str, *, orderly: bool) -> tuple[Temper, ...]:
    """Workers that acknowledge everything; where only what is planned happens, some take their time over it."""
    dice = random.Random(f"deployment/{seed}/well")  # noqa: S311 - as above
    return (GOOD, SLOW, SLOW) if orderly and dice.random() < SLOW_SHARE else (GOOD,)


def _of_kind(temper: Temper, lease_ms: int, park_after: int) -> Temper:
    """One that fits the policies: it asks for more time, and gives messages back where keys are parked for that."""
    nack_chance = temper.nack_chance or (NACK_CHANCE if park_after else 0.0)
    return replace(patient(temper, lease_ms), nack_chance=nack_chance)


def _temper(dice: random.Random) -> Temper:
    if dice.random() < 0.5:
        return GOOD
    return Temper(
        think_s=dice.choice((0.0, 0.005, 0.5)),
        queue=dice.choice((1, 7, 50, 1_000)),
        stuck_chance=dice.choice((0.0, 0.0, 0.02)),
        nack_chance=dice.choice((0.0, 0.0, 0.2)),
        by_index_chance=dice.choice((0.0, 0.5)),
        receipt_chance=dice.choice((0.0, 0.5)),
    )
