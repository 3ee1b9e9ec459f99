"""The admin API in-process, over a real gateway's subscriptions between fakes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from admin_api.access.tokens import Tokens
from admin_api.app import admin_app
from proxy.net.group.groups import Groups
from proxy.views.admin import Admin
from proxy.views.deployment import DeploymentView
from tests.admin_api.shared_app import SharedApp
from tests.net.session_rig import new_elections
from tests.net.subscription_rig import SubscriptionRig
from tests.net.subscription_rig_broker import TOPIC

ALONE = {"others", "sockets"}
"""Arguments of applications that serve beside others of their kind."""
CONFIGURATION = {"broker_token": {"value": "********", "origin": "environment"}}
SUBSCRIPTION = "/api/v1/subscriptions/" + TOPIC.removeprefix("persistent://") + "/s"


class AdminRig(SubscriptionRig):
    """Workers, broker and clock as in its base; `ask` speaks HTTP."""

    def __init__(
        self,
        *,
        read_only: bool = False,
        loopback: bool = False,
        tokens: Tokens | None = None,
        metrics_open: bool = True,
        app_options: Mapping[str, Any] | None = None,
        **settings: object,
    ) -> None:
        super().__init__(**settings)
        self.alarms.close()  # those who listen to events are counted here
        self.reasons: list[str] = []
        self.elections = new_elections(self.clock, self.subscriptions.events)
        self.groups = self.new_groups()
        admin = self.admin = Admin(
            self.subscriptions,
            self.elections,
            lambda: self.reasons,
            CONFIGURATION,
            groups=self.groups,
            deployment=self.new_deployment(),
        )
        self.serve(
            view=admin,
            control=admin,
            version="1.2.3",
            read_only=read_only,
            loopback=loopback,
            tokens=tokens,
            metrics_open=metrics_open,
            **(app_options or {}),
        )

    def serve(self, **options: Any) -> None:
        """Answer by an application with these arguments of `admin_app`, which other rigs may have, too."""
        self._options = options
        if options.keys() & ALONE:
            self._shared: SharedApp | None = None
            self.app = admin_app(**options)
        else:
            self._shared = SharedApp.of(**options)
            self.app = self._shared.app

    def new_groups(self) -> Groups | None:
        """What this gateway shares: nothing."""
        return None

    def new_deployment(self) -> DeploymentView | None:
        """Its part in owner mode: none."""
        return None

    def ask(self, method: str, path: str, *, faulty: bool = False, **more: Any) -> httpx.Response:
        """One request; the gateway's clock settles behind it. A fault of ours fails the test unless it is `faulty`."""
        if self._shared is not None:
            self._shared.ask(self._options)

        async def asked() -> httpx.Response:
            transport = httpx.ASGITransport(app=self.app, raise_app_exceptions=not faulty)
            async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
                return await client.request(method, path, **more)

        answer = asyncio.run(asked())
        self.clock.settle()
        return answer

    def get(self, path: str, **query: Any) -> Any:
        """The JSON of a successful GET below the subscription."""
        answer = self.ask("GET", SUBSCRIPTION + path, params=query)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def order(self, method: str, path: str, body: Any = None) -> Any:
        """The JSON of a successful order below the subscription, None without a body."""
        answer = self.ask(method, SUBSCRIPTION + path, json=body)
        assert answer.is_success, answer.text
        return answer.json() if answer.content else None
