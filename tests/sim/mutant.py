"""What a mutant is: see `mutants`."""

from __future__ import annotations

from typing import NamedTuple


class Mutant(NamedTuple):
    """One fault."""

    name: str
    file: str
    right: str
    wrong: str
    tests: str = ""
    """Tests that catch it, where the simulator may not; empty: the simulator must."""
    simulated: bool = True
    """Whether the simulator of gateways has to do with it."""
    deployed: bool = False
    """Whether the simulator of deployments has."""
