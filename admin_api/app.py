"""The admin API as a value: routes over a read-only view of the gateway."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fastapi import FastAPI

from admin_api.routes.health import health_routes
from admin_api.routes.subscriptions import subscription_routes

if TYPE_CHECKING:
    from admin_api.ports import GatewayView


def admin_app(view: GatewayView, version: str) -> FastAPI:
    """Put the routes together. FastAPI's own documentation pages are off: they load scripts from elsewhere."""
    app = FastAPI(title="Keyline", version=version, docs_url=None, redoc_url=None)
    app.include_router(health_routes(view))
    app.include_router(subscription_routes(view))
    return app
