"""A TCP proxy whose faults are switched while it runs, from the test's own thread.

Problem: what a gateway does when a network is slow, silent, torn or half dead cannot be asked of loopback. Rule kept:
the proxy changes, drops or reorders no byte of a connection unless it ends it, as a network under TCP; and when a
method returns, what it says has been done.

It runs in the test's process, on a loop in a thread of its own. Why not toxiproxy or `tc netem`: one is a binary from
elsewhere, the other needs a kernel module and root; neither cuts inside a frame.
"""

from __future__ import annotations

import asyncio
import random
import socket
import threading
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Self, TypeVar

from integration.faults.conditions import HEALTHY, Conditions, Direction
from integration.faults.connection import Connection, close
from integration.faults.pipe import Lane, Pipe
from integration.lifetime import Lifetime
from integration.ports import LOOPBACK, free_ports

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

CALL_S_MAX: Final = 30.0
"""For calls that take a turn of the loop: only a stuck thread exhausts it."""
BACKLOG: Final = 1_024
SOCKET_BUFFER_BYTES: Final = 64 * 1024
"""Of every socket here, so that a slow or stalled network presses back soon."""

Result = TypeVar("Result")


class FaultProxy(Lifetime):
    """Listens on a port of loopback and forwards to another. Use it as a context manager, or `start` and `close`."""

    def __init__(self, target_port: int, *, port: int | None = None, seed: int = 1) -> None:
        """Describe it; nothing listens yet.

        Args:
            target_port: where connections go, on loopback; nothing need listen there yet.
            port: where it listens; by default a free one.
            seed: of the jitter.
        """
        self.port = free_ports(1)[0] if port is None else port
        self._target_port = target_port
        self._chance = random.Random(seed)  # noqa: S311 - a repeatable choice, no secret
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=f"faults-{self.port}", daemon=True)
        self._lanes: dict[Direction, Lane] = {}
        self._connections: dict[asyncio.Task[None], Connection | None] = {}
        """Those that stand, and those (None) whose server has not answered yet."""
        self._listener: socket.socket | None = None
        self._accepting: asyncio.Task[None] | None = None

    @property
    def service_url(self) -> str:
        """What clients connect to instead of the target."""
        return f"pulsar://{LOOPBACK}:{self.port}"

    @property
    def connection_count(self) -> int:
        """Connections that stand now, at both ends."""
        return sum(connection is not None for connection in list(self._connections.values()))

    def forwarded_bytes(self, direction: Direction) -> int:
        """Bytes that went this way so far, over all connections."""
        return self._lanes[direction].forwarded_bytes

    # ------------------------------------------------------------------ faults

    def impair(self, conditions: Conditions, *directions: Direction) -> None:
        """Let directions, by default both, suffer these conditions instead of those before."""
        self._call(lambda: self._impair(conditions, directions))

    def stall(self, *directions: Direction) -> None:
        """Move nothing in these directions, by default both; connections stand, and new ones are accepted."""
        self.impair(Conditions(stalled=True), *directions)

    def cut(self) -> int:
        """End every connection with RST at both ends; new ones may come. Returns how many were cut."""
        return self._run(self._cut())

    def half_close(self, direction: Direction) -> int:
        """Send FIN this way on every connection; the other way goes on. Returns on how many."""
        return self._call(lambda: self._each_pipe(direction, lambda pipe: pipe.half_close()))

    def truncate(self, direction: Direction, after_bytes: int) -> int:
        """Cut every connection that stands after so many more bytes this way, inside the frame that is passing then.

        Returns on how many it will happen.
        """
        return self._call(lambda: self._each_pipe(direction, lambda pipe: pipe.truncate(after_bytes)))

    def forget(self, carried_bytes: int) -> int:
        """Let connections that have carried so much to their clients carry nothing more, and tell neither end, ever.

        As a firewall that has lost their entries. New ones may come. Returns how many were forgotten.
        """
        return self._call(lambda: self._forget(carried_bytes))

    def tell_clients_only(self) -> int:
        """End every connection at its client's end; the server goes on as if it stood. Returns how many there were.

        As a firewall that answers for a connection it has lost. What was on its way is lost.
        """
        return self._call(self._tell_clients_only)

    def refuse(self) -> None:
        """Listen no more: the kernel refuses new connections; those that stand go on."""
        self._run(self._stop_accepting())

    def accept(self) -> None:
        """Undo `refuse`; harmless otherwise."""
        self._call(self._start_accepting)

    def heal(self) -> None:
        """End all faults. What was cut stays cut."""
        self.impair(HEALTHY)
        self.accept()

    # ------------------------------------------------------------------ life

    def start(self) -> Self:
        """Listen, without faults."""
        self._thread.start()
        self._call(self._begin)
        return self

    def close(self) -> None:
        """Cut everything, listen no more, end the thread."""
        if self._thread.is_alive():
            self._run(self._stop_accepting())
            self._run(self._cut())
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(CALL_S_MAX)
        self._loop.close()

    # ------------------------------------------------------------------ in the loop's thread

    def _begin(self) -> None:
        self._lanes = {direction: Lane() for direction in Direction}
        self._start_accepting()

    def _impair(self, conditions: Conditions, directions: tuple[Direction, ...]) -> None:
        for direction in directions or tuple(Direction):
            self._lanes[direction].change(conditions)

    def _each_pipe(self, direction: Direction, act: Callable[[Pipe], object]) -> int:
        standing = [connection for connection in self._connections.values() if connection is not None]
        for connection in standing:
            act(connection.pipes[direction])
        return len(standing)

    def _forget(self, carried_bytes: int) -> int:
        standing = [connection for connection in self._connections.values() if connection is not None]
        chosen = [each for each in standing if each.pipes[Direction.TO_CLIENT].forwarded_bytes >= carried_bytes]
        for connection in chosen:
            for pipe in connection.pipes.values():
                pipe.forget()
        return len(chosen)

    def _tell_clients_only(self) -> int:
        self._each_pipe(Direction.TO_CLIENT, lambda pipe: pipe.half_close())
        return self._forget(0)

    async def _cut(self) -> int:
        tasks = list(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(tasks)

    def _start_accepting(self) -> None:
        if self._listener is None:
            listener = _new_socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((LOOPBACK, self.port))
            listener.listen(BACKLOG)
            self._listener = listener
            self._accepting = self._loop.create_task(self._accept(listener))

    async def _stop_accepting(self) -> None:
        if self._accepting is not None and self._listener is not None:
            self._accepting.cancel()
            with suppress(asyncio.CancelledError):
                await self._accepting
            self._listener.close()
            self._listener = None

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            client, _ = await self._loop.sock_accept(listener)
            task = self._loop.create_task(self._serve(client))
            self._connections[task] = None
            task.add_done_callback(self._connections.pop)
            task.add_done_callback(partial(_let_go, client))

    async def _serve(self, client: socket.socket) -> None:
        client.setblocking(False)
        server = _new_socket()
        try:
            await self._loop.sock_connect(server, (LOOPBACK, self._target_port))
            for end in (client, server):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except BaseException as error:  # a cut included
            close(client, reset=True)
            server.close()
            if isinstance(error, OSError):
                return  # the client has been told
            raise
        connection = Connection(client, server, self._lanes, self._chance)
        task = asyncio.current_task()
        assert task is not None
        self._connections[task] = connection
        await connection.run()

    # ------------------------------------------------------------------ across threads

    def _call(self, function: Callable[[], Result]) -> Result:
        async def call() -> Result:
            return function()

        return self._run(call())

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        done: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(CALL_S_MAX)


def _let_go(client: socket.socket, _task: asyncio.Task[None]) -> None:
    """Close what a task was to serve that was cut before its first step; harmless otherwise."""
    client.close()


def _new_socket() -> socket.socket:
    """Make a non-blocking socket with small buffers; those that a listener accepts inherit its."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        made.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    return made
