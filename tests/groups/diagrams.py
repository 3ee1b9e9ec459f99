"""`python -m tests.groups.diagrams`: draw the machines of `proxy.groups` from their tables, into docs/streams.md."""

from __future__ import annotations

from collections import defaultdict
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from proxy.groups import leader_session, manager, session_transitions

if TYPE_CHECKING:
    from collections.abc import Mapping

DOCUMENT: Final = Path(__file__).parents[2] / "docs" / "streams.md"
MACHINES: Final[dict[str, Mapping[Any, Mapping[Any, tuple[Enum, Enum]]]]] = {
    "session": session_transitions.TABLE,
    "leader's side of a session": leader_session.TABLE,
    "leader manager": manager.TABLE,
}


def diagram(table: Mapping[Any, Mapping[Any, tuple[Enum, Enum]]]) -> str:
    """One machine in Mermaid's words; what changes nothing is left out."""
    lines = ["stateDiagram-v2", f"    [*] --> {next(iter(table)).value}"]
    for state, transitions in table.items():
        arrows: dict[str, list[str]] = defaultdict(list)
        for event, (action, reached) in transitions.items():
            if action.name != "IGNORE":
                arrows[reached.value].append(event.value.replace(";", ","))
        lines += [f"    {state.value} --> {reached}: {' / '.join(events)}" for reached, events in arrows.items()]
    return "\n".join(lines)


def drawn(name: str) -> str:
    """A machine's diagram as the document has it."""
    return f"<!-- {name} -->\n```mermaid\n{diagram(MACHINES[name])}\n```\n"


def main() -> None:
    """Put all of them in their places."""
    text = DOCUMENT.read_text()
    for name in MACHINES:
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition("```\n")
        text = before + drawn(name) + after
    DOCUMENT.write_text(text)


if __name__ == "__main__":
    main()
