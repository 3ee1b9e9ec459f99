"""Makes the one consumer at the broker of a subscription that is not shared by streams."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.subscription.policy import is_migrating
from proxy.net.subscription.sentinel import Sentinel
from proxy.net.subscription.upstream import owner_subscribe, upstream_subscribe
from proxy.net.subscription.upstream_consumers import WHOLE, UpstreamConsumer

if TYPE_CHECKING:
    from proxy.net.subscription.services import Services
    from proxy.net.subscription.state import Lifecycle, SubscriptionState
    from proxy.net.subscription.upstream_consumers import StreamListener, UpstreamConsumers
    from proxy.wire import pulsar_pb2 as pb


def whole_consumer(
    state: SubscriptionState,
    services: Services,
    consumers: UpstreamConsumers,
    lifecycle: Lifecycle,
    listener: StreamListener,
    command: pb.CommandSubscribe,
    *,
    owned: bool,
) -> UpstreamConsumer:
    """Make it of the first worker's SUBSCRIBE; `owned` if no other may be beside it, unless direct workers may."""
    settings = state.settings
    migrating = is_migrating(state.key, settings.migrating_subscriptions)
    subscribe = owner_subscribe if owned and not migrating else upstream_subscribe
    template = subscribe(command, settings.replica_name)
    whole = UpstreamConsumer(state, services, consumers, lifecycle, template, WHOLE, listener)
    upstream, outstanding = whole.upstream, state.dispatcher.outstanding
    if owned and migrating:
        name = settings.replica_name
        whole.sentinel = Sentinel(state.key, name, state.clock, lambda: upstream.link, lambda: outstanding.highest)
    elif not owned and not migrating and command.durable:
        upstream.former.matters = lambda: state.dispatcher.ordered
        upstream.former.outstayed = lambda: _outstayed(state)
    return whole


def _outstayed(state: SubscriptionState) -> None:
    """Order is at stake unless the others are direct workers."""
    state.counters.takeovers_at_risk += 1
    state.happened("consumer_beside")
