"""All settings of an operator, parsed once into frozen models and passed by argument.

Each setting has one name: `broker_url` in the file, ``KEYLINE_BROKER_URL`` in the environment, which overrides the
file. The groups order the documentation and the code that receives them; they are not part of the name, so a Helm
chart can pass any setting without knowing where it lives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from proxy.config.broker import Broker
from proxy.config.client_side import ClientSide
from proxy.config.delivery import Memory, Ordering, Producers
from proxy.config.journaling import Journaling
from proxy.config.replicas import Replicas
from proxy.config.serving import Security, Serving
from proxy.config.tracing import Tracing
from proxy.config.types import Group

ENVIRONMENT_PREFIX = "KEYLINE_"


@dataclass(frozen=True, slots=True)
class Config:
    """The whole configuration, grouped by the parts that need it."""

    broker: Broker
    serving: Serving
    security: Security
    ordering: Ordering
    producers: Producers
    replicas: Replicas
    journaling: Journaling
    tracing: Tracing
    memory: Memory
    client_side: ClientSide

    def values(self) -> dict[str, Any]:
        """Give every setting by its one name."""
        return {name: getattr(getattr(self, GROUP_OF[name][0]), name) for name in GROUP_OF}

    def changed(self, values: Mapping[str, Any]) -> Config:
        """The same with other values of some settings, which are valid."""
        groups = {
            attribute: getattr(self, attribute).model_copy(
                update={name: values[name] for name in group.model_fields if name in values}
            )
            for attribute, group in GROUPS.items()
        }
        return Config(**groups)


GROUPS: dict[str, type[Group]] = {
    "broker": Broker,
    "serving": Serving,
    "security": Security,
    "ordering": Ordering,
    "producers": Producers,
    "replicas": Replicas,
    "journaling": Journaling,
    "tracing": Tracing,
    "memory": Memory,
    "client_side": ClientSide,
}
"""Attribute of `Config` -> its model."""

GROUP_OF: dict[str, tuple[str, type[Group]]] = {
    name: (attribute, group) for attribute, group in GROUPS.items() for name in group.model_fields
}
"""Setting -> the group it is in; names are unique over all groups."""
