"""The role that we read in a certificate, beside the one that the broker's own code reads in it."""

from __future__ import annotations

import base64
import string
import subprocess
from pathlib import Path
from random import Random

import pytest
from cryptography.x509.oid import NameOID

from integration import artifacts
from integration.artifacts import PULSAR_VERSIONS
from integration.java import java
from proxy.errors import ClientError
from proxy.net.session.client_principal import principal_of
from tests.net.subjects import CN, OU, O, Part, certificate_of

PROGRAM = Path(__file__).parent / "java" / "CertificateRoles.java"
NOW_S = 1_700_000_000.0
JAVA_S_MAX = 240
DRAWN = 1_000
ALPHABET = string.ascii_letters + string.digits + string.punctuation + " \t\u00e4\u4e2d\u200b\u202e"
KINDS = (CN, CN, O, OU, NameOID.DOMAIN_COMPONENT, NameOID.SERIAL_NUMBER)

pytestmark = [pytest.mark.slow, pytest.mark.broker]


def drawn_subject(random: Random) -> list[Part]:
    """Of some parts, some of which have two attributes, and values that look like names or like traps."""
    parts: list[Part] = []
    for _ in range(random.randint(1, 3)):
        attributes = {}
        for _ in range(random.choices((1, 2), (6, 1))[0]):
            letters = ALPHABET if random.random() < 0.5 else string.ascii_lowercase
            text = "".join(random.choices(letters, k=random.randint(1, 6)))
            kind = random.choice(KINDS)
            plain = kind in (NameOID.DOMAIN_COMPONENT, NameOID.SERIAL_NUMBER)
            attributes[kind] = "plain" if plain else random.choice((text, f"{text},CN=admin", f"CN={text}"))
        parts.append(tuple(attributes.items()))
    return parts


def roles_of_broker(version: str, certificates: list[bytes]) -> list[str | None]:
    """What `AuthenticationProviderTls` says of each."""
    libraries = artifacts.ensure(artifacts.broker(version))
    lines = b"".join(base64.b64encode(certificate) + b"\n" for certificate in certificates)
    command = [str(java()), "-Xmx256m", "-cp", f"{libraries}/*", str(PROGRAM)]
    answer = subprocess.run(command, input=lines, capture_output=True, check=True, timeout=JAVA_S_MAX)
    return [base64.b64decode(line).decode() or None for line in answer.stdout.splitlines()]


def role_here(certificate: bytes) -> str | None:
    """What we say of it."""
    try:
        return principal_of(certificate, NOW_S).role
    except ClientError:
        return None


@pytest.mark.parametrize("version", PULSAR_VERSIONS)
def test_a_certificate_names_the_role_that_a_broker_would_take_or_none(version: str) -> None:
    """Never another one, whatever subject an authority signs; and plain names are taken."""
    random = Random(20)  # noqa: S311 - draws cases
    subjects = [drawn_subject(random) for _ in range(DRAWN)]
    subjects += [[((CN, f"a{letter}b"),)] for letter in string.printable if letter not in "\r\n"]
    certificates = [certificate_of(*subject) for subject in subjects]
    theirs = roles_of_broker(version, certificates)
    ours = [role_here(certificate) for certificate in certificates]
    pairs = list(zip(subjects, ours, theirs, strict=True))
    assert not [pair for pair in pairs if pair[1] is not None and pair[1] != pair[2]]
    assert sum(role is not None for role in ours) > DRAWN / 10
