"""What all client sessions of a listener share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.limits import Limits
    from proxy.net.broker.names import BrokerNames
    from proxy.net.election.elections import ProducerElections
    from proxy.net.ports import Clock, Connector, SubscriptionDirectory
    from proxy.net.session.elsewhere import MakeElsewhere
    from proxy.net.session.settings import SessionSettings
    from proxy.net.slices import Slices


@dataclass(frozen=True, slots=True)
class SessionServices:
    """Everything that a session needs and does not own."""

    connector: Connector
    clock: Clock
    directory: SubscriptionDirectory
    elections: ProducerElections
    names: BrokerNames
    """The brokers that a client may be taken to."""
    settings: SessionSettings
    limits: Limits
    slices: Slices
    make_elsewhere: MakeElsewhere | None = None
    """Leads consumers to other replicas."""
    of_replicas: bool = False
    """Whether other replicas have led all of these clients here."""
