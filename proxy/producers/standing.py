"""Where somebody that waits stands among those of all replicas.

The order is the one of `waiting`: who returns, then by priority, then by how long it has waited; in the end by the
replica's name, so that no two stand in one place. No clocks of machines are compared: a replica says for how long its
best has waited, and whoever hears it counts back from its arrival. So what is heard seems younger than it is, by the
way of the message, and never older: of two that are equal each may believe itself the first, and neither believes the
other to be it that is not.

Source: PIP-440, "Spec".
"""

from __future__ import annotations

from typing import NamedTuple


class Standing(NamedTuple):
    """Compares as a tuple: smaller is earlier."""

    newcomer: bool
    """False for one that owned the topic before, while nobody has since."""
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
        """Whether it owned the topic before, and nobody of its replica has since."""
        return not self.newcomer


class Place(NamedTuple):
    """What a replica has to say of one topic."""

    best: Standing | None
    """Of those that wait there; None if nobody does."""
    owned: bool
    """Whether somebody connected there owns the topic."""
    epoch: int | None = None
    """With which that one owns it, if that is known."""
