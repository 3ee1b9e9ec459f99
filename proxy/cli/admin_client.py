"""Client of a running gateway's admin API for the command line."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import httpx

from proxy.errors import KeylineError

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S = 30.0
DEFAULT_NAMESPACE = "public/default"
DOMAINS = ("persistent", "non-persistent")
EXPECTED = "expected persistent://tenant/namespace/name, tenant/namespace/name, or a name"
PAGE = 100
GATEWAY_HEADER = "x-keyline-gateway"
"""Of each answer: the name of the gateway, percent-encoded."""
TOKEN_VARIABLE = "KEYLINE_ADMIN_TOKEN"  # noqa: S105 - its name
CA_VARIABLE = "KEYLINE_ADMIN_CA_FILE"
"""File of the trusted authorities instead of the system's, for https."""


class Unanswered(KeylineError):
    """The gateway refused or did not answer; the message has the reason."""


class WrongUsage(KeylineError):
    """The command line is wrong; the message says what it should be."""


def subscription_path(topic: str, subscription: str) -> str:
    """The API's path of a subscription; topic names may be as short as with Pulsar's own tools.

    Raises:
        WrongUsage: the topic's name is invalid.
    """
    return _path("/subscriptions", *_persistent_parts(topic), subscription)


def group_path(topic: str, subscription: str) -> str:
    """The API's path of a group of replicas. Raises as `subscription_path`."""
    return _path("/groups", *_persistent_parts(topic), subscription)


def producers_path(topic: str) -> tuple[str, dict[str, str]]:
    """The API's path of a topic's exclusive producers, with the query. Raises as `subscription_path`."""
    domain, pieces = _topic_parts(topic)
    return _path("/exclusive-producers", *pieces), {"domain": domain}


def _persistent_parts(topic: str) -> list[str]:
    domain, pieces = _topic_parts(topic)
    if domain != "persistent":
        raise WrongUsage(f"topic {topic}: {EXPECTED}")
    return pieces


def _topic_parts(topic: str) -> tuple[str, list[str]]:
    """Domain, and tenant, namespace and local name."""
    domain, found, name = topic.rpartition("://")
    pieces = name.split("/") if "/" in name else [*DEFAULT_NAMESPACE.split("/"), name]
    right = len(pieces) == len(("tenant", "namespace", "name")) and all(pieces)
    if not right or (found and domain not in DOMAINS):
        raise WrongUsage(f"topic {topic}: {EXPECTED}")
    return domain or "persistent", pieces


def _path(*pieces: str) -> str:
    root, *names = pieces
    return "/".join([root, *(quote(name, safe="") for name in names)])


def worker_path(topic: str, subscription: str, worker: str) -> str:
    """The API's path of a worker. Raises as `subscription_path`."""
    return f"{subscription_path(topic, subscription)}/workers/{quote(worker, safe='')}"


class AdminClient:
    """One gateway, for one command."""

    def __init__(self, url: str) -> None:
        """`url` as ``http://127.0.0.1:8750``. The token is in the environment: command lines are public."""
        self.url = url.rstrip("/")
        self.answered_by = ""
        """The name of the gateway that answered last; empty before, and for one that does not tell it."""
        token = os.environ.get(TOKEN_VARIABLE)
        self._headers = {"authorization": f"Bearer {token}"} if token else {}
        self._verify = ssl.create_default_context(cafile=os.environ.get(CA_VARIABLE)) if url[:5] == "https" else False

    def ask(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        query: Mapping[str, Any] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> Any:
        """The answer of ``/api/v1`` + path, None where there is no body.

        Raises:
            Unanswered: there is no answer, or a refusal.
        """
        given = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            answer = httpx.request(
                method,
                f"{self.url}/api/v1{path}",
                json=json,
                params=given,
                headers=self._headers,
                timeout=timeout_s,
                trust_env=False,
                verify=self._verify,
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unanswered(f"no gateway answers at {self.url}: {error}; name it with --admin-url") from error
        self.answered_by = unquote(answer.headers.get(GATEWAY_HEADER, ""))
        if not answer.is_success:
            by = f" (answered by {self.answered_by} at {self.url})" if self.answered_by else ""
            raise Unanswered(_refusal(answer) + by)
        try:
            return answer.json() if answer.content else None
        except ValueError as error:
            raise Unanswered(_refusal(answer)) from error

    def pages(self, path: str, items: str, timeout_s: float = TIMEOUT_S) -> Any:
        """An answer with the items of all pages in its list `items`. Raises as `ask`."""
        whole = page = self.ask("GET", path, query={"limit": PAGE}, timeout_s=timeout_s)
        while page["next"] is not None:
            page = self.ask("GET", path, query={"limit": PAGE, "after": page["next"]}, timeout_s=timeout_s)
            whole[items] += page[items]
        whole["next"] = None
        return whole


def _refusal(answer: httpx.Response) -> str:
    """The text of a problem's body, or of the status without one."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return f"{answer.url} answered {answer.status_code} {answer.reason_phrase}; is that a gateway's admin API?"
