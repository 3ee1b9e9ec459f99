"""The list of faults that are put into the gateway by hand; `make mutants` tries each of them."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from tests.groups.mutants import MUTANTS as OF_GROUPS
from tests.sim.deployment.mutants import MUTANTS as OF_OWNERS
from tests.sim.monitor_mutants import MUTANTS as OF_MONITOR
from tests.sim.mutant import Mutant
from tests.sim.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_the_source_of_a_mutant_stands_once(mutant: Mutant) -> None:
    """Code that moves takes its mutants along; otherwise hours of `make mutants` would end at the first of them."""
    source = (ROOT / mutant.file).read_text()
    assert source.count(mutant.right) == 1, f"mend the list: {mutant.right!r} in {mutant.file}"
    compile(source.replace(mutant.right, mutant.wrong), mutant.file, "exec")


def test_each_mutant_has_a_name() -> None:
    """`--only` chooses by it."""
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []


def test_the_documentation_counts_the_mutants() -> None:
    """How many there are, and how many of owner mode the simulator must detect without any test's help."""
    text = " ".join((ROOT / "docs/reliability.md").read_text().split())
    told = re.search(
        r"(\d+) into what one gateway needs, (\d+) of them into its \[monitor\]\(#the-monitor\), "
        r"(\d+) into groups of replicas and elections, (\d+) into owner mode.* the simulator alone must detect (\d+)\.",
        text,
    )
    assert told is not None
    of_one = len(MUTANTS) - len(OF_GROUPS) - len(OF_OWNERS)
    alone = sum(mutant.deployed and not mutant.tests for mutant in OF_OWNERS)
    assert [int(number) for number in told.groups()] == [of_one, len(OF_MONITOR), len(OF_GROUPS), len(OF_OWNERS), alone]
