"""The brokers of the cluster, according to the cluster itself: the addresses that a client may name.

Problem: a client names its broker in CONNECT. The gateway connects to that address from inside the network, sends it
the client's credentials, and trusts its answers: whether a client may consume, whether a producer owns its topic.

Rule: an address is known if it is configured, or if a known broker returned it in a lookup during the last minutes.
Clients add none. An unknown address causes a lookup (`relay.route`), so forgetting one is cheap: names expire when they
have not been confirmed for a while, because addresses are reassigned, and at the limit the oldest one is removed.
Clients determine only which topics are looked up; every name is a broker's answer, so clients cannot add other hosts.

Why not the list of active brokers at the admin API: it needs a superuser, it has the ports of HTTP, and it does not
contain advertised listeners. A lookup asks the client's own question, with the client's own permissions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import structlog

from proxy.service_url import parse_service_url

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.net.ports import Clock
    from proxy.service_url import ServiceUrl

NAMED_FOR_S: Final = 300.0
"""How long a name lasts without another answer that has it."""
NAMES_MAX: Final = 4096
"""Several times the brokers of the largest clusters."""
LOG_EVERY_S: Final = 10.0
"""At most one line about refused places in this time."""
SHOWN_CHARACTERS_MAX: Final = 200

log = structlog.get_logger("keyline.session")


class BrokerNames:
    """All places of one gateway's brokers, shared by its sessions and its own lookups."""

    def __init__(self, configured: Iterable[ServiceUrl], clock: Clock, names_max: int = NAMES_MAX) -> None:
        """`configured` are always known."""
        self._configured = frozenset(url.authority for url in configured)
        self._clock = clock
        self._names_max = names_max
        self._named_at: dict[str, float] = {}
        """By when it was last confirmed, the oldest first."""
        self._refused = 0
        self._logged_at: float | None = None

    def add(self, url: str) -> None:
        """Record an address in the answer of a known broker; an invalid one is ignored."""
        try:
            authority = parse_service_url(url).authority
        except ValueError:
            return
        self._named_at.pop(authority, None)
        self._named_at[authority] = self._clock.now()
        if len(self._named_at) > self._names_max:
            del self._named_at[next(iter(self._named_at))]

    def knows(self, broker: ServiceUrl) -> bool:
        """Whether the cluster has named it, of late or in the configuration."""
        authority = broker.authority
        if authority in self._configured:
            return True
        named_at = self._named_at.get(authority)
        return named_at is not None and self._clock.now() - named_at < NAMED_FOR_S

    def lapse_at(self) -> float:
        """When a name that is confirmed now is forgotten."""
        return self._clock.now() + NAMED_FOR_S

    def lapsed(self, lapse_at: float) -> bool:
        """Whether that moment has come."""
        return self._clock.now() >= lapse_at

    def refused(self, asked_for: str, peer: str, reason: str) -> None:
        """Log that a client asked for a place that it may not have; a client that goes on asking fills no log."""
        self._refused += 1
        now = self._clock.now()
        if self._logged_at is not None and now - self._logged_at < LOG_EVERY_S:
            return
        self._logged_at = now
        log.warning(
            "unknown broker refused",
            peer=peer,
            asked_for=asked_for[:SHOWN_CHARACTERS_MAX],
            reason=reason,
            refused_since_last_line=self._refused,
        )
        self._refused = 0
