"""The names in a path, checked: `/{tenant}/{namespace}/{topic}/{subscription}` as Pulsar's own admin API has them."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Query

from proxy.errors import ClientError

_ENTITY = r"^[-=:.\w]+$"
"""What Pulsar lets tenants and namespaces be called."""

Tenant = Annotated[str, Path(pattern=_ENTITY, max_length=1_000, examples=["public"])]
Namespace = Annotated[str, Path(pattern=_ENTITY, max_length=1_000, examples=["default"])]
Topic = Annotated[
    str, Path(max_length=1_000, description="Local name; of a partition with its `-partition-N`.", examples=["orders"])
]
SubscriptionName = Annotated[str, Path(max_length=1_000, examples=["billing"])]
ConsumerName = Annotated[
    str, Path(max_length=1_000, description="As the client named it, or as the gateway did.", examples=["worker-1"])
]

BODY_BYTES_MAX = 1 << 18
"""Of a request; what is asked here takes some kilobytes."""

SUBSCRIPTION_PATH = "/subscriptions/{tenant}/{namespace}/{topic}/{subscription}"
CONSUMER_PATH = SUBSCRIPTION_PATH + "/consumers/{consumer}"


def _key(tenant: Tenant, namespace: Namespace, topic: Topic, subscription: SubscriptionName) -> tuple[str, str]:
    return f"persistent://{tenant}/{namespace}/{topic}", subscription


Key = Annotated[tuple[str, str], Depends(_key)]
"""Topic and subscription that a path names."""


class KeyOrHash:
    """Which slot a query means: that of a message key, or one by its number."""

    def __init__(
        self,
        key: Annotated[
            str | None, Query(max_length=100_000, description="A message key, as text.", examples=["customer-17"])
        ] = None,
        hash: Annotated[int | None, Query(ge=0, le=65_535, description="A slot of the hash space.")] = None,  # noqa: A002 - PIP-379's name
    ) -> None:
        """Not both: which one would count?"""
        if key is not None and hash is not None:
            raise ClientError("give a key or a hash, not both")
        self.message_key = key.encode() if key is not None else None
        self.slot = hash

    def required(self) -> KeyOrHash:
        """The same; raises `ClientError` if the query names neither."""
        if self.message_key is None and self.slot is None:
            raise ClientError("name a key (?key=customer-17) or a hash (?hash=4711)")
        return self


MessageKey = Annotated[KeyOrHash, Depends()]
