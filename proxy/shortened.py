"""Untrusted text that stays here: cut to a bound, and the cut is marked.

Problem: a client may put megabytes into any text of a command. What only passes is gone at once; what goes into an
event or a log line stays for long, many times over, or fills a disk.
Rule: a module that keeps or writes a text cuts it there, whatever checks came before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

CUT: Final = "\N{HORIZONTAL ELLIPSIS}"
"""Stands where something was left out."""
_NUMBERS: Final = frozenset({int, float, bool, type(None)})
_LISTS: Final = frozenset({list, tuple, set, frozenset})


def shortened(text: str, characters_max: int) -> str:
    """The text as it is, or its beginning and the mark: `characters_max` characters at most."""
    return text if len(text) <= characters_max else text[: characters_max - 1] + CUT


def both_ends(text: str, characters_max: int) -> str:
    """The same with the text's beginning and end: a traceback says at its end what went wrong."""
    if len(text) <= characters_max:
        return text
    head = characters_max // 2
    return text[:head] + CUT + text[len(text) - (characters_max - head - 1) :]


def shortened_within(value: Any, characters_max: int, cut: Callable[[str, int], str] = shortened) -> Any:
    """The value with each text in it `cut`, in lists and dicts too.

    What is neither number nor text is its own repr where that has to be cut. An event of a busy subscription has lists
    of hundreds of dicts: what fits costs no call.
    """
    kind = type(value)
    if kind in _NUMBERS:
        return value
    if isinstance(value, str):
        return cut(value, characters_max)
    if kind is dict:
        return {
            cut(name, characters_max) if type(name) is str and len(name) > characters_max else name: each
            if type(each) in _NUMBERS or (type(each) is str and len(each) <= characters_max)
            else shortened_within(each, characters_max, cut)
            for name, each in value.items()
        }
    if kind in _LISTS:
        return [shortened_within(each, characters_max, cut) for each in value]
    text = repr(value)
    return value if len(text) <= characters_max else cut(text, characters_max)
