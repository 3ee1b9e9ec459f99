"""The stream of events, over a real server and sockets."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from admin_api.access import guard
from admin_api.access.roles import declared, needs
from admin_api.access.tokens import SECRET, Roles, Tokens
from admin_api.http_protocol import CONNECTIONS_MAX
from admin_api.problems import Unavailable
from admin_api.routes import events as route
from admin_api.server import AdminServer
from proxy.views.admin import Admin
from tests.admin_api.rig import AdminRig
from tests.admin_api.shared_app import SharedApp
from tests.admin_api.test_access import KEY, OPERATOR, ROLES, VIEWER, bearer
from tests.net.session_rig import new_elections

PATIENCE_S = 60.0
OPEN = guard.Standing({}, declared(needs(None)(lambda: None)))
"""Where no caller is asked who it is."""


@pytest.fixture(autouse=True)
def _new_applications() -> None:
    """What one keeps is looked at here."""
    SharedApp.forget()


class Stream:
    """What a client reads."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self._lines = answer.aiter_lines()

    async def next(self) -> dict[str, str]:
        """The next event's fields; a comment is the field ``""``."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_S):
            async for line in self._lines:
                if not line and fields:
                    return fields
                name, _, value = line.partition(": ")
                fields[name] = value
        return fields

    async def until(self, kind: str) -> dict[str, Any]:
        """The data of the next event of this kind."""
        while (fields := await self.next()).get("event") != kind:
            assert fields, "the stream ended"
        data: dict[str, Any] = json.loads(fields["data"])
        return data


@asynccontextmanager
async def listening(
    rig: AdminRig, headers: dict[str, str] | None = None, **query: str
) -> AsyncIterator[tuple[Stream, AdminServer]]:
    """A client on ``/api/v1/events``."""
    server = AdminServer(rig.app)
    host, port = await server.start("127.0.0.1", 0)
    url = f"http://{host}:{port}/api/v1/events"
    async with (
        httpx.AsyncClient(timeout=PATIENCE_S) as client,
        client.stream("GET", url, params=query, headers=headers or {}) as answer,
    ):
        stream = Stream(answer)
        assert await stream.next() == {"retry": "2000"}
        yield stream, server
    await server.stop()


def told(scenario: Callable[[], Awaitable[None]]) -> None:
    """Run it."""
    asyncio.run(scenario())  # type: ignore[arg-type]


def test_events_come_as_they_happen() -> None:
    """With what a stateful worker needs: which slots it gained, from whom."""

    async def scenario() -> None:
        rig = AdminRig()
        async with listening(rig) as (stream, _):
            assert stream.answer.headers["content-type"].startswith("text/event-stream")
            rig.worker("a")
            joined = await stream.until("worker_joined")
            assert joined["subscription"] == "s"
            assert joined["facts"]["worker"] == "a"
            assert joined["facts"]["moves"] == [{"start": 1, "end": 65_535, "source": None, "target": "a"}]
            assert rig.subscriptions.events.listeners

    told(scenario)


def test_a_listener_may_ask_for_some_only() -> None:
    """Of a subscription, or what one worker gains and loses."""

    async def scenario() -> None:
        rig = AdminRig()
        async with listening(rig, subscription="t", worker="b") as (stream, _):
            rig.worker("b", subscription="other")
            rig.worker("a", subscription="t")
            rig.worker("b", subscription="t")
            joined = await stream.until("worker_joined")
            assert (joined["subscription"], joined["facts"]["worker"]) == ("t", "b")
            rig.worker("c", subscription="t")
            lost = await stream.until("worker_joined")
            assert "b" in {move["source"] for move in lost["facts"]["moves"]}

    told(scenario)


def test_what_others_do_does_not_silence_a_quiet_stream() -> None:
    """A client tells a dead connection by the missing sign of life."""

    async def scenario() -> None:
        rig = AdminRig()
        events = rig.subscriptions.events
        wanted = route._stream(
            Admin(rig.subscriptions, new_elections(), list, {}),
            route.Lines(),
            None,
            lambda event: event.subscription == "quiet",
            lambda: True,
            OPEN,
            0.2,
        )
        assert await anext(wanted) == b"retry: 2000\n\n"
        waiting = asyncio.ensure_future(anext(wanted))
        async with asyncio.timeout(PATIENCE_S):
            while not waiting.done():
                events.happened("x", ("t", "busy"))
                await asyncio.sleep(0.02)
        assert waiting.result() == b": still here\n\n"
        await wanted.aclose()  # type: ignore[attr-defined]

    told(scenario)


def test_who_listens_for_a_worker_hears_that_the_subscription_ended() -> None:
    """Nobody owns anything then, and no leave was told when a seek closed everybody."""

    async def scenario() -> None:
        rig = AdminRig()
        worker = rig.worker("a")
        async with listening(rig, worker="a") as (stream, _):
            worker.close()
            assert (await stream.until("worker_left"))["facts"]["worker"] == "a"
            assert (await stream.until("subscription_ended"))["subscription"] == "s"

    told(scenario)


def test_a_last_event_id_that_is_none_is_refused() -> None:
    """However long."""
    answer = AdminRig().ask("GET", "/api/v1/events", headers={"Last-Event-ID": "9" * 5_000})
    assert answer.status_code == 400


def test_a_listener_goes_on_after_the_last_event_it_had() -> None:
    """As browsers do by themselves."""

    async def scenario() -> None:
        rig = AdminRig()
        rig.worker("a")
        rig.worker("b")
        async with listening(rig, {"Last-Event-ID": "3"}) as (stream, _):
            first = await stream.next()
            assert (first["id"], first["event"]) == ("4", "worker_joined")
            assert json.loads(first["data"])["facts"]["worker"] == "b"

    told(scenario)


def test_a_stream_ends_with_the_gateway() -> None:
    """Or it would hold the admin API open."""

    async def scenario() -> None:
        rig = AdminRig()
        async with listening(rig) as (stream, _):
            rig.subscriptions.events.close()
            assert await stream.next() == {}

    told(scenario)


@pytest.mark.parametrize("how", ["roles", "key"])
def test_a_stream_ends_with_its_callers_right(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """By a reload that takes its role away, and by a key that the identity provider has withdrawn."""
    withdrawn = False

    async def key(_token: str) -> bytes:
        return b"another" * 8 if withdrawn else KEY

    tokens = Tokens(key, SECRET, ROLES)
    rig = AdminRig(tokens=tokens)

    async def scenario() -> None:
        nonlocal withdrawn
        async with listening(rig, bearer(VIEWER)) as (stream, _):
            rig.worker("a")
            await stream.until("worker_joined")
            if how == "roles":
                tokens.become(Tokens(key, SECRET, Roles(operators=frozenset({OPERATOR}))))
            withdrawn = how == "key"
            rig.worker("b")
            while fields := await stream.next():
                assert fields.get("event") != "worker_joined"

    if how == "key":
        monkeypatch.setattr(guard, "AGAIN_S", 0.0)
    told(scenario)


def test_a_client_that_goes_is_forgotten() -> None:
    """Its queue as well."""

    async def scenario() -> None:
        rig = AdminRig()
        async with listening(rig):
            assert len(rig.subscriptions.events.listeners) == 1
        async with asyncio.timeout(PATIENCE_S):
            while rig.subscriptions.events.listeners:  # noqa: ASYNC110 - the server tells nobody else
                await asyncio.sleep(0.01)

    told(scenario)


def test_streams_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one too many is told so."""
    monkeypatch.setattr(route, "STREAMS_MAX", 0)
    answer = AdminRig().ask("GET", "/api/v1/events")
    assert answer.status_code == 503
    assert "streams are open already" in answer.json()["detail"]


def test_two_thousand_of_one_caller_leave_room_to_others() -> None:
    """It has its share, every other caller still finds a place, and all places together are bounded."""
    places = route.Places()

    def asked(asker: str) -> list[ExitStack]:
        taken = []
        for _ in range(2_000):
            with suppress(Unavailable):
                taken.append(places.take(asker))
        return taken

    hoarder = asked("hoarder")
    assert len(hoarder) == route.STREAMS_EACH_MAX
    fair = places.take("fair")
    assert len(asked("another")) == route.STREAMS_MAX - route.STREAMS_EACH_MAX - 1
    with pytest.raises(Unavailable, match="streams are open already"):
        places.take("late")
    fair.close()
    places.take("late").close()
    for place in hoarder:
        place.close()
    assert len(asked("hoarder")) == route.STREAMS_EACH_MAX
    assert route.STREAMS_MAX <= CONNECTIONS_MAX / 2, "streams must not take all connections"


def test_streams_that_are_asked_for_at_once_do_not_pass_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over sockets and by token: the share is the caller's, from wherever it comes, and given back at the end."""
    monkeypatch.setattr(route, "STREAMS_EACH_MAX", 3)

    async def key(_: str) -> bytes:
        return KEY

    async def scenario() -> None:
        rig = AdminRig(tokens=Tokens(key, SECRET, ROLES))
        server = AdminServer(rig.app)
        host, port = await server.start("127.0.0.1", 0)

        async def opened(name: str) -> tuple[int, asyncio.StreamWriter]:
            reader, writer = await asyncio.open_connection(host, port)
            head = "".join(f"{field}: {value}\r\n" for field, value in bearer(name).items())
            writer.write(f"GET /api/v1/events HTTP/1.1\r\nhost: a\r\n{head}\r\n".encode())
            return int((await reader.readline()).split()[1]), writer

        async with asyncio.timeout(PATIENCE_S):
            found = await asyncio.gather(*(opened(VIEWER) for _ in range(20)))
            assert sorted(status for status, _ in found) == [200] * 3 + [503] * 17
            status, other = await opened(OPERATOR)
            assert status == 200
            for _, writer in found:
                writer.close()
            while len(rig.subscriptions.events.listeners) > 1:  # noqa: ASYNC110 - the server tells nobody else
                await asyncio.sleep(0.01)
            status, again = await opened(VIEWER)
            assert status == 200
            other.close()
            again.close()
        await server.stop()

    told(scenario)


def test_an_event_is_written_once_for_all_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thousand events a second to hundreds of streams would be the loop's whole time; what is kept is bounded."""
    monkeypatch.setattr(route, "LINES_MAX", 10)
    lines = route.Lines()
    events = AdminRig().subscriptions.events
    listener = events.listen(lambda: None)
    for _ in range(route.LINES_MAX + 1):
        events.happened("x", ("t", "s"))
    _, (first, *more) = listener.take()
    assert lines.of(first) is lines.of(first)
    for event in more:
        lines.of(event)
    assert len(lines._made) <= route.LINES_MAX


def test_a_quiet_stream_shows_that_it_lives() -> None:
    """And a slow listener is told what it missed."""

    class Slow:
        """A listener that lost something before each look."""

        ended = False

        def take(self) -> tuple[int, list[Any]]:
            """Nothing but a loss."""
            return 7, []

        def close(self) -> None:
            """Nothing to close."""

    class View:
        """Gives it."""

        def listen(self, _wake: Callable[[], None], _after: int | None, _wanted: object) -> Slow:
            """As the port says."""
            return Slow()

    async def scenario() -> None:
        view: Any = View()
        pieces = route._stream(view, route.Lines(), None, lambda _: True, lambda: True, OPEN, 0.01)
        seen = [await anext(pieces) for _ in range(3)]
        await pieces.aclose()  # type: ignore[attr-defined]
        assert seen == [b"retry: 2000\n\n", b'event: missed\ndata: {"count": 7}\n\n', b": still here\n\n"]

    told(scenario)
