"""The parts of a gateway that take a new configuration while they run: see `proxy.app.reload`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.app.log import set_level
from proxy.app.parts import picked
from proxy.app.reload import subscriptions_fit
from proxy.app.security import tokens
from proxy.net.subscription.settings import SubscriptionSettings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from admin_api.access.tokens import Tokens
    from proxy.app.log_limiter import LineLimiter
    from proxy.app.reload import Apply, Prepare
    from proxy.config.settings import Config
    from proxy.net.session.sessions import Sessions
    from proxy.net.subscription.directory import Subscriptions


class Reloadable:
    """Of one gateway."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        sessions: Sessions,
        callers: Tokens | None,
        log_limiter: LineLimiter,
    ) -> None:
        """`callers` is None where the admin API asks for no tokens."""
        self._subscriptions = subscriptions
        self._sessions = sessions
        self.callers = callers
        self._log_limiter = log_limiter

    @property
    def all(self) -> Sequence[Prepare]:
        """Each part's way to take one."""
        return self._limits, self._keys, self._rest

    def _limits(self, config: Config) -> Apply:
        """Limits and policies of subscriptions, those that are there too."""
        settings = picked(SubscriptionSettings, config)
        subscriptions_fit(self._subscriptions.ordered(settings))
        return lambda: self._subscriptions.reconfigure(settings)

    def _keys(self, config: Config) -> Apply:
        """The keys of callers' tokens are read anew from files of the same name, too."""
        callers, new = self.callers, tokens(config)
        if callers is None or new is None:
            return lambda: None
        return lambda: callers.become(new)

    def _rest(self, config: Config) -> Apply:
        def apply() -> None:
            set_level(config.serving.log_level)
            self._log_limiter.bound(config.serving.log_lines_per_s)
            client_side = config.client_side
            self._sessions.bound(client_side.connections_max, client_side.connections_per_address_max)

        return apply
