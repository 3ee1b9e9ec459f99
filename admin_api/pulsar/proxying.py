"""Requests to the broker's admin API on a client's behalf.

The client's own credentials are passed on and none of the gateway's are added: a client without permission at the
broker has none here either. Answers are streamed; only statistics that are merged are held, within a bound.
"""

from __future__ import annotations

import re
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import TYPE_CHECKING, Any, Final

import httpx

from admin_api.pulsar.paths import SAFE_METHODS, broker_path
from proxy.errors import ClientError, KeylineError, UpstreamUnavailable

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Mapping

STATS_BYTES_MAX: Final = 64 << 20
BODY_BYTES_MAX: Final = 8 << 20
REDIRECTS_MAX: Final = 3
CONNECT_S_MAX: Final = 5.0
CONNECTIONS_MAX: Final = 100

_PASSED_TO_BROKER: Final = ("accept", "authorization", "content-type", "user-agent", "x-pulsar-auth-method-name")
_OF_THE_HOP: Final = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade",
    }
)  # fmt: skip
"""Headers of one connection (RFC 9110, 7.6.1), besides those that `connection` names."""
_OF_THE_GATEWAY: Final = frozenset(
    {
        "content-security-policy", "cross-origin-resource-policy", "date", "referrer-policy", "server", "set-cookie",
        "x-content-type-options",
    }
)  # fmt: skip
"""What this server says itself, and the broker cannot say of it; cookies would be taken for its own."""
_CROSS_ORIGIN: Final = "access-control-"
"""Pages of other sites may not read what the gateway answers, even if the broker allows it."""
_HEADER_VALUE: Final = re.compile(r"[\t -~\x80-\xff]*")
"""RFC 9110, section 5.5: the meaning of non-ASCII bytes is up to the two ends, so they are passed on unchanged."""
_HEADER_ENCODING: Final = "latin-1"
"""As the server reads and writes headers: a character for each byte."""


class BadGateway(KeylineError):
    """The broker answered something that cannot be used."""

    http_status = 502


class TooLarge(KeylineError):
    """The client sends more than is taken."""

    http_status = 413


class BrokerAdmin:
    """The admin API of the brokers behind the gateway."""

    def __init__(
        self,
        base_url: str,
        *,
        timeout_s: float,
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Connects when first asked.

        Args:
            base_url: ``http://host:port``, with a path before ``/admin`` if there is one.
            timeout_s: how long the broker may be silent.
            tls: for ``https``, and needed there: making one takes longer than messages should wait.
            transport: instead of the network.
        """
        assert tls is not None or not base_url.startswith("https:")
        self._base = base_url.rstrip("/")
        self._tls = tls
        self._timeout = httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S_MAX))
        self._transport = transport
        self._opened: httpx.AsyncClient | None = None

    @property
    def _client(self) -> httpx.AsyncClient:
        if self._opened is None:
            self._opened = httpx.AsyncClient(
                timeout=self._timeout,
                verify=self._tls or False,
                transport=self._transport,
                limits=httpx.Limits(max_connections=CONNECTIONS_MAX, max_keepalive_connections=10),
                # Proxies of the environment are no way to a broker; and one client's cookies are not another's.
                trust_env=False,
                cookies=CookieJar(DefaultCookiePolicy(allowed_domains=[])),
            )
        return self._opened

    async def ask(
        self,
        method: str,
        path: str,
        query: str,
        headers: Mapping[str, str],
        body: AsyncIterator[bytes] | None = None,
    ) -> httpx.Response:
        """Pass a request on; its answer's body is yet to be read, and the answer to be closed.

        Args:
            method: any; of GET and HEAD redirects are followed.
            path: from `broker_path`.
            query: from `broker_query`.
            headers: the client's; what concerns the broker is passed on.
            body: the request's, if it has one.

        Raises:
            ClientError: the query is none, or a header has what no header has.
            UpstreamUnavailable: the broker cannot be reached, or is silent.
            BadGateway: it does not speak HTTP, or redirects in circles or out of its admin API.
        """
        try:
            url = httpx.URL(f"{self._base}{path}{'?' if query else ''}{query}")
        except httpx.InvalidURL as error:
            raise ClientError(f"the query cannot be passed on: {error}") from error
        if url.raw_path.partition(b"?")[0] != httpx.URL(self._base).raw_path.rstrip(b"/") + path.encode("ascii"):
            raise ClientError("the path would be passed on as another one")
        passed = _headers_for_broker(headers)
        if body is not None and "content-length" in headers:
            passed[b"content-length"] = headers["content-length"].encode(_HEADER_ENCODING)
        for _ in range(REDIRECTS_MAX + 1):
            answer = await self._send(self._client.build_request(method, url, headers=passed, content=body))
            if not answer.has_redirect_location or method not in SAFE_METHODS:
                return answer
            await answer.aclose()
            url = _redirected(answer)
        raise BadGateway(f"the broker at {self._base} redirected more than {REDIRECTS_MAX} times, last to {url}")

    async def _send(self, request: httpx.Request) -> httpx.Response:
        try:
            return await self._client.send(request, stream=True)
        except (httpx.ConnectError, httpx.TimeoutException, httpx.ReadError, httpx.WriteError) as error:
            raise UpstreamUnavailable(f"the broker's admin API at {_place(request)}: {_cause(error)}") from error
        except httpx.TransportError as error:
            raise BadGateway(f"the broker's admin API at {_place(request)}: {_cause(error)}") from error

    async def close(self) -> None:
        """Close every connection; idempotent."""
        opened, self._opened = self._opened, None
        if opened is not None:
            await opened.aclose()


def _headers_for_broker(headers: Mapping[str, str]) -> dict[bytes, bytes]:
    """What concerns the broker of a request's headers. Raises `ClientError`."""
    passed = {b"accept-encoding": b"identity"}
    for name in _PASSED_TO_BROKER:
        if name in headers:
            if not _HEADER_VALUE.fullmatch(headers[name]):
                raise ClientError(f"the header {name} has characters that no header has")
            passed[name.encode()] = headers[name].encode(_HEADER_ENCODING)
    return passed


def headers_for_client(answer: httpx.Response) -> dict[str, str]:
    """All that the broker says, but for what concerns its connection or is the gateway's own to say.

    Clients of Pulsar read much of it: ``X-Pulsar-*`` are a message's metadata where `pulsar-admin` peeks, gets by id
    and examines messages.
    """
    answer.headers.encoding = _HEADER_ENCODING
    named = {name.strip().lower() for name in answer.headers.get("connection", "").split(",")}
    kept_back = _OF_THE_HOP | _OF_THE_GATEWAY | named
    return {
        name: value
        for name, value in answer.headers.items()
        if name not in kept_back and not name.startswith(_CROSS_ORIGIN)
    }


def raw_headers_for_client(answer: httpx.Response) -> list[tuple[bytes, bytes]]:
    """The same as the broker writes them: `pulsar-admin` looks for ``X-Pulsar-PROPERTY-`` in capitals."""
    passed = headers_for_client(answer)
    return [(name, value) for name, value in answer.headers.raw if name.decode(_HEADER_ENCODING).lower() in passed]


async def whole(answer: httpx.Response, bytes_max: int) -> bytes:
    """The body of an answer, which is closed then.

    Raises:
        BadGateway: it is larger than `bytes_max`, or breaks off.
    """
    pieces: list[bytes] = []
    size_bytes = 0
    try:
        async for piece in answer.aiter_bytes():
            size_bytes += len(piece)
            if size_bytes > bytes_max:
                raise BadGateway(f"the broker's answer is larger than {bytes_max} bytes")
            pieces.append(piece)
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise BadGateway(f"the broker's answer broke off: {_cause(error)}") from error
    finally:
        await answer.aclose()
    return b"".join(pieces)


async def bounded(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """A client's body, as far as it may go. Raises `TooLarge`."""
    size_bytes = 0
    async for piece in stream:
        size_bytes += len(piece)
        if size_bytes > BODY_BYTES_MAX:
            raise TooLarge(f"a request's body may have {BODY_BYTES_MAX} bytes here")
        if piece:
            yield piece


def _redirected(answer: httpx.Response) -> httpx.URL:
    """Where a broker says that another one knows: that too must be an admin API."""
    try:
        url = answer.request.url.join(answer.headers["location"])
        broker_path(url.raw_path.partition(b"?")[0])
    except (httpx.InvalidURL, ClientError) as error:
        raise BadGateway(f"the broker redirected to {answer.headers['location']!r}: {error}") from error
    if url.scheme != answer.request.url.scheme:
        # Brokers stay with the scheme they were asked in.
        raise BadGateway(f"the broker redirected to {answer.headers['location']!r}, which changes the scheme")
    return url


def _place(request: httpx.Request) -> str:
    url = request.url
    return f"{url.scheme}://{url.netloc.decode('ascii')}"


def _cause(error: Any) -> str:
    """What went wrong; httpx has no words for some timeouts."""
    words = str(error)
    return f"{type(error).__name__}: {words}" if words else type(error).__name__
