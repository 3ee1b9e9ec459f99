"""Producers that own a topic or wait to (PIP-440). Moments are on the gateway's clock, as `now` of the same answer."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field


class ElectionCounters(BaseModel):
    """Counts of one topic since somebody wanted it, or of the gateway since its start."""

    arrivals_total: int = Field(description="Producers that came to wait for a topic.")
    promotions_total: int = Field(description="How often one of them became the owner.")
    resumptions_total: int = Field(description="How often a former owner got its topic back, with the same epoch.")
    failed_promotions_total: int = Field(description="How often one whose turn it was did not become the owner.")
    fencings_total: int = Field(description="How often one was displaced by somebody who did not wait.")
    yields_total: int = Field(
        description="How often one that waited at the broker gave its turn to a better one elsewhere."
    )
    vacancy_seconds_total: float = Field(description="How long topics had no owner though somebody wanted them.")


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
    """Somebody that waits to be it."""

    position: int = Field(description="How many are before it.")
    producer_name: str = Field(description="Empty until the broker has named it.")
    priority: int
    since: float
    stage: Literal["waiting", "asked", "parked", "withdrawing"] = Field(
        description="waiting at the gateway; asked for at the broker; parked there behind a producer that is not "
        "connected to this gateway; withdrawing from there for a better one."
    )
    returning: bool = Field(description="It owned the topic before, and nobody has since.")
    address: str
    client_version: str


class BestRival(BaseModel):
    """The best of those that wait for the topic at other replicas."""

    replica: str
    priority: int
    returning: bool = Field(description="It owned the topic before, and nobody of its replica has since.")
    since: float = Field(description="When it came, counted back from when it was heard of.")


class Election(BaseModel):
    """One topic in numbers."""

    topic: str
    now: float
    owner: TopicOwner | None = Field(description="Null also if somebody who is connected elsewhere owns the topic.")
    waiting_count: int
    vacant_s: float = Field(description="How long nobody is known to have owned the topic though somebody wants it.")
    held: Literal["nobody", "newcomers", "everybody"] = Field(
        description="Whose turn does not come at present: newcomers' while the owner may come back, everybody's while "
        "the broker has trouble with the topic."
    )
    rival: BestRival | None = Field(
        description="Null if no other replica says that somebody waits there; always without groups_enabled."
    )
    outranked: bool = Field(
        description="Nobody is asked for here because the rival is better; for a few seconds at most while no gateway "
        "says that the topic is owned."
    )
    counters: ElectionCounters


class ElectionsSummary(BaseModel):
    """All topics in numbers."""

    topics_count: int
    owners_count: int = Field(description="Topics that are owned by somebody connected here.")
    waiting_count: int
    waiting_bytes: int
    outranked_count: int = Field(description="Topics for which nobody is asked because a better one waits elsewhere.")
    rivals_count: int = Field(description="Topics that other replicas speak of, each counted for each.")
    ignored_total: int = Field(description="What other replicas said and was not understood, or found no room.")
    counters: ElectionCounters


class Elections(BaseModel):
    """Some topics, by name, and the sums of all."""

    summary: ElectionsSummary
    elections: list[Election]
    next: str | None = Field(description="Give it as `after` for the next page; null if this is the last.")


class ElectionPage(BaseModel):
    """One topic with some of those that wait, in the order in which they will be promoted."""

    summary: Election
    waiting: list[WaitingProducer]
    next: int | None = Field(description="Give it as `first` for the next page; null if this is the last.")
