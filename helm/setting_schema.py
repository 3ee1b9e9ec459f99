"""JSON schema of `config:` in values.yaml, made from the gateway's own models.

A setting that the gateway learns, or whose bounds change, changes here by `python -m helm.build` and nowhere by hand.
JSON schema cannot compare sizes such as ``64MiB`` nor two settings with each other; what it cannot, the chart's
templates do with `setting_facts`.
"""

from __future__ import annotations

from typing import Any, Final

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from proxy.config.relations import RELATIONS
from proxy.config.settings import GROUP_OF
from proxy.config.types import expectation

SIZE_PATTERN: Final = r"^[0-9]+(\.[0-9]+)?\s*([KkMmGgTt][Ii]?)?[Bb]?$"
_USED_BY_TEMPLATES: Final = {"drain_timeout_s", "waiting_producers_bytes_max"}
_BOUNDS: Final = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum"}
_KINDS: Final[dict[Any, str]] = {bool: "boolean", int: "integer", float: "number"}


def config_schema() -> dict[str, Any]:
    """Make the schema of `config:`, which knows every setting and nothing else."""
    properties = {name: _setting_schema(_field(name)) for name in GROUP_OF}
    return {
        "type": "object",
        "description": "Settings of the gateway by their names in docs/configure.md.",
        "additionalProperties": False,
        "properties": properties,
    }


def setting_facts() -> dict[str, Any]:
    """Give what templates need to check what the schema cannot: defaults, bounds of sizes, relations."""
    related = {name for relation in RELATIONS for name in (relation.left, relation.right)}
    defaults = {name: _field(name).default for name in GROUP_OF if name in related | _USED_BY_TEMPLATES}
    sizes = {
        name: {"least": bounds["ge"], "most": bounds["le"], "takes": expectation(_field(name))}
        for name in GROUP_OF
        if _field(name).annotation is ByteSize and (bounds := _extra(_field(name)))
    }
    relations = [
        {"left": row.left, "words": row.words, "right": row.right, "why": row.why, "strict": row.words == "less than"}
        for row in RELATIONS
    ]
    return {"defaults": defaults, "sizes": sizes, "relations": relations}


def _field(name: str) -> FieldInfo:
    return GROUP_OF[name][1].model_fields[name]


def _extra(field: FieldInfo) -> dict[str, Any]:
    return dict(field.json_schema_extra) if isinstance(field.json_schema_extra, dict) else {}


def _setting_schema(field: FieldInfo) -> dict[str, Any]:
    extra = _extra(field)
    bounds = {word: extra[bound] for bound, word in _BOUNDS.items() if bound in extra}
    choices = getattr(field.annotation, "__args__", ())
    kind: dict[str, Any]
    if field.annotation is ByteSize:
        kind = {"anyOf": [{"type": "integer", **bounds}, {"type": "string", "pattern": SIZE_PATTERN}]}
    elif field.annotation in _KINDS:
        kind = {"type": _KINDS[field.annotation], **bounds}
    elif choices and all(isinstance(choice, str) for choice in choices):
        kind = {"enum": list(choices)}
    elif getattr(field.annotation, "__origin__", None) is tuple:
        items = {"type": ["string", "integer"]}
        kind = {"anyOf": [{"type": "array", "items": items}, {"type": "string"}]}
    else:
        kind = {"type": "string", "minLength": 1}
    return {"description": f"{field.description} Takes {expectation(field)}.", **kind}
