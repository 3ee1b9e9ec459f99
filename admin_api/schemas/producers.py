"""Producers that own a topic or wait to (PIP-440). Moments are on the gateway's clock, as `now` of the same answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class ElectionCounters(BaseModel):
    """Counts of one topic since its election began, or of the gateway since its start."""

    arrivals_total: int = Field(description="Producers that came to wait for a topic.")
    promotions_total: int = Field(description="How often one of them became the owner.")
    resumptions_total: int = Field(description="How often a former owner got its topic back, with the same epoch.")
    failed_promotions_total: int = Field(description="How often one whose turn it was did not become the owner.")
    fencings_total: int = Field(description="How often an owner was displaced by a producer that did not wait.")
    yields_total: int = Field(
        description="How often one that waited at the broker gave its turn to a better one elsewhere."
    )
    vacancy_seconds_total: float = Field(description="Time that topics had no owner while producers waited.")


class TopicOwner(BaseModel):
    """The topic's only producer."""

    producer_name: str
    access_mode: Literal["exclusive", "wait_for_exclusive", "exclusive_with_fencing"]
    priority: int | None = Field(description="Null for one that did not wait.")
    topic_epoch: int | None
    since: float
    address: str
    client_version: str


class WaitingProducer(BaseModel):
    """A waiting producer."""

    position: int = Field(description="How many are before it.")
    producer_name: str = Field(description="Empty until the broker has named it.")
    priority: int
    since: float
    stage: Literal["waiting", "asked", "parked", "withdrawing"] = Field(
        description="waiting at the gateway; asked for at the broker; parked there behind a producer that is not "
        "connected to this gateway; withdrawing from there for a better one."
    )
    returning: bool = Field(description="It is the topic's last owner.")
    address: str
    client_version: str


class BestRival(BaseModel):
    """The best waiting producer at other replicas."""

    replica: str
    priority: int
    returning: bool = Field(description="It is the topic's last owner at its replica.")
    since: float = Field(description="When it came, counted back from when it was heard of.")


class Election(BaseModel):
    """One topic in numbers."""

    topic: str
    now: float
    owner: TopicOwner | None = Field(description="Null also if a producer connected elsewhere owns the topic.")
    waiting_count: int
    vacant_s: float = Field(description="Time that the topic has had no known owner while producers wait.")
    held: Literal["none", "newcomers", "all"] = Field(
        description="The producers that are held: newcomers while the owner may return, all while "
        "the broker reports errors for the topic."
    )
    rival: BestRival | None = Field(
        description="Null if no other replica announces a waiting producer; always without groups_enabled."
    )
    outranked: bool = Field(
        description="None is promoted here because the rival is better; for a few seconds at most while no gateway "
        "says that the topic is owned."
    )
    counters: ElectionCounters


class ElectionsSummary(BaseModel):
    """All topics in numbers."""

    topics_count: int
    owners_count: int = Field(description="Topics with an owner connected here.")
    waiting_count: int
    waiting_bytes: int
    outranked_count: int = Field(description="Topics without promotion here because a better producer waits elsewhere.")
    rivals_count: int = Field(description="Topics that other replicas speak of, each counted for each.")
    ignored_total: int = Field(description="What other replicas said and was not understood, or found no room.")
    counters: ElectionCounters


class Elections(BaseModel):
    """Some topics, by name, and the sums of all."""

    summary: ElectionsSummary
    elections: list[Election]
    next: str | None = Field(description="Give it as `after` for the next page; null if this is the last.")


class ElectionPage(BaseModel):
    """One topic with a page of its queue, in the order of promotion."""

    summary: Election
    waiting: list[WaitingProducer]
    next: int | None = Field(description="Give it as `first` for the next page; null if this is the last.")
