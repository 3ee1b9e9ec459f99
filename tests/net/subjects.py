"""Certificates with subjects of every kind, signed by their own keys: what is read in them is no matter of trust."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

CN: Final = NameOID.COMMON_NAME
O: Final = NameOID.ORGANIZATION_NAME  # noqa: E741 - as everybody writes it
OU: Final = NameOID.ORGANIZATIONAL_UNIT_NAME

KEY: Final = ec.generate_private_key(ec.SECP256R1())
BEGINS_S: Final = 1_600_000_000
EXPIRES_S: Final = 2_000_000_000

Part = tuple[tuple[x509.ObjectIdentifier, str], ...]
"""What stands together in one part of a subject; nearly always one attribute."""


def certificate_of(*parts: Part, expires_s: float = EXPIRES_S) -> bytes:
    """As DER; `parts` in the order of the certificate, where the most specific one stands last."""
    subject = x509.Name(
        [x509.RelativeDistinguishedName([x509.NameAttribute(oid, text) for oid, text in part]) for part in parts]
    )
    signed = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(1)
        .not_valid_before(datetime.fromtimestamp(BEGINS_S, UTC))
        .not_valid_after(datetime.fromtimestamp(expires_s, UTC))
        .sign(KEY, hashes.SHA256())
    )
    return signed.public_bytes(Encoding.DER)


def named(name: str, expires_s: float = EXPIRES_S) -> bytes:
    """One with a common name, as authorities sign them."""
    return certificate_of(((O, "Example"),), ((CN, name),), expires_s=expires_s)
