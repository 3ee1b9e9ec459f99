"""Reads the configuration again, and lets the parts of a running gateway have what may change while it runs.

Rule kept: all or nothing. Everything that can be refused is refused before anything changes: a file with a mistake, a
key that cannot be read, values that contradict what stays as it is until a restart. What cannot change in a running
gateway is named in the answer, and again at each later reload, until a restart has brought it. The environment is that
of the process's start, and still overrides the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import structlog

from proxy.config.load import InvalidConfiguration, Loaded, shown
from proxy.config.relations import unmet
from proxy.config.reloadable import RELOADABLE
from proxy.config.settings import GROUP_OF, Config
from proxy.errors import ConfigurationError, StartFailure

Apply = Callable[[], None]
Prepare = Callable[[Config], Apply]
"""Looks at a new configuration, refuses it by a `ConfigurationError`, or gives what puts it into effect, which cannot
fail."""

log = structlog.get_logger("keyline.gateway")


@dataclass(frozen=True, slots=True)
class Change:
    """Of one setting; secrets are masked."""

    before: Any
    now: Any


@dataclass(frozen=True, slots=True)
class Reloaded:
    """What a reload did."""

    changed: dict[str, Change]
    """Now in effect, by setting."""
    needs_restart: tuple[str, ...]
    """Settings that differ from those in effect, and cannot change while the gateway runs."""


class NotReloaded(ConfigurationError):
    """The configuration is refused, and nothing has changed; the message names every mistake."""

    http_status = 409


class Reloader:
    """Knows the configuration in effect."""

    def __init__(
        self,
        loaded: Loaded,
        read: Callable[[], Loaded],
        parts: Sequence[Prepare],
        tell: Callable[[Loaded], None] = lambda _: None,
    ) -> None:
        """`read` reads the configuration again; each of `parts` takes what concerns it, then `tell` hears of it."""
        self.loaded = loaded
        self._read = read
        self._parts = parts
        self._tell = tell

    def reload(self, by: str) -> Reloaded:
        """Read it again and put into effect what can be. `by` orders it, for the log.

        Raises:
            NotReloaded: it has mistakes; everything is as it was.
        """
        try:
            mixed, done = self._mixed(self._read())
            ready = [prepare(mixed.config) for prepare in self._parts]
        except (ConfigurationError, StartFailure) as error:
            mistakes = _mistakes(error)
            log.error("configuration not reloaded", by=by, mistakes=mistakes)  # noqa: TRY400 - no fault of ours
            raise NotReloaded(f"nothing has changed: {'; '.join(mistakes)}") from error
        for apply in ready:
            apply()
        self.loaded = mixed
        self._tell(mixed)
        changes = {name: f"{change.before} -> {change.now}" for name, change in done.changed.items()}
        log.info("configuration reloaded", by=by, changed=changes, needs_restart=list(done.needs_restart))
        return done

    def _mixed(self, new: Loaded) -> tuple[Loaded, Reloaded]:
        """What will be in effect: the new values of what can change, the present ones of all else."""
        present, wanted = self.loaded.config.values(), new.config.values()
        differ = [name for name in GROUP_OF if present[name] != wanted[name]]
        stay = tuple(name for name in differ if not _can_change(name, present, wanted))
        changed = [name for name in differ if name not in stay]
        mixed = {name: wanted[name] if name in changed else present[name] for name in GROUP_OF}
        if contradictions := list(unmet(mixed)):
            beside = f"; {', '.join(stay)} would need a restart first" if stay else ""
            raise ConfigurationError("; ".join(contradictions) + beside)
        origins = {name: (self.loaded if name in stay else new).origins[name] for name in GROUP_OF}
        done = Reloaded({name: Change(shown(present[name]), shown(wanted[name])) for name in changed}, stay)
        return Loaded(self.loaded.config.changed(mixed), origins), done


def _can_change(name: str, present: dict[str, Any], wanted: dict[str, Any]) -> bool:
    """Whether a running gateway can take it. It cannot begin or cease to ask callers for tokens."""
    if name not in RELOADABLE:
        return False
    return not name.startswith("admin_") or _asks_for_tokens(present) == _asks_for_tokens(wanted)


def _asks_for_tokens(values: dict[str, Any]) -> bool:
    return any(
        values[name] is not None
        for name in ("admin_token_secret_file", "admin_token_public_key_file", "admin_token_jwks_url")
    )


def _mistakes(error: Exception) -> list[str]:
    if isinstance(error, InvalidConfiguration):
        return [str(problem) for problem in error.problems]
    return [str(error)]


def subscriptions_fit(each: Iterable[tuple[tuple[str, str], Any]]) -> None:
    """Refuse limits that contradict what operators ordered at a subscription.

    Raises:
        ConfigurationError: for the first of them that would contradict themselves.
    """
    for (topic, name), settings in each:
        if contradictions := list(unmet(asdict(settings))):
            raise ConfigurationError(
                f"subscription {name} of {topic}, with what was ordered for it: "
                f"{'; '.join(contradictions)}; take that back first (keyline limits --reset)"
            )
