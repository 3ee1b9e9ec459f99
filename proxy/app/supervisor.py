"""Several processes of one host: starts them, starts again what ends or stands still, and passes on what it is told.

The supervisor loads the gateway and forks it, so that a new process begins at once, shares the memory of the code, and
is told its secret by no other way than its memory. It has no event loop and no thread of its own, which a fork would
not survive, and listens nowhere: `proxy.app.kept_ports` says how processes share an address.

It stops, and its processes with it, at SIGTERM and SIGINT, as one process does; all at the same time, so that the host
has stopped within `drain_timeout_s`, and what they own goes to another host once and not from process to process. That
they are told by their socket and not by a signal has a reason: a terminal, and some process managers, send signals to
all processes, and a second one means to stop at once.
"""

from __future__ import annotations

import gc
import os
import secrets
import selectors
import signal
import socket
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import structlog

from proxy.app.host_process import HostProcess
from proxy.app.kept_ports import KeptPorts
from proxy.app.log import configure_logging
from proxy.app.log_limiter import LineLimiter
from proxy.app.process_life import ProcessLife
from proxy.app.reload import NotReloaded, Reloader
from proxy.app.run import run
from proxy.app.supervision import MESSAGE_BYTES_MAX, REPORT, TELL_S, TOLD, Told
from proxy.config.load import Loaded
from proxy.config.processes import ADDRESSES, Place
from proxy.errors import StartFailure
from proxy.net.owner.proof import NUMBER_BYTES, Secret

if TYPE_CHECKING:
    from collections.abc import Callable

STOPPED: Final = 0
FAILED: Final = 1
LATE_S: Final = 2.0
"""How late the supervisor may wake up before it has heard too little to judge silence."""
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)

log = structlog.get_logger("keyline.supervisor")


class Running:
    """A process, until it is reaped: so its id cannot be another's."""

    def __init__(self, pid: int, channel: socket.socket) -> None:
        """`channel` leads to it."""
        self.pid = pid
        self.channel = channel
        self.reloads = 0
        """How many reloads it has reported."""


def supervise(loaded: Loaded, read: Callable[[], Loaded]) -> int:
    """Serve with several processes until a signal; returns the exit code. Raises `StartFailure`.

    SIGHUP lets all `read` the configuration again.
    """
    with ExitStack() as stack:
        return Supervisor(loaded, read, stack).run()


class Supervisor:
    """All processes of this host."""

    def __init__(self, loaded: Loaded, read: Callable[[], Loaded], stack: ExitStack) -> None:
        """Keep the addresses; no process is started yet. What is opened is closed by `stack`. Raises `StartFailure`."""
        config = loaded.config
        self._count = config.serving.processes
        self._read = read
        structlog.configure(cache_logger_on_first_use=False)  # a process has its own name in its lines
        self._reloader = Reloader(loaded, read, ())
        wanted = {name: address for name in ADDRESSES if (address := config.values()[name]) is not None}
        self._ports = KeptPorts()
        stack.callback(self._ports.close)
        self._addresses = self._ports.keep(wanted)
        alone = not config.replicas.groups_enabled
        self._own_ports = [
            self._ports.keep({"replica_listen": "127.0.0.1:0"}) if alone else {} for _ in range(self._count)
        ]
        self._secret = Secret((secrets.token_bytes(NUMBER_BYTES),)) if alone else None
        self._lives = [ProcessLife(index) for index in range(self._count)]
        self._running: dict[int, Running] = {}
        """By place."""
        self._selector = selectors.DefaultSelector()
        stack.callback(self._selector.close)
        self._wakeup, self._woken = socket.socketpair()
        stack.callback(self._wakeup.close)
        stack.callback(self._woken.close)
        self._told = Told(all_started=False)
        self._code = STOPPED
        self._next_tell_at = 0.0

    def run(self) -> int:
        """Start them and serve until a signal; returns the exit code."""
        self._warn()
        self._listen_to_signals()
        gc.collect()
        gc.freeze()  # what all processes share is not written to by a collection of one
        while not self._told.stopping or self._running:
            now = time.monotonic()
            if not self._told.stopping:
                for life in self._lives:
                    if life.wanted(now):
                        self._start(life)
            self._wait()
        log.info("processes stopped", exit_code=self._code)
        return self._code

    # ------------------------------------------------------------------ processes

    def _start(self, life: ProcessLife) -> None:
        place = Place(life.index, self._count, {**self._addresses, **self._own_ports[life.index]})
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        sys.stdout.flush()
        sys.stderr.flush()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)  # one to the new process is not for this one
        try:
            pid = os.fork()
        except OSError as error:  # too many processes, or no memory: the others go on, and it is tried again
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            ours.close()
            theirs.close()
            pause_s = life.ended(time.monotonic())
            log.error("process not started", process=life.index, detail=str(error), again_in_s=pause_s)  # noqa: TRY400
            return
        if not pid:
            code = FAILED
            try:
                ours.close()
                self._leave(before)
                code = self._become(HostProcess(place, self._secret, theirs, self._told.reloads))
            finally:
                try:
                    sys.stdout.flush()
                    sys.stderr.flush()
                finally:
                    os._exit(code)  # the rest of this program is the supervisor's
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        ours.setblocking(False)
        self._running[life.index] = Running(pid, ours)
        self._selector.register(ours, selectors.EVENT_READ, life)
        life.begun(time.monotonic())
        log.info("process started", process=life.index, pid=pid, restarts=life.restarts_total)
        self._tell()

    def _leave(self, mask: set[int | signal.Signals]) -> None:
        """As a new process, have nothing of the supervisor but its memory; `mask` are the signals to be blocked."""
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        self._selector.close()
        self._ports.close()
        for mine in (self._wakeup, self._woken, *(running.channel for running in self._running.values())):
            mine.close()

    def _become(self, process: HostProcess) -> int:
        """Serve; returns the exit code."""
        place, read = process.place, self._read

        def of_place(host: Loaded) -> Loaded:
            return Loaded(place.config(host.config), host.origins)

        loaded = of_place(self._reloader.loaded)
        serving = loaded.config.serving
        limiter = LineLimiter(time.monotonic, serving.log_lines_per_s)
        configure_logging(serving.log_level, serving.log_format, serving.replica_name, limiter)
        try:
            run(loaded, limiter, lambda: of_place(read()), process)
        except StartFailure as error:
            sys.stderr.write(f"keyline: process {place.index}: {error}\n")
            return FAILED
        except Exception:
            log.exception("process failed")
            return FAILED
        return STOPPED

    def _reap(self) -> None:
        for life in self._lives:
            running = self._running.get(life.index)
            if running is None:
                continue
            pid, status = os.waitpid(running.pid, os.WNOHANG)
            if not pid:
                continue
            with suppress(KeyError):
                self._selector.unregister(running.channel)
            running.channel.close()
            del self._running[life.index]
            self._ended(life, running.pid, os.waitstatus_to_exitcode(status))

    def _ended(self, life: ProcessLife, pid: int, code: int) -> None:
        pause_s = life.ended(time.monotonic())
        reason = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
        if self._told.stopping:
            log.info("process ended", process=life.index, pid=pid, reason=reason)
            self._code = self._code if code == STOPPED else FAILED
            return
        if code == FAILED and not life.has_started:  # and the next one would fail at the same
            log.error("process not started", process=life.index, pid=pid, detail="the others are stopped")
            self._code = FAILED
            self._stop()
            return
        log.error("process ended", process=life.index, pid=pid, reason=reason, again_in_s=pause_s)
        self._tell()

    def _kill_silent(self, now: float) -> None:
        """Kill what was silent until then, when it was last listened to: a slow reload is no silence of the others."""
        for life in self._lives:
            if life.silent(now):
                running = self._running[life.index]
                log.error("process stands still", process=life.index, pid=running.pid, detail="it is killed")
                life.forgive(now)
                os.kill(running.pid, signal.SIGKILL)

    # ------------------------------------------------------------------ telling and hearing

    def _wait(self) -> None:
        """Until something happens, a second at most."""
        asleep_since = time.monotonic()
        events = self._selector.select(TELL_S)
        now = time.monotonic()
        if now - asleep_since > TELL_S + LATE_S:  # this process stood still, and perhaps the machine did
            for life in self._lives:
                life.forgive(now)
        for key, _ in events:
            if key.data is None:
                self._signalled(self._woken.recv(4096))
            else:
                self._hear(key.data)
        self._reap()
        self._kill_silent(now)
        if now >= self._next_tell_at:
            self._tell()

    def _hear(self, life: ProcessLife) -> None:
        running = self._running[life.index]
        before = running.reloads
        try:
            while data := running.channel.recv(MESSAGE_BYTES_MAX):
                report = REPORT.validate_json(data)
                life.heard(report, time.monotonic())
                running.reloads = report.reloads
            self._selector.unregister(running.channel)  # it has ended, and is reaped when the system says so
        except BlockingIOError:
            pass
        except OSError:
            self._selector.unregister(running.channel)
        if running.reloads != before:
            self._reload("an operator")
        if self._state() != self._told:
            self._tell()

    def _state(self) -> Told:
        """What is to be told now."""
        all_started = all(life.has_started for life in self._lives)
        return replace(self._told, all_started=all_started, processes=tuple(life.state() for life in self._lives))

    def _tell(self) -> None:
        self._told = self._state()
        self._next_tell_at = time.monotonic() + TELL_S
        data = TOLD.dump_json(self._told)
        for running in self._running.values():
            with suppress(OSError):  # full, and told again in a second; or its end is noticed in the same turn
                running.channel.send(data)

    # ------------------------------------------------------------------ signals

    def _listen_to_signals(self) -> None:
        self._wakeup.setblocking(False)
        self._woken.setblocking(False)
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        for number in SIGNALS:
            signal.signal(number, lambda _number, _frame: None)
        self._selector.register(self._woken, selectors.EVENT_READ, None)

    def _signalled(self, numbers: bytes) -> None:
        for number in numbers:
            if number in (signal.SIGTERM, signal.SIGINT):
                log.info("signal received", signal=signal.Signals(number).name, again=self._told.stopping)
                self._stop()
            elif number == signal.SIGHUP:
                self._reload("SIGHUP")

    def _stop(self) -> None:
        """Let all drain and stop; the second time, stop at once."""
        self._told = replace(self._told, stopping=True, hurrying=self._told.stopping)
        self._tell()

    def _reload(self, by: str) -> None:
        """Read the configuration for processes that start later, and let those that run read it."""
        with suppress(NotReloaded):  # it is logged, and all go on as they are
            self._reloader.reload(by)
            self._told = replace(self._told, reloads=self._told.reloads + 1)
            self._tell()

    def _warn(self) -> None:
        cores = len(os.sched_getaffinity(0))
        if self._count > cores:
            log.warning("more processes than cores", processes=self._count, cores=cores)
        log.info("supervisor started", pid=os.getpid(), processes=self._count, addresses=self._addresses)
