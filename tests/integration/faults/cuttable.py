"""A broker to which single replicas have ways of their own that can be cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from integration.faults.conditions import Direction
from integration.faults.proxy import FaultProxy
from integration.ports import LOOPBACK, free_ports
from integration.standalone import PulsarStandalone


class Cuttable:
    """A broker with so many such ways, each of a listener of its own."""

    def __init__(self, broker: PulsarStandalone, ways: list[FaultProxy]) -> None:
        self.broker = broker
        self._ways = list(enumerate(ways))

    def take(self, count: int) -> dict[str, FaultProxy]:
        """Ways that nobody has taken, by the listeners that lead there."""
        taken, self._ways = self._ways[:count], self._ways[count:]
        return {f"way-{number}": way for number, way in taken}


@contextmanager
def cuttable_broker(
    version: str, data: Path, ways_count: int, settings: Mapping[str, str] | None = None
) -> Iterator[Cuttable]:
    """One of this version, with its files in `data`."""
    port, *way_ports = free_ports(1 + ways_count)
    listeners = [f"direct:pulsar://{LOOPBACK}:{port}"]
    listeners += [f"way-{number}:pulsar://{LOOPBACK}:{each}" for number, each in enumerate(way_ports)]
    listening = {
        "advertisedAddress": "",
        "advertisedListeners": ",".join(listeners),
        "internalListenerName": "direct",
    }
    with ExitStack() as stack:
        broker = PulsarStandalone(version, data=data, port=port, settings={**listening, **(settings or {})})
        stack.enter_context(broker)
        yield Cuttable(broker, [stack.enter_context(FaultProxy(port, port=each)) for each in way_ports])


@contextmanager
def forgotten(way: FaultProxy) -> Iterator[None]:
    """What was connected to the broker carries nothing any more, and neither end is told; a replica may come again."""
    assert way.forget(0) > 0
    yield


@contextmanager
def ended_here(way: FaultProxy) -> Iterator[None]:
    """What was connected to the broker has ended for a replica alone, which may come again."""
    assert way.tell_clients_only() > 0
    yield


@contextmanager
def cut(way: FaultProxy, *directions: Direction) -> Iterator[None]:
    """Nothing moves between a replica and the broker in this block, in these directions; by default in both."""
    way.stall(*directions)
    try:
        yield
    finally:
        way.heal()
