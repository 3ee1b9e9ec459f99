"""The metrics of several processes as one text."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from admin_api.metrics.formats import OPENMETRICS, TEXT, Format
from admin_api.metrics.merged import Answers, labelled, merged
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


def test_a_label_is_added_to_samples_alone() -> None:
    """Values of labels may look like samples."""
    assert labelled('a{b="c{d} e"} 1\nf 2\n', "7") == 'a{process="7",b="c{d} e"} 1\nf{process="7"} 2\n'
