"""What all commands to a running gateway share: arguments, errors as one line, answers shown once or repeatedly."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from proxy.cli import completion
from proxy.cli.admin_client import AdminClient, Unanswered, WrongUsage
from proxy.cli.tables import console
from proxy.printable import printable

if TYPE_CHECKING:
    from rich.console import RenderableType

ADMIN_URL_VARIABLE = "KEYLINE_ADMIN_URL"
LOCAL = "http://127.0.0.1:8750"
EXIT_REFUSED = 1
EXIT_WRONG_USAGE = 2
SLOT_MAX = 65_535

Draw = Callable[[Any], "RenderableType"]

TOPIC_HELP = "persistent://tenant/namespace/name, tenant/namespace/name, or a name."
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help=TOPIC_HELP, autocompletion=completion.topics)]
SubscriptionName = Annotated[
    str, typer.Argument(metavar="SUBSCRIPTION", help="Its name.", autocompletion=completion.subscriptions)
]
Worker = Annotated[str, typer.Argument(metavar="WORKER", help="Its consumer name.", autocompletion=completion.workers)]
Workers = Annotated[
    list[str], typer.Argument(metavar="WORKER", help="Their consumer names.", autocompletion=completion.workers)
]
Key = Annotated[str | None, typer.Option("--key", metavar="KEY", help="A message key.")]
Slot = Annotated[
    int | None, typer.Option("--slot", metavar="N", min=0, max=SLOT_MAX, help=f"A hash slot, 0 to {SLOT_MAX}.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Watch = Annotated[
    float, typer.Option("--watch", metavar="SECONDS", min=0, help="Show it again so often, until Ctrl-C; 0 is once.")
]
Url = Annotated[
    str,
    typer.Option(
        "--admin-url", metavar="URL", envvar=ADMIN_URL_VARIABLE, help="The gateway's admin API.", show_default=True
    ),
]


def key_or_slot(key: str | None, slot: int | None, *, required: bool) -> dict[str, Any]:
    """The query of a key or slot. Raises `WrongUsage` for both, and for neither where one is `required`."""
    if key is not None and slot is not None:
        raise WrongUsage("give --key or --slot, not both")
    if required and key is None and slot is None:
        raise WrongUsage("name a key (--key customer-17) or a slot (--slot 4711)")
    return {"key": key, "slot": slot}


@contextmanager
def refusals_told() -> Iterator[None]:
    """One line on standard error instead of a traceback."""
    try:
        yield
    except WrongUsage as error:
        typer.echo(printable(f"keyline: {error}"), err=True)
        raise typer.Exit(EXIT_WRONG_USAGE) from None
    except Unanswered as error:
        typer.echo(printable(f"keyline: {error}"), err=True)
        raise typer.Exit(EXIT_REFUSED) from None


@contextmanager
def ordering(url: str) -> Iterator[Callable[..., Any]]:
    """For a command that orders something: gives `ask`, and says at the end which gateway answered."""
    with refusals_told():
        client = AdminClient(url)
        yield client.ask
        typer.echo(_signed(client))


def show(url: str, ask: Callable[[AdminClient], Any], *drawn: Draw, as_json: bool, watch_s: float = 0) -> None:
    """Ask and print, as JSON or as drawn; with `watch_s` above 0 again and again."""
    with refusals_told():
        client = AdminClient(url)
        while True:
            answer = ask(client)
            if as_json:
                typer.echo(json.dumps(answer, indent=None if watch_s else 2))
                typer.echo(_signed(client), err=True)
            else:
                _draw(answer, drawn, client, again=watch_s > 0)
            if not watch_s:
                return
            try:
                time.sleep(watch_s)
            except KeyboardInterrupt:
                return


def _draw(answer: Any, drawn: tuple[Draw, ...], client: AdminClient, *, again: bool) -> None:
    out = console()
    made = [draw(answer) for draw in drawn]
    if again and out.is_terminal:
        out.clear()
    for each in made:
        out.print(each)
    out.print(_signed(client) + (f" at {time.strftime('%H:%M:%S')}" if again else ""), style="dim", soft_wrap=True)


def _signed(client: AdminClient) -> str:
    return printable(f"Answered by {client.answered_by or 'a gateway'} at {client.url}")
