"""Tests that fail through the gateway and pass directly, and why that is as it should be."""

from __future__ import annotations

from typing import Final

_CERTIFICATE: Final = (
    "a client that authenticates by a certificate needs a gateway that asks each client for one and has a proxy role; "
    "this one has neither, for other tests come over TLS without a certificate"
)
KNOWN: Final = {
    "go TestTLSAuth": _CERTIFICATE,
    "go TestTLSAuthWithCertSupplier": _CERTIFICATE,
}
"""Reasons by the test's whole name."""
