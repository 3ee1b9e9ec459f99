"""Assigns streams to sessions: in proportion to workers, with as few moves as possible.

Each session with workers gets at least one stream, as far as there are enough, so that no worker is idle because others
have more. At equal weight no two sessions differ by more than one. Streams are moved by their rates, so that busy ones
do not end up together.

Source: EIP-0028, "General Idea"; design section 5.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, TypeVar

from proxy.groups.leader_session import State

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from proxy.groups.leader_session import LeaderSession
    from proxy.groups.messages import SessionId

S = TypeVar("S")


def quotas(weights: Mapping[S, int], held: Mapping[S, int], streams_count: int) -> dict[S, int]:
    """How many streams each session is to have.

    Args:
        weights: workers of each; one without workers gets nothing.
        held: how many each has now; where a share is cut either way, who has more keeps more.
        streams_count: of the group.
    """
    shares = dict.fromkeys(weights, 0)
    wanting = [session for session in weights if weights[session] > 0]
    wanting.sort(key=lambda session: -held.get(session, 0))  # sorting is stable: of equals the order given
    if len(wanting) >= streams_count:
        return shares | dict.fromkeys(wanting[:streams_count], 1)
    spare = streams_count - len(wanting)
    total = sum(weights[session] for session in wanting)
    for session in wanting:
        shares[session] = 1 + spare * weights[session] // total
    left = streams_count - sum(shares.values())

    def claim(session: S) -> tuple[int, int]:
        """The part of a stream that it was denied, and what it has beyond its share as it is."""
        return spare * weights[session] % total, held.get(session, 0) - shares[session]

    by_fraction = sorted(wanting, key=claim, reverse=True)
    for session in by_fraction[:left]:
        shares[session] += 1
    return shares


def surrendered(owned: Collection[int], rates: Mapping[int, float], count: int, aim: float) -> list[int]:
    """Which `count` of its streams a session gives away, so that the rates of the rest come close to `aim`."""
    kept = sorted(owned)
    if not any(rates.get(stream) for stream in kept):  # any are as good: the first ones, which is no search of 1,024
        return kept[:count]
    gone: list[int] = []
    for _ in range(count):
        surplus = sum(rates.get(stream, 0.0) for stream in kept) - aim
        per_stream = surplus / (count - len(gone))
        stream = min(kept, key=lambda each: (abs(rates.get(each, 0.0) - per_stream), each))
        kept.remove(stream)
        gone.append(stream)
    return gone


def granted(
    free: Collection[int], lacking: Mapping[S, int], loads: Mapping[S, float], rates: Mapping[int, float]
) -> dict[S, list[int]]:
    """Assigns free streams to sessions that lack some: the busiest stream goes to the least busy session.

    Args:
        free: streams without an owner.
        lacking: how many each session may get.
        loads: messages a second that each has already, divided by its workers.
        rates: messages a second of each stream.
    """
    given: dict[S, list[int]] = {session: [] for session in lacking}
    load = dict(loads)
    for stream in sorted(free, key=lambda each: (-rates.get(each, 0.0), each)):
        open_to = [session for session, count in lacking.items() if len(given[session]) < count]
        if not open_to:
            break
        session = min(open_to, key=lambda each: (load.get(each, 0.0), len(given[each])))
        given[session].append(stream)
        load[session] = load.get(session, 0.0) + rates.get(stream, 0.0)
    return given


def plan(
    sessions: Collection[LeaderSession],
    owners: Mapping[int, SessionId],
    free: Collection[int],
    wanted: Mapping[int, SessionId],
    rates: Mapping[int, float],
    streams_count: int,
) -> list[tuple[LeaderSession, frozenset[int]]]:
    """The streams that each session is to have next, of sessions that are not changing.

    One that does not hear the leader takes no part: it would take nothing, and others would give it up for that.

    Args:
        sessions: all of the group.
        owners: who has each stream.
        free: streams without an owner that may be given.
        wanted: sessions that are to have a certain stream.
        rates: messages a second of each stream.
        streams_count: of the group; 0 to take everything back.
    """
    sessions = [each for each in sessions if each.confirmed]
    weights = {each.session: each.workers_count for each in sessions}
    shares = quotas(weights, {each.session: len(each.granted) for each in sessions}, streams_count)
    per_worker = sum(rates.get(stream, 0.0) for stream in range(streams_count)) / max(sum(weights.values()), 1)
    stable = [each for each in sessions if each.state is State.REPLAYING]
    due = Counter(session for stream, session in wanted.items() if owners.get(stream) != session)
    # A session that is to get a certain stream makes room for it, so that the others keep their shares.
    spare = {each.session: shares[each.session] - len(each.granted) - due[each.session] for each in stable}
    lacking = {session: max(count, 0) for session, count in spare.items()}
    loads = {
        each.session: sum(rates.get(stream, 0.0) for stream in each.granted) / max(each.workers_count, 1)
        for each in stable
    }
    given = granted([stream for stream in free if stream not in wanted], lacking, loads, rates)
    for stream in free:
        if wanted.get(stream) in given:
            given[wanted[stream]].append(stream)
    planned: list[tuple[LeaderSession, frozenset[int]]] = []
    for each in stable:
        elsewhere = {stream for stream in each.granted if wanted.get(stream, each.session) != each.session}
        movable = each.granted - wanted.keys()
        surplus = min(max(-spare[each.session] - len(elsewhere), 0), len(movable))
        gone = elsewhere | set(surrendered(movable, rates, surplus, per_worker * each.workers_count))
        planned.append((each, each.granted - gone | frozenset(given[each.session])))
    return planned
