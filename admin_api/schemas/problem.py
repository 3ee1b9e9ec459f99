"""The error model."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class InvalidParameter(BaseModel):
    """One thing that is wrong with a request."""

    name: str
    reason: str


class Problem(BaseModel):
    """RFC 9457 problem details."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not Found",
                    "status": 404,
                    "detail": "subscription billing has no worker w9 here; it has: w1, w2",
                    "instance": "/api/v1/subscriptions/public/default/orders/billing/workers/w9",
                }
            ]
        }
    )

    type: str = "about:blank"
    title: str
    status: int
    detail: str
    instance: str
    invalid_params: list[InvalidParameter] | None = None
