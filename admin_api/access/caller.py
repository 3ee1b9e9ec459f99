"""Who sends a request, as a text for events and logs."""

from __future__ import annotations

from typing import Annotated, Any, Final

from fastapi import Depends, Request

from admin_api.access.tokens import CALLER

NO_PORT: Final = 0
"""The port in a request that another replica passes on; its host is then what that replica says of the caller."""


def caller_of(request: Request) -> str:
    """The name in the caller's token; without one the address, and that it is not authenticated."""
    caller: Any = request.scope.get(CALLER)
    if caller is not None:
        return str(caller.name)
    if request.client is None:
        return "not authenticated"
    host, port = request.client
    return host if port == NO_PORT else f"{host}, not authenticated"


OrderedBy = Annotated[str, Depends(caller_of)]
