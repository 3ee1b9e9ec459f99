"""The list of faults that are put into the gateway by hand; `make mutants` tries each of them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.sim.mutant import Mutant
from tests.sim.mutants import MUTANTS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_source_of_a_mutant_stands_once(mutant: Mutant) -> None:
    """Code that moves takes its mutants along; otherwise hours of `make mutants` would end at the first of them."""
    source = (ROOT / mutant.file).read_text()
    assert source.count(mutant.right) == 1, f"mend the list: {mutant.right!r} in {mutant.file}"
    compile(source.replace(mutant.right, mutant.wrong), mutant.file, "exec")


def test_each_mutant_has_a_name() -> None:
    """`--only` chooses by it."""
    assert [name for name, count in Counter(mutant.name for mutant in MUTANTS).items() if count > 1] == []
