"""Bundles: what replicas own of the deployment's subscriptions when every subscription has one owner.

Problem: a group for each subscription costs heartbeats, a topic and a leader for each, whether it is used or not. Rule:
one group for the whole deployment, whose streams are *bundles* of subscriptions. A subscription of one topic partition
belongs to a bundle by a hash of both names, for ever; who has the bundle owns the subscription. So what replicas say to
each other does not grow with subscriptions, and no list of them is kept anywhere.

How many bundles there are is the group's cut (`GroupMemory.cut`): all replicas take it from the group's record, since
two that counted differently would look for one subscription in two places.

Source: EIP-0028, "General Idea", with a bundle in the place of a stream; Pulsar's own namespace bundles for the word.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

from proxy.groups.streams import STREAMS_MAX, GroupId

DEPLOYMENT: Final = GroupId("keyline", "owners")
"""The group of all replicas of a deployment. No topic has this name: topics begin with their domain."""

BUNDLES_DEFAULT: Final = STREAMS_MAX
"""Enough for even shares within some per cent at a dozen replicas; a record of them is a few kilobytes."""

_HASH_BYTES: Final = 8


def deployment_of(name: str | None) -> GroupId:
    """The group of the deployment with this name; deployments may share a namespace, and all but one have names."""
    return DEPLOYMENT if name is None else GroupId(DEPLOYMENT.topic, f"{DEPLOYMENT.subscription} of {name}")


def is_deployment(group: GroupId) -> bool:
    """Whether a group is of a deployment's replicas, and not of one subscription."""
    return group.topic == DEPLOYMENT.topic


def bundle_of(topic: str, subscription: str, bundles_count: int) -> int:
    """Return the bundle, from 0, of a subscription of one topic, or of one partition of it.

    A function of its arguments alone, the same in every release: replicas of two releases find the same owner. The
    topic's length is hashed too, so that no part of one name passes for a part of the other.
    """
    assert bundles_count >= 1, bundles_count
    name = topic.encode()
    digest = blake2b(b"%d:%b%b" % (len(name), name, subscription.encode()), digest_size=_HASH_BYTES).digest()
    return int.from_bytes(digest, "big") * bundles_count >> 8 * _HASH_BYTES
