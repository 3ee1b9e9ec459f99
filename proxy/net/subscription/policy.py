"""What the first worker settles for a subscription, and what later ones must agree with.

As at the broker: the first consumer's key-shared mode and out-of-order flag build the dispatcher, and a consumer that
asks for another is refused as busy while others are connected (apache/pulsar issue 23449). The ordering mode comes
from configuration unless the consumer property `keyline.ordering-mode` says otherwise. What is asked of keys beyond
their order comes from both, too (`proxy.key_policies`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from proxy.core.dispatcher import OrderingMode
from proxy.core.selectors.auto_split import AutoSplit
from proxy.core.selectors.consistent_hashing import ConsistentHashing
from proxy.core.selectors.sticky_ranges import StickyRanges
from proxy.core.sticky_key import RANGE_SLOT_COUNT, consistent_slot, range_slot
from proxy.core.worker import Worker
from proxy.errors import ClientError
from proxy.key_policies import PROPERTIES, PROPERTY_PREFIX, configured, number
from proxy.limits import NAME_CHARACTERS_MAX, SUBSCRIBE_BYTES_MAX, TOPIC_CHARACTERS_MAX
from proxy.subscription_patterns import read_pattern
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable

    from proxy.core.selectors.base import Selector
    from proxy.net.subscription.settings import SubscriptionSettings

METADATA_CHARACTERS_MAX: Final = 64 << 10
"""Of a consumer's properties together; brokers take 1,024 unless they are told otherwise."""

KEY_CHARACTERS_SHOWN: Final = 100
"""Of a property that is refused; its key may be as long as the SUBSCRIBE."""

ORDERING_MODE_PROPERTY = "keyline.ordering-mode"


@dataclass(frozen=True, slots=True)
class SubscriptionPolicy:
    """How a subscription assigns and orders."""

    sticky: bool
    mode: OrderingMode
    asked: OrderingMode
    """What its first worker asked for; an operator may have ordered another mode since."""

    def new_selector(self, settings: SubscriptionSettings, *, streamed: bool = False) -> Selector[Worker]:
        """An empty selector of the right kind.

        One of a `streamed` subscription has its slots where streams are cut, so that each is in one stream: the
        entries of two streams come in no order that a slot could keep.
        """
        if self.sticky:
            return StickyRanges()
        if settings.selector == "auto_split":
            return AutoSplit()
        return ConsistentHashing(settings.consistent_hashing_points, range_slot if streamed else consistent_slot)


def policy_of(command: pb.CommandSubscribe, settings: SubscriptionSettings) -> SubscriptionPolicy:
    """What this worker asks for.

    Raises:
        ClientError: a property for the gateway that it does not know, or a value that is none. NotAllowedError, since
            that is one after which clients give up at once and show the text; most others they try again for a minute.
    """
    unknown = [pair.key for pair in command.metadata if pair.key.startswith(PROPERTY_PREFIX)]
    known_properties = (ORDERING_MODE_PROPERTY, *PROPERTIES)
    unknown = [name for name in unknown if name not in known_properties]
    if unknown:
        known = ", ".join(known_properties)
        message = f"no such consumer property: {unknown[0]}; those for the gateway are: {known}"
        raise ClientError(message, pb.NotAllowedError)
    meta = command.keySharedMeta
    sticky = meta.keySharedMode == pb.STICKY
    wanted = next((pair.value for pair in command.metadata if pair.key == ORDERING_MODE_PROPERTY), "")
    if meta.allowOutOfOrderDelivery:
        return SubscriptionPolicy(sticky, OrderingMode.UNORDERED, OrderingMode.UNORDERED)
    try:
        mode = OrderingMode(wanted or settings.ordering_mode)
    except ValueError:
        known = ", ".join(mode.value for mode in OrderingMode)
        message = f"consumer property {ORDERING_MODE_PROPERTY}={wanted!r} is not an ordering mode; use one of {known}"
        raise ClientError(message, pb.NotAllowedError) from None
    return SubscriptionPolicy(sticky, mode, mode)


def settings_of(
    command: pb.CommandSubscribe, key: tuple[str, str], settings: SubscriptionSettings
) -> SubscriptionSettings:
    """The settings of a subscription, by topic and name: what the configuration has for it, and its first worker asks.

    Raises:
        ClientError: a property's value is none, contradicts another number, or has no effect without order; as for
            `policy_of`.
    """
    ours = settings.changed(configured(settings.key_policies, *key))
    asked = numbers_asked(command)
    if asked.get("dead_letter_after") and not ours.dead_letter_after:
        message = (
            "consumer property keyline.dead-letter-after: the gateway publishes dead letters with its own rights, so "
            "only where its configuration has a dead_letter_after may a consumer choose another; ask its operator"
        )
        raise ClientError(message, pb.NotAllowedError)
    wanted = ours.changed(asked)
    delays = asked.keys() & {"retry_delay_ms", "retry_delay_max_ms"}
    if delays and wanted.retry_delay_ms > wanted.retry_delay_max_ms:
        message = (
            f"a retry delay of {wanted.retry_delay_ms} ms is above its maximum of {wanted.retry_delay_max_ms} ms: "
            "choose consumer properties keyline.retry-delay-ms and keyline.retry-delay-max-ms so that it is not"
        )
        raise ClientError(message, pb.NotAllowedError)
    return wanted


def settings_again(
    asked: dict[str, float], key: tuple[str, str], settings: SubscriptionSettings
) -> SubscriptionSettings:
    """The same after the configuration changed: its values, and over them what the workers `asked` for.

    Dead letters that the configuration no longer has are no worker's to ask for: then there are none.
    """
    ours = settings.changed(configured(settings.key_policies, *key))
    kept = dict(asked)
    if not ours.dead_letter_after:
        kept.pop("dead_letter_after", None)
    return ours.changed(kept)


def numbers_asked(command: pb.CommandSubscribe) -> dict[str, float]:
    """Numbers of a key policy among the consumer properties. Raises `ClientError`."""
    asked: dict[str, float] = {}
    for pair in command.metadata:
        name = PROPERTIES.get(pair.key)
        if name is None:
            continue
        if command.keySharedMeta.allowOutOfOrderDelivery:
            message = f"consumer property {pair.key} has no effect with allowOutOfOrderDelivery: leave one of them out"
            raise ClientError(message, pb.NotAllowedError)
        try:
            asked[name] = number(name, pair.value)
        except ValueError as error:
            message = f"consumer property {pair.key}={pair.value!r} {error}"
            raise ClientError(message, pb.NotAllowedError) from None
    return asked


def is_migrating(key: tuple[str, str], migrating: Iterable[str]) -> bool:
    """Whether direct workers of the broker's may share a subscription, by topic and name; `migrating` as configured."""
    return any(read_pattern(text).matches(*key) for text in migrating)


def refuse_oversized(command: pb.CommandSubscribe) -> None:
    """Take no worker that brings names or properties which are too long: they are kept, and told, while it is here.

    A frame has room for names of millions of characters, which each point of the ring would be hashed from, and every
    log line, event and sample of a metric would repeat. What else a SUBSCRIBE has is looked at in one turn of the loop.

    Raises:
        ClientError: its own name, its subscription's or its topic's is, or its properties are together; or all of it
            but its schema's data takes too many bytes, or it names more hash ranges than there are slots.
    """
    size_bytes = command.ByteSize() - len(command.schema.schema_data)
    if size_bytes > SUBSCRIBE_BYTES_MAX:
        message = (
            f"a SUBSCRIBE of {size_bytes} bytes besides its schema's data: at most {SUBSCRIBE_BYTES_MAX} are allowed"
        )
        raise ClientError(message, pb.NotAllowedError)
    range_count = len(command.keySharedMeta.hashRanges)
    if range_count > RANGE_SLOT_COUNT:
        message = f"{range_count} hash ranges: at most {RANGE_SLOT_COUNT} are allowed, one for each slot"
        raise ClientError(message, pb.NotAllowedError)
    for what, name, most in (
        ("consumer", command.consumer_name, NAME_CHARACTERS_MAX),
        ("subscription", command.subscription, NAME_CHARACTERS_MAX),
        ("topic", command.topic, TOPIC_CHARACTERS_MAX),
    ):
        if len(name) > most:
            raise ClientError(
                f"a {what} name of {len(name)} characters: at most {most} are allowed", pb.NotAllowedError
            )
    characters = sum(len(pair.key) + len(pair.value) for pair in command.metadata)
    if characters > METADATA_CHARACTERS_MAX:
        message = f"consumer properties of {characters} characters: at most {METADATA_CHARACTERS_MAX} are allowed"
        raise ClientError(message, pb.MetadataError)


def refuse_repeated_keys(command: pb.CommandSubscribe) -> None:
    """Take no worker whose properties have one key twice: a broker ends the connection that asks it so.

    That is the gateway's own here, which all subscriptions at a broker share. Clients keep properties in maps.

    Raises:
        ClientError: NotAllowedError, naming the first such key of its consumer, subscription or schema properties.
    """
    for what, pairs in (
        ("consumer", command.metadata),
        ("subscription", command.subscription_properties),
        ("schema", command.schema.properties),
    ):
        seen: set[str] = set()
        for pair in pairs:
            if pair.key in seen:
                message = f"{what} property {pair.key[:KEY_CHARACTERS_SHOWN]!r} is given twice: give each key once"
                raise ClientError(message, pb.NotAllowedError)
            seen.add(pair.key)


def refuse_in_group(command: pb.CommandSubscribe) -> None:
    """Refuse what no worker of a replica in a group may ask for.

    Raises:
        ClientError: NotAllowedError, since no other moment and no other replica would allow it.
    """
    if command.keySharedMeta.keySharedMode == pb.STICKY:
        message = (
            "key-shared mode STICKY is not for a subscription that a group of replicas shares: hash ranges are leased "
            "to replicas, not to workers; use AUTO_SPLIT, and the keys of this replica are divided among its workers"
        )
        raise ClientError(message, pb.NotAllowedError)
    if not command.durable:
        message = (
            "a non-durable subscription cannot be shared by a group of replicas: it would end when a replica hands "
            "over what it has; subscribe durably"
        )
        raise ClientError(message, pb.NotAllowedError)


def check_agreement(present: SubscriptionPolicy, command: pb.CommandSubscribe, settings: SubscriptionSettings) -> None:
    """Refuse a worker that asks for another policy than the connected ones; `settings` are what those asked for.

    Raises:
        ClientError: ConsumerBusy, naming what differs; NotAllowedError for what no Key_Shared consumer may.
    """
    if command.read_compacted:
        # The first worker hears so from the broker; the others' options never get there.
        raise ClientError("readCompacted only allowed on failover or exclusive subscriptions", pb.NotAllowedError)
    wanted = policy_of(command, settings)
    if wanted.sticky != present.sticky:
        names = {True: "STICKY", False: "AUTO_SPLIT"}
        message = f"the subscription's connected consumers use key-shared mode {names[present.sticky]}, not "
        raise ClientError(message + names[wanted.sticky], pb.ConsumerBusy)
    unordered = OrderingMode.UNORDERED
    if (wanted.mode is unordered) != (present.mode is unordered):
        message = f"the subscription's connected consumers have allowOutOfOrderDelivery={present.mode is unordered}"
        raise ClientError(message, pb.ConsumerBusy)
    explicit = any(pair.key == ORDERING_MODE_PROPERTY for pair in command.metadata)
    if explicit and wanted.mode is not present.asked:
        message = f"the subscription's connected consumers use {ORDERING_MODE_PROPERTY}={present.asked.value}"
        raise ClientError(message, pb.ConsumerBusy)
    for name, value in numbers_asked(command).items():
        if value != getattr(settings, name):
            asked = next(key for key, each in PROPERTIES.items() if each == name)
            message = f"the subscription's connected consumers use {asked}={getattr(settings, name):g}"
            raise ClientError(message, pb.ConsumerBusy)
