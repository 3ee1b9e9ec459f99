"""One worker of a client connection, and its SUBSCRIBE until that is answered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.errors import OwnedElsewhere
from proxy.net.alarm import Alarm
from proxy.net.handshake import client_version_of
from proxy.net.session.permission import Place
from proxy.net.spread import share_of
from proxy.net.subscription.refusals import code_of
from proxy.wire import commands
from proxy.wire.client_commands import error_frame

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock, Step, Transport, WorkerPort
    from proxy.wire import pulsar_pb2 as pb

AGAIN_S: Final = 0.1
"""Before it is tried for the second time; twice as long before the third, and so on."""
AGAIN_S_MAX: Final = 2.0
SPREAD: Final = 0.5
"""Of these times, by which those that were refused together come apart."""


class Unanswered:
    """A SUBSCRIBE without an answer."""

    __slots__ = ("_name", "again", "command", "lead_on", "size_bytes", "tried_again", "until")

    def __init__(
        self,
        command: pb.CommandSubscribe,
        size_bytes: int,
        until: float,
        lead_on: Callable[[], None] | None,
        clock: Clock,
        peer: str,
    ) -> None:
        """It is tried `until` then; `lead_on` holds the whole command, too; `peer` is the client's address."""
        self._name = f"{peer} {command.consumer_id}"
        self.command = command
        self.size_bytes = size_bytes
        self.lead_on = lead_on
        self.again = Alarm(clock)
        self.until = until
        self.tried_again = 0
        """How often."""

    def next_pause_s(self) -> float:
        """How long to wait now; count that it is tried again. Those that were refused together come apart."""
        longest_s = min(AGAIN_S * (1 << self.tried_again), AGAIN_S_MAX)
        self.tried_again += 1
        return longest_s * (1 - SPREAD * (1 - share_of(self._name)))


class Worker:
    """One consumer as its subscription sees it; implements `ports.WorkerLink`."""

    __slots__ = (
        "_check_liveness",
        "_first",
        "_forget",
        "_let_go",
        "_transport",
        "_try_again",
        "accepts_broker_entry_metadata",
        "answered",
        "asked",
        "client_version",
        "consumer_id",
        "gone",
        "place",
        "port",
        "request_id",
    )

    def __init__(
        self,
        transport: Transport,
        connect: pb.CommandConnect,
        asked: Unanswered,
        first: Callable[[Step], None],
        forget: Callable[[Worker], None],
        check_liveness: Callable[[Callable[[], None]], None],
        let_go: Callable[[Worker], None],
        try_again: Callable[[Worker, Unanswered, Exception], bool],
    ) -> None:
        """`connect` is what the client said of itself, `asked` its SUBSCRIBE.

        `let_go` is called when that is answered with Success, and `try_again` when it is refused: whether it goes on.
        """
        command = asked.command
        self._check_liveness = check_liveness
        self._try_again = try_again
        self._transport = transport
        self.consumer_id = command.consumer_id
        self.request_id = command.request_id
        self.client_version = client_version_of(connect)
        self.accepts_broker_entry_metadata = connect.feature_flags.supports_broker_entry_metadata
        self._first = first
        self._forget = forget
        self._let_go = let_go
        self.asked: Unanswered | None = asked
        """None when it is let go: it may have megabytes."""
        self.place = Place(command.topic, command.subscription)
        self.answered = False
        """Whether its SUBSCRIBE is. What it asked behind that may be answered before."""
        self.gone = False
        """Its connection is: nothing that is sent would arrive."""
        self.port: WorkerPort | None = None

    @property
    def early_permits(self) -> int:
        """Permits that the client has granted, and that no subscription has yet."""
        return 0 if self.port is None else self.port.early_permits

    @property
    def peer(self) -> str:
        """As the port says."""
        return self._transport.peer

    @property
    def writable(self) -> bool:
        """As the port says."""
        return self._transport.writable and not self.gone

    def subscribed(self) -> None:
        """As the port says."""
        self.answered = True
        self._let_go(self)
        self._transport.write(commands.success(self.request_id))

    def refuse(self, error: Exception) -> None:
        """As the port says."""
        asked = self.asked
        if asked is not None and self._try_again(self, asked, error):
            return
        lead_on = asked.lead_on if asked is not None and isinstance(error, OwnedElsewhere) else None
        self._forget(self)
        if lead_on is not None:
            lead_on()
        else:
            self._transport.write(error_frame(code_of(error), str(error), self.request_id))

    def send(self, frame: bytes) -> None:
        """As the port says."""
        self._transport.write(frame)

    def push(self) -> None:
        """As the port says."""
        self._transport.push()

    def limit(self, seconds: float) -> None:
        """As the port says."""
        self._transport.limit(seconds)

    def first(self, step: Step) -> None:
        """As the port says."""
        self._first(step)

    def forget(self) -> None:
        """As the port says."""
        self._forget(self)

    def check_liveness(self, alive: Callable[[], None]) -> None:
        """As the port says."""
        if not self.gone:  # else the port is about to hear that
            self._check_liveness(alive)
