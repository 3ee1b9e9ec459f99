"""The background on real threads: beside the loop, in order, cancelled and closed."""

from __future__ import annotations

import asyncio
import threading

import pytest

from proxy.aio.background import AioBackground

PATIENCE_S = 60.0


async def _answers(background: AioBackground, count: int, works: list[object]) -> list[object]:
    loop = asyncio.get_running_loop()
    answers: list[object] = []
    enough = loop.create_future()

    def done(result: object) -> None:
        assert threading.current_thread() is threading.main_thread()
        answers.append(result)
        if len(answers) == count:
            enough.set_result(None)

    for work in works:
        background.run(work, done)  # type: ignore[arg-type]
    await asyncio.wait_for(enough, PATIENCE_S)
    return answers


def test_work_runs_beside_the_loop_and_its_result_comes_back_to_it() -> None:
    """In the order asked for, since there is one thread; a failure is a result."""

    async def main() -> None:
        background = AioBackground(asyncio.get_running_loop())
        gate = threading.Event()
        asyncio.get_running_loop().call_later(0, gate.set)  # only a loop that is free sets it

        def waits() -> bool:
            return gate.wait(PATIENCE_S)

        answers = await _answers(background, 3, [waits, threading.current_thread, lambda: 1 // 0])
        assert answers[0] is True
        assert answers[1] is not threading.main_thread()
        assert isinstance(answers[2], ZeroDivisionError)
        background.close()

    asyncio.run(main())


def test_what_is_cancelled_is_not_told_of() -> None:
    """Neither if it waits for the thread nor if it is done already and its news is on the way."""

    async def main() -> None:
        background = AioBackground(asyncio.get_running_loop())
        told: list[object] = []
        gate = threading.Event()
        first = background.run(lambda: gate.wait(PATIENCE_S), told.append)
        second = background.run(lambda: 2, told.append)
        first.cancel()
        second.cancel()
        gate.set()
        assert await _answers(background, 1, [lambda: 3]) == [3]
        assert told == []
        background.close()

    asyncio.run(main())


def test_a_loop_that_has_ended_is_not_told(caplog: pytest.LogCaptureFixture) -> None:
    """A thread may be at work when the gateway stops: it ends without a trace."""
    gate = threading.Event()

    async def main() -> AioBackground:
        background = AioBackground(asyncio.get_running_loop())
        background.run(lambda: gate.wait(PATIENCE_S), lambda _: None)
        background.close()
        return background

    background = asyncio.run(main())
    gate.set()
    background._pool.shutdown(wait=True)
    assert caplog.records == []


def test_a_fault_in_what_is_told_ends_nothing_else() -> None:
    """It is logged, and the next one is told."""

    async def main() -> None:
        background = AioBackground(asyncio.get_running_loop())

        def fails(_: object) -> None:
            raise ValueError

        background.run(lambda: 0, fails)
        assert await _answers(background, 1, [lambda: 1]) == [1]
        background.close()

    asyncio.run(main())
