"""What join gates cost: an entry that is done concerns one of them, however many workers have joined."""

from __future__ import annotations

import pytest

from proxy.core import join_gates
from proxy.core.dispatcher import OrderingMode
from proxy.core.positions import pack
from tests.core.test_dispatcher_rig import LEDGER, A, B, Rig

MANY = 64


class CountedPosition(int):
    """A position that counts how often it is compared with others."""

    compared = 0

    def __lt__(self, other: int) -> bool:
        """One comparison."""
        CountedPosition.compared += 1
        return int.__lt__(self, other)

    def __le__(self, other: int) -> bool:
        """One comparison."""
        CountedPosition.compared += 1
        return int.__le__(self, other)

    def __gt__(self, other: int) -> bool:
        """One comparison."""
        CountedPosition.compared += 1
        return int.__gt__(self, other)

    def __ge__(self, other: int) -> bool:
        """One comparison."""
        CountedPosition.compared += 1
        return int.__ge__(self, other)


def gated(workers: int) -> Rig:
    """So many workers, each of which joined behind one more entry."""
    names = [f"w{number}" for number in range(workers)]
    claims = {name: [1_000 + number] for number, name in enumerate(names)}
    rig = Rig(OrderingMode.LAST_SENT_POSITION, c1=[A, B], **claims)
    rig.join("c1", workers + 10)
    for number, name in enumerate(names):
        rig.dispatcher.receive(CountedPosition(pack(LEDGER, number)), A, 1, b"x", 0, rig.now)
        rig.join(name, 1)
    assert len(join_gates.workers(rig.dispatcher.gated)) == workers
    return rig


def compared_at_the_ack(workers: int, number: int) -> int:
    """How many comparisons an ack of this entry costs."""
    rig = gated(workers)
    CountedPosition.compared = 0
    assert rig.ack("c1", number)
    return CountedPosition.compared


@pytest.mark.parametrize("which", ["first", "last"])
def test_an_ack_looks_at_a_few_gates(which: str) -> None:
    """One more for twice as many workers, as a bisection takes it."""
    few = compared_at_the_ack(MANY, 0 if which == "first" else MANY - 1)
    assert compared_at_the_ack(2 * MANY, 0 if which == "first" else 2 * MANY - 1) <= few + 2


def test_gates_open_one_by_one_in_any_order_of_acks() -> None:
    """Each with the last entry up to its position, and those before that have nothing more to wait for with it."""
    rig = gated(4)

    def shut() -> list[str]:
        return [worker.name for worker in join_gates.workers(rig.dispatcher.gated)]

    rig.ack("c1", 1)
    rig.ack("c1", 3)
    assert shut() == ["w0", "w1", "w2", "w3"]
    assert [join_gates.outstanding_up_to(rig.dispatcher.gated, gate) for gate in rig.dispatcher.gated] == [1, 1, 2, 2]
    rig.ack("c1", 0)
    assert shut() == ["w2", "w3"]
    rig.ack("c1", 2)
    assert shut() == []


def test_a_gate_that_goes_leaves_its_entries_to_the_next() -> None:
    """Its worker has left; they keep those who joined later waiting all the same."""
    rig = gated(3)
    rig.leave("w1")
    rig.leave("w0")
    rig.ack("c1", 2)
    rig.ack("c1", 0)
    assert len(rig.dispatcher.gated) == 1
    rig.ack("c1", 1)
    assert rig.dispatcher.gated == []
    assert rig.workers["w2"].join_gate is None


def test_workers_that_join_at_one_position_share_a_gate() -> None:
    """What is outstanding is counted for the first of them."""
    rig = gated(1)
    rig.dispatcher.selector._claims["again"] = [B]  # type: ignore[attr-defined]
    again = rig.join("again", 1)
    assert len(rig.dispatcher.gated) == 1
    assert join_gates.workers(rig.dispatcher.gated) == [rig.workers["w0"], again]
    rig.leave("w0")
    assert again.join_gate is not None
    rig.ack("c1", 0)
    assert again.join_gate is None
