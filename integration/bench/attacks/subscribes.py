"""A client asks for 2,000 consumers of one subscription at once, waits for the answers, leaves and repeats."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final

from integration.bench import frames_made
from integration.bench.attacks import when_told
from integration.bench.raw_worker import ANSWER_S_MAX, RawConnection
from integration.errors import IntegrationError
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.frames import encode_command

CONSUMERS: Final = 2_000
_T = pb.BaseCommand


class Flood(RawConnection):
    """One connection of the client."""

    def __init__(self, service_url: str, topic: str) -> None:
        """Connect, and look the topic up, which makes a broker take it."""
        self._answered = 0
        super().__init__(service_url)
        self._send(encode_command(_T(type=_T.LOOKUP, lookupTopic=pb.CommandLookupTopic(topic=topic, request_id=1))))
        self._await(_T.LOOKUP_RESPONSE)

    def come(self, subscribes: bytes) -> None:
        """Ask for all of them, and wait until each was let in or refused."""
        self._send(subscribes)
        while self._answered < CONSUMERS:
            self._read(ANSWER_S_MAX)

    def _take(self, kind: int, frame: bytes, at: float) -> None:
        if kind in (_T.SUCCESS, _T.ERROR):
            self._answered += 1
        else:
            super()._take(kind, frame, at)


def main(gateway_url: str, topic: str, ready: Path) -> None:
    """Attack until killed."""
    subscribes = b"".join(
        frames_made.subscribe(number, f"flood-{number}", topic, "flood") for number in range(CONSUMERS)
    )
    when_told(ready)
    while True:
        try:
            with Flood(gateway_url, topic) as flood:
                flood.come(subscribes)
        except (OSError, IntegrationError):  # it was thrown out, or not let in: it comes again
            continue


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[3], Path(sys.argv[4]))
