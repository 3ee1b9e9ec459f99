"""Writes the chart's generated files: `python -m helm.build`.

A test fails while a file is not what this would write. Helm packs only what lies inside a chart, so the dashboards and
rules must be copies; the schema of values.yaml is made from `values_model` and the gateway's settings, and the README
from that schema and the comments of values.yaml.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from dashboards.build import rendered as rendered_dashboards
from helm.readme import readme
from helm.setting_schema import config_schema, setting_facts
from helm.values_model import Values

CHART: Final = Path(__file__).parent / "keyline"
RULES: Final = Path(__file__).parent.parent / "dashboards" / "rules" / "keyline.rules.yml"


def rendered() -> dict[Path, str]:
    """Each file with the text it must have."""
    files = CHART / "files"
    # Without indentation: Helm keeps the whole chart in one Secret, which has a limit.
    dashboards = {
        files / "dashboards" / path.name: json.dumps(json.loads(text), separators=(",", ":")) + "\n"
        for path, text in rendered_dashboards().items()
    }
    return {
        CHART / "values.schema.json": _json(values_schema()),
        CHART / "README.md": readme((CHART / "values.yaml").read_text(encoding="utf-8"), values_schema()),
        files / "settings.json": _json(setting_facts()),
        files / "keyline.rules.yml": RULES.read_text(encoding="utf-8"),
        **dashboards,
    }


def values_schema() -> dict[str, Any]:
    """Make the schema that Helm checks values.yaml and everything set over it with."""
    schema = Values.model_json_schema(by_alias=True)
    schema["properties"]["config"] = config_schema()
    return {"$schema": "http://json-schema.org/draft-07/schema#", **_untitled(schema)}


def _untitled(schema: Any) -> Any:
    """Drop the titles that pydantic makes of names: they say nothing and double the file."""
    if isinstance(schema, dict):
        return {key: _untitled(value) for key, value in schema.items() if key != "title" or not isinstance(value, str)}
    return [_untitled(item) for item in schema] if isinstance(schema, list) else schema


def _json(content: Any) -> str:
    return json.dumps(content, indent=2) + "\n"


def main() -> None:
    """Write them."""
    for path, text in rendered().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
