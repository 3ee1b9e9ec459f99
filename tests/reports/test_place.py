"""Where a journal is: one URL for Arrow and for Spark; and what is said where Spark cannot follow."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from integration.ports import free_ports
from proxy.cli.main import app
from spark_reports.faults import words
from spark_reports.place import JournalError, place_at


def test_one_url_serves_both_libraries() -> None:
    """A store of one's own: its address, the way to speak to it, and how buckets are named there."""
    place = place_at("s3://bucket/team/journal/?scheme=http&endpoint_override=127.0.0.1:9000&region=eu-west-1")
    assert place.path == "bucket/team/journal"
    assert place.table("events") == "s3a://bucket/team/journal/events"
    assert place.spark_settings == {
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:9000",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }


def test_amazons_own_store_needs_no_setting() -> None:
    """Its connector knows where it is."""
    assert place_at("s3://bucket/journal?region=us-east-1").spark_settings == {
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1"
    }


def test_a_store_without_a_scheme_is_asked_by_tls() -> None:
    """As Arrow does."""
    settings = place_at("s3://bucket/journal?endpoint_override=store.example:9000&region=us-east-1").spark_settings
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "https://store.example:9000"


@pytest.mark.parametrize("root", ["/var/lib/journal", "/var/lib/journal/", "file:///var/lib/journal"])
def test_a_directory_is_called_alike_everywhere(root: str) -> None:
    """Spark's name for a path is the path."""
    place = place_at(root)
    assert (place.table("events"), place.spark_settings) == ("/var/lib/journal/events", {})


@pytest.mark.parametrize(
    ("root", "table"),
    [
        ("gs://bucket/j", "gs://bucket/j/events"),
        ("gcs://bucket/j", "gs://bucket/j/events"),
        ("abfs://box@account.dfs.core.windows.net/j", "abfs://box@account.dfs.core.windows.net/j/events"),
    ],
)
def test_other_stores_keep_their_authority(root: str, table: str) -> None:
    """Without it Spark would look elsewhere."""
    assert place_at(root).table("events") == table


def test_an_address_may_say_how_it_is_spoken_to() -> None:
    """Arrow takes it with its scheme, too."""
    settings = place_at("s3://bucket/j?endpoint_override=http%3A%2F%2Fstore%3A9000&region=x").spark_settings
    assert settings["spark.hadoop.fs.s3a.endpoint"] == "http://store:9000"


def test_a_secret_in_a_url_is_refused_and_not_repeated() -> None:
    """It would stand in every report."""
    with pytest.raises(JournalError) as refused:
        place_at("s3://key:open-sesame@bucket/journal")
    assert "open-sesame" not in str(refused.value)


def test_a_store_that_cannot_be_reached_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where only a directory is to be made."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "k")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "s")
    (port,) = free_ports(1)
    place = place_at(f"s3://bucket/j?scheme=http&endpoint_override=127.0.0.1:{port}&region=us-east-1")
    with pytest.raises(JournalError, match=r"s3://bucket/j.*(NETWORK_CONNECTION|curlCode)"):
        place.make("events")


def test_what_names_nothing_is_told() -> None:
    """With what would be right."""
    with pytest.raises(JournalError, match=r"nonsense://x: .*should be a path or a URL such as s3://bucket/folder"):
        place_at("nonsense://x")


@pytest.mark.parametrize("given", ["fs.s3a.endpoint=x", "spark.jars", "="])
def test_a_setting_that_is_none_of_sparks_is_refused(given: str, tmp_path: Path) -> None:
    """Before Spark starts."""
    result = CliRunner().invoke(app, ["report", str(tmp_path), "--conf", given])
    assert result.exit_code == 2
    assert "spark.NAME=VALUE" in result.output


def test_a_missing_connector_is_named_with_its_version() -> None:
    """Of the Hadoop that this Spark is made with; another one fails in ways that nobody understands."""
    missing = "java.lang.ClassNotFoundException: Class a.b.S3AFileSystem not found"
    told = words(RuntimeError(f"o1.parquet:\n{missing}\n\tat x"))
    assert "spark.jars.packages=org.apache.hadoop:hadoop-aws:3." in told
    assert "\n" not in told


def test_sparks_own_words_are_cut_to_the_line_that_says_why() -> None:
    """Plans and stacks stay out."""
    told = words(RuntimeError("An error occurred while calling o1.load.\n: java.io.IOException: no room\n\tat x.y(Z)"))
    assert told == "java.io.IOException: no room"
