"""What all subscriptions of a gateway share. The directory makes it, and their parts are handed it instead of that.

A subscription costs memory also when nothing is sent: its ring of hash points, its consumer at the broker. So there is
a bound for each kind, and one more is told so in the broker's own words and codes: ConsumerBusy for a worker too many
(`PersistentDispatcherMultipleConsumers.addConsumer`), NotAllowedError for a subscription too many
(`PersistentTopic.internalSubscribe`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from proxy.core.contract_sample import sample_of
from proxy.core.contract_violations import ContractTotals
from proxy.core.earlier_attempts import EarlierAttempts
from proxy.core.quarantine import Quarantine
from proxy.errors import ClientError
from proxy.net.events import Events
from proxy.net.slices import Slices
from proxy.net.subscription.former import Formers
from proxy.net.subscription.order_book import OrderBook
from proxy.net.subscription.transactions import TransactionRegistry
from proxy.wire import pulsar_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Callable

    from proxy.net.ports import Brokers, Clock
    from proxy.net.subscription.openings import Openings
    from proxy.net.subscription.settings import SubscriptionSettings
    from proxy.net.subscription.takeover_asks import TakeoverAsks


class Services:
    """One of a gateway."""

    def __init__(
        self,
        brokers: Brokers,
        clock: Clock,
        settings: SubscriptionSettings,
        openings: Openings,
        account: Callable[[int], None],
        contract_salt: int = 0,
    ) -> None:
        """`settings` are the configuration's; `account` is told of each byte more or less that is held."""
        self.brokers = brokers
        self.clock = clock
        self.settings = settings
        self.openings = openings
        self.account = openings.account = account
        self.quota = Quota(settings)
        self.orders = OrderBook()
        self.transactions = TransactionRegistry()
        self.takeovers: TakeoverAsks | None = None
        """Asks brokers how many transactions are open; None where they cannot be asked."""
        self.formers = Formers(clock)
        self.quarantine = Quarantine()
        self.earlier_attempts = EarlierAttempts()
        self.contract_sample = sample_of(settings.contract_monitor_one_in, contract_salt)
        """The slots of which deliveries are judged."""
        self.contract_totals = ContractTotals()
        self.events = Events(clock.now)
        self.slices = Slices(clock)
        """What joins and leaves by the thousand, or is read in one go, takes turns here."""
        self.reading_stopped = False
        """All subscriptions together hold too much: no permits are granted."""
        self.shutting_down = False
        """The gateway is shutting down."""
        self._names = 0

    def new_consumer_name(self) -> str:
        """A name for a worker that brought none, unique on this gateway."""
        self._names += 1
        return f"{self.settings.replica_name}-{self._names:x}"


HASH_RANGES_MAX: Final = 262_144
"""That all workers with ranges of their own (STICKY) have together: each takes some 400 bytes here."""


class Quota:
    """How many subscriptions, workers and ranges of theirs there may be, and how many were refused.

    A worker counts from its SUBSCRIBE on, not when it has joined: a crowd that comes at once waits for the broker
    together.
    """

    def __init__(self, settings: SubscriptionSettings) -> None:
        """No worker is here."""
        self.settings = settings
        self.workers = 0
        """Workers that are here, joined or joining."""
        self._hash_ranges = 0
        self.workers_refused_total = 0
        self.workers_per_subscription_refused_total = 0
        self.subscriptions_refused_total = 0

    def check(self, subscriptions: int, workers_of_subscription: int | None, command: pb.CommandSubscribe) -> None:
        """Let one more worker in; `workers_of_subscription` is None where it would be the first of a new subscription.

        Raises:
            ClientError: a bound is reached; that was counted.
        """
        settings = self.settings
        if self.workers >= settings.workers_max:
            self.workers_refused_total += 1
            raise ClientError(f"Gateway reached max consumers limit: {settings.workers_max}", pb.ConsumerBusy)
        named, others = _hash_ranges_of(command), self._hash_ranges
        if named and others + named > HASH_RANGES_MAX:
            self.workers_refused_total += 1
            message = f"{named} hash ranges: at most {HASH_RANGES_MAX} are allowed here, others have {others}"
            raise ClientError(message, pb.ConsumerBusy)
        if workers_of_subscription is None:
            if subscriptions >= settings.subscriptions_max:
                self.subscriptions_refused_total += 1
                raise ClientError(f"Exceed the maximum number of subscriptions here: {settings.subscriptions_max}")
        elif 0 < settings.workers_per_subscription_max <= workers_of_subscription:
            self.workers_per_subscription_refused_total += 1
            raise ClientError(
                f"Subscription reached max consumers limit: {settings.workers_per_subscription_max}", pb.ConsumerBusy
            )

    def worker_came(self, command: pb.CommandSubscribe) -> None:
        """A worker begins to join."""
        self.workers += 1
        self._hash_ranges += _hash_ranges_of(command)

    def worker_left(self, command: pb.CommandSubscribe) -> None:
        """A worker has left, or never came in; `command` is its own, or what is kept of it."""
        self.workers -= 1
        self._hash_ranges -= _hash_ranges_of(command)
        assert self.workers >= 0 <= self._hash_ranges


def _hash_ranges_of(command: pb.CommandSubscribe) -> int:
    meta = command.keySharedMeta
    return len(meta.hashRanges) if meta.keySharedMode == pb.STICKY else 0
