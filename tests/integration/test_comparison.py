"""The program that counts what the README tells of brokers with and without the gateway, at a small size."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import pytest

from integration.comparison import __main__ as program
from integration.comparison.plan import CASES, OLDER_VERSION, QUICK_CHANGES, QUICK_MESSAGES, Case, cases
from integration.comparison.report import table
from integration.comparison.run import Comparison, compare
from integration.load.audit import AuditResult, Evidence, audit
from integration.load.options import Batching
from integration.load.report import audit_lines
from integration.standalone import PulsarStandalone

NOTHING = audit([], [])
FOUND = replace(NOTHING, order_violations=(Evidence("a later one", "an earlier one"),) * 1_234)


def judged(direct: AuditResult, gateway: AuditResult) -> Comparison:
    """A comparison of the first case with these results."""
    return Comparison(CASES[0], direct, gateway)


def test_batches_of_many_keys_break_order_direct_and_keep_it_through_the_gateway(
    pulsar: PulsarStandalone, tmp_path: Path
) -> None:
    """The same load, workers that join, leave and crash, and one audit of both sides."""
    case = cases(None, messages=QUICK_MESSAGES, changes=QUICK_CHANGES)[0]
    assert (case.version, case.load.batching) == (pulsar.version, Batching.DEFAULT)
    found = compare(pulsar, case, tmp_path)
    assert found.direct.order_violations
    assert found.direct.holder_violations
    assert found.gateway.ok, "\n".join(audit_lines(found.gateway))
    for result in (found.direct, found.gateway):
        assert result.delivered == result.confirmed == QUICK_MESSAGES
        assert result.lives == case.load.workers + QUICK_CHANGES // 2, "two changes of four start a worker"


def test_the_table_has_a_row_of_the_broker_and_one_of_the_gateway() -> None:
    """It is Markdown with aligned columns, numbers to the right."""
    lines = table([judged(FOUND, NOTHING)]).splitlines()
    assert len({len(line) for line in lines}) == 1
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert cells[2] == ["4.2.4", "default", "60,000", "the broker", "1,234", "0", "0"]
    assert cells[3] == ["4.2.4", "default", "60,000", "Keyline", "0", "0", "0"]


@pytest.mark.parametrize(("direct", "gateway", "code"), [(FOUND, NOTHING, 0), (NOTHING, FOUND, 1)])
def test_only_what_the_gateway_did_decides_the_exit_code(
    direct: AuditResult,
    gateway: AuditResult,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Faults of the broker are what is to be shown; one of the gateway is told with its evidence."""
    monkeypatch.setattr(program, "_compared", lambda *_: iter([judged(direct, gateway)]))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert program.main([]) == code
    told = capsys.readouterr()
    assert "1,234" in told.out
    assert ("a later one | then an earlier one" in told.err) == bool(code)
    assert len(list(tmp_path.iterdir())) == code, "records are kept where there is something to look into"


def test_sizes_and_versions_can_be_chosen() -> None:
    """What is not given is the case's own."""
    (older,) = cases([OLDER_VERSION], messages=None, changes=7)
    assert older == Case(OLDER_VERSION, replace(CASES[-1].load, changes=7))
    assert cases(None, messages=None, changes=None) == list(CASES)
