"""The order of waiting producers over all replicas.

The order is that of `waiting`: returning owners, then by priority, then by waiting time; finally by the replica's name,
so that it is total. Clocks of machines are not compared: a replica announces how long its best producer has waited, and
the receiver counts back from the arrival. So a remote producer seems younger by the message's delay, and never older:
of two equal ones each replica may consider its own the first, but never a wrong remote one.

Source: PIP-440, "Spec".
"""

from __future__ import annotations

from typing import NamedTuple


class Standing(NamedTuple):
    """Compares as a tuple: smaller is earlier."""

    newcomer: bool
    """False for the topic's last owner."""
    negated_priority: int
    since: float
    """When it came, on the clock of who compares."""
    replica: str

    @property
    def priority(self) -> int:
        """The highest is first."""
        return -self.negated_priority

    @property
    def returning(self) -> bool:
        """Whether it is the topic's last owner at its replica."""
        return not self.newcomer


class Place(NamedTuple):
    """What a replica has to say of one topic."""

    best: Standing | None
    """The best waiting producer there; None if its queue is empty."""
    owned: bool
    """Whether a producer connected there owns the topic."""
    epoch: int | None = None
    """With which that one owns it, if that is known."""
