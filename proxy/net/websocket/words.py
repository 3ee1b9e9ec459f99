"""What a WebSocket client may say, whichever language it says it in."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from proxy.net.websocket.link import Frame
    from proxy.net.websocket.message import SocketMessage
    from proxy.net.websocket.message_position import MessagePosition


class Acknowledge(NamedTuple):
    """These messages are done with."""

    positions: tuple[MessagePosition, ...]
    request_id: int | None
    """To be told in the receipt; None for no receipt."""


class Refuse(NamedTuple):
    """Give these messages again, later."""

    positions: tuple[MessagePosition, ...]


class Permit(NamedTuple):
    """Grant more messages."""

    messages: int


class Unsubscribe(NamedTuple):
    """Delete the subscription."""


class AskEndOfTopic(NamedTuple):
    """Has everything there will ever be been read?"""


Word: TypeAlias = Acknowledge | Refuse | Permit | Unsubscribe | AskEndOfTopic


class WordError(ValueError):
    """What a client said makes no sense; `request_id` is how it called it."""

    def __init__(self, message: str, request_id: int | None = None) -> None:
        """`message` says what is wrong and what would be right."""
        super().__init__(message)
        self.request_id = request_id


class Dialect(Protocol):
    """One language."""

    def read(self, frame: Frame) -> Word:
        """Raises `WordError`."""

    def message(self, message: SocketMessage) -> Frame:
        """A message for the client."""

    def joined(self, topics: list[str]) -> Frame | None:
        """What is said first, if anything."""

    def receipt(self, request_id: int, not_held: list[str], error: str | None) -> Frame | None:
        """That the broker knows of an acknowledgement, or why it does not."""

    def end_of_topic(self, *, reached: bool, asked: bool) -> Frame | None:
        """Whether everything was read: the answer where the client asked, else the news."""

    def mistake(self, error: WordError) -> Frame | None:
        """What a client is told that said something wrong; None ends the connection."""


def moment(milliseconds: int) -> str:
    """A time since 1970 as Pulsar's service writes it, in UTC; the number where no calendar goes so far.

    ISO 8601 with as many digits of a second as it takes.
    """
    try:
        whole = _second(milliseconds // 1000)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)
    rest = milliseconds % 1000
    return f"{whole}.{rest:03}".rstrip("0") + "Z" if rest else whole + "Z"


@lru_cache(maxsize=1_024)
def _second(seconds: int) -> str:
    """Many messages were published in one."""
    return datetime.fromtimestamp(seconds, UTC).isoformat()[: -len("+00:00")]


def whole_number(value: object, name: str, *, least: int = 0, request_id: int | None = None) -> int:
    """Check a number from JSON, where true is one too. Raises `WordError`."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value < 1 << 31:
        message = f"{name} is {str(value)[:100]!r}, it should be a whole number from {least}"
        raise WordError(message, request_id)
    return value
