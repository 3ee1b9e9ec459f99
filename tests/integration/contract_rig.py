"""What the monitors of the contract say in gateways' metrics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import httpx
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from collections.abc import Iterable

    from integration.gateway import KeylineGateway

EVERY_KEY: Final = {"contract_monitor_one_in": "1"}
"""Settings of a gateway that watches all keys."""
NONE_AT_ALL: Final = {"two_workers": 0, "overtaken": 0, "sent_twice": 0}


def violations(*gateways: KeylineGateway) -> dict[str, int]:
    """Deliveries that broke the contract, by kind, also in subscriptions that have ended."""
    return _added_up("keyline_gateway_contract_violations_total", "kind", gateways)


def violations_of(gateway: KeylineGateway, topic: str) -> dict[str, int]:
    """Likewise, of the subscriptions of a topic, which have not ended."""
    return _added_up("keyline_contract_violations_total", "kind", [gateway], topic=topic)


def checked(*gateways: KeylineGateway) -> int:
    """Messages that were judged."""
    return sum(_added_up("keyline_gateway_contract_checked_messages_total", "", gateways).values())


def _added_up(name: str, label: str, gateways: Iterable[KeylineGateway], **of: str) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for gateway in gateways:
        answer = httpx.get(f"{gateway.admin_url}/metrics", trust_env=False, timeout=30).raise_for_status()
        for family in text_string_to_metric_families(answer.text):
            for sample in family.samples:
                if sample.name == name and of.items() <= sample.labels.items():
                    sums[sample.labels.get(label, "")] += int(sample.value)
    return dict(sums)
