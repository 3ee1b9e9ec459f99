"""The address of a WebSocket worker: topic, subscription and consumer parameters.

Pulsar's own parameters have the meaning of Pulsar's WebSocket service. An unsupported parameter that changes how
messages are consumed is refused, never ignored.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal
from urllib.parse import unquote

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from admin_api.names import ENTITY
from proxy.errors import ClientError, NotFound
from proxy.limits import NAME_CHARACTERS_MAX
from proxy.socket_request import OUTSTANDING_MAX, SocketRequest

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARTS_MIN: Final = 6
"""consumer, persistent, tenant, namespace, topic, subscription."""
PERSISTENT: Final = "persistent://"
OWN_WORDS: Final = "Value error, "
"""pydantic's prefix of the text of a custom check."""
_INT_END: Final = 1 << 31
_ACK_TIMEOUT_MS_MIN: Final = 1_000
"""Pulsar's clients allow nothing shorter."""


def _key_shared(value: str) -> str:
    if value != "Key_Shared":
        message = (
            f"{value} is not served here: this gateway serves Key_Shared workers; for others use the broker's own "
            "WebSocket service"
        )
        raise ValueError(message)
    return value


def _ack_timeout(value: int) -> int:
    if 0 < value < _ACK_TIMEOUT_MS_MIN:
        message = f"must be 0 or at least {_ACK_TIMEOUT_MS_MIN}"
        raise ValueError(message)
    return value


class ParametersV2(BaseModel):
    """As Pulsar's documentation has them; unknown ones are ignored, as there."""

    model_config = ConfigDict(frozen=True)

    subscriptionType: Annotated[str, AfterValidator(_key_shared)] = Field("Exclusive", validate_default=True)
    subscriptionMode: Literal["Durable", "NonDurable"] = "Durable"
    subscriptionInitialPosition: Literal["Latest", "Earliest"] = "Latest"
    receiverQueueSize: Annotated[int, Field(ge=0)] = OUTSTANDING_MAX
    consumerName: Annotated[str, Field(max_length=NAME_CHARACTERS_MAX)] = ""
    priorityLevel: Annotated[int, Field(ge=0, lt=_INT_END)] | None = None
    ackTimeoutMillis: Annotated[int, Field(ge=0, lt=_INT_END), AfterValidator(_ack_timeout)] = 0
    negativeAckRedeliveryDelay: Annotated[int, Field(ge=0, lt=_INT_END)] = 60_000
    pullMode: Annotated[bool, BeforeValidator(lambda value: str(value).lower() == "true")] = False
    cryptoFailureAction: Literal["FAIL", "DISCARD", "CONSUME"] = "FAIL"
    token: str | None = None
    maxRedeliverCount: Annotated[int, Field(ge=1, lt=_INT_END)] | None = None
    deadLetterTopic: Annotated[str, Field(max_length=NAME_CHARACTERS_MAX)] | None = None


class ParametersV1(ParametersV2):
    """The same, plus Keyline's; unknown ones are refused."""

    model_config = ConfigDict(extra="forbid")

    subscriptionType: Annotated[str, AfterValidator(_key_shared)] = "Key_Shared"
    frames: Literal["text", "binary"] = "text"


_PARAMETERS: Final[dict[str, type[ParametersV2]]] = {"v1": ParametersV1, "v2": ParametersV2}


def socket_request(raw_path: str, query: Mapping[str, str], token: str | None, peer: str) -> SocketRequest:
    """Read path, behind ``/ws/``, and query of an upgrade. Raises `ClientError` and `NotFound`."""
    dialect, _, rest = raw_path.partition("/")
    model = _PARAMETERS.get(dialect)
    if model is None:
        message = f"/ws/{dialect}: use /ws/v2/consumer/... or /ws/v1/consumer/..."
        raise NotFound(message)
    topic, subscription = _names(dialect, rest)
    try:
        wanted = model.model_validate(dict(query))
    except ValidationError as error:
        raise ClientError(
            "; ".join(f"{item['loc'][0]}: {item['msg'].removeprefix(OWN_WORDS)}" for item in error.errors())
        ) from error
    return SocketRequest(
        dialect="v1" if dialect == "v1" else "v2",
        topic=topic,
        subscription=subscription,
        peer=peer,
        token=token or wanted.token,
        consumer_name=wanted.consumerName,
        outstanding_max=min(max(wanted.receiverQueueSize, 1), OUTSTANDING_MAX),
        pull=wanted.pullMode,
        earliest=wanted.subscriptionInitialPosition == "Earliest",
        durable=wanted.subscriptionMode == "Durable",
        priority_level=wanted.priorityLevel,
        ack_timeout_s=wanted.ackTimeoutMillis / 1_000,
        nack_delay_s=wanted.negativeAckRedeliveryDelay / 1_000,
        encrypted=wanted.cryptoFailureAction,
        redeliveries_max=wanted.maxRedeliverCount,
        dead_letter_topic=_dead_letter_topic(wanted, topic, subscription),
        binary=isinstance(wanted, ParametersV1) and wanted.frames == "binary",
    )


def _dead_letter_topic(wanted: ParametersV2, topic: str, subscription: str) -> str:
    """Empty without one. Raises `ClientError`."""
    if wanted.maxRedeliverCount is None:
        if wanted.deadLetterTopic is not None:
            raise ClientError("deadLetterTopic: maxRedeliverCount must be given too")
        return ""
    name = wanted.deadLetterTopic or f"{topic}-{subscription}-DLQ"
    if "://" not in name:
        name = f"{PERSISTENT}{name if '/' in name else f'public/default/{name}'}"
    parts = name.removeprefix(PERSISTENT).split("/", 2)
    if not name.startswith(PERSISTENT) or len(parts) != len(("tenant", "namespace", "topic")) or not all(parts):
        message = f"deadLetterTopic: {name[:100]!r} should be the name of a persistent topic"
        raise ClientError(message)
    return name


def _names(dialect: str, rest: str) -> tuple[str, str]:
    """Topic and subscription; a topic's name may have slashes in it, as with Pulsar's service."""
    parts = [unquote(part) for part in rest.split("/")]
    right = f"/ws/{dialect}/consumer/persistent/{{tenant}}/{{namespace}}/{{topic}}/{{subscription}}"
    if parts[0] in {"producer", "reader"}:
        message = f"a {parts[0]} is not served here, only consumers: {right}; use the broker's own WebSocket service"
        raise NotFound(message)
    if parts[0] != "consumer" or len(parts) < _PARTS_MIN or not all(parts):
        message = f"the path should be {right}"
        raise ClientError(message)
    _, domain, tenant, namespace, *topic, subscription = parts
    if domain != "persistent":
        message = f"{domain}: only persistent topics are served here"
        raise ClientError(message)
    for name, value in (("tenant", tenant), ("namespace", namespace)):
        if not re.fullmatch(ENTITY, value):
            message = f"{name} {value[:100]!r}: only letters, digits and -=:._ may be in it"
            raise ClientError(message)
    names: dict[str, Any] = {"topic": "/".join(topic), "subscription": subscription}
    for name, value in names.items():
        if len(value) > NAME_CHARACTERS_MAX:
            message = f"{name}: at most {NAME_CHARACTERS_MAX} characters, not {len(value)}"
            raise ClientError(message)
    return f"persistent://{tenant}/{namespace}/{names['topic']}", subscription
