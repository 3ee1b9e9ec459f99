"""Which subscriptions are cut into streams: all of them, or in owner mode those that the configuration names.

It is decided once, at the start. A subscription that changed from one to the other while it runs would have to end at
every replica first; a restart does just that, and while replicas differ the broker keeps their consumers apart: an
owner's has all slots for itself, and a stream's those of the stream.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.subscription_patterns import read_pattern
from proxy.wire.topic_names import PERSISTENT

if TYPE_CHECKING:
    from proxy.net.group.settings import GroupSettings


class StreamedSubscriptions:
    """Those of one replica, as a container of topics and names."""

    def __init__(self, settings: GroupSettings) -> None:
        """By these settings; none for a gateway that shares nothing."""
        self._all = settings.streamed
        texts = settings.streamed_subscriptions if settings.owned else ()
        self._patterns = tuple(read_pattern(text) for text in texts)

    def __bool__(self) -> bool:
        """Whether there can be any."""
        return self._all or bool(self._patterns)

    def __contains__(self, key: object) -> bool:
        """Whether replicas share the subscription of this topic and name by streams; others have no cursor to share."""
        assert isinstance(key, tuple)
        topic, subscription = key
        named = self._all or any(pattern.matches(topic, subscription) for pattern in self._patterns)
        return named and bool(topic.startswith(PERSISTENT))
