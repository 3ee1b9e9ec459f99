"""A client's role by its certificate: the one that a broker's `AuthenticationProviderTls` would take.

Rule kept: that role, or none. A broker reads the subject as RFC 2253 text, the most specific part first, cuts it at
every comma and takes the first piece that begins with ``CN=``. So a common name with a comma loses its end there, one
with a plus sign gets a backslash, and two certificates can come to one role. A name that this changes is refused.

The listener has verified the certificate's chain. When it expires is looked at again here: a resumed TLS session brings
back a certificate without a look at its dates, and a connection may outlive it (see `Expiry`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple

from cryptography import x509
from cryptography.x509.oid import NameOID

from proxy.errors import ClientError
from proxy.net.alarm import Alarm
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from proxy.net.ports import Clock

ESCAPED: Final = frozenset('",+<>;=#\\')
"""What RFC 2253 (2.4) escapes, and Java with it."""
NO_PRINCIPALS: Final = frozenset({"__websocket_dummy_original_principle"})
"""A broker takes this one for Pulsar's WebSocket proxy, and asks for the permission of the connection's role alone."""
LOOK_S: Final = 3600.0
"""A certificate's last day is looked at again so often, since the clock of the day may be set."""


class Principal(NamedTuple):
    """A client that was authenticated here."""

    role: str
    expires_at_s: float
    """When its certificate does, in seconds since 1970."""


def principal_of(certificate: bytes, now_s: float) -> Principal:
    """Read a DER certificate; `now_s` is in seconds since 1970. Raises `ClientError` if it has no usable name."""
    try:
        read = x509.load_der_x509_certificate(certificate)
        role = _common_name(read.subject)
    except ValueError as error:
        raise _refusal("cannot be read") from error
    expires_at_s = read.not_valid_after_utc.timestamp()
    if now_s >= expires_at_s:
        raise _refusal("has expired")
    if role in NO_PRINCIPALS:
        raise _refusal("bears a name that means another thing to brokers")
    return Principal(role, expires_at_s)


def _common_name(subject: x509.Name) -> str:
    """Find the most specific common name: the last one in the certificate, the first one in text."""
    for part in reversed(subject.rdns):
        found = part.get_attributes_for_oid(NameOID.COMMON_NAME)
        if not found:
            continue
        name = found[0].value
        if len(part) > 1 or not isinstance(name, str) or not _is_plain(name):
            raise _refusal(
                "has a common name that brokers would read as another: printable ASCII without "
                f"{' '.join(sorted(ESCAPED))}, alone in its part of the subject, is taken"
            )
        return name
    raise _refusal("has no common name (CN)")


def _is_plain(name: str) -> bool:
    return bool(name) and name == name.strip() and name.isascii() and name.isprintable() and not ESCAPED & set(name)


def _refusal(why: str) -> ClientError:
    return ClientError(f"the client's certificate {why}", pb.AuthenticationError)


class Expiry:
    """Tells once when a principal's certificate has expired."""

    def __init__(self, clock: Clock, principal: Principal, expired: Callable[[], None]) -> None:
        """Begin to look; it has not expired yet."""
        self._clock = clock
        self._at_s = principal.expires_at_s
        self._expired = expired
        self._timer = Alarm(clock)
        self._look()

    def stop(self) -> None:
        """Tell nothing any more. Idempotent."""
        self._timer.cancel()

    def _look(self) -> None:
        left_s = self._at_s - self._clock.time()
        if left_s > 0:
            self._timer.set(min(left_s, LOOK_S), self._look)
        else:
            self._expired()
