"""Messages and records of a group with very many streams, written with sets of streams instead of lists.

Three kinds of lists grow with the number of streams: streams alone, who has which, and how far each is. In each place
another form may stand, which is told by its shape, so that both are read everywhere. Only groups that no release knew
before the form are written in it (`encoding`).

What is not in order, or has a stream twice, is no set of streams and stays a list.
"""

from __future__ import annotations

from typing import Any, Final

from proxy.groups import stream_sets
from proxy.groups.messages import SessionId
from proxy.groups.streams import StreamState

_STREAMS: Final = ("streams", "served")
_OWNERS: Final = ("owners", "had")
_STATES: Final = ("held", "states")
_UNTOLD: Final = {field: getattr(StreamState(0), field) for field in StreamState.__slots__ if field != "stream"}
"""What is said of a stream of which nothing is known."""
_FINISHED: Final = _UNTOLD | {"finished": True}


def compacted(body: dict[str, Any]) -> dict[str, Any]:
    """Write a message's or record's body, as plain values, in the other form where it has such lists."""
    changed = dict(body)
    for names, write in ((_STREAMS, _write_streams), (_OWNERS, _write_owners), (_STATES, _write_states)):
        for name in names:
            if name in body:
                changed[name] = write(body[name])
    return changed


def expanded(body: dict[str, Any]) -> dict[str, Any]:
    """Read it back; what is in the usual form stays. Raises ValueError for what is in neither."""
    changed = dict(body)
    for names, kind, read in ((_STREAMS, str, stream_sets.read), (_OWNERS, dict, _owners), (_STATES, dict, _states)):
        for name in names:
            if isinstance(body.get(name), kind):
                changed[name] = read(body[name])
    return changed


def _write_streams(streams: tuple[int, ...]) -> Any:
    return stream_sets.written(streams) if stream_sets.is_set(streams) else streams


def _write_owners(owners: tuple[tuple[int, SessionId], ...]) -> Any:
    if not stream_sets.is_set([stream for stream, _ in owners]):
        return owners
    sets: dict[SessionId, list[int]] = {}
    for stream, session in owners:
        sets.setdefault(SessionId(*session), []).append(stream)
    return {"sets": [[*session, stream_sets.written(streams)] for session, streams in sorted(sets.items())]}


def _owners(form: dict[str, Any]) -> list[Any]:
    try:
        found = [
            (stream, (replica, number))
            for replica, number, text in form["sets"]
            for stream in stream_sets.read(str(text))
        ]
    except (KeyError, TypeError) as error:
        message = "owners that are no sets of streams"
        raise ValueError(message) from error
    return _in_order(found, [stream for stream, _ in found])


def _write_states(states: tuple[dict[str, Any], ...]) -> Any:
    if not stream_sets.is_set([state["stream"] for state in states]):
        return states
    untold: list[int] = []
    finished: list[int] = []
    told: list[dict[str, Any]] = []
    for state in states:
        rest = {field: value for field, value in state.items() if field != "stream"}
        if rest == _UNTOLD:
            untold.append(state["stream"])
        elif rest == _FINISHED:
            finished.append(state["stream"])
        else:
            told.append(state)
    return {"untold": stream_sets.written(untold), "finished": stream_sets.written(finished), "told": told}


def _states(form: dict[str, Any]) -> list[Any]:
    try:
        untold, finished = (stream_sets.read(str(form[kind])) for kind in ("untold", "finished"))
        found = [{"stream": stream} for stream in untold]
        found += [{"stream": stream, "finished": True} for stream in finished]
        found += form["told"]
        streams = [state["stream"] for state in found]
    except (KeyError, TypeError) as error:
        message = "states that are no sets of streams"
        raise ValueError(message) from error
    return _in_order(found, streams)


def _in_order(found: list[Any], streams: list[Any]) -> list[Any]:
    """By stream, without duplicates."""
    if not all(isinstance(stream, int) for stream in streams) or len(set(streams)) < len(streams):
        message = "a stream stands in two sets"
        raise ValueError(message)
    return [each for _, each in sorted(zip(streams, found, strict=True), key=lambda pair: pair[0])]
