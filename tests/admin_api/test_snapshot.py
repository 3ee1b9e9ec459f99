"""What the journal keeps of `/metrics` is what `/metrics` shows."""

from __future__ import annotations

import asyncio

from admin_api.metrics.snapshot import Sample, snapshot
from tests.admin_api.test_metrics import Gateway, driven


def taken(gateway: Gateway, workers_max: int) -> list[Sample]:
    """One snapshot."""

    async def take() -> list[Sample]:
        return await snapshot(gateway.source(), workers_max)

    return asyncio.run(take())


def test_a_snapshot_has_every_number_that_a_scrape_shows() -> None:
    """By name and labels, with the same value; of histograms the count and the sum."""
    gateway = Gateway()
    driven(gateway)
    scraped = gateway.numbers(workers_max=1_000)
    ours = {place: value for place, value in scraped.items() if place[0].startswith("keyline_")}
    expected = {place: value for place, value in ours.items() if not place[0].endswith("_bucket")}
    found = {}
    for sample in taken(gateway, 1_000):
        labels = dict(sample.labels)
        given = {"topic": sample.topic, "subscription": sample.subscription, "worker": sample.worker}
        labels |= {label: value for label, value in given.items() if value is not None}
        place = sample.name, frozenset(labels.items())
        assert place not in found, "a number is there twice"
        found[place] = sample.value
    assert found.keys() == expected.keys()
    differing = {place for place in found if found[place] != expected[place]}
    assert all("seconds" in name or "_total" in name for name, _ in differing), "only what moves between the two"


def test_workers_are_told_as_far_as_a_scrape_shows_them() -> None:
    """There may be very many."""
    gateway = Gateway()
    driven(gateway)
    assert not any(sample.worker for sample in taken(gateway, 0))
    assert len({sample.worker for sample in taken(gateway, 1)} - {None}) == 1
