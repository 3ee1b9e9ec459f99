"""The gateway's whole path of a message that a producer sends, with its receipt: see `path`."""

from __future__ import annotations

from integration.bench import frames_made
from integration.bench.path import GatewayPath, StillClock, Wire
from proxy.net.subscription.settings import SubscriptionSettings


class RelayPath:
    """A gateway with one producer, on a connection of its own, ready to be fed."""

    def __init__(self, clock: StillClock, subscriptions: SubscriptionSettings | None = None) -> None:
        """Connect; `subscriptions` are settings that nothing here depends on."""
        self._clock = clock
        path = GatewayPath(worker_count=0, clock=clock, subscriptions=subscriptions)
        self._client = path.new_client()
        self._broker = path.broker.wires[-1]
        self._runs: list[tuple[bytes, bytes]] = []

    def pump(self, tails: list[bytes], at_a_time: int) -> int:
        """Send messages with these tails and give their receipts back, so many in one read; the messages.

        Frames are written at the first call, so that a later one counts what the gateway does, and nothing else.
        """
        if not self._runs:
            for start in range(0, len(tails), at_a_time):
                run = tails[start : start + at_a_time]
                self._runs.append((frames_made.sends(start, run), frames_made.send_receipts(start, len(run))))
        self._written(self._broker)
        for sent, receipts in self._runs:
            self._client.receiver.received(sent)
            self._clock.settle()
            assert self._written(self._broker) == sent
            self._broker.receiver.received(receipts)
            self._clock.settle()
            assert self._written(self._client) == receipts
        return len(tails)

    @staticmethod
    def _written(wire: Wire) -> bytes:
        data, wire.written = b"".join(wire.written), []
        return data
