"""What the admin API may know of the gateway and ask of it: this, and nothing else.

What is known is a snapshot, a frozen dataclass made for the asker, so no route can be surprised by the gateway or
change it by accident; what is changed goes through `GatewayControl`. `proxy.views.admin` gives both. Everything is
called on the gateway's event loop only. Errors are `proxy.errors.KeylineError` with the status they mean: `NotFound`
says which part of a name is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from proxy.socket_request import SocketRequest

Steps: TypeAlias = Generator[None, None, Any]
"""An answer that takes its time: pauses, in which the gateway's messages go on, then the value."""
Key = tuple[str, str]
"""Full topic name and subscription."""


class EventListener(Protocol):
    """Somebody's place in the stream of events."""

    @property
    def ended(self) -> bool:
        """No more will come."""

    def take(self) -> tuple[int, Sequence[Any]]:
        """How many were lost before these, and all since the last look."""

    def close(self) -> None:
        """Listen no more."""


class GatewayView(Protocol):
    """The gateway, read-only; what is answered as `Any` is a frozen dataclass of plain values and such dataclasses."""

    def not_ready_because(self) -> Sequence[str]:
        """Every reason why no client should be sent here now, in words; none if it is ready."""

    def subscriptions(self, after: str | None, limit: int) -> Steps:
        """A page of the Key_Shared subscriptions."""

    def subscription(self, key: Key) -> Steps:
        """One of them."""

    def consumer(self, key: Key, name: str) -> Steps:
        """One worker; the first of that name."""

    def ring(self, key: Key) -> Steps:
        """Ranges of the hash space with their owners."""

    def draining(self, key: Key, name: str | None, after: int, limit: int) -> Any:
        """A page of the hashes that drain, of one worker or all."""

    def pending(
        self, key: Key, name: str, *, message_key: bytes | None, slot: int | None, after: str | None, limit: int
    ) -> Steps:
        """A page of what a worker holds; of a key or slot only, if one is given."""

    def explain(self, key: Key, *, message_key: bytes | None, slot: int | None) -> Any:
        """Why a key, or a slot, waits or flows; one of both is given."""

    def preview_join(self, key: Key, name: str, sticky_ranges: Sequence[tuple[int, int]]) -> Steps:
        """What a join would move."""

    def preview_leave(self, key: Key, names: Sequence[str]) -> Steps:
        """What would move if these workers left."""

    def elections(self, after: str | None, limit: int) -> Any:
        """A page of the topics that somebody wants for itself alone, and the sums of all."""

    def election(self, topic: str, first: int, limit: int) -> Any:
        """One of them with those that wait, from the one that has `first` others before it."""

    def groups(self, after: str | None, limit: int) -> Any:
        """A page of the groups that this replica takes part in."""

    def group(self, key: Key) -> Any:
        """One of them with everything that is known of it here."""

    def orders(self) -> Any:
        """Everything that was ordered and not taken back."""

    def connected(self, topic: str, *, partitions: bool) -> list[Steps]:
        """What a broker would show of this topic's subscriptions here, or of those of its partitions; see `Steps`."""

    def listen(self, wake: Callable[[], None], after: int | None, wanted: Callable[[Any], bool]) -> EventListener:
        """Events that are wanted from now on, or after one by its number; `wake` tells that there are some to take."""

    def configuration(self) -> dict[str, Any]:
        """Every setting in effect, secrets masked."""


class WorkerSocket(Protocol):
    """A WebSocket as its worker in the gateway sees it; no method calls back."""

    def accept(self) -> None:
        """The worker has joined."""

    def refuse(self, status: int, detail: str) -> None:
        """It cannot join."""

    def send(self, frame: str | bytes) -> None:
        """Queue a message."""

    def close(self, code: int, reason: str) -> None:
        """Send what is queued, then close."""


class SocketWorker(Protocol):
    """A worker in the gateway as its WebSocket sees it."""

    def received(self, frame: str | bytes) -> None:
        """The client said something."""

    def writability_changed(self, writable: bool) -> None:  # noqa: FBT001 - one bit of news
        """Whether the client reads what it gets."""

    def closed(self, reason: str) -> None:
        """The WebSocket is gone; may be said again."""


class WorkerSockets(Protocol):
    """Where WebSockets become workers."""

    def open(self, request: SocketRequest, socket: WorkerSocket) -> SocketWorker:
        """Let one join; `socket` hears whether it could, later."""


class GatewayControl(Protocol):
    """What operators may order."""

    def pause(self, key: Key) -> None:
        """Deliver nothing more."""

    def resume(self, key: Key) -> None:
        """Deliver again."""

    def drain(self, key: Key, name: str, *, drained: bool) -> int:
        """Give workers of this name nothing new, or again; how many are here."""

    def evict(self, key: Key, name: str) -> int:
        """Close consumers of this name; how many there were."""

    def change_mode(self, key: Key, mode: str | None) -> None:
        """Order by another mode; None takes that back."""

    def replay(
        self,
        key: Key,
        position: tuple[int, int] | None,
        published_ms: int | None,
        answered: Callable[[str | None], None],
    ) -> None:
        """Let a group deliver again from a place, one of both; `answered` hears what was wrong, None if nothing."""

    def change_limits(self, key: Key, limits: dict[str, int | None]) -> dict[str, int]:
        """Set limits by name, None for the configuration's; those in effect."""
