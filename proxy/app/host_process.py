"""One process among several of a host: what it has of the others, and its socket to their supervisor.

Implements `admin_api.ports.HostProcesses`. The supervisor's end closes the socket: then this process drains and stops,
as at SIGTERM.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from proxy.app.supervision import MESSAGE_BYTES_MAX, REASON_CHARACTERS_MAX, REPORT, TELL_S, TOLD, Report, Told
from proxy.net.owner.proof import Told as ToldOfPeer
from proxy.net.owner.questions import Asking
from proxy.views.other_replicas import ASKER

if TYPE_CHECKING:
    import asyncio
    import socket
    from collections.abc import Callable, Mapping, Sequence

    from proxy.app.supervision import ProcessState
    from proxy.config.processes import Place
    from proxy.net.owner.dialling import ReplicaDialler
    from proxy.net.owner.proof import Secret
    from proxy.net.owner.questions import Hearer

REASONS_MAX: Final = 10

log = structlog.get_logger("keyline.process")


class HostProcess:
    """This process's place."""

    def __init__(self, place: Place, secret: Secret | None, channel: socket.socket, reloads: int) -> None:
        """`secret` is that of this host's processes; None if all replicas of several hosts have one in a file.

        `channel` leads to the supervisor. The configuration was read `reloads` times before this process began.
        """
        self.place = place
        self.secret = secret
        self.told = Told(all_started=False, reloads=reloads)
        self._channel = channel
        self._dialler: ReplicaDialler | None = None
        self._report = Report("", "", started=False, not_ready_because=(), reloads=0)
        self._alone = False
        """Whether the supervisor has ended."""

    # ---- for the gateway

    def takes_part(self, replica: str, address: str, dialler: ReplicaDialler) -> None:
        """Its name as a replica is known, its address, and what connects to the others."""
        self._report = replace(self._report, replica=replica, address=address)
        self._dialler = dialler

    def started(self) -> None:
        """It listens at all addresses."""
        self._report = replace(self._report, started=True)

    def not_ready_because(self, own: Sequence[str]) -> Sequence[str]:
        """Why the host is not ready, given why this process is not.

        A process that is not ready itself listens to no new clients, or is as ready as the others are: so the host is
        ready while any process is, from when all have listened once. Before that the clients that come would all stay
        at the first ones.
        """
        others = [process for process in self.told.processes if process.index != self.place.index]
        if self.told.stopping or (own and not any(process.ready for process in others)):
            return own
        return () if self.told.all_started else ("other processes are not listening yet",)

    # ---- admin_api.ports.HostProcesses

    @property
    def here(self) -> str:
        """As the port says."""
        return str(self.place.index)

    def names(self) -> Sequence[str]:
        """As the port says."""
        return tuple(str(index) for index in range(self.place.count) if index != self.place.index)

    def restarts(self) -> Mapping[str, int]:
        """As the port says."""
        return {str(process.index): process.restarts_total for process in self.told.processes}

    def ask(self, replica: str, question: bytes, hearer: Hearer) -> Callable[[], None]:
        """As the port says."""
        asking = Asking(question, hearer)
        found = self._state(replica)
        if found is None or not found.address or self._dialler is None:
            asking.closed("it is not running")
        else:
            told = ToldOfPeer(found.replica, self._report.replica, ASKER, purpose="question")
            self._dialler.dial(found.address, told, asking)
        return asking.give_up

    def _state(self, process: str) -> ProcessState | None:
        return next((state for state in self.told.processes if str(state.index) == process), None)

    # ---- with the supervisor

    def attach(
        self,
        loop: asyncio.AbstractEventLoop,
        own_reasons: Callable[[], Sequence[str]],
        stop: Callable[[], None],
        hurry: Callable[[], None],
        reload: Callable[[], None],
    ) -> None:
        """Tell and hear from now on; what is to be done is called when it is told, once for each time."""
        self._loop, self._own_reasons = loop, own_reasons
        self._stop, self._hurry, self._reload = stop, hurry, reload
        self._channel.setblocking(False)
        loop.add_reader(self._channel.fileno(), self._hear)
        self._tell_again()

    def reloaded(self) -> None:
        """An operator has ordered this process to read the configuration again: the others are to do so, too."""
        self._report = replace(self._report, reloads=self._report.reloads + 1)
        self.tell()

    def tell(self) -> None:
        """Report now."""
        reasons = tuple(reason[:REASON_CHARACTERS_MAX] for reason in self._own_reasons())[:REASONS_MAX]
        self._report = replace(self._report, not_ready_because=reasons)
        try:
            self._channel.send(REPORT.dump_json(self._report))
        except BlockingIOError:
            pass  # the supervisor does not read now, and hears it a second later
        except OSError:
            self._hear()

    def _tell_again(self) -> None:
        if not self._alone:
            self.tell()
            self._loop.call_later(TELL_S, self._tell_again)

    def _hear(self) -> None:
        try:
            data = self._channel.recv(MESSAGE_BYTES_MAX)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._loop.remove_reader(self._channel.fileno())
            self._alone = True
            log.error("supervisor ended", detail="this process drains and stops")
            self._stop()
            return
        before, self.told = self.told, TOLD.validate_json(data)
        told = self.told
        if told.reloads != before.reloads:
            self._reload()
        if told.stopping and not before.stopping:
            self._stop()
        if told.hurrying and not before.hurrying:
            self._hurry()
