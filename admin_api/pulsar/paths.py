"""The meaning of a request to the broker's admin API, from its path and query.

Gateway and broker must read a request in the same way, so each path has one accepted encoding: ambiguous ones are
refused, and the request that is passed on is byte by byte the one that was checked. A topic's name may still have a
slash: it is ``%2F``, which is not a separator behind the positions of tenant and namespace.

By default a request counts as a change, except known reads.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode

from proxy.errors import ClientError

SAFE_METHODS: Final = ("GET", "HEAD")
"""As HTTP writes them: method names are case-sensitive."""
_ROOTS: Final = ("/admin/", "/lookup/")
_SEGMENT: Final = re.compile(r"(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-F]{2})*")
"""RFC 3986, section 3.3, less the semicolon: brokers cut parameters off, readers of whole paths do not."""
_NEEDLESS: Final = re.compile(r"%(?:2D|2E|5F|3[0-9]|[46][1-9A-F]|[57][0-9A])")
"""Letters, digits and ``-._`` in an escape, which stand for themselves (section 2.3). The tilde may be in one, as Java
writes it."""
_TWICE: Final = re.compile(r"%25[0-9A-Fa-f]{2}")
_CONTROL: Final = re.compile(r"%(?:[01][0-9A-F]|7F)")
_PRINTABLE: Final = re.compile(r"[!-~]+")
_DOTS: Final = frozenset({".", ".."})
_PATH_MAX: Final = 16_384
_NAMES_FROM: Final = 6
"""Before this part a path has no names that may hold a slash: ["", admin, v2, persistent, tenant, namespace]."""
_STATS: Final = {"stats": False, "partitioned-stats": True}
_TRUE: Final = "true"
_CHANGING_READ: Final = re.compile(r"/backlog-quota-check(?![^/;?#])|checkallowautocreation(?!=false(?:&|$))")
"""Two reads that change something: a GET with which brokers drop or expire what is beyond a quota, and a parameter with
which GET /partitions creates the topic that it asks for."""
_DECODED_MAX: Final = 4
"""Times that a request is decoded to find those; a request that is still encoded then is not a known read."""


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
    """The path, if it is written in the one way that is passed on.

    Raises:
        ClientError: it is not; the text says what would be right.
    """
    path = raw.decode("latin-1")
    if not path.startswith(_ROOTS):
        raise ClientError(f"what is passed on to the broker begins with {' or '.join(_ROOTS)}, written just so")
    if len(path) > _PATH_MAX:
        raise ClientError(f"the path may have {_PATH_MAX} characters, not {len(path)}")
    for place, segment in enumerate(path.split("/")):
        _check_segment(segment, may_hold_slash=place >= _NAMES_FROM)
    return path


def _check_segment(segment: str, *, may_hold_slash: bool) -> None:
    """Raises `ClientError`."""
    if any(part.partition(";")[0] in _DOTS for part in re.split(r"[/\\]", unquote(segment, "latin-1"))):
        raise ClientError("the path has a segment of dots, which would lead to another one")
    if ";" in segment:
        raise ClientError("the path has parameters (;), which brokers drop; a semicolon of a name is written %3B")
    if not _SEGMENT.fullmatch(segment):
        raise ClientError("the path has characters that no path has; they are written %XX, with capital letters")
    if _CONTROL.search(segment):
        raise ClientError("the path has control characters, which no name has")
    if "%5C" in segment:
        raise ClientError("the path has a backslash, which some read as a slash")
    if _TWICE.search(segment):
        raise ClientError("the path is percent-encoded twice, and once is right")
    if _NEEDLESS.search(segment):
        raise ClientError("the path has letters, digits or -._ in percent-encoding; they stand for themselves")
    if "%2F" in segment and not may_hold_slash:
        raise ClientError("the path has an encoded slash where no name may hold one")


def changes_broker(method: str, raw_path: bytes, query: bytes) -> bool:
    """Whether a broker might read a request as a change: everything, but for what is known to be a read.

    A proxy in front of a broker may decode once more, so every reading counts, in every part of the request: no
    encoding hides a change.
    """
    if method not in SAFE_METHODS:
        return True
    read = (raw_path + b"?" + query).decode("latin-1")
    for _ in range(_DECODED_MAX):
        if _CHANGING_READ.search(read.lower()):
            return True
        encoded, read = read, unquote(read, "latin-1")
        if read == encoded:
            return False
    return True


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
