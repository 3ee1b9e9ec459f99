"""Corrections of the framework's OpenAPI document.

Errors are problem details, and bad input gets 400. Answers that bypass the framework, for speed, are JSON too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi

from admin_api.problems import MEDIA_TYPE

if TYPE_CHECKING:
    from fastapi import FastAPI

    Document = dict[str, Any]

UNPROCESSABLE = "422"
PROBLEMS_FROM = "400"


def document_truly(app: FastAPI) -> None:
    """Let the app publish the corrected document."""

    def openapi() -> Document:
        if not app.openapi_schema:
            made = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
                tags=app.openapi_tags,
            )
            for verbs in made["paths"].values():
                for operation in verbs.values():
                    _mend(operation["responses"])
            for unused in ("HTTPValidationError", "ValidationError"):
                made["components"]["schemas"].pop(unused, None)
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]  # the way FastAPI's documentation shows


def _mend(responses: Document) -> None:
    if "HTTPValidationError" in str(responses.get(UNPROCESSABLE)):
        del responses[UNPROCESSABLE]
    for code, response in responses.items():
        content = response.get("content", {})
        if code >= PROBLEMS_FROM and "/Problem" in str(content):
            response["content"] = {MEDIA_TYPE: next(iter(content.values()))}
