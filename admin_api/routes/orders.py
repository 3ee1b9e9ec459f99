"""Operators' orders. They are active until reverted or until the gateway stops, also without workers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Depends, Request, status

from admin_api.access.caller import OrderedBy
from admin_api.access.roles import Role, needs
from admin_api.names import (
    BODY_BYTES_MAX,
    GROUP_PATH,
    SUBSCRIPTION_PATH,
    WORKER_PATH,
    AtReplica,
    Key,
    MessageKey,
    NamesRoute,
    ReplicaName,
    WorkerName,
)
from admin_api.origins import check_origin
from admin_api.problems import Forbidden
from admin_api.schemas.groups import Replayed, ReplayFrom
from admin_api.schemas.orders import (
    ChangedSetting,
    Concerned,
    Limits,
    LimitsInForce,
    LimitValues,
    Mode,
    Owner,
    ReloadedSettings,
)
from admin_api.schemas.parked import TakenOut
from admin_api.schemas.problem import Problem
from proxy.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from admin_api.ports import GatewayControl


CONFLICTS: Final[dict[int | str, dict[str, Any]]] = {409: {"model": Problem}}
ENDS: Final = {"earliest": (-1, -1), "latest": ((1 << 63) - 1, (1 << 63) - 1)}
"""As clients name the ends of a topic."""


def order_routes(control: GatewayControl, *, read_only: bool) -> APIRouter:
    """Make the routes of orders; with `read_only` all are refused."""
    errors: dict[int | str, dict[str, Any]] = {code: {"model": Problem} for code in (400, 403, 404)}

    router = APIRouter(
        prefix="/api/v1",
        tags=["orders"],
        responses=errors,
        dependencies=[Depends(orders_allowed(read_only=read_only))],
        route_class=NamesRoute,
        max_body_size=BODY_BYTES_MAX,
    )
    _orders_to_subscriptions(router, control)
    _orders_to_workers(router, control)
    _orders_to_groups(router, control)
    _orders_to_replicas(router, control)
    _orders_to_the_gateway(router, control)
    return router


def orders_allowed(*, read_only: bool) -> Callable[[Request], Awaitable[None]]:
    """Make what refuses orders: all with `read_only`, else those of other sites' pages. It raises `Forbidden`."""

    async def allowed(request: Request) -> None:
        if read_only:
            raise Forbidden("this gateway takes no orders: its setting admin_read_only is true")
        check_origin(request)

    return allowed


def _orders_to_subscriptions(router: APIRouter, control: GatewayControl) -> None:
    done = status.HTTP_204_NO_CONTENT

    @router.post(SUBSCRIPTION_PATH + "/pause", status_code=done, summary="Pause a subscription")
    @needs(Role.OPERATOR)
    async def pause(key: Key, by: OrderedBy) -> None:
        """Pause deliveries; acknowledgements, joins and leaves continue."""
        control.pause(key, by=by)

    @router.post(SUBSCRIPTION_PATH + "/resume", status_code=done, summary="Resume a subscription")
    @needs(Role.OPERATOR)
    async def resume(key: Key, by: OrderedBy) -> None:
        """Resume deliveries."""
        control.resume(key, by=by)

    @router.put(
        SUBSCRIPTION_PATH + "/ordering-mode", status_code=done, responses=CONFLICTS, summary="Change the ordering mode"
    )
    @needs(Role.ADMIN)
    async def change_mode(key: Key, mode: Mode, by: OrderedBy) -> None:
        """Switch between the two ordered modes, at any time; it applies to workers that join from now on.

        Null reverts it.
        """
        control.change_mode(key, mode.ordering_mode, by=by)

    @router.put(SUBSCRIPTION_PATH + "/owner", status_code=done, responses=CONFLICTS, summary="Move a subscription")
    @needs(Role.OPERATOR)
    async def move(key: Key, owner: Owner, by: OrderedBy) -> None:
        """Let a certain replica serve it, with the others of its bundle (owner mode); null lets the leader choose."""
        control.move(key, owner.replica, by=by)

    @router.put(SUBSCRIPTION_PATH + "/limits", responses=CONFLICTS, summary="Change all limits")
    @needs(Role.ADMIN)
    async def change_limits(key: Key, limits: Limits, by: OrderedBy) -> LimitValues:
        """Set all limits at once: an absent or null one is the configuration's. Returns the limits in effect."""
        return LimitValues(**control.change_limits(key, limits.model_dump(), keep=False, by=by).in_effect)

    @router.patch(SUBSCRIPTION_PATH + "/limits", responses=CONFLICTS, summary="Change some limits")
    @needs(Role.ADMIN)
    async def change_some_limits(key: Key, limits: Limits, by: OrderedBy) -> LimitsInForce:
        """Set the limits that are named: null is the configuration's, an absent one stays. Returns those in effect."""
        named = limits.model_dump(exclude_unset=True)
        found = control.change_limits(key, named, keep=True, by=by)
        return LimitsInForce(in_effect=found.in_effect, configured=found.configured)


def _orders_to_workers(router: APIRouter, control: GatewayControl) -> None:
    @router.post(WORKER_PATH + "/drain", summary="Drain a worker")
    @needs(Role.OPERATOR)
    async def drain(key: Key, worker: WorkerName, by: OrderedBy) -> Concerned:
        """Stop new deliveries to it. It keeps its slots, so they wait; evict it when nothing is pending."""
        return Concerned(workers=control.drain(key, worker, drained=True, by=by))

    @router.delete(WORKER_PATH + "/drain", summary="End a worker's drain")
    @needs(Role.OPERATOR)
    async def end_drain(key: Key, worker: WorkerName, by: OrderedBy) -> Concerned:
        """Resume deliveries to it."""
        return Concerned(workers=control.drain(key, worker, drained=False, by=by))

    @router.post(SUBSCRIPTION_PATH + "/parked/redrive", summary="Deliver what is parked of a key")
    @needs(Role.OPERATOR)
    async def redrive(key: Key, of: MessageKey, by: OrderedBy) -> TakenOut:
        """In order, and before anything newer of its slot, which waits meanwhile."""
        return _take_out(control, key, of, by, redrive=True)

    @router.post(SUBSCRIPTION_PATH + "/parked/drop", summary="Delete what is parked of a key")
    @needs(Role.ADMIN)
    async def drop(key: Key, of: MessageKey, by: OrderedBy) -> TakenOut:
        """The slot goes on with what is newer."""
        return _take_out(control, key, of, by, redrive=False)

    # Not a parameter of the former, which an older replica would not know: it would delete everything.
    @router.post(SUBSCRIPTION_PATH + "/parked/drop-incomplete", summary="Delete what no client can read of a key")
    @needs(Role.ADMIN)
    async def drop_incomplete(key: Key, of: MessageKey, by: OrderedBy) -> TakenOut:
        """Only chunks of messages of which an earlier chunk is gone. The slot is still parked."""
        named = of.required()
        slot, messages = control.drop_incomplete(key, message_key=named.message_key, slot=named.slot, by=by)
        return TakenOut(slot=slot, messages=messages)

    @router.post(WORKER_PATH + "/exclude", summary="Exclude a worker")
    @needs(Role.OPERATOR)
    async def exclude(key: Key, worker: WorkerName, by: OrderedBy) -> Concerned:
        """Close its consumer and give its slots to others, also when it reconnects, until it is readmitted."""
        return Concerned(workers=control.exclude(key, worker, excluded=True, by=by))

    @router.delete(WORKER_PATH + "/exclude", summary="Readmit a worker")
    @needs(Role.OPERATOR)
    async def readmit(key: Key, worker: WorkerName, by: OrderedBy) -> Concerned:
        """Let it own slots again."""
        return Concerned(workers=control.exclude(key, worker, excluded=False, by=by))

    @router.post(WORKER_PATH + "/evict", summary="Evict a worker")
    @needs(Role.OPERATOR)
    async def evict(key: Key, worker: WorkerName, by: OrderedBy) -> Concerned:
        """Close its consumer; its messages go to others. Official clients reconnect at once, drained or not."""
        return Concerned(workers=control.evict(key, worker, by=by))


def _orders_to_groups(router: APIRouter, control: GatewayControl) -> None:
    @router.post(GROUP_PATH + "/replay", responses=CONFLICTS, summary="Deliver again")
    @needs(Role.ADMIN)
    async def replay(key: Key, place: ReplayFrom) -> Replayed:
        """Redeliver from a position on all replicas of a group: a time, a message, or an end of the topic.

        All replicas stop, and release their streams as in any hand-over; then the cursor is moved, and they continue.
        The answer follows when that is done, which takes until workers have acknowledged their messages.
        """
        problem = await answer_of(
            lambda answered: control.replay(key, _position(place), _published_ms(place), answered)
        )
        if problem is not None:
            raise Conflict(problem)
        return Replayed(subscription=key[1])


def _orders_to_replicas(router: APIRouter, control: GatewayControl) -> None:
    done = status.HTTP_204_NO_CONTENT
    path = "/deployment/replicas/{replica}/drain"

    @router.post(path, status_code=done, responses=CONFLICTS, summary="Drain a replica", dependencies=[AtReplica])
    @needs(Role.OPERATOR)
    async def drain_replica(replica: ReplicaName) -> None:
        """Hand over all that it owns to other replicas; its workers stay connected to it. It ends with the process."""
        _ = replica
        control.drain_replica(drained=True)

    @router.delete(path, status_code=done, summary="End a replica's drain", dependencies=[AtReplica])
    @needs(Role.OPERATOR)
    async def end_drain_of_replica(replica: ReplicaName) -> None:
        """Let it own its share again."""
        _ = replica
        control.drain_replica(drained=False)


def _orders_to_the_gateway(router: APIRouter, control: GatewayControl) -> None:
    @router.post("/configuration/reload", responses=CONFLICTS, summary="Reload the configuration")
    @needs(Role.ADMIN)
    async def reload(by: OrderedBy) -> ReloadedSettings:
        """Read the configuration again, as SIGHUP does, and put into effect what a running gateway can take.

        With a mistake in it nothing changes; the answer names the mistakes.
        """
        done = control.reload(by=by)
        return ReloadedSettings(
            changed={name: ChangedSetting(before=each.before, now=each.now) for name, each in done.changed.items()},
            needs_restart=list(done.needs_restart),
        )


async def answer_of(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """Wait for what a call answers later. Raises that, if it is an error."""
    answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answered(found: Any) -> None:
        if not answer.done():  # else the caller has gone
            answer.set_result(found)

    ask(answered)
    found = await answer
    if isinstance(found, Exception):
        raise found
    return found


def _position(place: ReplayFrom) -> tuple[int, int] | None:
    if place.position is not None:
        return place.position.ledger, place.position.entry
    return None if place.end is None else ENDS[place.end]


def _published_ms(place: ReplayFrom) -> int | None:
    return None if place.published_at is None else int(place.published_at.timestamp() * 1_000)


def _take_out(control: GatewayControl, key: Any, of: Any, by: str, *, redrive: bool) -> TakenOut:
    named = of.required()
    slot, messages = control.take_out(key, message_key=named.message_key, slot=named.slot, redrive=redrive, by=by)
    return TakenOut(slot=slot, messages=messages)
