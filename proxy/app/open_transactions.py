"""Open transactions, as brokers' admin API tells of them, asked with the gateway's own credentials.

Which topic and subscription is asked for, clients choose. So a path is only passed on if it has one reading
(`broker_path`), and all that is asked for is a number. The token does not go without TLS where the gateway reaches the
brokers by TLS: then brokers are asked without it, and may refuse.
"""

from __future__ import annotations

import asyncio
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from admin_api.pulsar.paths import broker_path
from admin_api.pulsar.proxying import whole
from proxy.errors import ClientError, KeylineError, UpstreamUnavailable
from proxy.net.broker.settings import TOKEN_METHOD
from proxy.net.subscription.takeover_asks import MayNotAsk, NotTold, TakeoverAsks, WithoutTransactions

if TYPE_CHECKING:
    from collections.abc import Callable

    from admin_api.pulsar.proxying import BrokerAdmin
    from proxy.config.load import Loaded
    from proxy.net.broker.settings import CredentialsProvider
    from proxy.net.ports import Clock

ANSWER_S_MAX: Final = 5.0
ANSWER_BYTES_MAX: Final = 256 << 10
"""Some hundred bytes, or for each coordinator: brokers have 16 by default. It is parsed on the event loop."""
_ROOT: Final = "/admin/v3/transactions"
_DOMAIN: Final = "persistent://"
_WITHOUT: Final = "This Broker is not configured with transactionCoordinatorEnabled"
"""So brokers without transactions begin, with 503. Not anywhere in it: answers repeat names, which clients choose."""
_PASSING: Final = frozenset({HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.TOO_MANY_REQUESTS})
"""Besides errors of its own, what a broker answers while a topic moves."""
_READY: Final = frozenset({"None", "Ready"})
"""States of a subscription's pending acknowledgements in which their number is known."""


class BrokerTransactionStats:
    """Implements `TransactionStats`."""

    def __init__(self, admin: BrokerAdmin, credentials: CredentialsProvider, loop: asyncio.AbstractEventLoop) -> None:
        """Nothing is asked yet."""
        self._admin = admin
        self._credentials = credentials
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def of_subscription(self, key: tuple[str, str], answered: Callable[[int | Exception], None]) -> None:
        """As `TransactionStats` says."""
        topic, subscription = key
        names = (*topic.removeprefix(_DOMAIN).split("/", 2), subscription)
        self._ask("/pendingAckStats/" + "/".join(quote(name, safe="") for name in names), _of_subscription, answered)

    def of_coordinators(self, answered: Callable[[int | Exception], None]) -> None:
        """As `TransactionStats` says."""
        self._ask("/coordinatorStats", _of_coordinators, answered)

    def close(self) -> None:
        """Ask no more, and tell no more."""
        for task in self._tasks:
            task.cancel()

    def _ask(self, path: str, read: Callable[[Any], int], answered: Callable[[int | Exception], None]) -> None:
        async def ask() -> None:
            try:
                told: int | Exception = await self._number(path, read)
            except KeylineError as error:
                told = error
            except Exception as error:  # noqa: BLE001 - a question without an answer would keep its place for ever
                told = _Unusable(f"the broker's answer to {_ROOT}{path} cannot be read: {error!r}")
            answered(told)

        task = self._loop.create_task(ask())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _number(self, path: str, read: Callable[[Any], int]) -> int:
        """Raises `KeylineError`, or any other exception for an answer that cannot be read."""
        try:
            checked = broker_path((_ROOT + path).encode())
            async with asyncio.timeout(ANSWER_S_MAX):
                answer = await self._admin.ask("GET", checked, "", self._headers())
                status, body = answer.status_code, await whole(answer, ANSWER_BYTES_MAX)
        except ClientError as error:
            raise NotTold(str(error)) from error
        except TimeoutError as error:
            raise UpstreamUnavailable(f"the broker's admin API did not answer within {ANSWER_S_MAX:.0f} s") from error
        if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN}:
            raise MayNotAsk(f"the broker's admin API answered {status}: it does not accept the gateway's credentials")
        if status == HTTPStatus.SERVICE_UNAVAILABLE and _says_without(body):
            raise WithoutTransactions("the brokers have no transactions")
        if status != HTTPStatus.OK:
            passing = status >= HTTPStatus.INTERNAL_SERVER_ERROR or status in _PASSING
            raise (_Unusable if passing else NotTold)(f"the broker's admin API answered {status} to {_ROOT}{path}")
        return read(json.loads(body))

    def _headers(self) -> dict[str, str]:
        credentials = self._credentials()
        if credentials is None or credentials.method != TOKEN_METHOD:
            return {}
        return {"authorization": f"Bearer {credentials.data.decode('latin-1')}"}


def takeover_asks_of(
    loaded: Loaded, admin: BrokerAdmin, provider: CredentialsProvider, clock: Clock, loop: asyncio.AbstractEventLoop
) -> tuple[TakeoverAsks | None, Callable[[], None]]:
    """Make the asking, and what ends it; None where the brokers' admin API is not configured.

    Its default is no reason to ask: what listens there may not be a broker.
    """
    broker = loaded.config.broker
    if loaded.origins["broker_admin_url"] == "default":
        return None, lambda: None
    in_clear = broker.broker_admin_url.startswith("http:") and broker.broker_url.startswith("pulsar+ssl:")
    transactions = BrokerTransactionStats(admin, (lambda: None) if in_clear else provider, loop)
    return TakeoverAsks(transactions, clock), transactions.close


class _Unusable(KeylineError):
    """An answer that does not tell; the next one may."""


def _says_without(body: bytes) -> bool:
    try:
        told = json.loads(body)
    except ValueError:
        return False
    return isinstance(told, dict) and str(told.get("reason")).startswith(_WITHOUT)


def _of_subscription(told: Any) -> int:
    if told["state"] not in _READY:
        raise ValueError(f"state {told['state']}")
    return _count(told["ongoingTxnSize"])


def _of_coordinators(told: Any) -> int:
    return sum(_count(coordinator["ongoingTxnSize"]) for coordinator in told.values())


def _count(told: Any) -> int:
    if not isinstance(told, int) or told < 0:
        raise ValueError(f"not a number of transactions: {told!r}")
    return told
