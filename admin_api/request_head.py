"""Checks of a request's head that refuse ambiguous HTTP.

A proxy in front of this port and the server behind it must agree on the end and the target of each request; otherwise
one client's bytes become another's request (request smuggling). h11 reads more than it must: lines that end
with a bare LF, folded lines, a length beside chunks. All of that is refused here, as RFC 9112 lets a server do
(sections 2.2, 5.2, 6.1, 6.3), and so are targets that no origin server is asked for (section 3.2).
"""

from __future__ import annotations

import re
from typing import Final

HEAD_END: Final = re.compile(rb"\n\r?\n")
"""The end of a head according to h11."""
_LINE_END: Final = re.compile(rb"(?<!\r)\n|\r(?!\n)")
_FOLD: Final = re.compile(rb"\n[ \t]")
_REQUEST_LINE: Final = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+ /[!-~]* HTTP/1\.[01]")
_HOST: Final = re.compile(rb"(?:[0-9A-Za-z._-]*|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")


def head_fault(head: bytes) -> str | None:
    """The error in a head, including the end of its last line; None if it is unambiguous."""
    if _LINE_END.search(head):
        return "each line of a request's head must end with CR LF"
    if _FOLD.search(head):
        return "a header may not be folded over several lines"
    request_line, *lines = head.removesuffix(b"\r\n\r\n").split(b"\r\n")
    if not _REQUEST_LINE.fullmatch(request_line):
        return "the request must be for a path of this server: METHOD /path HTTP/1.1"
    values: dict[bytes, list[bytes]] = {}
    for line in lines:
        name, _, value = line.partition(b":")
        values.setdefault(name.lower(), []).append(value.strip(b" \t"))
    return _framing_fault(values) or _host_fault(values)


def _framing_fault(values: dict[bytes, list[bytes]]) -> str | None:
    lengths = values.get(b"content-length", [])
    codings = values.get(b"transfer-encoding", [])
    if lengths and codings:
        return "a request has Content-Length or Transfer-Encoding, not both"
    if len(lengths) > 1 or any(not length.isdigit() for length in lengths):
        return "Content-Length must be one number"
    if codings and [coding.lower() for coding in codings] != [b"chunked"]:
        return "Transfer-Encoding may be: chunked"
    return None


def _host_fault(values: dict[bytes, list[bytes]]) -> str | None:
    hosts = values.get(b"host", [])
    if len(hosts) > 1 or any(not _HOST.fullmatch(host) for host in hosts):
        return "Host must be one name, with a port or without"
    return None
