"""What can be wrong with bytes from a peer.

All of these mean that a peer's bytes break the protocol; a bug of the gateway raises something else. Which wire error,
log line and counter each becomes is decided in one table outside this package.
"""


class WireError(ValueError):
    """Bytes that break Pulsar's binary protocol.

    `what` is wrong, `where` it stands (with sizes or offsets in bytes) and what would be `right`; the message says all
    three. Bytes themselves are never quoted: they may be a user's payload or credentials.
    """

    def __init__(self, what: str, where: str, right: str) -> None:
        """Each part is a phrase without a full stop."""
        super().__init__(f"{what}, {where}; {right}")
        self.what = what
        self.where = where
        self.right = right


class FrameError(WireError):
    """A frame whose sizes or command are wrong. The stream it came from cannot be read any further."""


class MetadataError(WireError):
    """An entry whose headers or metadata are wrong. Only that entry is affected."""


class CodecError(WireError):
    """A payload that does not decompress to exactly the size its metadata declares, or not within the limit."""


class BatchError(WireError):
    """A batch payload that does not hold exactly the messages its metadata declares."""
