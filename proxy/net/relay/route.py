"""The target of a relay's next leg: the broker that its client names, if the cluster has named it.

With two replicas behind one address, a client may look up at one and connect to the other, or to a gateway that was
just started, which do not know the named broker. Such a client is first connected to a configured broker, which
authenticates it. Its first request with a topic is held back, and that topic is looked up there, with the client's own
credentials. If the answer is the broker that the client named, the relay moves there, invisibly to the client.
Otherwise the client is told to look up again.

So the gateway never connects to an address, or sends a token there, only because a client named it; and a refusal does
not depend on the named address. Costs: one connection and one lookup, for the first clients of a broker after a start
only.

Why not share names between replicas: they would need a channel and a secret where they have neither.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from proxy.wire import pulsar_pb2 as pb
from proxy.wire.topic_names import COORDINATOR_TOPIC

if TYPE_CHECKING:
    from proxy.net.broker.names import BrokerNames
    from proxy.service_url import ServiceUrl

_T = pb.BaseCommand


class RelayRoute:
    """The brokers of one client, in the order in which they are tried."""

    def __init__(
        self,
        brokers: tuple[ServiceUrl, ...],
        target: ServiceUrl | None,
        names: BrokerNames,
        listener_name: str | None = None,
        *,
        behind_proxy: bool,
    ) -> None:
        """`brokers` are the configured ones, or proxies; `target` is what the client wants.

        `listener_name` says whose addresses are dialled, where it is not that of the listener that was connected to.
        """
        assert brokers
        self._brokers = brokers
        self.target = target
        self._names = names
        self._listener_name = listener_name
        self._behind_proxy = behind_proxy
        self._left: list[ServiceUrl] = []
        self.broker = brokers[0]
        """Where the latest leg goes."""
        self.wish = ""
        """Which broker a proxy there is to be told of, as ``host:port``; nothing to a broker."""
        self.arrives = False
        """Whether the latest leg leads to where the client means to be, or only to who can say where that is."""
        self._stood_until = 0.0
        """Until when the target counts as known because a leg to it stood; see `lost`."""
        self._returns = False
        """Whether the latest leg was made for that reason alone."""

    def lookup(self, body: pb.CommandLookupTopic) -> bool:
        """Make a lookup ask for addresses that the gateway reaches; true if it did not.

        A client may want those of a listener for the world outside, but it is the gateway that dials; and a question of
        another replica's must have the same answer.
        """
        if (body.advertised_listener_name or None) == self._listener_name:
            return False
        body.ClearField("advertised_listener_name")
        if self._listener_name is not None:
            body.advertised_listener_name = self._listener_name
        return True

    @property
    def known(self) -> bool:
        """Whether the client may be taken to where it means to be."""
        return self.target is None or self._names.knows(self.target) or not self._names.lapsed(self._stood_until)

    @property
    def more(self) -> bool:
        """Whether there is another broker to try."""
        return bool(self._left)

    def begin(self) -> None:
        """Restart; `step` gives the first broker."""
        self.arrives = self.known
        self._returns = self.arrives and self.target is not None and not self._names.knows(self.target)
        if self.arrives and self.target is not None and not self._behind_proxy:
            self._left = [self.target]
        else:
            self._left = list(self._brokers)

    def lost(self) -> None:
        """An open leg is lost.

        Until its name expires, this client may return to the same broker: names expire without lookups, and a broker's
        restart is no reason to reject a client. A leg opened for this reason does not extend the time, so that an
        address that was reassigned is not trusted forever.
        """
        if self.arrives and not self._returns:
            self._stood_until = self._names.lapse_at()

    def step(self) -> None:
        """Go on to the next broker."""
        self.broker = self._left.pop(0)
        told = self.target if self._behind_proxy and self.arrives else None
        self.wish = "" if told is None else told.authority


def topic_of(kind: int, body: Any) -> str | None:
    """The topic whose broker a request is meant for; None for one that any broker could answer."""
    if kind == _T.TC_CLIENT_CONNECT_REQUEST:
        return COORDINATOR_TOPIC.format(body.tc_id)
    return body.topic if kind in (_T.SUBSCRIBE, _T.PRODUCER, _T.LOOKUP) else None
