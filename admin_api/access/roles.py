"""Roles, and how a route declares which of them it needs.

A viewer sees everything. An operator besides moves work about, which harms no message: pauses, resumes, drains and
evicts. An admin besides changes how a subscription is served, delivers again, and writes to the broker.

The need is written beside the route it belongs to and checked where that very route is entered (`guarded`), never told
from the text of a path: two readers of one path may read two things, and only the route that runs counts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from starlette.responses import Response

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])

READS: Final = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods that are not worth a line in the log."""
_DECLARED: Final = "__keyline_need__"


class Role(IntEnum):
    """Each may do what those before it may."""

    VIEWER = 1
    OPERATOR = 2
    ADMIN = 3

    @property
    def word(self) -> str:
        """For people."""
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Need:
    """What a route needs of its caller."""

    of: Callable[[MutableMapping[str, Any]], Role | None]
    """The least role for a request, by its scope; None if the route is for everybody."""
    page: Callable[[], Response] | None = None
    """What a stranger is shown instead of 401."""


def needs(
    role: Role | Callable[[MutableMapping[str, Any]], Role | None] | None,
    page: Callable[[], Response] | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Declare the least role for an endpoint: one for all requests, or told from each; None is for everybody."""
    need = Need(role if callable(role) else lambda _: role, page)

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _DECLARED, need)
        return endpoint

    return declare


def declared(endpoint: Callable[..., Any] | None) -> Need:
    """What an endpoint declares. Raises `LookupError` if it declares nothing: such a route must not exist."""
    need: Need | None = getattr(endpoint, _DECLARED, None)
    if need is None:
        message = f"{endpoint} must declare the role that it needs: @needs(...)"
        raise LookupError(message)
    return need
