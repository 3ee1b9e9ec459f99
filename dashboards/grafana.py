"""Panels, variables and dashboards as Grafana's JSON has them, from values a person can read.

Rule kept: a panel cannot be made without a unit, a description and thresholds. What Grafana adds when it saves a
dashboard (ids of its database, versions, options at their defaults) is left out, so that a difference between two
versions of a file is a difference in meaning. Layout is by flow: panels fill rows of 24 columns from the left.

Source: Grafana's dashboard JSON model, schema 39.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

COLUMNS: Final = 24
SCHEMA_VERSION: Final = 39
DATASOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
TAGS: Final = ["keyline", "pulsar"]

Kind = Literal["stat", "timeseries", "heatmap", "table"]
Thresholds = tuple[tuple[str, float | None], ...]
"""Colours with the values they begin at; the first begins at None, minus infinity."""

NO_LIMIT: Final[Thresholds] = (("green", None),)
"""A number that is neither good nor bad."""


def above(orange: float | None = None, *, red: float | None = None) -> Thresholds:
    """Green up to a value, then orange, then red."""
    steps = (("orange", orange), ("red", red))
    return (("green", None), *((colour, value) for colour, value in steps if value is not None))


@dataclass(frozen=True, slots=True)
class Query:
    """PromQL; `legend` names its series, in a table its column."""

    expression: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. Of a table, each query is a column, by the labels the queries have in common."""

    title: str
    description: str
    unit: str
    thresholds: Thresholds
    queries: Sequence[Query]
    kind: Kind = "timeseries"
    width: int = 12
    height: int = 8
    maximum: float | None = None
    stacked: bool = False
    texts: Sequence[tuple[int, str, str]] = ()
    """What is shown instead of a number: number, text, colour."""
    units: Sequence[tuple[str, str]] = ()
    """Of a table's columns that have units of their own: legend, unit."""


@dataclass(frozen=True, slots=True)
class Row:
    """A heading with the panels below it."""

    title: str
    panels: Sequence[Panel]


@dataclass(frozen=True, slots=True)
class Variable:
    """A choice at the dashboard's head: several values, or all."""

    name: str
    label: str
    query: str
    all_value: str | None
    """The expression that stands for all; None for every value by name."""
    regex: str = ""


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A whole one; `name` is its file's and part of its address."""

    name: str
    title: str
    description: str
    variables: Sequence[Variable]
    rows: Sequence[Row]


def dashboard_json(dashboard: Dashboard) -> dict[str, Any]:
    """Everything Grafana wants to import it."""
    return {
        "uid": f"keyline-{dashboard.name}",
        "title": dashboard.title,
        "description": dashboard.description,
        "tags": TAGS,
        "schemaVersion": SCHEMA_VERSION,
        "editable": True,
        "graphTooltip": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "links": [
            {
                "type": "dashboards",
                "title": "Keyline",
                "tags": TAGS[:1],
                "asDropdown": False,
                "includeVars": True,
                "keepTime": True,
            }
        ],
        "annotations": {"list": []},
        "templating": {"list": [_datasource(), *map(_variable, dashboard.variables)]},
        "panels": list(_placed(dashboard.rows)),
    }


def _datasource() -> dict[str, Any]:
    return {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "refresh": 1}


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": DATASOURCE,
        "definition": variable.query,
        "query": {"qryType": 1, "query": variable.query, "refId": f"variable-{variable.name}"},
        "regex": variable.regex,
        "includeAll": True,
        "allValue": variable.all_value,
        "multi": True,
        "current": {"text": ["All"], "value": ["$__all"]},
        "refresh": 2,
        "sort": 1,
    }


def _placed(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    number, top = 0, 0
    for row in rows:
        number += 1
        place = {"x": 0, "y": top, "w": COLUMNS, "h": 1}
        yield {"id": number, "type": "row", "title": row.title, "collapsed": False, "gridPos": place, "panels": []}
        left, top, height = 0, top + 1, 0
        for panel in row.panels:
            if left + panel.width > COLUMNS:
                left, top, height = 0, top + height, 0
            number += 1
            place = {"x": left, "y": top, "w": panel.width, "h": panel.height}
            yield {"id": number, **_panel(panel), "gridPos": place}
            left, height = left + panel.width, max(height, panel.height)
        top += height


def _panel(panel: Panel) -> dict[str, Any]:
    names = string.ascii_uppercase[: len(panel.queries)]
    made = {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": DATASOURCE,
        "targets": [_target(panel, name, query) for name, query in zip(names, panel.queries, strict=True)],
        "fieldConfig": {"defaults": _field(panel), "overrides": list(_overrides(panel))},
        "options": _options(panel),
    }
    if panel.kind == "table":
        columns = {f"Value #{name}": query.legend for name, query in zip(names, panel.queries, strict=True)}
        made["transformations"] = [
            {"id": "merge", "options": {}},
            {"id": "organize", "options": {"excludeByName": {"Time": True}, "renameByName": columns}},
        ]
    return made


def _target(panel: Panel, name: str, query: Query) -> dict[str, Any]:
    formats: dict[Kind, str] = {"table": "table", "heatmap": "heatmap"}
    instant = panel.kind in {"table", "stat"}
    return {
        "refId": name,
        "datasource": DATASOURCE,
        "expr": query.expression,
        "legendFormat": query.legend,
        "format": formats.get(panel.kind, "time_series"),
        "instant": instant,
        "range": not instant,
    }


def _field(panel: Panel) -> dict[str, Any]:
    steps = [{"color": colour, "value": value} for colour, value in panel.thresholds]
    field: dict[str, Any] = {
        "unit": panel.unit,
        "min": 0,
        "thresholds": {"mode": "absolute", "steps": steps},
        "mappings": [
            {"type": "value", "options": {str(number): {"text": text, "color": colour}}}
            for number, text, colour in panel.texts
        ],
    }
    if panel.maximum is not None:
        field["max"] = panel.maximum
    if panel.kind == "timeseries":
        field["color"] = {"mode": "palette-classic"}
        field["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 10,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if len(panel.thresholds) > 1 else "off"},
        }
    elif panel.kind == "stat":
        field["color"] = {"mode": "thresholds"}
    return field


def _overrides(panel: Panel) -> Iterator[dict[str, Any]]:
    for column, unit in panel.units:
        yield {"matcher": {"id": "byName", "options": column}, "properties": [{"id": "unit", "value": unit}]}


def _options(panel: Panel) -> dict[str, Any]:
    match panel.kind:
        case "stat":
            return {"colorMode": "value", "graphMode": "none", "reduceOptions": {"calcs": ["lastNotNull"]}}
        case "heatmap":
            return {
                "calculate": False,
                "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64},
                "yAxis": {"unit": panel.unit},
                "tooltip": {"mode": "single", "yHistogram": True},
            }
        case "table":
            return {"showHeader": True, "cellHeight": "sm"}
        case "timeseries":
            return {
                "legend": {"displayMode": "table", "placement": "bottom", "calcs": ["lastNotNull", "max"]},
                "tooltip": {"mode": "multi", "sort": "desc"},
            }
