"""Which way commands go on a connection that another replica opened for its client.

Only Key_Shared consumers come this way: all else of the client goes from its own replica to the broker. So
everything that is neither for one of them nor an answer to the owner's challenge is a mistake of the other replica, and
ends the leg. Two exceptions are news and not answered: END_TXN says that the coordinator has ended a transaction of the
client's, and `commands.client_gone` that the client has gone, which ends the leg when all before it was looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.net.session.end_cause import EndCause
from proxy.net.session.router import CommandRouter, Violation
from proxy.wire import commands
from proxy.wire import pulsar_pb2 as pb
from proxy.wire.client_commands import command_name, parse_as
from proxy.wire.topic_names import persistent_topic

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

_T = pb.BaseCommand

_NOTHING: Final[frozenset[int]] = frozenset()

SERVED: Final[AbstractSet[int]] = frozenset({
    _T.SUBSCRIBE, _T.ACK, _T.FLOW, _T.REDELIVER_UNACKNOWLEDGED_MESSAGES, _T.CLOSE_CONSUMER, _T.SEEK, _T.UNSUBSCRIBE,
    _T.GET_LAST_MESSAGE_ID, _T.CONSUMER_STATS,
})  # fmt: skip
"""What names a consumer."""


class ReplicaRouter(CommandRouter):
    """For the leg of one client."""

    def unparsed(self) -> frozenset[int]:
        """Nothing goes to the broker unseen."""
        return _NOTHING

    def take_data(self, kind: int, frame: bytes) -> None:
        """To its consumer; there are no producers here."""
        _check(kind)
        super().take_data(kind, frame)

    def take(self, kind: int, frame: bytes) -> None:
        """To its consumer. Raises `Violation`."""
        if kind == _T.END_TXN:
            self._workers.transaction_ended(parse_as(kind, frame).endTxn)
            return
        _check(kind)
        if frame == commands.client_gone():
            raise Violation(EndCause.CLIENT_LEFT, "the client has left the other replica")
        if kind == _T.SUBSCRIBE:
            body = parse_as(kind, frame).subscribe
            if body.subType != pb.CommandSubscribe.Key_Shared or persistent_topic(body.topic) is None:
                raise Violation(EndCause.UNKNOWN_COMMAND, "only Key_Shared subscriptions have an owner")
        super().take(kind, frame)


def _check(kind: int) -> None:
    if kind not in SERVED:
        raise Violation(EndCause.UNKNOWN_COMMAND, f"{command_name(kind)} is not served between replicas")
