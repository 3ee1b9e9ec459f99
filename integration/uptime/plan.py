"""Which host prefers which endpoint, so that work spreads evenly over the survivors of any failure.

Each endpoint has an order of all hosts. Read the endpoint's number in a mixed base: its remainder by M says who of
the M hosts comes first, the quotient's remainder by M-1 who of the other hosts follows, and so on. Endpoints that lose
the same hosts in the same order so rotate through the survivors. A rotation alone (host e, e+1, e+2, ...) would not
do: all endpoints of a failed host would go to its one successor, which then fails twice as loaded.

Guarantee: where the count of endpoints is a multiple of M(M-1)...(M-k), all survivors of any k failures have equally
much. Otherwise each class of endpoints that lost the same hosts in the same order is uneven by one at most, which
`Plan.promised_spread` adds up.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import perm, prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRIORITY_STEP = 100


@dataclass(frozen=True)
class Plan:
    """Endpoints by number, primaries `primary-1` onwards, and the hosts of the standby cluster."""

    endpoint_count: int
    primary_count: int
    standby_count: int

    @property
    def primaries(self) -> list[str]:
        """In the order in which they fail."""
        return [f"primary-{number}" for number in range(1, self.primary_count + 1)]

    @property
    def standbys(self) -> list[str]:
        """In the order in which they connect."""
        return [f"standby-{number}" for number in range(1, self.standby_count + 1)]

    def first_choice(self, endpoint: int) -> str:
        """Who is to own it while everything is well."""
        return preference(endpoint, self.primaries)[0]

    def priorities(self, endpoint: int) -> Mapping[str, int]:
        """Each host's priority for one endpoint: primaries above zero, the standby cluster below."""
        primaries, standbys = preference(endpoint, self.primaries), preference(endpoint, self.standbys)
        above = {host: PRIORITY_STEP * (len(primaries) - rank) for rank, host in enumerate(primaries)}
        below = {host: -PRIORITY_STEP * (rank + 1) for rank, host in enumerate(standbys)}
        return above | below

    def promised_spread(self, failed_count: int) -> int:
        """How many endpoints the most loaded living primary has more than the least loaded one, at most."""
        rotations = prod(self.primary_count - rank for rank in range(failed_count + 1))
        if self.endpoint_count % rotations == 0:
            return 0
        return sum(perm(failed_count, lost_count) for lost_count in range(failed_count + 1))


def preference(endpoint: int, hosts: Sequence[str]) -> list[str]:
    """Order the hosts for one endpoint, the most preferred first."""
    left = list(hosts)
    order = []
    while left:
        endpoint, place = divmod(endpoint, len(left))
        order.append(left.pop(place))
    return order
