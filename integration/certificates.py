"""A test's certificate authority, and what it signs, as PEM files for brokers, gateways and clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import trustme
from cryptography.hazmat.primitives import serialization

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path


class Signed(NamedTuple):
    """A certificate and its key."""

    certificate: Path
    key: Path


class Authority:
    """One root certificate; a program that gets its file trusts it."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        """Make it, and the directory if it is missing."""
        directory.mkdir(parents=True, exist_ok=True)
        self._root = trustme.CA(organization_name=name)
        self._directory = directory
        self.file = directory / f"{name}.pem"
        self._root.cert_pem.write_to_path(str(self.file))

    def sign(self, name: str, *hosts: str, role: str | None = None, not_after: datetime | None = None) -> Signed:
        """A new certificate for these hosts, in files of that name, which take the place of older ones at once each.

        `role` is its common name; `not_after` is when it expires.
        """
        leaf = self._root.issue_cert(*hosts, common_name=role, not_after=not_after)
        signed = Signed(self._directory / f"{name}.cert.pem", self._directory / f"{name}.key.pem")
        _replace(signed.key, _pkcs8(leaf.private_key_pem.bytes()))
        _replace(signed.certificate, b"".join(part.bytes() for part in leaf.cert_chain_pems))
        return signed


def _pkcs8(pem: bytes) -> bytes:
    """The only form that Java reads."""
    key = serialization.load_pem_private_key(pem, None)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _replace(path: Path, content: bytes) -> None:
    new = path.with_suffix(".new")
    new.write_bytes(content)
    new.replace(path)
