"""What instructions are counted of: kinds of messages, and policies that act on them or are only set.

A case under a policy stands beside one that has all of it but the policy, so that what the policy adds can be told.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from integration.bench import frames_made
from integration.bench.path import GatewayPath
from integration.bench.policy_path import PolicyPath
from integration.bench.relay_path import RelayPath
from integration.bench.socket_path import SocketPath
from proxy.net.subscription.settings import SubscriptionSettings

if TYPE_CHECKING:
    from integration.bench.stepped_clock import SteppedClock

MESSAGES: Final = 1_000
AT_A_TIME: Final = 100
NACKED_EVERY: Final = 20
RELAYED_AT_A_TIME: Final = 8
NEUTRAL: Final = SubscriptionSettings()
"""No policy, and the contract's monitor as it is by default."""


class Pumped(Protocol):
    """Something that messages pass."""

    def pump(self, tails: list[bytes], entries_at_a_time: int, /) -> int:
        """Feed entries with these tails; the messages that are done."""


class MakePath(Protocol):
    """Builds it."""

    def __call__(self, *, clock: SteppedClock, subscriptions: SubscriptionSettings) -> Pumped:
        """With these settings of each subscription."""


@dataclass(frozen=True, slots=True)
class Case:
    """Messages, and what they pass."""

    tails: list[bytes]
    at_a_time: int = AT_A_TIME
    settings: SubscriptionSettings = NEUTRAL
    path: MakePath = GatewayPath
    beside: str = ""
    """The case without what this one is about."""


SINGLE: Final = frames_made.single_tails(MESSAGES)
HOT: Final = frames_made.hot_tails(MESSAGES)
"""Every second message has the same key."""
KINDS: Final = {
    "unbatched": Case(SINGLE),
    "50 of a key to a batch": Case(frames_made.batch_tails(MESSAGES // 50, 50), 5),
    "100 mixed keys to a batch": Case(frames_made.mixed_tails(MESSAGES // 100, 100), 5),
}
WINDOWED: Final = "unbatched, key_window 1"
NACKED: Final = "unbatched, 5 % negatively acknowledged"
NACKED_WINDOWED: Final = f"{NACKED}, key_window 1"
HOT_KEY: Final = "unbatched, half of one key, key_window 1"
SMALL_LOOK_AHEAD: Final = 100
"""Messages for each worker, so that the hot key's fill it."""


def _of_each_kind(what: str, settings: SubscriptionSettings) -> dict[str, Case]:
    return {f"{name}, {what}": Case(kind.tails, kind.at_a_time, settings, beside=name) for name, kind in KINDS.items()}


def _set(beside: str, settings: SubscriptionSettings, path: MakePath = GatewayPath) -> Case:
    """A policy that has nothing to do."""
    return Case(SINGLE, settings=settings, path=path, beside=beside)


def _nacked(beside: str, settings: SubscriptionSettings) -> Case:
    """One that has: some messages come back once."""
    return Case(SINGLE, settings=settings, path=partial(PolicyPath, nacked_every=NACKED_EVERY), beside=beside)


def _hot(share_percent: float, beside: str) -> Case:
    settings = SubscriptionSettings(
        key_window=1, look_ahead_messages_per_worker=SMALL_LOOK_AHEAD, key_share_percent=share_percent
    )
    return Case(HOT, settings=settings, path=PolicyPath, beside=beside)


CASES: Final = {
    **KINDS,
    **_of_each_kind("key_window 1", SubscriptionSettings(key_window=1)),
    **_of_each_kind("no key watched", SubscriptionSettings(contract_monitor_one_in=0)),
    **_of_each_kind("each key watched", SubscriptionSettings(contract_monitor_one_in=1)),
    f"{WINDOWED}, retry_delay_ms": _set(WINDOWED, SubscriptionSettings(key_window=1, retry_delay_ms=100)),
    f"{WINDOWED}, key_share_percent": _set(WINDOWED, SubscriptionSettings(key_window=1, key_share_percent=1)),
    "unbatched, ack_lease_ms": _set("unbatched", SubscriptionSettings(ack_lease_ms=60_000)),
    "unbatched, dead_letter_after": _set("unbatched", SubscriptionSettings(dead_letter_after=5)),
    "unbatched, park_after": _set("unbatched", SubscriptionSettings(park_after=5), PolicyPath),
    NACKED: _nacked("unbatched", NEUTRAL),
    NACKED_WINDOWED: _nacked(NACKED, SubscriptionSettings(key_window=1)),
    f"{NACKED_WINDOWED}, retry_delay_ms": _nacked(
        NACKED_WINDOWED, SubscriptionSettings(key_window=1, retry_delay_ms=100)
    ),
    f"{NACKED}, to the dead letter topic": _nacked(NACKED, SubscriptionSettings(dead_letter_after=1)),
    "unbatched, 5 % of keys parked": _nacked("unbatched", SubscriptionSettings(park_after=1)),
    HOT_KEY: _hot(0, WINDOWED),
    f"{HOT_KEY}, key_share_percent": _hot(1, HOT_KEY),
    "unbatched, acknowledged inside transactions": Case(
        SINGLE, path=partial(PolicyPath, in_transactions=True), beside="unbatched"
    ),
    "unbatched, to a WebSocket": Case(SINGLE, path=SocketPath),
    "unbatched, produced, with receipt": Case(SINGLE, RELAYED_AT_A_TIME, path=RelayPath),
}
