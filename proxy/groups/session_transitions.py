"""The states of a session, what may happen in each, and what it leads to."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple


class State(Enum):
    """Of a session."""

    CONNECTING = "connecting"
    REPLAYING = "replaying"
    UPDATING = "updating"
    DISCONNECTED = "disconnected"


class Event(Enum):
    """What may happen to it. `odd` is what does not fit the set of streams that it has."""

    LEASE = "lease_streams"
    RENEW = "renew_stream_lease"
    RENEW_ODD = "renew_stream_lease, odd"
    RENEW_CHANGE = "renew_stream_lease of a change"
    RENEW_CHANGE_ODD = "renew_stream_lease of a change, odd"
    UPDATE = "update_streams"
    UPDATE_AGAIN = "update_streams, again"
    UPDATE_ODD = "update_streams, odd"
    INVALIDATE = "invalidate"
    BEGAN = "a leader began"
    LEASE_TIMEOUT = "renew_stream_lease_timeout"
    FIND_TIMEOUT = "find_leader_timeout"
    GONE = "nothing left, and leaving"


class Action(Enum):
    """What is done in a transition."""

    IGNORE = "ignore"
    FIND = "send find_leader"
    RESET = "stop delivering; send find_leader"
    ADOPT = "take the leased streams, release the others"
    REARM = "the lease goes on"
    CHANGE = "take the new streams, release those that are missing"
    SETTLE = "the change is over"
    GOODBYE = "send disconnect"


PROLONGING: Final = frozenset({Action.ADOPT, Action.REARM, Action.CHANGE, Action.SETTLE})
"""What makes the lease last longer."""


class Transition(NamedTuple):
    """What an event leads to."""

    action: Action
    state: State


_IGNORED: Final = {
    state: Transition(Action.IGNORE, state) for state in (State.CONNECTING, State.REPLAYING, State.DISCONNECTED)
}
_RESET: Final = Transition(Action.RESET, State.CONNECTING)
_GOODBYE: Final = Transition(Action.GOODBYE, State.DISCONNECTED)

TABLE: Final[dict[State, dict[Event, Transition]]] = {
    State.CONNECTING: {
        Event.LEASE: Transition(Action.ADOPT, State.REPLAYING),
        Event.FIND_TIMEOUT: Transition(Action.FIND, State.CONNECTING),
        Event.BEGAN: Transition(Action.FIND, State.CONNECTING),
        # Of a leader that had a lease with us before: what it says is answered by the next find_leader.
        Event.RENEW: _IGNORED[State.CONNECTING],
        Event.RENEW_ODD: _IGNORED[State.CONNECTING],
        Event.RENEW_CHANGE: _IGNORED[State.CONNECTING],
        Event.RENEW_CHANGE_ODD: _IGNORED[State.CONNECTING],
        Event.UPDATE: _IGNORED[State.CONNECTING],
        Event.UPDATE_AGAIN: _IGNORED[State.CONNECTING],
        Event.UPDATE_ODD: _IGNORED[State.CONNECTING],
        # At once it would be asked again by a leader that has invalidated it at once, and so on.
        Event.INVALIDATE: _IGNORED[State.CONNECTING],
        Event.LEASE_TIMEOUT: _IGNORED[State.CONNECTING],
        Event.GONE: _GOODBYE,
    },
    State.REPLAYING: {
        Event.RENEW: Transition(Action.REARM, State.REPLAYING),
        Event.RENEW_ODD: _RESET,
        # The update_streams before it was lost, and comes again.
        Event.RENEW_CHANGE: Transition(Action.REARM, State.REPLAYING),
        Event.RENEW_CHANGE_ODD: _RESET,
        Event.UPDATE: Transition(Action.CHANGE, State.UPDATING),
        Event.UPDATE_AGAIN: _RESET,
        Event.UPDATE_ODD: _RESET,
        Event.LEASE: _IGNORED[State.REPLAYING],
        Event.INVALIDATE: _RESET,
        Event.BEGAN: _RESET,
        Event.LEASE_TIMEOUT: _RESET,
        Event.FIND_TIMEOUT: _IGNORED[State.REPLAYING],
        Event.GONE: _GOODBYE,
    },
    State.UPDATING: {
        Event.RENEW: Transition(Action.SETTLE, State.REPLAYING),
        Event.RENEW_ODD: _RESET,
        Event.RENEW_CHANGE: Transition(Action.REARM, State.UPDATING),
        Event.RENEW_CHANGE_ODD: _RESET,
        Event.UPDATE: _RESET,
        Event.UPDATE_AGAIN: Transition(Action.REARM, State.UPDATING),
        Event.UPDATE_ODD: _RESET,
        Event.LEASE: Transition(Action.IGNORE, State.UPDATING),
        Event.INVALIDATE: _RESET,
        Event.BEGAN: _RESET,
        Event.LEASE_TIMEOUT: _RESET,
        Event.FIND_TIMEOUT: Transition(Action.IGNORE, State.UPDATING),
        Event.GONE: _GOODBYE,
    },
    State.DISCONNECTED: dict.fromkeys(Event, _IGNORED[State.DISCONNECTED]),
}
