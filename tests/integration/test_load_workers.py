"""The workers of loads, whose records the audit believes, against a broker alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from integration.load.records import Event
from integration.load.run import LoadRun
from integration.standalone import PulsarStandalone

MESSAGES = 50
WORK_MS = 200
"""Long enough that the worker is told to stop in the middle of it."""
OF_MESSAGES_AND_END = {Event.RECEIVED, Event.ACKED, Event.CLOSING, Event.CLOSED}
"""A listener may be called before the worker has written that it joined."""


@pytest.mark.parametrize("way", [{}, {"listener": True}], ids=["receiving", "listening"])
def test_a_worker_is_done_with_its_message_before_it_closes(
    way: dict[str, bool], broker: PulsarStandalone, new_topic: Callable[[str], str], tmp_path: Path
) -> None:
    """Else its client drops the acknowledgement, and the audit takes what comes again for a message without a cause."""
    topic = new_topic("worker")
    with LoadRun(tmp_path, broker.service_url, topic) as run:
        worker = run.start_worker("w", work_ms=WORK_MS, **way)
        run.produce(count=MESSAGES, keys=1)
        run.wait_until(lambda: any(each.event == Event.RECEIVED for each in worker.life().records), "a message")
        run.stop_worker("w")
        events = [each.event for each in worker.life().records if each.event in OF_MESSAGES_AND_END]
        taken = events.count(Event.RECEIVED)
        assert 0 < taken < MESSAGES
        assert events == [Event.RECEIVED, Event.ACKED] * taken + [Event.CLOSING, Event.CLOSED]
        run.start_worker("next")
        result = run.finish()
    assert result.ok
    assert result.delivered == result.deliveries == MESSAGES
