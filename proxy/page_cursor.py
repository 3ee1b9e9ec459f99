"""Where a page of subscriptions ends, as a text that a client gives back for the next page."""

from __future__ import annotations

from urllib.parse import unquote


def cursor_of(key: tuple[str, str]) -> str:
    """Topic and subscription in one text, from which both can be told again: either may have a slash in it."""
    topic, name = key
    return f"{topic}/{name.replace('%', '%25').replace('/', '%2F')}"


def key_of(cursor: str) -> tuple[str, str]:
    """What `cursor_of` made it of; any other text is a place in the order as well."""
    topic, _, name = cursor.rpartition("/")
    return topic, unquote(name)
