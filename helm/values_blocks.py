"""Values about objects outside the chart: Pulsar, Secrets, certificates, the journal's place."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Map = dict[str, Any]
Texts = dict[str, str]
Port = Annotated[int, Field(ge=1, le=65_535)]
Count = Annotated[int, Field(ge=0)]
Positive = Annotated[int, Field(ge=1)]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?(m|[kKMGT]i?)?$")]


class Block(BaseModel):
    """A map in values.yaml."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel, validate_by_name=False)


class BrokerTls(Block):
    """TLS to the Pulsar release."""

    enabled: bool
    ca_secret: str
    ca_key: str


class Jwt(Block):
    """Token authentication of the Pulsar release."""

    enabled: bool
    role: Annotated[str, Field(min_length=1)]


class BrokerAuth(Block):
    """Authentication of the Pulsar release."""

    jwt: Jwt


class Pulsar(Block):
    """The release of apache/pulsar-helm-chart beside which the gateway runs."""

    release: str
    namespace: str
    fullname: str
    cluster_domain: Annotated[str, Field(min_length=1)]
    component: Literal["proxy", "broker"]
    tls: BrokerTls
    auth: BrokerAuth


class SecretKey(Block):
    """A key of a Secret that exists."""

    existing_secret: str
    key: Annotated[str, Field(min_length=1)]


class IssuerRef(Block):
    """The issuer, as cert-manager names it."""

    name: str
    kind: str
    group: str


class CertManager(Block):
    """A Certificate of cert-manager."""

    enabled: bool
    issuer_ref: IssuerRef
    duration: str
    renew_before: str
    dns_names: list[str]


class Tls(Block):
    """TLS for clients."""

    enabled: bool
    keep_plain: bool
    existing_secret: str
    client_ca: SecretKey
    cert_manager: CertManager


class AdminTokens(Block):
    """Which key the tokens for the admin API are signed with."""

    enabled: bool
    symmetric: bool
    existing_secret: str


class Volume(Block):
    """A persistent volume for the journal."""

    enabled: bool
    size: Quantity
    storage_class: str
    access_modes: list[str]
    existing_claim: str


class ObjectStore(Block):
    """An object store for the journal."""

    url: str
    credentials_secret: str


class Journal(Block):
    """The journal's place."""

    volume: Volume
    object_store: ObjectStore
    key_secret: SecretKey
