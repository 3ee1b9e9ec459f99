"""What the chart consists of, seen without Helm: generated files, values.yaml and its schema."""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml
from pydantic import ByteSize

from helm.build import CHART, rendered, values_schema
from helm.values_model import Values
from proxy import __version__
from proxy.config.settings import GROUP_OF
from proxy.config.types import size_text
from tests.helm.chart import SCENARIOS

VALUES_LINES_MAX = 300
VALUES: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
WRONG_KINDS: tuple[Any, ...] = ({"a": 1}, -(10**15), True, "?", None)


def problems(values: dict[str, Any]) -> list[str]:
    """What the schema has against them."""
    return [error.message for error in jsonschema.Draft7Validator(values_schema()).iter_errors(values)]


def test_generated_files_are_what_would_be_generated() -> None:
    """`python -m helm.build` writes them; nobody edits them."""
    for path, text in rendered().items():
        assert path.read_text() == text, f"{path.name}: run `python -m helm.build`"


def test_the_chart_has_no_dashboard_that_is_not_generated() -> None:
    """One that was removed or renamed goes from the chart too."""
    assert set((CHART / "files" / "dashboards").iterdir()) == {
        path for path in rendered() if path.parent.name == "dashboards"
    }


def test_the_charts_application_is_this_version() -> None:
    """Its image's tag follows from it."""
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["appVersion"] == __version__


def test_values_are_few_and_commented() -> None:
    """A person reads them from top to bottom."""
    lines = (CHART / "values.yaml").read_text().splitlines()
    assert len(lines) <= VALUES_LINES_MAX
    assert sum("#" in line for line in lines) > len(lines) / 5


def test_defaults_fit_their_schema() -> None:
    """And the model that it is made from; each has a default."""
    assert problems(VALUES) == []
    assert set(Values.model_validate(VALUES).model_fields_set) == set(Values.model_fields) - {"global_"}


def test_the_readme_has_every_value() -> None:
    """With its type, its default and its comment."""
    lines = (CHART / "README.md").read_text().splitlines()
    rows = {line.split(" | ")[0].removeprefix("| "): line for line in lines if line.startswith("| `")}
    assert len(rows) > 100
    assert {name.strip("`").partition(".")[0] for name in rows} == set(VALUES)
    assert rows["`service.ports.pulsar`"] == "| `service.ports.pulsar` | number from 1 to 65535 | `6650` |  |"
    assert "the chart's appVersion if empty" in rows["`image.tag`"]


def test_the_schema_knows_every_setting() -> None:
    """By its name, with words for an editor to show."""
    settings = values_schema()["properties"]["config"]["properties"]
    assert set(settings) == set(GROUP_OF)
    assert all(setting["description"] for setting in settings.values())


@pytest.mark.parametrize("name", GROUP_OF)
def test_the_schema_takes_a_settings_default_and_not_everything(name: str) -> None:
    """As the gateway does."""
    field = GROUP_OF[name][1].model_fields[name]
    default = field.get_default(call_default_factory=True)
    if default is not None:
        value = list(default) if isinstance(default, tuple) else default
        assert problems({**VALUES, "config": {name: value}}) == []
        if field.annotation is ByteSize:
            assert problems({**VALUES, "config": {name: size_text(default)}}) == []
    assert any(problems({**VALUES, "config": {name: wrong}}) for wrong in WRONG_KINDS)


def test_unknown_keys_are_mistakes_on_every_level() -> None:
    """A value that is misspelt must not be ignored."""

    def with_one_more(values: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
        if not path:
            return {**values, "unkown": 1}
        return {**values, path[0]: with_one_more(values[path[0]], path[1:])}

    def blocks(values: dict[str, Any], model: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
        found = [path]
        for field in model.model_fields.values():
            if isinstance(field.annotation, type) and hasattr(field.annotation, "model_fields"):
                found += blocks(values[field.alias], field.annotation, (*path, field.alias))
        return found

    paths = [*blocks(VALUES, Values), ("config",)]
    assert len(paths) > 30
    for path in paths:
        assert problems(with_one_more(VALUES, path)), path


def test_the_scenarios_use_every_value() -> None:
    """What no scenario sets, no test has seen rendered."""
    used: set[str] = set()
    for path in SCENARIOS.values():
        used |= set(yaml.safe_load(path.read_text()))
    assert set(VALUES) - used <= {"nameOverride", "probes", "podSecurityContext", "containerSecurityContext"}
