"""Reads series from a Prometheus server, or what answers as one does: range queries of its HTTP API, hour by hour.

Each metric is asked for by itself, so that an answer stays small. Prometheus gives the latest value before each step,
so a step should not be shorter than its scrape interval. Two series that differ only by labels of the scrape, such as
`job`, would be one here: that is refused, because each would look like the other's restart.

Source: Prometheus's documentation, "HTTP API": range queries, label values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

import httpx
import numpy as np

from proxy.exports.series import PREFIX, ExportError, Identity, Series, identity_of, is_wanted

HOUR: Final = timedelta(hours=1)
TIMEOUT_S: Final = 60.0
Row = Mapping[str, Any]


class PrometheusServer:
    """One of them."""

    def __init__(
        self, url: str, gateway_label: str, match: str = "", token_file: Path | None = None, step_s: int = 60
    ) -> None:
        """`match` narrows by labels, as in `{...}`; the server is asked with the token of `token_file`, if any.

        Raises:
            ExportError: the token cannot be read.
        """
        try:
            token = None if token_file is None else token_file.read_text().strip()
        except OSError as error:
            raise ExportError(f"{token_file}: {error.strerror or error}; it should have the server's token") from error
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=f"{url.rstrip('/')}/api/v1", headers=headers, timeout=TIMEOUT_S)
        self._url = url
        self._gateway_label = gateway_label
        self._match = match.strip().strip("{}")
        self._step_s = step_s

    def hours(self, since: datetime, until: datetime) -> Iterator[tuple[datetime, list[Series]]]:
        """All series of each whole hour that has some, from the one of `since` to the one of `until`; to be asked once.

        Raises:
            ExportError: the server cannot be asked, or there is nothing.
        """
        until = min(until, datetime.now(UTC))
        begin = since.replace(minute=0, second=0, microsecond=0)
        with self._http:
            names = self._names(begin, until)
            while begin < until:
                end = min(begin + HOUR - timedelta(milliseconds=1), until)
                found = [series for name in names for series in self._series(name, begin, end)]
                if found:
                    yield begin, found
                begin += HOUR

    def _names(self, since: datetime, until: datetime) -> list[str]:
        selector = f'{{__name__=~"{PREFIX}.+"{self._and_match}}}'
        asked = {"match[]": selector, "start": since.timestamp(), "end": until.timestamp()}
        names = sorted(filter(is_wanted, self._ask("label/__name__/values", asked)))
        if not names:
            time = f"{since:%Y-%m-%dT%H:%MZ} to {until:%Y-%m-%dT%H:%MZ}"
            advice = "it should scrape a gateway's /metrics"
            raise ExportError(f"{self._url}: no series of {selector} from {time}; {advice}")
        return names

    def _series(self, name: str, begin: datetime, end: datetime) -> Iterator[Series]:
        selector = f"{name}{{{self._and_match.lstrip(',')}}}"
        asked = {"query": selector, "start": begin.timestamp(), "end": end.timestamp(), "step": self._step_s}
        seen: dict[Identity, Mapping[str, str]] = {}
        for row in self._ask("query_range", asked)["result"]:
            labels = row["metric"]
            gateway = labels.get(self._gateway_label, "")
            identity = identity_of(name, labels, gateway)
            if identity in seen:
                differing = sorted(set(labels.items()) ^ set(seen[identity].items()))
                told = ", ".join(f'{label}="{value}"' for label, value in differing)
                raise ExportError(f"{name}: two series differ only in {told}; --match should choose one of them")
            seen[identity] = labels
            pairs = [(float(at), float(value)) for at, value in row["values"]]
            kept = [(round(at * 1e9), value) for at, value in pairs if not math.isnan(value)]
            if kept:
                at_ns, values = zip(*kept, strict=True)
                yield Series(identity, np.array(at_ns, np.int64), np.array(values, np.float64))

    @property
    def _and_match(self) -> str:
        return f",{self._match}" if self._match else ""

    def _ask(self, path: str, parameters: Mapping[str, Any]) -> Any:
        advice = "it should be the address of a Prometheus server"
        try:
            answer = self._http.get(path, params=dict(parameters))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ExportError(f"{self._url}: {error}; {advice}") from error
        try:
            said = answer.json()
        except ValueError:
            raise ExportError(f"{self._url}: HTTP {answer.status_code} without JSON; {advice}") from None
        if not isinstance(said, dict) or said.get("status") != "success":
            reason = said.get("error", said) if isinstance(said, dict) else said
            raise ExportError(f"{self._url}: HTTP {answer.status_code}: {reason}")
        return said["data"]
