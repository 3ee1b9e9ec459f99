"""The frames that nearly all are, read and written by hand: whole texts of a client, and what is sent to it.

A frame costs 20 µs in the library, as much as all that the gateway does for the message in it. What is not a whole
short text goes to the library, byte for byte, which alone knows what is allowed.

Source: RFC 6455, section 5.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # the compiled one where there is one

if TYPE_CHECKING:
    from collections.abc import Iterable

    from admin_api.ports import Frame

_TEXT: Final = 0x81
_BINARY: Final = 0x82
"""Each with FIN: a whole message."""
_MASKED: Final = 0x80
_TWO_BYTES: Final = 126
_EIGHT_BYTES: Final = 127
_SHORT_END: Final = 1 << 16
_MASK_BYTES: Final = 4
_HEAD_BYTES: Final = 2


class FrameTaker(Protocol):
    """What becomes of the frames."""

    @property
    def takes_texts(self) -> bool:
        """Whether a whole text may come now; if not, the library has to say what is wrong with it."""

    def text(self, data: bytes) -> None:
        """A whole text, not masked any more."""

    def other(self, data: bytes) -> None:
        """Bytes of other frames: none, one, several, or the next part of one."""


class FrameReader:
    """Finds where frames begin and end."""

    def __init__(self, taker: FrameTaker) -> None:
        """At the beginning of a frame."""
        self._taker = taker
        self._begun = b""
        """The beginning of a short text, or of a frame that does not tell yet how long it is."""
        self._owed = 0
        """Bytes still to come of a frame whose beginning was handed on."""

    def feed(self, data: bytes) -> None:
        """Read on."""
        if self._begun:
            data, self._begun = self._begun + data, b""
        taker, end = self._taker, len(data)
        others, at = 0, min(self._owed, end)
        self._owed -= at
        while end - at >= _HEAD_BYTES:
            size = data[at + 1] - _MASKED
            if data[at] == _TEXT and 0 <= size < _TWO_BYTES:
                text = at + _HEAD_BYTES + _MASK_BYTES
                if text + size > end:
                    break
                if others < at:
                    taker.other(data[others:at])
                    others = at
                if taker.takes_texts:
                    at = others = text + size
                    taker.text(apply_mask(data[text:at], data[text - _MASK_BYTES : text]))
                    continue
            whole = _frame_bytes(data, at)
            if whole is None:
                break
            self._owed = max(0, at + whole - end)
            at = min(at + whole, end)
        if others < at:
            taker.other(data[others:at])
        self._begun = data[at:]


def _frame_bytes(data: bytes, at: int) -> int | None:
    """The length of a frame as it says itself; None if that is not there yet."""
    second = data[at + 1]
    size = second & ~_MASKED
    head = _HEAD_BYTES
    if size >= _TWO_BYTES:
        head += 2 if size == _TWO_BYTES else 8
        if len(data) < at + head:
            return None
        size = int.from_bytes(data[at + _HEAD_BYTES : at + head], "big")
    return head + (_MASK_BYTES if second & _MASKED else 0) + size


def written(frames: Iterable[Frame]) -> bytes:
    """Whole messages as a server sends them: not masked."""
    parts = []
    for frame in frames:
        data, kind = (frame.encode(), _TEXT) if isinstance(frame, str) else (frame, _BINARY)
        size = len(data)
        if size < _TWO_BYTES:
            parts.append(bytes((kind, size)))
        elif size < _SHORT_END:
            parts.append(bytes((kind, _TWO_BYTES)) + size.to_bytes(2, "big"))
        else:
            parts.append(bytes((kind, _EIGHT_BYTES)) + size.to_bytes(8, "big"))
        parts.append(data)
    return b"".join(parts)
