"""What two replicas say before the first word of a client: that both know the deployment's secret, and for whom.

Problem: who may tell a gateway a client's address, and have its commands taken for that client's, must be a replica of
the same deployment. Rule: both ends prove that they know a secret, which no client has, over two fresh numbers, one of
each end. What was recorded on another connection proves nothing here, and what one end says does not pass for what the
other says. What the dialling end tells of its client is a part of what it proves.

    dials    HELLO     magic, number (32 bytes)
    listens  ANSWER    magic, number (32 bytes), proof (32 bytes)
    dials    PREAMBLE  proof (32 bytes), length (4 bytes), what is told; and then the client's own frames, from CONNECT

All parts have a fixed length except what is told, which is not read before it is proven.

The secret keeps strangers out. It does not encrypt what follows, and an attacker who can change bytes between
replicas can change these: that is TLS's part.

Source: RFC 2104 for the proof; "challenge-response with fresh nonces of both ends" for its shape.
"""

from __future__ import annotations

import hmac
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, Literal, NamedTuple

from pydantic import Base64Bytes, TypeAdapter, ValidationError

MAGIC: Final = b"KEYLINE-REPLICA-1\n"
"""No Pulsar frame begins so: read as a size it would be above a gigabyte."""
NUMBER_BYTES: Final = 32
PROOF_BYTES: Final = sha256().digest_size
LENGTH_BYTES: Final = 4
HELLO_BYTES: Final = len(MAGIC) + NUMBER_BYTES
ANSWER_BYTES: Final = len(MAGIC) + NUMBER_BYTES + PROOF_BYTES
TOLD_BYTES_MAX: Final = 64 * 1024
"""A client's certificate is a few kilobytes of it."""
SECRET_BYTES_MIN: Final = 32

_DIALS: Final = b"dials"
_LISTENS: Final = b"listens"


class UnprovenError(Exception):
    """The other end is no replica of this deployment, or none that this release understands."""


class Numbers(NamedTuple):
    """The two fresh numbers of one connection."""

    dialled: bytes
    listened: bytes


@dataclass(frozen=True, slots=True)
class Told:
    """What the replica at a client's side says of it, or of the operator whose question it passes on."""

    target: str
    """The replica that is meant: another at its address is to refuse."""
    teller: str
    """The replica that says so."""
    peer: str
    """The client's address, as ``host:port``; of an operator the name."""
    certificate: Base64Bytes | None = None
    """What the client showed to a listener that verifies it, as DER."""
    purpose: Literal["client", "question", "pulse"] = "client"
    """Whether a client's bytes follow, one question of an operator (`questions`), or signs of life (`pulses`)."""
    client: int = 0
    """The client's number at the teller, which has one leg for it at a time; 0 from a release that gives none."""


_TOLD: Final = TypeAdapter(Told)


class Secret:
    """What every replica of a deployment knows. The first of its keys proves, any of them is believed."""

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        """Raises ValueError without a key, or with one that could be guessed."""
        if not keys or any(len(key) < SECRET_BYTES_MIN for key in keys):
            message = f"a replicas' secret should have a line of {SECRET_BYTES_MIN} bytes at least, and none shorter"
            raise ValueError(message)
        self._keys = keys

    @classmethod
    def of_lines(cls, text: bytes) -> Secret:
        """A key in each line: a second one is believed while the first takes its place. Raises ValueError."""
        return cls(tuple(line.strip() for line in text.splitlines() if line.strip()))

    def _believes(self, proof: bytes, role: bytes, numbers: Numbers, told: bytes) -> bool:
        found = [hmac.compare_digest(_proof(key, role, numbers, told), proof) for key in self._keys]
        return any(found)  # all are compared: which one fits is not to be timed

    # ---- who dials

    def preamble(self, answer: bytes, dialled: bytes, told: Told) -> bytes:
        """Read ANSWER and write PREAMBLE. Raises `UnprovenError`."""
        if not answer.startswith(MAGIC) or len(answer) != ANSWER_BYTES:
            message = "the other end is no replica that we understand"
            raise UnprovenError(message)
        numbers = Numbers(dialled, answer[len(MAGIC) : HELLO_BYTES])
        if not self._believes(answer[HELLO_BYTES:], _LISTENS, numbers, b""):
            message = "the other end does not know the replicas' secret"
            raise UnprovenError(message)
        data = _TOLD.dump_json(told)
        assert len(data) <= TOLD_BYTES_MAX, "more is told than may be"
        proof = _proof(self._keys[0], _DIALS, numbers, data)
        return proof + len(data).to_bytes(LENGTH_BYTES, "big") + data

    # ---- who listens

    def answer(self, numbers: Numbers) -> bytes:
        """Write ANSWER."""
        return MAGIC + numbers.listened + _proof(self._keys[0], _LISTENS, numbers, b"")

    def told(self, proof: bytes, data: bytes, numbers: Numbers) -> Told:
        """Read what is told, once it is proven. Raises `UnprovenError`."""
        if not self._believes(proof, _DIALS, numbers, data):
            message = "it does not know the replicas' secret"
            raise UnprovenError(message)
        try:
            return _TOLD.validate_json(data)
        except ValidationError as error:
            message = f"what it tells is not understood: {error.errors(include_url=False)[0]['msg']}"
            raise UnprovenError(message) from error


def hello(dialled: bytes) -> bytes:
    """Write HELLO."""
    assert len(dialled) == NUMBER_BYTES
    return MAGIC + dialled


def number_in(data: bytes) -> bytes:
    """Read HELLO. Raises `UnprovenError`."""
    if not data.startswith(MAGIC) or len(data) != HELLO_BYTES:
        message = "it does not begin as a replica does"
        raise UnprovenError(message)
    return data[len(MAGIC) :]


def _proof(key: bytes, role: bytes, numbers: Numbers, told: bytes) -> bytes:
    """All parts but the last have a fixed length for their role, so that no two sayings have the same bytes."""
    return hmac.digest(key, MAGIC + role + numbers.dialled + numbers.listened + told, sha256)
