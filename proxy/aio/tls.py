"""The gateway's certificates: TLS contexts from files, which are reloaded when they change.

Problem: certificates last weeks and a gateway longer; a restart would close every client's connection. An operator's
tool (cert-manager, certbot) replaces certificate and key one after the other, or both at once behind a symbolic link,
without a notification.
Rule: the files are checked every few seconds. New content is first loaded into a separate context, so that an
incomplete change, or a file that is not a certificate, changes nothing: it is logged once, and checked again.
Handshakes in progress and open connections keep their certificates. An authority that is removed from a file is trusted
until the next start, because OpenSSL cannot remove one.
"""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final

import structlog
from cryptography import x509

from proxy.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from proxy.net.ports import Clock, Timer

LOOK_S: Final = 5.0
"""Interval of the checks of files."""

log = structlog.get_logger("keyline.tls")

_Look = tuple[tuple[int, int, int] | None, ...]


class TlsFiles:
    """A certificate with its key, and the authorities whose certificates the other side may show."""

    def __init__(
        self, *, certificate: Path | None = None, key: Path | None = None, authorities: Path | None = None, server: bool
    ) -> None:
        """Read them. Of a `server` the authorities are those of clients, each of which needs a certificate then.

        Of a client no authorities means the system's; a broker's name must be in its certificate in any case.

        Raises:
            ConfigurationError: one cannot be read, or the key is not the certificate's.
        """
        self._certificate, self._key, self._authorities = certificate, key, authorities
        self._server = server
        self.not_after_s: float | None = None
        """When the certificate expires, in seconds since 1970; None without one."""
        self._problem: str | None = None
        self._seen = self._look()
        self.context = self._made()
        self._note_expiry()

    @property
    def well(self) -> bool:
        """Whether the contents of the files are in use."""
        return self._problem is None

    def changed(self) -> bool:
        """Whether the files have changed; the context then has their contents, if they are valid."""
        seen = self._look()
        if seen == self._seen and self._problem is None:
            return False
        try:
            self._made()
            self._fill(self.context)
        except ConfigurationError as error:
            self._tell(str(error))
            return False
        self._seen, self._problem = seen, None
        self._note_expiry()
        return True

    def _tell(self, problem: str) -> None:
        """Logged once, not at every check."""
        if problem != self._problem:
            self._problem = problem
            log.error("certificates not reloaded", problem=problem)

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if self._server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # Each renegotiation would cost a signature, and a client could request many on one connection.
        context.options |= ssl.OP_NO_RENEGOTIATION
        if not self._server and self._authorities is None:
            context.load_default_certs(ssl.Purpose.SERVER_AUTH)
        self._fill(context)
        return context

    def _fill(self, context: ssl.SSLContext) -> None:
        if self._authorities is not None:
            try:
                context.load_verify_locations(self._authorities)
            except OSError as error:  # ssl.SSLError is one
                raise ConfigurationError(f"{self._authorities}: no authorities can be read from it: {error}") from error
            if self._server:
                context.verify_mode = ssl.CERT_REQUIRED
        if self._certificate is not None:
            try:
                context.load_cert_chain(self._certificate, self._key)
            except OSError as error:
                both = f"{self._certificate} and {self._key}"
                message = f"{both}: no certificate with its key can be read from them: {error}"
                raise ConfigurationError(message) from error

    def _note_expiry(self) -> None:
        if self._certificate is not None:
            first = x509.load_pem_x509_certificates(self._certificate.read_bytes())[0]
            self.not_after_s = first.not_valid_after_utc.timestamp()

    def _look(self) -> _Look:
        return tuple(_signature(path) for path in (self._certificate, self._key, self._authorities) if path is not None)


class TlsWatch:
    """Checks certificate files as long as the gateway runs."""

    def __init__(self, clock: Clock, watched: Sequence[TlsFiles]) -> None:
        """`start` begins."""
        self._clock = clock
        self._watched = watched
        self._timer: Timer | None = None
        self.reloads = 0

    @property
    def well(self) -> bool:
        """Whether all files were readable at the last check."""
        return all(files.well for files in self._watched)

    def start(self) -> None:
        """Start the checks."""
        if self._watched:
            self._timer = self._clock.call_later(LOOK_S, self._look)

    def stop(self) -> None:
        """No more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _look(self) -> None:
        """A few small local files, and new ones are rare: reading them on the event loop is cheap."""
        for files in self._watched:
            if files.changed():
                self.reloads += 1
                log.info("certificates reloaded", not_after_s=files.not_after_s)
        self.start()


def _signature(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
