"""Certificates in files: read, read again when they change, and never half."""

from __future__ import annotations

import socket
import ssl
import threading
from pathlib import Path

import pytest

from integration.certificates import Authority
from proxy.aio.tls import LOOK_S, TlsFiles, TlsWatch
from proxy.errors import ConfigurationError
from tests.net.fakes import FakeClock


def files_of(directory: Path) -> tuple[Authority, TlsFiles]:
    """A server's certificate."""
    authority = Authority(directory)
    signed = authority.sign("server", "localhost")
    return authority, TlsFiles(certificate=signed.certificate, key=signed.key, server=True)


def shown(files: TlsFiles, authority: Authority) -> bytes:
    """What a client sees that connects now."""
    ours, theirs = socket.socketpair()
    client = ssl.create_default_context(cafile=str(authority.file))
    server = threading.Thread(target=lambda: files.context.wrap_socket(ours, server_side=True).close())
    server.start()
    with client.wrap_socket(theirs, server_hostname="localhost") as connected:
        certificate = connected.getpeercert(binary_form=True)
    server.join()
    assert certificate is not None
    return certificate


def test_a_new_certificate_is_used_from_then_on(tmp_path: Path) -> None:
    """In the same context, which servers have been given; it is known when it expires."""
    authority, files = files_of(tmp_path)
    first, not_after_s = shown(files, authority), files.not_after_s
    assert not_after_s is not None
    assert not files.changed()
    authority.sign("server", "localhost")
    assert files.changed()
    assert not files.changed()
    assert shown(files, authority) != first


def test_a_key_of_another_certificate_changes_nothing_until_its_certificate_is_there(tmp_path: Path) -> None:
    """As where one file is replaced after the other."""
    authority, files = files_of(tmp_path)
    first = shown(files, authority)
    other = authority.sign("other", "localhost")
    other.key.replace(tmp_path / "server.key.pem")
    assert not files.changed()
    assert shown(files, authority) == first
    other.certificate.replace(tmp_path / "server.cert.pem")
    assert files.changed()
    assert shown(files, authority) != first


def test_a_file_that_goes_away_changes_nothing(tmp_path: Path) -> None:
    """It is told once, and looked for again."""
    authority, files = files_of(tmp_path)
    certificate = tmp_path / "server.cert.pem"
    kept = certificate.rename(tmp_path / "kept")
    assert not files.changed()
    assert not files.changed()
    kept.rename(certificate)
    assert files.changed()
    assert shown(files, authority)


@pytest.mark.parametrize("missing", ["certificate", "authorities"])
def test_what_cannot_be_read_at_the_start_is_an_error(tmp_path: Path, missing: str) -> None:
    """It names the file."""
    signed = Authority(tmp_path).sign("server", "localhost")
    (tmp_path / "none").write_text("nothing")
    paths = {"certificate": signed.certificate, "key": signed.key, missing: tmp_path / "none"}
    with pytest.raises(ConfigurationError, match=str(tmp_path / "none")):
        TlsFiles(**paths, server=True)


def test_old_protocols_are_spoken_to_nobody(tmp_path: Path) -> None:
    """Neither by a server of ours nor by a client, which looks at names besides."""
    authority, files = files_of(tmp_path)
    client = TlsFiles(authorities=authority.file, server=False)
    assert files.context.minimum_version is client.context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert client.context.check_hostname
    assert client.context.verify_mode is ssl.CERT_REQUIRED
    assert client.not_after_s is None


def test_they_are_looked_at_for_as_long_as_the_gateway_runs(tmp_path: Path) -> None:
    """Every few seconds."""
    authority, files = files_of(tmp_path)
    clock = FakeClock()
    watch = TlsWatch(clock, [files])
    watch.start()
    clock.advance(LOOK_S)
    assert watch.reloads == 0
    authority.sign("server", "localhost")
    clock.advance(LOOK_S)
    assert watch.reloads == 1
    watch.stop()
    authority.sign("server", "localhost")
    clock.advance(LOOK_S)
    assert watch.reloads == 1
