"""Pulsar's own WebSocket protocol, so that existing clients work unchanged.

Source: `ConsumerMessage`, `ConsumerCommand` and `ConsumerHandler` of Pulsar's WebSocket service; its documentation,
"Pulsar WebSocket API".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from proxy.net.websocket.json_words import base64, encryption_context, position_of, quoted, read_object, to_json
from proxy.net.websocket.words import (
    Acknowledge,
    AskEndOfTopic,
    Permit,
    Refuse,
    Unsubscribe,
    Word,
    WordError,
    moment,
    whole_number,
)

if TYPE_CHECKING:
    from proxy.net.websocket.link import Frame
    from proxy.net.websocket.message import SocketMessage


class DialectV2:
    """Receipts and other messages that it lacks are not sent."""

    def read(self, frame: Frame) -> Word:
        """As the protocol says; a command without a known type is an acknowledgement."""
        said = read_object(frame)
        match said.get("type"):
            case "permit":
                return Permit(whole_number(said.get("permitMessages"), "permitMessages"))
            case "unsubscribe":
                return Unsubscribe()
            case "negativeAcknowledge":
                return Refuse((position_of(said.get("messageId")),))
            case "isEndOfTopic":
                return AskEndOfTopic()
            case _:
                return Acknowledge((position_of(said.get("messageId")),), None)

    def message(self, message: SocketMessage) -> Frame:
        """As the protocol says; JSON by hand, at a third of the price."""
        said = (
            f'{{"messageId":"{message.position.message_id}","payload":"{base64(message.payload)}"'
            f',"properties":{to_json(message.properties) if message.properties else "{}"}'
            f',"publishTime":"{moment(message.publish_time_ms)}","redeliveryCount":{message.redelivery_count}'
        )
        if message.event_time_ms:
            said += f',"eventTime":"{moment(message.event_time_ms)}"'
        if message.encryption is not None:
            said += f',"encryptionContext":{to_json(encryption_context(message.encryption))}'
        if message.key is not None:
            said += f',"key":{quoted(message.key.decode(errors="replace"))}'
        return said + "}"

    def joined(self, topics: list[str]) -> None:  # noqa: ARG002 - the protocol's, there is no word for it
        """No first frame."""
        return

    def receipt(self, request_id: int, not_held: list[str], error: str | None) -> None:  # noqa: ARG002 - as above
        """This protocol has none."""
        return

    def end_of_topic(self, *, reached: bool, asked: bool) -> Frame | None:
        """Only on request."""
        return to_json({"endOfTopic": reached}) if asked else None

    def mistake(self, error: WordError) -> None:  # noqa: ARG002 - as above
        """The connection ends instead, with the text as its reason."""
        return
