"""The name of a group's topic."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Final

from proxy.groups.bundles import DEPLOYMENT, is_deployment

if TYPE_CHECKING:
    from proxy.groups.streams import GroupId

TOPIC_PREFIX: Final = "keyline-group-"
"""How the names of groups' topics begin, within their namespace."""
DEPLOYMENT_PREFIX: Final = "keyline-deployment-"
"""The same of deployments with names: replicas of other deployments in the namespace leave their topics alone."""
READABLE_MAX: Final = 80
"""Readable characters of topic and subscription in it."""
_DIGEST_BYTES: Final = 8


def group_topic_name(namespace: str, group: GroupId) -> str:
    """One for each group, in the groups' namespace: what it is, and a digest of the whole, which may be of any length.

    A subscription's name may have characters that a topic's may not, and two that differ only there are two groups.
    """
    local = f"{group.topic.rpartition('/')[2]}-{group.subscription}"
    readable = re.sub(r"[^A-Za-z0-9_.-]", "_", local)[:READABLE_MAX]
    whole = "\n".join(group).encode()
    digest = hashlib.blake2b(whole, digest_size=_DIGEST_BYTES).hexdigest()
    prefix = DEPLOYMENT_PREFIX if is_deployment(group) and group != DEPLOYMENT else TOPIC_PREFIX
    return f"persistent://{namespace}/{prefix}{readable}-{digest}"
