"""What the chart makes for others' operators, judged by those operators' own definitions.

Judged strictly: a field that a definition does not have, or a value of another kind, is a mistake, as at an API
server. What a definition says in CEL, and what its operator does with the object, is not judged.
"""

from __future__ import annotations

from typing import Any

import jsonschema
import pytest
import yaml

from integration.errors import IntegrationError
from integration.go_tool import module_files
from tests.helm.chart import SCENARIOS, Chart, of_kind

MODULES = {
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": "example/prometheus-operator-crd",
    "github.com/cert-manager/cert-manager@v1.21.2": "deploy/crds",
}
"""Where definitions are: `VMPodScrape`'s is in no module."""
KINDS = ("Certificate", "PodMonitor", "PrometheusRule", "ServiceMonitor")

Schema = dict[str, Any]


class Definitions(yaml.SafeLoader):
    """Reads `=`, an operator of Prometheus, as the text that it is: YAML 1.1 has a use of its own for it."""


def as_text(loader: Definitions, node: yaml.ScalarNode) -> str:
    """Read a scalar as it is written."""
    return str(loader.construct_scalar(node))


Definitions.add_constructor("tag:yaml.org,2002:value", as_text)


@pytest.fixture(scope="module")
def schemas() -> dict[tuple[str, str], Schema]:
    """By version and kind; skips where there is no Go, or its modules cannot be had."""
    found: dict[tuple[str, str], Schema] = {}
    try:
        folders = [module_files(module, "definitions of operators") / folder for module, folder in MODULES.items()]
    except IntegrationError as error:
        pytest.skip(str(error))
    for path in (path for folder in folders for path in folder.glob("*.yaml")):
        spec = yaml.load(path.read_text(), Definitions)["spec"]  # noqa: S506 - a safe one
        if spec["names"]["kind"] in KINDS:
            for version in spec["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                found[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return found


def strict(schema: Schema) -> Schema:
    """The same, refusing fields that it does not name, as an API server does unless the definition says otherwise."""
    new = dict(schema)
    if isinstance(new.get("additionalProperties"), dict):
        new["additionalProperties"] = strict(new["additionalProperties"])
    if "items" in new:
        new["items"] = strict(new["items"])
    if "properties" in new:
        new["properties"] = {name: strict(inner) for name, inner in new["properties"].items()}
        if "additionalProperties" not in new and not new.get("x-kubernetes-preserve-unknown-fields"):
            new["additionalProperties"] = False
    return new


def mistakes(schemas: dict[tuple[str, str], Schema], manifest: dict[str, Any]) -> list[str]:
    """What its definition has against it."""
    schema = schemas[manifest["apiVersion"], manifest["kind"]]
    found = jsonschema.Draft4Validator(schema).iter_errors(manifest)
    return [f"{manifest['kind']}{error.json_path[1:]}: {error.message}" for error in found]


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_what_operators_are_asked_for_is_as_they_define_it(
    chart: Chart, schemas: dict[tuple[str, str], Schema], scenario: str
) -> None:
    """No field that is not theirs, no value that they refuse."""
    for manifest in of_kind(chart.render(scenario), *KINDS):
        assert mistakes(schemas, manifest) == []


def test_the_scenarios_ask_for_every_kind(chart: Chart, schemas: dict[tuple[str, str], Schema]) -> None:
    """Else the test above would say nothing; and it sees a field too many and one of a wrong type."""
    manifests = {found["kind"]: found for name in SCENARIOS for found in of_kind(chart.render(name), *KINDS)}
    assert set(manifests) == set(KINDS)
    for manifest in manifests.values():
        assert mistakes(schemas, {**manifest, "spec": {**manifest["spec"], "unkown": 1}})
    rule = manifests["PrometheusRule"]
    assert mistakes(schemas, {**rule, "spec": {"groups": [{**rule["spec"]["groups"][0], "rules": [{"expr": {}}]}]}})
