"""The configuration as text: its documentation, the settings in effect, and errors.

``python -m proxy.config.show > docs/configure.md`` writes the documentation; a test compares the two.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from proxy.config.load import InvalidConfiguration, Loaded, shown
from proxy.config.relations import RELATIONS
from proxy.config.reloadable import RELOADABLE
from proxy.config.settings import GROUP_OF, GROUPS
from proxy.config.types import Group, expectation, size_text

_INTRODUCTION = """\
# Configure

<!-- Written by `python -m proxy.config.show > docs/configure.md`; descriptions: `proxy/config/`. -->

Every setting has one name. Write it in a TOML file, at the top level:

```toml
broker_url = "pulsar://pulsar-broker.pulsar.svc:6650"
subscription_memory_bytes = "128MiB"
```

or in the environment, in capitals behind `KEYLINE_`, which overrides the file:

```sh
export KEYLINE_BROKER_URL=pulsar://pulsar-broker.pulsar.svc:6650
keyline serve --config keyline.toml        # or KEYLINE_CONFIG=keyline.toml
```

`keyline check-config` prints the settings that would be in effect and the origin of each value (`--json` for programs).
If the configuration is invalid, it prints all errors and exits with 2. An unknown setting or `KEYLINE_` variable is an
error too; only the variables that Kubernetes sets for a Service named `keyline` are ignored. A running gateway reads
`broker_token_file` again at every handshake, and certificates when they change.

At SIGHUP, `keyline reload` or `POST /api/v1/configuration/reload` it reads the configuration again
([operate](operate.md#change-settings)). What it takes then has a `↻` below; the log and the answer name what else
differs, and needs a restart. With a mistake in it nothing changes.
"""


def documentation() -> str:
    """Write docs/configure.md."""
    parts = [_INTRODUCTION]
    parts += [_group_section(group) for group in GROUPS.values()]
    rows = [f"- `{r.left}` must be {r.words} `{r.right}`: {r.why}." for r in RELATIONS]
    rows.append("- `broker_token` and `broker_token_file` exclude each other.")
    parts.append("## Relations\n\n" + "\n".join(rows) + "\n")
    return "\n".join(parts)


def _group_section(group: type[Group]) -> str:
    title = "".join(f" {c.lower()}" if c.isupper() else c for c in group.__name__).strip().capitalize()
    lines = [f"## {title}", "", inspect.cleandoc(group.__doc__ or ""), "", "| Setting | Default | Takes | Meaning |"]
    lines.append("|---|---|---|---|")
    for name, field in group.model_fields.items():
        mark = " ↻" if name in RELOADABLE else ""
        lines.append(f"| `{name}`{mark} | {_default_cell(field)} | {expectation(field)} | {field.description} |")
    return "\n".join(lines) + "\n"


def _default_cell(field: FieldInfo) -> str:
    extra = field.json_schema_extra
    if isinstance(extra, dict) and "shown_default" in extra:
        return str(extra["shown_default"])
    default = field.get_default()
    if default is None or default == ():
        return "none"
    return f"`{size_text(default) if field.annotation is ByteSize else _text(default)}`"


def _text(value: Any) -> str:
    if value is None or value == []:
        return "-"
    if isinstance(value, list):
        return ",".join(str(item) for item in value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def effective(loaded: Loaded) -> str:
    """Write the configuration in effect for people: a line for each setting, with where its value comes from."""
    values = loaded.config.values()
    cells = [(name, _text(shown(values[name]))) for name in GROUP_OF]
    name_width = max(len(name) for name, _ in cells)
    value_width = max(len(value) for _, value in cells)
    lines = [f"{name:<{name_width}}  {value:<{value_width}}  {loaded.origins[name]}" for name, value in cells]
    return "\n".join(lines)


def effective_json(loaded: Loaded) -> dict[str, Any]:
    """Give the configuration in effect for programs."""
    values = loaded.config.values()
    settings = {name: {"value": shown(values[name]), "origin": loaded.origins[name]} for name in GROUP_OF}
    return {"valid": True, "settings": settings}


def mistakes(error: InvalidConfiguration) -> str:
    """Write the errors for people, a line each."""
    count = len(error.problems)
    head = "the configuration has a mistake:" if count == 1 else f"the configuration has {count} mistakes:"
    return "\n".join([head, *(f"  {problem}" for problem in error.problems)])


def mistakes_json(error: InvalidConfiguration) -> dict[str, Any]:
    """Give the errors for programs."""
    problems = [
        {"where": problem.where, "setting": problem.setting, "found": problem.found, "wrong": problem.wrong}
        for problem in error.problems
    ]
    return {"valid": False, "problems": problems}


if __name__ == "__main__":
    sys.stdout.write(documentation())
