"""The chart's README: every value with its type from the schema, and its default and comment from values.yaml.

Rule: nothing is written a second time. What a value means is its comment in values.yaml, which is where a person reads
it first; what it may be is the schema's, which Helm checks. A comment belongs to the key below it or beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import yaml

_KEY: Final = re.compile(r"^(?P<indent> *)(?P<name>\w+):(?P<value>.*?)(?:(?:^|\s+)# (?P<beside>.*))?$")
_START: Final = """# Keyline

<!-- Written by `python -m helm.build` from values.yaml and its schema. -->

A consumer gateway in front of Apache Pulsar, beside a release of apache/pulsar-helm-chart:

```console
$ helm install events helm/keyline --namespace pulsar --set pulsar.release=pulsar
$ helm test events --namespace pulsar --logs
```

`docs/deploy.md` tells how replicas, tokens, TLS, the network and monitoring go together. Unknown values are refused,
and so are combinations that cannot work. Settings of the gateway (`docs/configure.md`) go below `config`.

## Values

| Value | Type | Default | Meaning |
|---|---|---|---|
"""


def readme(values: str, schema: dict[str, Any]) -> str:
    """Write it.

    Args:
        values: text of values.yaml.
        schema: of the values, as `helm.build.values_schema` makes it.
    """
    comments = comments_of(values)
    rows = _rows(yaml.safe_load(values), schema, schema, comments, ())
    return _START + "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |\n" for row in rows)


def comments_of(values: str) -> dict[str, str]:
    """Give each key's comment by its dotted path: the lines right above it, or what stands beside it."""
    found: dict[str, str] = {}
    above: list[str] = []
    path: list[tuple[int, str]] = []
    for line in values.splitlines():
        text = line.strip()
        if text.startswith("# "):
            above.append(text.removeprefix("# "))
            continue
        key = _KEY.match(line)
        if key:
            indent = len(key["indent"])
            path = [*((depth, name) for depth, name in path if depth < indent), (indent, key["name"])]
            comment = key["beside"] or " ".join(above)
            if comment:
                found[".".join(name for _, name in path)] = comment
        above = []
    return found


def _rows(
    values: dict[str, Any],
    part: dict[str, Any],
    schema: dict[str, Any],
    comments: dict[str, str],
    path: tuple[str, ...],
) -> Iterator[tuple[str, str, str, str]]:
    for name, value in values.items():
        dotted = ".".join((*path, name))
        inner = _resolved(part["properties"][name], schema)
        if isinstance(value, dict) and dotted != "config" and "properties" in inner:
            if dotted in comments:
                yield f"**`{dotted}`**", "", "", comments[dotted]
            yield from _rows(value, inner, schema, comments, (*path, name))
        else:
            yield f"`{dotted}`", _type(inner, schema), _default(value), comments.get(dotted, "")


def _resolved(part: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    reference = part.get("$ref")
    return schema["$defs"][reference.rpartition("/")[2]] if reference else part


def _type(part: dict[str, Any], schema: dict[str, Any]) -> str:
    part = _resolved(part, schema)
    if "enum" in part:
        return ", ".join(f"`{choice}`" if choice else "empty" for choice in part["enum"])
    if "anyOf" in part:
        return " or ".join(_type(inner, schema) for inner in part["anyOf"])
    if part.get("type") == "array":
        return f"list of {_plural(_resolved(part['items'], schema))}"
    if part.get("type") == "integer":
        bounds = [f"{word} {part[bound]}" for bound, word in (("minimum", "from"), ("maximum", "to")) if bound in part]
        return " ".join(["number", *bounds])
    return {"boolean": "true or false", "string": "text", "object": "map"}.get(part.get("type", ""), "any")


def _plural(item: dict[str, Any]) -> str:
    return {"string": "texts", "object": "maps"}.get(item.get("type", ""), "values")


def _default(value: Any) -> str:
    return "" if value == "" else f"`{json.dumps(value)}`"
