"""One page of subscriptions from the pages of all replicas.

One that replicas share by streams is listed once for each of them. A page ends behind all of these: the next one begins
behind their topic and name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json, to_json

from proxy.page_cursor import cursor_of

if TYPE_CHECKING:
    from collections.abc import Mapping

SUMMED: Final = (
    "subscriptions_count", "workers", "subscriptions_refused_total", "workers_refused_total",
    "workers_per_subscription_refused_total", "held_bytes", "reading_stopped", "reading_stops",
)  # fmt: skip
"""Of what a page says of its replica; the rest is of the gateway that answers."""


def merged_page(mine: bytes, theirs: Mapping[str, bytes | str], limit: int) -> bytes:
    """Merge this replica's page with those of others, of the same question.

    Args:
        mine: this replica's answer.
        theirs: the answers by replica, or the reasons why there is none.
        limit: of the page, but for what is of the same subscription as its last one.
    """
    whole = from_json(mine)
    pages = [whole]
    for replica, told in theirs.items():
        if isinstance(told, str):
            whole["unanswered"].append({"replica": replica, "problem": told})
        else:
            pages.append(from_json(told))
    found: list[dict[str, Any]] = sorted((item for page in pages for item in page["subscriptions"]), key=_key)
    shown = found[:limit]
    shown += [item for item in found[limit:] if _key(item) == _key(shown[-1])]
    left_out = len(found) > len(shown) or any(page["next"] is not None for page in pages)
    for name in SUMMED:
        whole[name] = type(whole[name])(sum(page[name] for page in pages))
    whole["subscriptions"] = shown
    whole["next"] = cursor_of(_key(shown[-1])) if shown and left_out else None
    return to_json(whole)


def _key(item: dict[str, Any]) -> tuple[str, str]:
    return item["topic"], item["subscription"]
