"""What a request to the broker's admin API asks for, told from its path as it came.

The path is passed on byte by byte, since a topic's name may hold ``%2F`` and two ways to write one character may mean
two things to a broker. So it is looked at, never rewritten: whatever could lead out of the broker's admin API once it
is decoded there is refused here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode

from proxy.errors import ClientError

_ROOTS: Final = ("/admin/", "/lookup/")
_PRINTABLE: Final = re.compile(r"[!-~]+")
_NO_PATH: Final = frozenset("?#\\")
"""What would end the path, or start another one, for some of those who read it."""
_DOTS: Final = frozenset({".", ".."})
_PATH_MAX: Final = 16_384
_STATS: Final = {"stats": False, "partitioned-stats": True}
_TRUE: Final = "true"


@dataclass(frozen=True, slots=True)
class StatsAsked:
    """A topic's statistics."""

    topic: str
    """Full name."""
    partitioned: bool
    """Whether those of all its partitions together."""


@dataclass(frozen=True, slots=True)
class StatsQuery:
    """A query for statistics, as we pass it on."""

    text: str
    consumers: bool
    """Whether the asker wants consumers listed; we need them in any case, to know our own."""
    per_partition: bool
    """Whether the asker wants each partition; likewise."""


def broker_path(raw: bytes) -> str:
    """The path, if it may be passed on.

    Raises:
        ClientError: it may not; the text says why.
    """
    path = raw.decode("latin-1")
    if len(path) > _PATH_MAX or not _PRINTABLE.fullmatch(path) or not _NO_PATH.isdisjoint(path):
        raise ClientError("the path has characters that no path has, or is too long")
    if not path.startswith(_ROOTS):
        raise ClientError(f"what is passed on to the broker begins with {' or '.join(_ROOTS)}, written just so")
    for segment in re.split(r"[/\\]", unquote(path, "latin-1")):
        if segment.partition(";")[0] in _DOTS:
            raise ClientError("the path has a segment of dots, which would lead to another one")
    return path


def broker_query(raw: bytes) -> str:
    """The query, without its question mark, if it may be passed on.

    Raises:
        ClientError: it may not.
    """
    query = raw.decode("latin-1")
    if query and (not _PRINTABLE.fullmatch(query) or "#" in query):
        raise ClientError("the query has characters that no query has; they must be percent-encoded")
    return query


def stats_asked(path: str) -> StatsAsked | None:
    """Which statistics a path means, if it means statistics of a persistent topic."""
    root, _, rest = path.partition("/admin/v2/persistent/")
    parts = rest.split("/")
    match [root, *parts]:
        case ["", tenant, namespace, topic, kind] if kind in _STATS and all((tenant, namespace, topic)):
            names = "/".join(unquote(part) for part in (tenant, namespace, topic))
            return StatsAsked(f"persistent://{names}", _STATS[kind])
        case _:
            return None


def stats_query(text: str, *, partitioned: bool) -> StatsQuery:
    """The query, with everything wanted that we need to find our own part in the answer."""
    # Latin-1 has a character for every byte, so that what stands for no text in UTF-8 stays what it was.
    asked = dict(parse_qsl(text, keep_blank_values=True, encoding="latin-1"))
    without_consumers = asked.pop("excludeConsumers", "").lower() == _TRUE
    per_partition = asked.pop("perPartition", _TRUE).lower() == _TRUE  # the broker's default
    if partitioned:
        asked["perPartition"] = _TRUE
    return StatsQuery(urlencode(asked, encoding="latin-1"), not without_consumers, per_partition)
