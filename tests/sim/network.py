"""The network of a world: who listens where, who is connected with whom, and what reaches whom.

Two processes may be parted for a while. What is under way between them then comes when they are together again, as
systems send it again and again, unless the end that sent it has been aborted meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.sim.connection import End, Nobody
from tests.sim.machine import Event

if TYPE_CHECKING:
    import random
    from collections.abc import Callable

    from proxy.net.ports import Receiver
    from tests.sim.connection import Tap, Weather
    from tests.sim.machine import Process, Schedule


CONNECT_S = 10.0
"""After so long without an answer a connection is given up, as by default."""
CONNECT_AGAIN_S = 1.0


class Listener:
    """A process that accepts connections at an address."""

    def __init__(self, process: Process, accept: Callable[[str], Receiver]) -> None:
        """`accept` makes the receiver for a peer's address."""
        self.process = process
        self.accept = accept


class Network:
    """Every connection of the world."""

    def __init__(self, schedule: Schedule, weather: Weather, dice: random.Random, tap: Tap) -> None:
        """No connection yet."""
        self.weather = weather
        self.tap = tap
        self.listeners: dict[str, Listener] = {}
        self.refusing: set[str] = set()
        """Addresses that refuse new connections."""
        self.ends: dict[End, None] = {}
        self._partitions: set[frozenset[str]] = set()
        """Names of processes that are parted."""
        self._schedule = schedule
        self._dice = dice
        self._ports = 40_000

    @property
    def now_s(self) -> float:
        """The world's time."""
        return self._schedule.now_s

    def connector(self, process: Process) -> Connector:
        """A `ports.Connector` for this process."""
        return Connector(self, process)

    def connect(self, process: Process, address: str, receiver: Receiver) -> None:
        """`receiver.opened` or `receiver.closed` follows."""
        self.later(process, self.now_s + self.delay(), lambda: self._try(process, address, receiver))

    def _try(self, process: Process, address: str, receiver: Receiver, tried_s: float = 0.0) -> None:
        listener = self.listeners.get(address)
        if listener is None or listener.process.dead or address in self.refusing:
            receiver.closed("connection refused")
            return
        if self.parted(process, listener.process):
            if tried_s >= CONNECT_S:
                receiver.closed("connection timed out")
            else:
                again_s = tried_s + CONNECT_AGAIN_S
                again = lambda: self._try(process, address, receiver, again_s)  # noqa: E731 - a call for later
                self.later(process, self.now_s + CONNECT_AGAIN_S, again)
            return
        self._ports += 1
        name = f"{process.name}:{self._ports}"
        near = End(self, process, receiver, address.partition("://")[2])
        far = End(self, listener.process, Nobody(), name)
        near.other, far.other = far, near
        self.ends[near] = self.ends[far] = None
        self.later(listener.process, far.due(), lambda: far.arrive(lambda: self._accept(far, listener)))
        self._open(near)

    def _accept(self, end: End, listener: Listener) -> None:
        if not end.over and not end.deaf:
            end.receiver = listener.accept(end.peer)
            self._open(end)

    def _open(self, end: End) -> None:
        self.tap.opened(end)
        end.receiver.opened(end)

    def kill(self, process: Process) -> None:
        """The process is gone, as by kill -9."""
        process.dead = True
        for address in [address for address, listener in self.listeners.items() if listener.process is process]:
            del self.listeners[address]
        for end in [end for end in self.ends if end.process is process]:
            end.die()

    def part(self, one: str, other: str) -> None:
        """Nothing gets through between processes of these names from now on."""
        self._partitions.add(frozenset((one, other)))

    def rejoin(self, one: str, other: str) -> None:
        """It does again."""
        self._partitions.discard(frozenset((one, other)))
        for end in list(self.ends):
            if end.other is not None and {end.process.name, end.other.process.name} == {one, other}:
                end.rejoin()

    def parted(self, one: Process, other: Process) -> bool:
        """Whether nothing gets through between the two."""
        return bool(self._partitions) and frozenset((one.name, other.name)) in self._partitions

    def forget(self, end: End) -> None:
        """The end is over."""
        self.ends.pop(end, None)

    def delay(self) -> float:
        """How long a piece takes."""
        return self._dice.expovariate(1.0) * self.weather.delay_s

    def cut_up(self, data: bytes) -> list[bytes]:
        """The pieces in which bytes arrive."""
        if len(data) < 2 or self._dice.random() >= self.weather.cut_chance:
            return [data]
        cut = self._dice.randrange(1, len(data))
        return [data[:cut], *self.cut_up(data[cut:])]

    def later(self, process: Process, due_s: float, callback: Callable[[], None]) -> None:
        """A turn of the process then."""
        self._schedule.at(due_s, Event(process, callback))


class Connector:
    """Implements `ports.Connector`."""

    def __init__(self, network: Network, process: Process) -> None:
        self._network = network
        self._process = process

    def connect(self, address: str, receiver: Receiver) -> None:
        """As the port says."""
        self._network.connect(self._process, address, receiver)
