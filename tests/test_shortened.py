"""Texts that strangers choose are cut where they stay: in whatever is written of them, and so that it is seen."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.app.log import TEXT_CHARACTERS_MAX, TRACEBACK_CHARACTERS_MAX
from proxy.shortened import CUT, both_ends, shortened, shortened_within

EXIT_S_MAX = 240


@given(st.text(max_size=30), st.integers(1, 20))
def test_a_text_is_whole_or_cut_and_marked(text: str, most: int) -> None:
    """Never longer than the bound, and never cut where it fits."""
    for cut in (shortened(text, most), both_ends(text, most)):
        assert len(cut) == min(len(text), most)
        assert (cut == text) or (len(text) > most and CUT in cut)


def test_a_traceback_keeps_its_end() -> None:
    """Which says what went wrong."""
    assert both_ends("0123456789", 7) == f"012{CUT}789"


class Nasty:
    """A value that is no text until it is written."""

    def __repr__(self) -> str:
        """Long."""
        return "r" * 99


def test_texts_within_are_cut_too() -> None:
    """In lists and dicts, in their names, and in the repr of anything else; what fits stays what it is."""
    long, cut = "x" * 99, "x" * 8 + CUT
    value = {"a": [long, (long, 1, None, True, 2.5)], long: {"b": long}, "c": Nasty(), "d": b"ok"}
    assert shortened_within(value, 9) == {
        "a": [cut, [cut, 1, None, True, 2.5]],
        cut: {"b": cut},
        "c": "r" * 8 + CUT,
        "d": b"ok",
    }


PROGRAM = """
import logging, sys, structlog
from proxy.app.log import configure_logging
from proxy.app.log_limiter import LineLimiter
configure_logging('info', sys.argv[1], 'r', LineLimiter(lambda: 0.0, 0))
name = '\\x1b' * 5_000_000
log = structlog.get_logger('a')
log.info('session_ended', client=name, all=[name], of={'one': {name: name}})
log.info('saw %s', name)
logging.getLogger('b').warning('saw %s', name, extra={'told': name})
try:
    raise ValueError('begins ' + name + ' ends')
except ValueError:
    log.exception('failed', peer=name)
"""
FIELDS_MAX = 5
ESCAPED_MAX = 6


@pytest.mark.parametrize("line_format", ["json", "console"])
def test_lines_of_the_log_are_bounded(line_format: str) -> None:
    """In names, in what is within others, in the event itself and in a fault's text, ours and libraries'."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, line_format], capture_output=True, text=True, timeout=EXIT_S_MAX, check=True
    )
    one_max = ESCAPED_MAX * (FIELDS_MAX * TEXT_CHARACTERS_MAX + TRACEBACK_CHARACTERS_MAX)
    lines = done.stderr.splitlines()
    assert [len(line) for line in lines if len(line) > one_max] == []
    assert len(done.stderr) < 4 * one_max
    assert "begins" in done.stderr
    assert "ends" in done.stderr
    if line_format == "json":
        told: list[dict[str, Any]] = [json.loads(line) for line in lines]
        assert len(told) == 4
        assert told[0]["client"] == "\x1b" * (TEXT_CHARACTERS_MAX - 1) + CUT
        assert told[2]["told"] == told[0]["client"]
        assert told[3]["exception"][0]["frames"], "a fault is still found by where it was"
