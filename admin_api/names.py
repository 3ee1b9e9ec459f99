"""The names in a path, checked: `/{tenant}/{namespace}/{topic}/{subscription}` as Pulsar's own admin API has them.

Topics, subscriptions and workers may have slashes in their names, which a path has as ``%2F``. The framework looks
for its routes in the decoded path, where such a slash is like any other; `NamesRoute` looks before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote, unquote

from fastapi import Depends, Path, Query, Request

from admin_api.access.guard import GuardedRoute
from admin_api.replicas import ServedElsewhereError, check_served_here, others_of
from proxy.errors import ClientError
from proxy.limits import NAME_CHARACTERS_MAX

if TYPE_CHECKING:
    from starlette.routing import Match
    from starlette.types import Scope

ENTITY = r"^[-=:.\w]+$"
"""Pulsar's rule for names of tenants and namespaces."""

Tenant = Annotated[str, Path(pattern=ENTITY, max_length=NAME_CHARACTERS_MAX, examples=["public"])]
Namespace = Annotated[str, Path(pattern=ENTITY, max_length=NAME_CHARACTERS_MAX, examples=["default"])]
Topic = Annotated[
    str,
    Path(
        max_length=NAME_CHARACTERS_MAX,
        description="Local name; of a partition with its `-partition-N`.",
        examples=["orders"],
    ),
]
SubscriptionName = Annotated[str, Path(max_length=NAME_CHARACTERS_MAX, examples=["billing"])]
WorkerName = Annotated[
    str,
    Path(
        max_length=NAME_CHARACTERS_MAX,
        description="As the client named it, or as the gateway did.",
        examples=["worker-1"],
    ),
]

BODY_BYTES_MAX = 1 << 18
"""Limit of a request; requests here have some kilobytes."""

SUBSCRIPTION_PATH = "/subscriptions/{tenant}/{namespace}/{topic}/{subscription}"
GROUP_PATH = "/groups/{tenant}/{namespace}/{topic}/{subscription}"
WORKER_PATH = SUBSCRIPTION_PATH + "/workers/{worker}"


class NamesRoute(GuardedRoute):
    """A route whose names may have slashes in them."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        """As the framework does, with a name's slashes still encoded."""
        match, child_scope = super().matches({**scope, "path": _path_in_parts(scope)})
        if "path_params" in child_scope:
            names = child_scope["path_params"]
            child_scope["path_params"] = {parameter: unquote(name) for parameter, name in names.items()}
        return match, child_scope


def encoded_path(scope: Scope) -> str:
    """The path as requested: an encoded character in it may be a slash."""
    raw: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    return raw.decode("ascii", errors="replace")


def _path_in_parts(scope: Scope) -> str:
    """The path decoded, except slashes that do not separate its parts, and percent signs."""
    parts = (unquote(part) for part in encoded_path(scope).split("/"))
    return "/".join(part.replace("%", "%25").replace("/", "%2F") for part in parts)


Here = Annotated[bool, Query(description="Ask this replica alone, also for what another one serves (owner mode).")]


def _key(
    request: Request,
    tenant: Tenant,
    namespace: Namespace,
    topic: Topic,
    subscription: SubscriptionName,
    here: Here = False,  # noqa: FBT002 - a query's form
) -> tuple[str, str]:
    key = f"persistent://{tenant}/{namespace}/{topic}", subscription
    check_served_here(request, key, here=here)
    return key


Key = Annotated[tuple[str, str], Depends(_key)]
"""Topic and subscription that a path names; what another replica serves is answered by that one."""


ReplicaName = Annotated[
    str, Path(max_length=NAME_CHARACTERS_MAX, description="As the deployment names it.", examples=["keyline-0-1f2e3d"])
]


def _at_replica(request: Request, replica: ReplicaName) -> None:
    others = others_of(request)
    if others is None:
        return
    found = others.find(replica)
    if found != others.here:
        raise ServedElsewhereError(found, None)


AtReplica = Depends(_at_replica)
"""The replica that a path names answers."""


class KeyOrSlot:
    """The slot of a query: that of a message key, or one by its number."""

    def __init__(
        self,
        key: Annotated[
            str | None, Query(max_length=100_000, description="A message key, as text.", examples=["customer-17"])
        ] = None,
        slot: Annotated[int | None, Query(ge=0, le=65_535, description="A slot of the hash space.")] = None,
    ) -> None:
        """Both together are ambiguous."""
        if key is not None and slot is not None:
            raise ClientError("give a key or a slot, not both")
        self.message_key = key.encode() if key is not None else None
        self.slot = slot

    def required(self) -> KeyOrSlot:
        """The same; raises `ClientError` if the query names neither."""
        if self.message_key is None and self.slot is None:
            raise ClientError("name a key or a slot")
        return self


MessageKey = Annotated[KeyOrSlot, Depends()]
