"""What one seed draws: which features and faults its world has at all, and how strong they are ("swarm testing").

A world with every fault at once hides some of them behind others; so each seed leaves most of them out.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from proxy.limits import Limits
from proxy.net.subscription.openings import OpeningLimits
from proxy.net.subscription.settings import SubscriptionSettings
from tests.sim.cluster import Manners
from tests.sim.connection import Weather
from tests.sim.worker import GOOD, Temper

MODES = (
    "draining_hashes",
    "draining_hashes",
    "draining_hashes",
    "last_sent_position",
    "last_sent_position",
    "unordered",
)
SELECTORS = ("consistent_hashing", "consistent_hashing", "auto_split", "sticky")
KINDS = ("single", "single", "keyless", "key_batch", "mixed_batch", "mixed_batch", "opaque_batch", "chunked")
FAULTS = (
    "worker_crash",
    "worker_leave",
    "worker_stop_reading",
    "worker_pause",
    "cut_worker",
    "silence_worker",
    "cut_broker",
    "silence_broker",
    "broker_restart",
    "broker_kill",
    "broker_pause",
    "broker_refuse",
    "unload",
    "gateway_kill",
    "gateway_drain",
    "gateway_pause",
    "operator_drain",
    "operator_pause",
    "operator_evict",
    "operator_policy",
    "seek",
    "long_silence",
)
LATER_FAULTS = {"operator_exclude": 0.2, "workers_leave": 0.25, "unsubscribe": 0.12}
IN_TRANSACTIONS = 0.4
"""Of the worlds that may have them, how many have transactions."""
BESIDE = 0.6
"""Of these, of those where the cursor is moved or messages are given up."""
WHOLE_ONLY = 0.4
"""Of those that forward no acks of single messages, in how many transactions come without such, too."""
PACES = ((0.0, 0.0), (0.0, 0.0), (0.2, 0.003), (0.02, 0.05), (0.002, 0.6))
"""How often the gateway's clock jumps, and how far: over a slice's end, over a retry's, over a lease's."""
UNLOAD_JUMP_S = 0.05
"""A gateway that took longer over a turn cannot know that a topic was unloaded early, and sends again what it lost."""
KILLS = ("gateway_kill", "broker_kill")
ALL_CHANCES = (0.0, 0.0, 0.1, 0.6)
DEAD_LETTER_AFTER = (0, 0, 0, 0, 0, 1, 2, 3)
CHUNKS_BESIDE = 0.3
"""Of the worlds with dead letters or parked keys, how many have chunked messages though they did not draw them, or have
more."""
CHUNKS_APART = (0.0, 0.3, 0.8)
DROP_INCOMPLETE = 0.3
PARK_AFTER = (0, 0, 0, 0, 1, 2, 3)
"""Where there are no dead letters."""
OF_PARKED = ("operator_redrive", "operator_drop", "parking_refuse")
NOT_PARKED = ("unsubscribe",)
PARKED_BACKLOG = 60
"""At most: what is parked and redriven again and again takes its time."""
PARKED_NACKS = 0.05
"""At least so many deliveries are given back where keys are parked for that."""
POISONED_ONE_IN = (3, 10, 30)
"""Of so many messages one is given back by all workers, where that is what dead letters come from."""


@dataclass(frozen=True)
class Swarm:
    """The options of one world."""

    seed: str
    steps: int
    mode: str
    selector: str
    kinds: tuple[str, ...]
    keys: int
    faults: tuple[str, ...]
    fault_weight: float
    brokers: int
    workers_max: int
    backlog: int
    """Entries published before anybody comes."""
    names: int
    tempers: tuple[Temper, ...]
    weather: Weather
    manners: Manners
    settings: SubscriptionSettings
    limits: Limits
    openings: OpeningLimits
    transactions: bool = False
    """Whether workers acknowledge inside transactions."""
    chunks_apart: float = 0.0
    """That other entries come between two pieces of a chunked message."""
    jump_chance: float = 0.0
    """That the gateway's clock moves on by more than nothing from one look at it to the next."""
    jump_s: float = 0.0
    """By how much, on average; 0 where it stands still while the gateway runs."""

    def dice(self, what: str) -> random.Random:
        """The dice of one part of the world: what another part draws changes nothing for it."""
        return random.Random(f"{self.seed}/{what}")  # noqa: S311 - a simulation, no secret


def draw(seed: int | str, steps: int = 100) -> Swarm:
    """The options of a seed."""
    dice = random.Random(f"{seed}/swarm")  # noqa: S311 - as above
    mode, selector = dice.choice(MODES), dice.choice(SELECTORS)
    small = dice.random() < 0.3
    lease_ms = random.Random(f"{seed}/lease").choice((0, 0, 0, 200, 3_000))  # noqa: S311 - as above
    pace = random.Random(f"{seed}/pace").choice(PACES)  # noqa: S311 - as above
    dead_letter_after, poisoned_one_in = _dead_letters(seed) if mode != "unordered" else (0, 0)
    swarm = Swarm(
        seed=str(seed),
        steps=steps,
        mode=mode,
        selector=selector,
        kinds=tuple(dice.sample(KINDS, dice.randint(1, len(KINDS)))) + _chunks(seed, dead_letter_after),
        keys=dice.choice((1, 3, 8, 40)),
        faults=tuple(fault for fault in FAULTS if dice.random() < 0.3) + _later_faults(seed),
        fault_weight=dice.choice((0.5, 2.0, 6.0)),
        brokers=dice.choice((1, 1, 2)),
        workers_max=dice.choice((1, 2, 4, 7)),
        backlog=dice.choice((0, 0, 0, 400)),
        names=dice.choice((2, 10)),
        tempers=tuple(_failing(patient(_temper(dice), lease_ms), poisoned_one_in) for _ in range(3)),
        weather=Weather(
            delay_s=dice.choice((0.0, 0.0005, 0.02)),
            cut_chance=dice.choice((0.0, 0.1, 0.5)),
            high_water_bytes=dice.choice((600, 60_000)),
            low_water_bytes=300,
        ),
        manners=_manners(dice),
        settings=SubscriptionSettings(
            ordering_mode=mode,
            selector="auto_split" if selector == "auto_split" else "consistent_hashing",
            look_ahead_messages_per_worker=dice.choice((2, 20, 2_000)),
            subscription_memory_bytes=60_000 if small else 64 << 20,
            gateway_memory_bytes=60_000 if small else 512 << 20,
            contract_monitor_one_in=1,
            max_unacked_messages_per_worker=dice.choice((0, 10, 50_000)),
            upstream_batch_index_ack=dice.random() < 0.5,
            reconnect_backoff_max_ms=2_000,
            key_shared_unblocking_interval_ms=_interval_ms(seed),
            key_window=random.Random(f"{seed}/window").choice((0, 0, 0, 1, 1, 2, 5)),  # noqa: S311 - as above
            dead_letter_after=dead_letter_after,
            retry_delay_ms=random.Random(f"{seed}/retry").choice((0, 0, 0, 5, 400)),  # noqa: S311 - as above
            ack_lease_ms=0 if mode == "unordered" else lease_ms,
            quarantine_after=random.Random(f"{seed}/quarantine").choice((0, 1, 3)),  # noqa: S311 - as above
            quarantine_ms=5_000,
            key_share_percent=random.Random(f"{seed}/share").choice((0, 0, 0.1, 5, 37)),  # noqa: S311 - as above
        ),
        limits=Limits(unread_high_water_bytes=1 << 20),
        openings=_openings(random.Random(f"{seed}/openings")),  # noqa: S311 - as above
        jump_chance=pace[0],
        jump_s=pace[1],
    )
    if "unload" in swarm.faults:
        swarm = replace(swarm, jump_s=min(swarm.jump_s, UNLOAD_JUMP_S))
    all_chance = random.Random(f"{seed}/all").choice(ALL_CHANCES)  # noqa: S311 - as above
    swarm = replace(swarm, tempers=tuple(replace(temper, all_chance=all_chance) for temper in swarm.tempers))
    return _with_transactions(_with_parking(swarm), random.Random(f"{seed}/transactions"))  # noqa: S311 - as above


def _with_parking(swarm: Swarm) -> Swarm:
    """In some with order and without dead letters; the gateway is killed in most, for the topic is the record."""
    dice = random.Random(f"{swarm.seed}/park")  # noqa: S311 - as above
    park_after = dice.choice(PARK_AFTER)
    if not park_after or swarm.settings.dead_letter_after or swarm.mode == "unordered":
        return swarm
    faults = [fault for fault in swarm.faults if fault not in NOT_PARKED]
    faults += [fault for fault in OF_PARKED if dice.random() < 0.7]
    faults += [kill for kill in KILLS if kill not in faults and dice.random() < 0.5]
    chunks = random.Random(f"{swarm.seed}/chunks")  # noqa: S311 - a simulation, no secret
    kinds = (*swarm.kinds, "chunked") if chunks.random() < CHUNKS_BESIDE else swarm.kinds
    apart = chunks.choice(CHUNKS_APART)
    faults += ["operator_drop_incomplete"] if "chunked" in kinds and chunks.random() < DROP_INCOMPLETE else []
    tempers = tuple(replace(each, nack_chance=max(each.nack_chance, PARKED_NACKS)) for each in swarm.tempers)
    poisoned_one_in = dice.choice((0, *POISONED_ONE_IN))
    tempers = tuple(_failing(temper, poisoned_one_in) for temper in tempers)
    settings = replace(swarm.settings, park_after=park_after)
    backlog = min(swarm.backlog, PARKED_BACKLOG)
    swarm = replace(swarm, faults=tuple(faults), kinds=kinds, backlog=backlog, tempers=tempers, settings=settings)
    return replace(swarm, chunks_apart=apart)


def _with_transactions(swarm: Swarm, dice: random.Random) -> Swarm:
    """In some worlds; they are most at risk where what knows of them is killed."""
    later = random.Random(f"{swarm.seed}/beside")  # noqa: S311 - as above
    beside = "seek" in swarm.faults or swarm.settings.dead_letter_after
    if dice.random() >= IN_TRANSACTIONS or (beside and later.random() >= BESIDE):
        return swarm
    kills = tuple(kill for kill in KILLS if kill not in swarm.faults and dice.random() < 0.5)
    with_indexes = swarm.settings.upstream_batch_index_ack or later.random() >= WHOLE_ONLY
    settings = replace(swarm.settings, upstream_batch_index_ack=with_indexes)
    return replace(swarm, transactions=True, faults=(*swarm.faults, *kills), settings=settings)


def _openings(dice: random.Random) -> OpeningLimits:
    """Mostly so low that what is a trifle elsewhere is opened in the background, in pieces, or in later turns."""
    return OpeningLimits(
        inline_bytes=dice.choice((0, 0, 60, 256 << 10)),
        step_messages=dice.choice((1, 2, 2_048)),
        share_cost=dice.choice((1, 4, 2_048)),
        turn_cost=dice.choice((1, 4, 4_096)),
        at_once=dice.choice((1, 2)),
    )


def _later_faults(seed: int | str) -> tuple[str, ...]:
    """Later faults, drawn apart, so that the other draws of a seed stay what they were."""
    return tuple(fault for fault, share in LATER_FAULTS.items() if random.Random(f"{seed}/{fault}").random() < share)  # noqa: S311 - as above


def _dead_letters(seed: int | str) -> tuple[int, int]:
    """After how many attempts, off in most worlds; and of how many messages one is poisoned."""
    dice = random.Random(f"{seed}/dead")  # noqa: S311 - as above
    attempts = dice.choice(DEAD_LETTER_AFTER)
    return attempts, dice.choice(POISONED_ONE_IN) if attempts else 0


def _chunks(seed: int | str, dead_letter_after: int) -> tuple[str, ...]:
    """More chunked messages where they may be given up: all of their chunks must be."""
    dice = random.Random(f"{seed}/chunks")  # noqa: S311 - as above
    return ("chunked",) if dead_letter_after and dice.random() < CHUNKS_BESIDE else ()


def _interval_ms(seed: int | str) -> int:
    """Off in most worlds."""
    return random.Random(f"{seed}/interval").choice((0, 0, 0, 10, 700))  # noqa: S311 - as above


def _temper(dice: random.Random) -> Temper:
    if dice.random() < 0.3:
        return GOOD

    def some(most: float) -> float:
        return dice.random() * most if dice.random() < 0.4 else 0.0

    return Temper(
        think_s=dice.choice((0.0, 0.005, 0.05, 0.5)),
        queue=dice.choice((1, 2, 7, 50, 1_000)),
        stuck_chance=some(0.05),
        nack_chance=some(0.3),
        twice_chance=some(0.3),
        foreign_chance=some(0.3),
        by_index_chance=some(1.0),
        receipt_chance=some(1.0),
    )


def patient(temper: Temper, lease_ms: int) -> Temper:
    """Where there is a lease, some of what is never acknowledged is not for want of asking."""
    return replace(temper, extends_s=0.7 * lease_ms / 1_000) if lease_ms else temper


def _failing(temper: Temper, poisoned_one_in: int) -> Temper:
    """One that cannot work at some messages; as it was if there are none."""
    return replace(temper, poisoned_one_in=poisoned_one_in) if poisoned_one_in else temper


def _manners(dice: random.Random) -> Manners:
    return Manners(
        refuse_chance=0.1 if dice.random() < 0.2 else 0.0,
        forget_answer_chance=0.02 if dice.random() < 0.2 else 0.0,
        answer_delay_s=dice.choice((0.0, 0.002, 0.05)),
        unacked_max=dice.choice((0, 0, 40)),
    )
