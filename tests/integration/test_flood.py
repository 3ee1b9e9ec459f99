"""Thousands of SUBSCRIBEs on one connection: each is answered, and everybody else is served between.

Judged by what happened meanwhile and by shares of the flood's own time, for machines differ and so does what else runs
on them: before there were slices, nothing at all happened to others between the first answer and the last.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager

import httpx
import pytest

from integration.gateway import KeylineGateway
from integration.standalone import PulsarStandalone
from integration.threads import beside
from proxy.app.log_limiter import BURST_S
from proxy.wire import pulsar_pb2 as pb
from tests.integration.bystander import Bystander
from tests.integration.conditions import eventually
from tests.integration.conftest import StartGateway
from tests.integration.raw_client import RawClient, T, frame

PER_CONNECTION_MAX = 3_000
PER_SUBSCRIPTION_MAX = 1_500
EXCHANGES_MIN = 40
"""Of the bystander before the flood begins."""
SLICES_MAX = 40
"""Of the flood, for each exchange of the bystander: one is some twenty turns of the loop, on a busy machine as well."""
RATE_SHARE_MIN = 0.1
"""Of /livez's rate before, while a flood of thousands is answered."""
GAP_SHARE_MAX = 0.6
"""The longest time in which the bystander got nothing, of the time the flood took; the broker too is busy with that."""
LIVEZ_GAP_SHARE_MAX = 0.25
"""The same for /livez, which needs the gateway alone."""
STALL_S = 0.3
"""Beside that: a short flood is over in a second, and so long a busy machine may do nothing at all for somebody."""
PATIENCE_S = 60.0
LOG_LINES_PER_S = 1
"""Of an event: few, for on a busy machine the flood lasts for minutes."""


class Asking:
    """Asks /livez all the time; when it was answered."""

    def __init__(self, gateway: KeylineGateway) -> None:
        self.at_s: list[float] = []
        self._url = f"{gateway.admin_url}/livez"

    def going_on(self) -> AbstractContextManager[None]:
        """As long as the block runs."""
        return beside(self._ask)

    def _ask(self, over: threading.Event) -> None:
        with httpx.Client(trust_env=False, timeout=PATIENCE_S) as http:
            while not over.wait(0.01):
                http.get(self._url).raise_for_status()
                self.at_s.append(time.monotonic())


def subscribes(topic: str, count: int, subscriptions: int) -> bytes:
    """So many SUBSCRIBEs, dealt to as many subscriptions."""
    return b"".join(
        frame(
            T.SUBSCRIBE,
            pb.CommandSubscribe(
                topic=topic,
                subscription=f"flood-{number % subscriptions}",
                subType=pb.CommandSubscribe.Key_Shared,
                consumer_id=number,
                request_id=number + 1_000,
                consumer_name=f"flooding-{number}",
            ),
        )
        for number in range(count)
    )


def answered(client: RawClient, count: int) -> Counter[str]:
    """Read so many answers, one for each request, and say how many of each kind there were."""
    words: Counter[str] = Counter()
    seen: set[int] = set()
    while len(seen) < count:
        command = client.read()
        body = command.success if command.type == T.SUCCESS else command.error
        assert body.request_id not in seen, command
        seen.add(body.request_id)
        words["success" if command.type == T.SUCCESS else command.error.message] += 1
    return words


def check_gaps(at_s: list[float], began_s: float, ended_s: float, whom: str, gap_share_max: float) -> None:
    """Somebody was never left out for long between two moments."""
    edges = itertools.pairwise([began_s, *(at for at in at_s if began_s <= at <= ended_s), ended_s])
    longest_s = max(after - before for before, after in edges)
    longest_s_max = gap_share_max * (ended_s - began_s) + STALL_S
    assert longest_s <= longest_s_max, f"{whom}: {longest_s:.2f} s without, of {ended_s - began_s:.2f} s"


def check_rate(at_s: list[float], before_s: float, began_s: float, ended_s: float, whom: str) -> None:
    """Somebody was served between two moments as often as before, or nearly so."""
    calm = [at for at in at_s if before_s <= at < began_s]
    meanwhile = [at for at in at_s if began_s <= at <= ended_s]
    rates = len(meanwhile) / (ended_s - began_s), len(calm) / (began_s - before_s)
    assert rates[0] >= RATE_SHARE_MIN * rates[1], f"{whom}: {rates[0]:.1f} a second, {rates[1]:.1f} before"


def metric(gateway: KeylineGateway, name: str) -> float:
    """One number of the gateway's metrics."""
    text = httpx.get(f"{gateway.admin_url}/metrics", trust_env=False, timeout=PATIENCE_S).raise_for_status().text
    return next(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if line.startswith(f"{name} "))


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_flood_of_subscribes_holds_up_nobody(
    count: int, pulsar: PulsarStandalone, start_gateway: StartGateway, new_topic: Callable[[str], str]
) -> None:
    """Those within the bounds join, the others are told which bound; then all leave at once, and nothing is left."""
    started_s = time.monotonic()
    gateway = start_gateway(
        pulsar,
        log_lines_per_s=str(LOG_LINES_PER_S),
        workers_per_connection_max=str(PER_CONNECTION_MAX),
        workers_per_subscription_max=str(PER_SUBSCRIPTION_MAX),
    )
    topic = new_topic("flooded")
    asking = Asking(gateway)
    data = subscribes(topic, count, 1)
    with Bystander(gateway.service_url, new_topic("bystander")) as fair, asking.going_on():
        before_s = time.monotonic()
        eventually(lambda: fair.exchanges > EXCHANGES_MIN and len(asking.at_s) > EXCHANGES_MIN, "others to be served")
        with RawClient(gateway.service_url).locate(topic) as client:
            began_s = time.monotonic()
            threading.Thread(target=client.send, args=(data,)).start()
            words = answered(client, count)
            ended_s = time.monotonic()
            slices = metric(gateway, "keyline_gateway_slices_cut_total")
        assert slices > count / 1_000
        exchanges = sum(began_s <= at <= ended_s for at in fair.at_s)
        assert exchanges * SLICES_MAX >= slices, f"{exchanges} exchanges, {slices:.0f} slices"
        check_gaps(fair.at_s, began_s, ended_s, "the bystander", GAP_SHARE_MAX)
        check_gaps(asking.at_s, began_s, ended_s, "/livez", LIVEZ_GAP_SHARE_MAX)
        check_rate(asking.at_s, before_s, began_s, ended_s, "/livez")
        eventually(lambda: metric(gateway, "keyline_gateway_workers") == 1, "the flood to leave")
    too_many = max(0, count - PER_CONNECTION_MAX)
    assert words["success"] == min(count, PER_SUBSCRIPTION_MAX)
    assert words[f"Subscription reached max consumers limit: {PER_SUBSCRIPTION_MAX}"] <= count - words["success"]
    assert words[f"Connection reached max consumers limit: {PER_CONNECTION_MAX}"] <= too_many
    assert sum(words.values()) == count
    refused = metric(gateway, "keyline_gateway_workers_per_connection_refused_total")
    assert refused == words[f"Connection reached max consumers limit: {PER_CONNECTION_MAX}"]
    assert metric(gateway, "keyline_gateway_log_lines_left_out_total") > 0
    whole, _, _ = gateway.log.read_text().rpartition("\n")
    lines_max = LOG_LINES_PER_S * (BURST_S + time.monotonic() - started_s)
    for event, lines in Counter(json.loads(line)["event"] for line in whole.splitlines()).items():
        assert lines <= lines_max, f"the flood is in the log, line by line: {event}"
    assert "Traceback" not in whole
