"""Roles, and how a route declares the role it needs.

A viewer reads everything. An operator also moves work without harm to messages: pauses, resumes, drains and evicts. An
admin also changes ordering and limits, replays, and writes to the broker.

The role is declared at the route and checked when that route runs (`guarded`), never derived from the text of a path: a
path can be read in two ways, and only the route that runs counts.
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
"""Methods that are not logged."""
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
    """The least role for a request, by its scope; None if the route needs none."""
    page: Callable[[], Response] | None = None
    """The page for unauthenticated callers, instead of 401."""


def needs(
    role: Role | Callable[[MutableMapping[str, Any]], Role | None] | None,
    page: Callable[[], Response] | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Declare the least role for an endpoint: one for all requests, or derived from each; None means no role."""
    need = Need(role if callable(role) else lambda _: role, page)

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _DECLARED, need)
        return endpoint

    return declare


def declared(endpoint: Callable[..., Any] | None) -> Need:
    """An endpoint's declaration. Raises `LookupError` if there is none: such a route must not exist."""
    need: Need | None = getattr(endpoint, _DECLARED, None)
    if need is None:
        message = f"{endpoint} must declare the role that it needs: @needs(...)"
        raise LookupError(message)
    return need
