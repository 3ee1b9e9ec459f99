"""The metrics of several processes as one text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from admin_api.metrics.formats import OPENMETRICS, TEXT, Format
from admin_api.metrics.merged import PIECE, Answers, labelled, merged
from admin_api.problems import answer_problems
from admin_api.routes import metrics as route
from admin_api.turns import Turns

OTHER = r"""# HELP keyline_build_info It.
# TYPE keyline_build_info gauge
keyline_build_info{version="1"} 1.0
# HELP keyline_waits_seconds Waits.
# TYPE keyline_waits_seconds histogram
keyline_waits_seconds_bucket{topic="a b{\"c\"} d\\",le="+Inf"} 2.0
keyline_waits_seconds_count{topic="a b{\"c\"} d\\"} 2.0
keyline_waits_seconds_sum{topic="a b{\"c\"} d\\"} 0.5
"""
BARE = """# HELP keyline_ready It.
# TYPE keyline_ready gauge
keyline_ready 1.0
"""


def text_of(answers: Answers, form: Format = TEXT) -> str:
    """The whole text."""

    async def whole() -> str:
        return "".join([piece async for piece in merged(answers, form, Turns())]) + form.end

    return asyncio.run(whole())


@pytest.mark.parametrize("form", [TEXT, OPENMETRICS], ids=["text", "openmetrics"])
def test_every_series_has_its_process_and_every_family_one_head(form: Format) -> None:
    """A process that does not answer is told, and a strict parser takes it all."""
    other = OTHER.replace("keyline_build_info gauge", "keyline_build info").replace(
        "HELP keyline_build_info", "HELP keyline_build"
    )
    answers = Answers(
        {"0": BARE + (other if form is OPENMETRICS else OTHER), "2": BARE},
        {"0": True, "1": False, "2": True},
        {"0": 0, "1": 4, "2": 0},
    )
    text = text_of(answers, form)
    assert text.count("# TYPE keyline_ready gauge") == 1
    families = list((parse_openmetrics if form is OPENMETRICS else parse_text)(text))
    samples = {(s.name, s.labels["process"]): s for family in families for s in family.samples}
    assert {process for name, process in samples if name == "keyline_ready"} == {"0", "2"}
    assert samples["keyline_process_up", "1"].value == 0
    assert samples["keyline_process_restarts_total", "1"].value == 4
    assert samples["keyline_waits_seconds_count", "0"].labels == {"process": "0", "topic": 'a b{"c"} d\\'}


def test_large_families_are_labelled_in_short_turns() -> None:
    """Messages are delivered between; nothing is lost where a family is cut."""
    rows = [f'keyline_pending{{topic="t{number}"}} {number}' for number in range(5_000)]
    head = "# HELP keyline_pending Pending.\n# TYPE keyline_pending gauge\n"
    text = head + "\n".join(rows) + "\n" + BARE

    async def pieces() -> list[str]:
        answers = Answers({"0": text, "1": text}, {}, {})
        return [piece async for piece in merged(answers, TEXT, Turns())]

    made = asyncio.run(pieces())
    assert max(map(len, made)) < 2 * PIECE
    lines = "".join(made).splitlines()
    for process in "01":
        labelled_rows = [row.replace("{", f'{{process="{process}",') for row in rows]
        assert [line for line in lines if line.startswith(f'keyline_pending{{process="{process}"')] == labelled_rows
        assert f'keyline_ready{{process="{process}"}} 1.0' in lines
    assert lines.count("# TYPE keyline_pending gauge") == 1


class Alone:
    """A host whose other processes are gone, and the text of this one."""

    here = "0"

    def names(self) -> tuple[str, ...]:
        """No other."""
        return ()

    def restarts(self) -> dict[str, int]:
        """None."""
        return {}

    async def gathered(self, _form: Format, _turns: Turns) -> AsyncIterator[str]:
        """As `MetricsText` does."""

        async def pieces() -> AsyncIterator[str]:
            yield BARE

        return pieces()


@pytest.mark.parametrize("end", ["it goes", "it is not read in time"])
def test_scrapes_that_are_not_read_are_few(monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    """Each has the texts of all processes in memory. One more is refused, until one has gone or was too slow."""
    if end == "it is not read in time":
        monkeypatch.setattr(route, "SCRAPE_S_MAX", 0.2)
    host: Any = Alone()
    app = FastAPI()
    answer_problems(app)
    app.include_router(route.metrics_routes(host, processes=host))

    async def scenario() -> None:
        stuck = asyncio.Semaphore(0)

        async def receive() -> Any:
            return await asyncio.Event().wait()

        async def send(message: Any) -> None:
            if message["type"] == "http.response.body":
                stuck.release()
                await asyncio.Event().wait()

        async def status() -> int:
            transport = httpx.ASGITransport(app=app)
            async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
                return (await client.get("/metrics")).status_code

        scope = {"type": "http", "method": "GET", "path": "/metrics", "query_string": b"", "headers": []}
        slow = [asyncio.create_task(app(dict(scope), receive, send)) for _ in range(route.SCRAPES_MAX)]
        for _ in slow:
            await stuck.acquire()
        if end == "it goes":
            assert await status() == 503
            slow[0].cancel()
        await asyncio.wait(slow[:1])
        monkeypatch.undo()  # what is read gets its time, on a busy machine too
        assert await status() == 200
        for task in slow:
            task.cancel()
        await asyncio.gather(*slow, return_exceptions=True)

    asyncio.run(asyncio.wait_for(scenario(), 30))


def test_a_label_is_added_to_samples_alone() -> None:
    """Values of labels may look like samples."""
    assert labelled('a{b="c{d} e"} 1\nf 2\n', "7") == 'a{process="7",b="c{d} e"} 1\nf{process="7"} 2\n'
