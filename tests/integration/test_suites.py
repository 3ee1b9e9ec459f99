"""The official clients' own tests end through the gateway as they do directly at a broker.

A selection that takes a minute is run here: Key_Shared and exclusive producers, which the gateway serves itself, ways
to connect, and admin calls that look at messages. `make suites` runs all tests.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from integration.artifacts import DEFAULT_VERSION
from integration.errors import DownloadError, IntegrationError, ToolMissingError
from integration.suites.__main__ import emptied
from integration.suites.compare import compare
from integration.suites.known import KNOWN
from integration.suites.lane import log_of, result_of, run_test
from integration.suites.lanes import Limits, inside_namespace, run_both
from integration.suites.outcomes import Comparison, Outcome, Result, Test, Verdict, passes_unexpectedly
from integration.suites.programs import executable_of, go_admin_tests, go_tests
from integration.suites.report import closing_line, report

SELECTION = (
    "TestConsumerKeyShared",
    "TestConsumerKeySharedWithDelayedMessages",
    "TestKeyBasedBatchProducerConsumerKeyShared",
    "TestOrderingOfKeyBasedBatchProducerConsumerKeyShared",
    "TestConsumerKeySharedWithOrderingKey",
    "TestExclusiveProducer",
    "TestWaitForExclusiveProducer",
    "TestTLSConnection",
    "TestTokenAuth",
)
ADMIN_SELECTION = (
    "TestGetMessagesByID",
    "TestGetMessageByID",
    "TestGetMessageID",
    "TestPeekMessageForPartitionedTopic",
    "TestPeekMessagesWithProperties",
)
"""They read what brokers say in headers of their answers."""
LIMITS = Limits(test_s=180.0, whole_s=900.0)
PASSED, FAILED, SKIPPED, LATE = Result.PASSED, Result.FAILED, Result.SKIPPED, Result.LATE


@pytest.mark.slow
@pytest.mark.broker
def test_a_selection_passes_on_both_ways(tmp_path: Path) -> None:
    """Each is a test of the Go client, as are those that are known to differ."""
    try:
        inside_namespace()
        by_name = {test.name: test for test in (*go_tests(), *go_admin_tests())}
    except ToolMissingError as missing:
        pytest.skip(str(missing))
    assert {name for name in KNOWN if name.startswith("go ")} <= set(by_name)
    selection = [by_name[f"go {name}"] for name in SELECTION]
    selection += [by_name[f"go-admin {name}"] for name in ADMIN_SELECTION]
    comparisons = compare(selection, DEFAULT_VERSION, tmp_path / "logs", LIMITS)
    assert all(outcome.result is PASSED for one in comparisons for outcome in (*one.direct, *one.through)), report(
        comparisons, KNOWN
    )


def comparison(direct: list[Result], through: list[Result], name: str = "go TestReader") -> Comparison:
    """As many runs as results."""
    return Comparison(
        name,
        tuple(Outcome(name, result, 1) for result in direct),
        tuple(Outcome(name, result, 2) for result in through),
    )


@pytest.mark.parametrize(
    ("direct", "through", "verdict"),
    [
        ([PASSED], [PASSED], Verdict.SAME),
        ([FAILED], [FAILED], Verdict.SAME),
        ([FAILED], [LATE], Verdict.SAME),
        ([SKIPPED], [SKIPPED], Verdict.SAME),
        ([PASSED, PASSED], [FAILED, FAILED], Verdict.BROKEN),
        ([PASSED, PASSED], [LATE, FAILED], Verdict.BROKEN),
        ([SKIPPED, SKIPPED], [FAILED, FAILED], Verdict.BROKEN),
        ([PASSED, FAILED], [FAILED, FAILED], Verdict.UNSTEADY),
        ([PASSED, PASSED], [FAILED, PASSED], Verdict.UNSTEADY),
        ([FAILED, PASSED], [PASSED, PASSED], Verdict.UNSTEADY),
        ([FAILED, FAILED], [PASSED, PASSED], Verdict.ONLY_THROUGH),
    ],
)
def test_only_a_difference_that_repeats_itself_is_one(
    direct: list[Result], through: list[Result], verdict: Verdict
) -> None:
    """A test that fails at times on either way proves nothing; one that fails on both is the client's matter."""
    assert comparison(direct, through).verdict({}) is verdict


def test_a_known_difference_has_its_reason_and_stays_one_while_it_fails() -> None:
    """When it passes the reader is told, so that the list gets shorter."""
    known = {"go TestReader": "the reason why"}
    fails = comparison([PASSED, PASSED], [FAILED, FAILED])
    assert fails.verdict(known) is Verdict.KNOWN
    assert "the reason why" in report([fails], known)
    assert not passes_unexpectedly(fails, known)
    passes = comparison([PASSED], [PASSED])
    assert passes_unexpectedly(passes, known)
    assert "need not have it" in report([passes], known)
    assert "need not have it" not in report([passes], {})


def test_the_report_has_each_difference_and_totals_for_each_suite() -> None:
    """What is the same on both ways is in the totals alone."""
    text = report(
        [
            comparison([PASSED], [PASSED], "go TestSame"),
            comparison([PASSED, PASSED], [FAILED, LATE], "go TestBroken"),
            comparison([SKIPPED], [SKIPPED], "rust tests::same"),
        ],
        {},
    )
    both = "passed (1 s), passed (1 s)"
    assert text.splitlines() == [
        f"broken        go TestBroken: direct {both}; through the gateway failed (2 s), timed out (2 s)",
        "go: 2 tests",
        "  direct      2 passed,    0 failed,    0 skipped,    0 timed out",
        "  through     1 passed,    1 failed,    0 skipped,    0 timed out",
        "  verdicts    1 same,    0 unsteady,    0 only through,    0 known,    1 broken",
        "rust: 1 tests",
        "  direct      0 passed,    0 failed,    1 skipped,    0 timed out",
        "  through     0 passed,    0 failed,    1 skipped,    0 timed out",
        "  verdicts    1 same,    0 unsteady,    0 only through,    0 known,    0 broken",
    ]


def test_the_closing_line_counts_comparisons() -> None:
    """Two failures alike agree; a known difference and an unsteady test prove nothing."""
    found = [
        comparison([PASSED], [PASSED]),
        comparison([FAILED], [FAILED]),
        comparison([PASSED, PASSED], [FAILED, FAILED]),
        comparison([PASSED, PASSED], [FAILED, FAILED], "go TestKnown"),
        comparison([PASSED, PASSED], [FAILED, PASSED]),
    ]
    assert closing_line(found, {"go TestKnown": "the reason why"}) == "2 passed, 1 failed, 2 skipped"


@pytest.mark.parametrize(
    ("code", "output", "result"),
    [
        (0, "--- PASS: TestReader (0.1s)\nPASS\n", PASSED),
        (1, "--- FAIL: TestReader (0.1s)\nFAIL\n", FAILED),
        (0, "--- SKIP: TestReader (0.0s)\nPASS\n", SKIPPED),
        (0, "    --- SKIP: TestReader/one_of_many (0.0s)\n--- PASS: TestReader (0.1s)\nPASS\n", PASSED),
        (0, "test tests::round_trip ... ignored\n", SKIPPED),
        (0, "test tests::round_trip ... ok\n", PASSED),
        (-11, "", FAILED),
        (None, "", LATE),
    ],
)
def test_a_result_is_read_from_the_exit_code_and_the_output(code: int | None, output: str, result: Result) -> None:
    """Go and Rust exit alike after a success and after a test that skipped itself."""
    assert result_of(code, output) is result


def python_test(code: str, directory: Path) -> Test:
    """A test that is a line of Python."""
    return Test("python a::test (one)", (sys.executable, "-c", code), str(directory))


def test_each_test_is_a_process_with_a_log_of_its_own(tmp_path: Path) -> None:
    """It runs where its suite's files are."""
    (tmp_path / "beside").mkdir()
    test = python_test("import os; print(os.getcwd()); raise SystemExit(3)", tmp_path / "beside")
    assert run_test(test, tmp_path, seconds_max=30).result is FAILED
    log = log_of(tmp_path, test.name)
    assert log.name == "python-a-test-one-.log"
    assert log.read_text().strip() == str(tmp_path / "beside")


def test_a_test_that_hangs_is_ended(tmp_path: Path) -> None:
    """The others still get their turn."""
    assert run_test(python_test("import time; time.sleep(600)", tmp_path), tmp_path, seconds_max=0.2).result is LATE


def test_only_logs_of_an_earlier_run_make_room(tmp_path: Path) -> None:
    """A folder with anything else in it is left as it is, and refused."""
    logs, other = tmp_path / "logs", tmp_path / "other"
    assert emptied(logs) == logs
    (logs / "first" / "direct").mkdir(parents=True)
    (logs / "first" / "direct" / "tests.jsonl").touch()
    assert emptied(logs) == logs
    assert not logs.exists()
    other.mkdir()
    assert emptied(other) == other
    (other / "dear").touch()
    with pytest.raises(IntegrationError, match="other is not empty"):
        emptied(other)
    assert (other / "dear").exists()


def test_the_compiled_program_is_found_in_what_cargo_says() -> None:
    """Among messages about other crates and about what is no program."""
    lines = [
        {"reason": "compiler-artifact", "target": {"name": "build-script-build"}, "executable": "/b"},
        {"reason": "compiler-artifact", "target": {"name": "pulsar"}, "executable": None},
        {"reason": "compiler-artifact", "target": {"name": "pulsar"}, "executable": "/target/pulsar-1"},
        {"reason": "build-finished", "success": True},
    ]
    assert executable_of(map(json.dumps, lines)) == Path("/target/pulsar-1")
    with pytest.raises(DownloadError, match="no program"):
        executable_of(map(json.dumps, lines[:2]))


def test_a_lane_that_fails_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    """Nothing is compared then: a way that did not run says nothing."""
    try:
        inside_namespace()
    except ToolMissingError as missing:
        pytest.skip(str(missing))
    with pytest.raises(IntegrationError, match=r"(?s)the lane \w+ failed:.*no-credentials/tokens/admin-token"):
        run_both([python_test("", tmp_path)], DEFAULT_VERSION, tmp_path / "no-credentials", tmp_path / "logs", LIMITS)
