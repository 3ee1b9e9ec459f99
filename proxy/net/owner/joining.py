"""A consumer that no owner has let in yet, and how long it waits for one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.alarm import Alarm

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Clock
    from proxy.wire import pulsar_pb2 as pb


class Joining:
    """One of `legs.ClientLegs`."""

    __slots__ = ("again", "command", "deadline", "frame", "here", "look", "waits_for")

    def __init__(
        self,
        command: pb.CommandSubscribe,
        frame: bytes,
        here: Callable[[], None],
        look: Callable[[], None],
        clock: Clock,
    ) -> None:
        """`here` lets it in at this replica; `look` finds out where to lead it."""
        self.command = command
        self.frame = frame
        self.here = here
        self.look = look
        self.deadline = Alarm(clock)
        """Set while another owner is asked if one cannot serve it."""
        self.again = Alarm(clock)
        self.waits_for = ""
        """The owner that it was led to last."""

    def stop(self) -> None:
        """It is let in, or refused, or has gone."""
        self.deadline.cancel()
        self.again.cancel()
