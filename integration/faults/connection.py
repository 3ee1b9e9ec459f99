"""One client's connection through the proxy: two sockets and the two pipes between them."""

from __future__ import annotations

import asyncio
import socket
import struct
from typing import TYPE_CHECKING, Final

from integration.faults.conditions import Direction
from integration.faults.pipe import Lane, Pipe, Truncated

if TYPE_CHECKING:
    import random
    from collections.abc import Mapping

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
"""SO_LINGER for no time at all: the kernel then sends RST instead of FIN."""


class Connection:
    """Forwards until an end of it goes; how one end went is how the other is told."""

    def __init__(
        self, client: socket.socket, server: socket.socket, lanes: Mapping[Direction, Lane], chance: random.Random
    ) -> None:
        """Both sockets are this object's from now on; `run` closes them."""
        self.pipes = {
            Direction.TO_SERVER: Pipe(client, server, lanes[Direction.TO_SERVER], chance),
            Direction.TO_CLIENT: Pipe(server, client, lanes[Direction.TO_CLIENT], chance),
        }
        self._sockets = (client, server)
        self._reset = True
        """Unless it ends in peace."""

    async def run(self) -> None:
        """Forward until both directions have ended, or one breaks. Cancelling it is a cut: RST to both."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for pipe in self.pipes.values():
                    tasks.create_task(pipe.read())
                    tasks.create_task(pipe.write())
            self._reset = False
        except* Truncated:
            # RST may overtake nothing, but a receiver may look at it first; half a frame must be seen.
            self._reset = False
        except* OSError:
            pass
        finally:
            for end in self._sockets:
                close(end, reset=self._reset)


def close(end: socket.socket, *, reset: bool) -> None:
    """Close a socket, with FIN or with RST."""
    if reset:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
    end.close()
