"""Errors of routes, of the framework and of bugs as RFC 9457 problem details."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from admin_api.schemas.problem import InvalidParameter, Problem
from proxy.errors import KeylineError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI

MEDIA_TYPE = "application/problem+json"


class Forbidden(KeylineError):
    """The caller has no permission; the message names what it needs."""

    http_status = 403


class Unavailable(KeylineError):
    """Not possible now; the message names the reason."""

    http_status = 503


def problem(
    status: int, detail: str, request: HTTPConnection, headers: Mapping[str, str] | None = None, **more: Any
) -> JSONResponse:
    """Write one answer; its type is the default one, so that the title is the status' own phrase."""
    body = Problem(title=HTTPStatus(status).phrase, status=status, detail=detail, instance=request.url.path, **more)
    return JSONResponse(
        body.model_dump(mode="json", exclude_none=True), status, headers=dict(headers or {}), media_type=MEDIA_TYPE
    )


def answer_problems(app: FastAPI) -> None:
    """Let every error of the app leave as a problem."""

    @app.exception_handler(KeylineError)
    async def ours(request: Request, error: KeylineError) -> JSONResponse:
        return problem(error.http_status, str(error), request)

    @app.exception_handler(HTTPException)
    async def of_the_framework(request: Request, error: HTTPException) -> JSONResponse:
        detail = str(error.detail)
        if error.status_code == HTTPStatus.NOT_FOUND and detail == HTTPStatus.NOT_FOUND.phrase:
            detail = f"there is nothing at {request.url.path}; /openapi.json lists all paths"
        elif error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            allowed = (error.headers or {}).get("Allow", "")
            detail = f"{request.method} is not served here" + (f"; what is: {allowed}" if allowed else "")
        return problem(error.status_code, detail, request, error.headers)

    @app.exception_handler(Exception)
    async def a_fault(request: Request, _: Exception) -> JSONResponse:
        return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal error; see the gateway's log", request)

    @app.exception_handler(RequestValidationError)
    async def bad_input(request: Request, error: RequestValidationError) -> JSONResponse:
        wrong = [
            InvalidParameter(name=".".join(map(str, item["loc"][1:])) or str(item["loc"][0]), reason=_reason(item))
            for item in error.errors()
        ]
        detail = "; ".join(f"{item.name} {item.reason}" for item in wrong)
        return problem(HTTPStatus.BAD_REQUEST, detail, request, invalid_params=wrong)


_REASONS: Final = {
    "greater_than_equal": "must be at least {ge}",
    "less_than_equal": "must be at most {le}",
    "int_parsing": "must be a whole number",
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_parsing": "must be a number",
    "bool_parsing": "must be true or false",
    "string_too_short": "must have at least {min_length} characters",
    "string_too_long": "must have at most {max_length} characters",
    "string_pattern_mismatch": "has characters that it may not have",
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "literal_error": "must be {expected}",
    "json_invalid": "is no JSON: {error}",
}
"""Texts for a reader of the API; other errors keep the validator's text."""


def _reason(item: Any) -> str:
    """What is wrong with a value, as the rest of a sentence that its name begins."""
    words = _REASONS.get(item["type"])
    if words is None:
        message = str(item["msg"])
        return f"is refused: {message[:1].lower()}{message[1:]}"
    return words.format(**item.get("ctx", {}))
