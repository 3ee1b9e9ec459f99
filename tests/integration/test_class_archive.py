"""Java's archive of a broker's classes: whose it is, and that a broker takes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from integration import artifacts, class_archive
from integration.errors import IntegrationError
from integration.java import java
from integration.standalone import PulsarStandalone


def test_another_java_or_version_has_another_archive(tmp_path: Path) -> None:
    """Java would take none of the other's."""
    other = tmp_path / "java"
    other.touch()
    archives = {artifacts.broker(version).classes(program) for version in ("1", "2") for program in (java(), other)}
    assert len(archives) == 4


def test_where_none_can_be_made_brokers_start_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`make test` goes on."""

    def fail(version: str) -> Path:
        raise IntegrationError(f"no room for {version}")

    monkeypatch.setattr(class_archive, "ensure", fail)
    monkeypatch.setattr("sys.argv", ["class_archive", "9.9.9"])
    assert class_archive.main() == 0
    assert "no room for 9.9.9" in capsys.readouterr().err


def test_a_broker_takes_the_archive(pulsar: PulsarStandalone) -> None:
    """It has it in its memory."""
    archive = artifacts.broker(pulsar.version).classes(java())
    if not archive.exists():
        pytest.skip("`make artifacts` makes it")
    assert str(archive) in Path(f"/proc/{pulsar.pid}/maps").read_text()
