"""Options of commands that name a time."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

import typer

FORMS: Final = "as 2026-11-24, 2026-11-24T03:00, 2026-11-24T03:00:00Z or with an offset; without one it is UTC"


def time_of(text: str) -> datetime:
    """A time as ISO 8601 and the API write it, in UTC.

    Raises:
        typer.BadParameter: it is none.
    """
    try:
        found = datetime.fromisoformat(text.strip())
    except ValueError:
        raise typer.BadParameter(f"{text!r} is no time; it should be {FORMS}") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def check_order(since: datetime | None, until: datetime | None, nothing: str) -> None:
    """Refuse a time that ends before it begins; `nothing` says what did not happen.

    Raises:
        typer.BadParameter: it does.
    """
    if since is not None and until is not None and since >= until:
        told = f"{since:%Y-%m-%dT%H:%M:%SZ} is not before --to {until:%Y-%m-%dT%H:%M:%SZ}: {nothing}"
        raise typer.BadParameter(f"{told}; the start of the time should come first", param_hint="--from")


From = Annotated[
    datetime | None, typer.Option("--from", metavar="TIME", parser=time_of, help=f"Start of the time range, {FORMS}.")
]
To = Annotated[
    datetime | None, typer.Option("--to", metavar="TIME", parser=time_of, help="End of the time range, not included.")
]
