"""The admin API's only interface to the gateway.

Reads return snapshots: frozen dataclasses made for the caller, so a route cannot see later changes or change the
gateway by accident. Changes go through `GatewayControl`. `proxy.views.admin` implements both. Everything is called on
the gateway's event loop only. Errors are `proxy.errors.KeylineError` with their HTTP status: `NotFound` names the wrong
part of a name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from proxy.socket_request import SocketRequest

Steps: TypeAlias = Generator[None, None, Any]
"""A long answer: pauses for the gateway's messages, then the value."""
Frame: TypeAlias = str | bytes
"""A message over a WebSocket, text or binary."""
Key = tuple[str, str]
"""Full topic name and subscription."""


class EventListener(Protocol):
    """A listener's position in the stream of events."""

    @property
    def ended(self) -> bool:
        """No more will come."""

    def take(self) -> tuple[int, Sequence[Any]]:
        """The number of lost events, and all events since the last call."""

    def close(self) -> None:
        """Listen no more."""


class GatewayView(Protocol):
    """The gateway, read-only; what is answered as `Any` is a frozen dataclass of plain values and such dataclasses."""

    def not_ready_because(self) -> Sequence[str]:
        """The reasons why the gateway is not ready for clients; empty if it is."""

    def subscriptions(self, after: str | None, limit: int, *, workers: bool) -> Steps:
        """A page of the Key_Shared subscriptions; without `workers` they are counted only."""

    def subscription(self, key: Key) -> Steps:
        """One of them."""

    def worker(self, key: Key, name: str) -> Steps:
        """One worker; the first of that name."""

    def ring(self, key: Key) -> Steps:
        """Ranges of the hash space with their owners."""

    def draining(self, key: Key, name: str | None, after: int, limit: int) -> Any:
        """A page of the slots that drain, of the workers of a name or of all."""

    def pending(
        self, key: Key, name: str, *, message_key: bytes | None, slot: int | None, after: str | None, limit: int
    ) -> Steps:
        """A page of what the workers of a name have not acknowledged; only of a key or slot, if one is given."""

    def explain(self, key: Key, *, message_key: bytes | None, slot: int | None) -> Any:
        """Why a key, or a slot, waits or flows; one of both is given."""

    def limits(self, key: Key) -> Any:
        """The limits in effect, and those of the configuration."""

    def stuck(self, key: Key, limit: int) -> Steps:
        """Slots that wait, oldest first."""

    def hot_keys(self, key: Key, limit: int) -> Steps:
        """The keys with the most recent messages, that with the most first."""

    def parked(self, key: Key, limit: int) -> Any:
        """What is parked, slot by slot."""

    def parked_messages(self, key: Key, *, message_key: bytes | None, slot: int | None, limit: int) -> Any:
        """The parked messages of a key's slot, in order."""

    def preview_join(self, key: Key, name: str, sticky_ranges: Sequence[tuple[int, int]]) -> Steps:
        """What a join would move."""

    def preview_leave(self, key: Key, names: Sequence[str]) -> Steps:
        """What would move if these workers left."""

    def elections(self, after: str | None, limit: int) -> Any:
        """A page of the topics with exclusive producers, and the totals."""

    def election(self, topic: str, first: int, limit: int) -> Any:
        """One topic with its waiting producers, from the position `first` on."""

    def groups(self, after: str | None, limit: int) -> Any:
        """A page of this replica's groups."""

    def group(self, key: Key) -> Any:
        """One group with everything that this replica knows."""

    def deployment(self) -> Any:
        """All replicas in owner mode, as this one knows them."""

    def orders(self) -> Any:
        """All active orders."""

    def connected(self, topic: str, *, partitions: bool) -> list[Steps]:
        """A broker's statistics of this topic's subscriptions here, or of its partitions; see `Steps`."""

    def listen(self, wake: Callable[[], None], after: int | None, wanted: Callable[[Any], bool]) -> EventListener:
        """The wanted events from now on, or after a number; `wake` is called when there are events to take."""

    def configuration(self) -> dict[str, Any]:
        """Every setting in effect, secrets masked."""


class GroupTopics(Protocol):
    """The topics that replicas made for their groups."""

    def page(self, after: str | None, limit: int, answered: Callable[[Any], None]) -> None:
        """Look at some, by name; `answered` gets a page, or an error to raise."""

    def remove(self, topic: str, by: str, answered: Callable[[Exception | None], None]) -> None:
        """Remove one that no replica needs, ordered `by` someone; `answered` gets an error to raise, or None."""


class Saying(Protocol):
    """Where an answer to another replica goes."""

    def say(self, data: bytes) -> None:
        """Send the next bytes."""

    def end(self) -> None:
        """It is complete."""


class Hearer(Protocol):
    """Hears another replica's answer."""

    def heard(self, data: bytes) -> None:
        """The next bytes."""

    def ended(self, reason: str) -> None:
        """Nothing follows; the reason is for people. Not called after it was given up."""


class Asked(Protocol):
    """Others that answer questions."""

    def names(self) -> Sequence[str]:
        """All of them."""

    def ask(self, replica: str, question: bytes, hearer: Hearer) -> Callable[[], None]:
        """Ask one; returns what to call when the rest of the answer is not wanted."""


class HostProcesses(Asked, Protocol):
    """The other processes of this host, by number."""

    @property
    def here(self) -> str:
        """This one."""

    def restarts(self) -> Mapping[str, int]:
        """How often each, and this one, was started again."""


class OtherReplicas(Asked, Protocol):
    """The other replicas of the deployment, in owner mode."""

    @property
    def here(self) -> str:
        """This replica."""

    def serving(self, key: Key) -> str | None:
        """The replica that owns the subscription; None if none is known to."""

    def find(self, replica: str) -> str:
        """The whole name of a replica, by that or by its configured one. Raises `NotFound`."""


class WorkerSocket(Protocol):
    """A WebSocket as its worker in the gateway sees it; no method calls back."""

    def accept(self) -> None:
        """The worker has joined."""

    def refuse(self, status: int, detail: str) -> None:
        """It cannot join."""

    def send(self, frame: Frame) -> None:
        """Queue a message."""

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close."""


class SocketWorker(Protocol):
    """A worker in the gateway as its WebSocket sees it."""

    def received(self, frame: Frame) -> None:
        """A frame of the client arrived."""

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - one bit of news
        """Whether the client reads its frames."""

    def closed(self, reason: str) -> None:
        """The WebSocket is closed; idempotent."""


class WorkerSockets(Protocol):
    """Where WebSockets become workers."""

    def open(self, request: SocketRequest, socket: WorkerSocket) -> SocketWorker:
        """Let one join; `socket` gets the result later."""


class GatewayControl(Protocol):
    """Operators' orders; `by` is who gives one."""

    def pause(self, key: Key, *, by: str) -> None:
        """Deliver nothing more."""

    def resume(self, key: Key, *, by: str) -> None:
        """Deliver again."""

    def drain(self, key: Key, name: str, *, drained: bool, by: str) -> int:
        """Stop or resume new deliveries to workers of this name; returns the number of connected ones."""

    def stand_down(self, replica: str) -> int:
        """Another replica stops: let its clients get nothing more from here; messages that they have still."""

    def exclude(self, key: Key, name: str, *, excluded: bool, by: str) -> int:
        """Give a worker's slots to others until it is readmitted, or readmit it; how many are concerned."""

    def take_out(
        self, key: Key, *, message_key: bytes | None, slot: int | None, redrive: bool, by: str
    ) -> tuple[int, int]:
        """Redrive or drop what is parked of a key's slot; the slot, and how many messages are parked of it."""

    def drop_incomplete(self, key: Key, *, message_key: bytes | None, slot: int | None, by: str) -> tuple[int, int]:
        """Drop chunks of messages that are parked in part, of a key's slot; the slot, and how many."""

    def drain_replica(self, *, drained: bool) -> None:
        """Let this replica own nothing, or its share again (owner mode)."""

    def evict(self, key: Key, name: str, *, by: str) -> int:
        """Close workers of this name; returns their number."""

    def move(self, key: Key, replica: str | None, *, by: str) -> None:
        """Let a certain replica serve it; None for any (owner mode)."""

    def change_mode(self, key: Key, mode: str | None, *, by: str) -> None:
        """Set the ordering mode; None reverts it."""

    def replay(
        self,
        key: Key,
        position: tuple[int, int] | None,
        published_ms: int | None,
        answered: Callable[[str | None], None],
    ) -> None:
        """Replay a group from a position or time, exactly one of them; `answered` gets the error, or None."""

    def reload(self, *, by: str) -> Any:
        """Read the configuration again; returns what changed and what needs a restart, or refuses all of it."""

    def change_limits(self, key: Key, limits: Mapping[str, Any], *, keep: bool, by: str) -> Any:
        """Set limits by name, None for the configuration's; those not named stay if `keep`, else are reset.

        Returns those in effect, and those of the configuration.
        """
