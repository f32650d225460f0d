"""Logs: structlog, configured once by a command, never on stdout.

Event names are constants in snake_case and values are key/values, so nothing from the wire can make
a line of its own or reach the terminal raw. A log is bounded: of each kind of event the first few a
minute are written and the rest is counted, and a file is rotated. structlog is loaded with the
first written event: this takes a fifth of a second, too long before a command's first picture.
"""

from __future__ import annotations

import atexit
import json
import logging
import logging.handlers
import os
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal

from trnfleet.clock import SystemClock
from trnfleet.files import open_private

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from pathlib import Path

LogFormat = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]

FILE_BYTES = 4 * 2**20
"""Size at which a log file is renamed to `.1` and begun again. An older `.1` is replaced. It holds
a few days of a bad network, and two such files still fit into a mail."""
FIRST_LINES = 5
"""Lines of one kind written in a window: enough to see the variation."""
WINDOW_S = 60.0
"""Length of a window. One line after its end counts the lines left out."""
MOST_KINDS = 500
"""Most distinct kinds. Further ones are counted by the name of their event alone."""
_SECRET_KEYS = ("password", "secret", "token", "credential")
_LEVELS = logging.getLevelNamesMapping()
_OWN = "trnfleet"
"""Name of log records with complete lines."""


class _Settings:
    """Settings made by `configure`; by default warnings, for people, to stderr."""

    log_format: LogFormat = "console"
    threshold: int = logging.WARNING
    handler: logging.Handler | None = None
    configured: bool = False
    lost_lines: int = 0
    """Events lost because writing failed."""


def configure(
    *, log_format: LogFormat = "console", level: str = "warning", file: Path | None = None
) -> logging.Handler:
    """Set up logging for this process.

    Lines go to `file` if set (while the app owns the terminal), else to stderr.

    Returns:
        The handler. It stays open as long as the process.

    Raises:
        OSError: the file cannot be opened.
    """
    handler: logging.Handler = _File(file) if file else _Stderr(sys.stderr)
    handler.setFormatter(_Formatter())
    handler.addFilter(_admit_library)
    _Settings.log_format = log_format
    _Settings.threshold = _LEVELS[level.upper()]
    _Settings.handler = handler
    _Settings.configured = False
    _Windows.all = Windows()
    # Libraries with the standard library's logging (paho) are logged from warnings on.
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    return handler


class _Losing:
    """Handler for lines lost in a failed write.

    A full disk or a closed stream must not stop the program, nor print to the terminal.
    """

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802, ARG002  the handler's
        """Count a lost line."""
        _Settings.lost_lines += 1


class _Stderr(_Losing, logging.StreamHandler):  # type: ignore[type-arg]  # of any text stream
    pass


class _File(_Losing, logging.handlers.RotatingFileHandler):
    """A log file with one backup, readable for its owner only."""

    def __init__(self, file: Path) -> None:
        super().__init__(
            file, maxBytes=FILE_BYTES, backupCount=1, encoding="utf-8", errors="backslashreplace"
        )

    def _open(self) -> Any:
        return open(
            self.baseFilename,
            self.mode,
            encoding=self.encoding,
            errors=self.errors,
            opener=open_private,
        )

    def doRollover(self) -> None:  # noqa: N802  the handler's
        """Begin a new file.

        Empty the old one if its folder allows no second file.

        The log stays bounded.
        """
        try:
            super().doRollover()
        except OSError:
            os.truncate(self.baseFilename, 0)
            self.stream = self._open()


class _Formatter(logging.Formatter):
    """Our own lines as they are, a library's with level and name."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line of a record."""
        if record.name == _OWN:
            return str(record.msg)
        return f"{record.levelname} {record.name} {super().format(record)}"


class Windows:
    """Line counts per kind in the last minute.

    The first few are written, the others counted.
    """

    def __init__(self) -> None:
        self._windows: dict[str, list[float]] = {}
        """By kind: begin of the window in monotonic seconds, and events in it."""
        self._looked_s = 0.0
        self._lock = threading.Lock()

    def admits(self, event: str, part: str, now_s: float) -> bool:
        """Count an event, and return whether to write its line.

        Args:
            event: Its name.
            part: Kind of the event, such as the reason of a rejection. Empty if there is one kind.
            now_s: Monotonic seconds.
        """
        kind = f"{event}: {part}" if part else event
        with self._lock:
            if kind not in self._windows and len(self._windows) >= MOST_KINDS:
                kind = event
            window = self._windows.setdefault(kind, [now_s, 0])
            window[1] += 1
            return window[1] <= FIRST_LINES

    def ended(self, now_s: float) -> list[tuple[str, int]]:
        """Return ended kinds with their lines left out, and restart their windows."""
        if now_s - self._looked_s < 1.0:
            return []
        with self._lock:
            self._looked_s = now_s
            over = [
                kind for kind, (begun_s, _) in self._windows.items() if now_s - begun_s >= WINDOW_S
            ]
            counts = [(kind, int(self._windows.pop(kind)[1]) - FIRST_LINES) for kind in over]
        return [(kind, count) for kind, count in counts if count > 0]


class _Windows:
    """The windows of this process's log."""

    all = Windows()
    clock = SystemClock()


def _tell_suppressed(now_s: float) -> None:
    for kind, count in _Windows.all.ended(now_s):
        _emit("warning", "lines_suppressed", {"logger": __name__, "kind": kind, "count": count})


@atexit.register
def _tell_last() -> None:
    """Log at the process's end how many lines the last windows left out."""
    if _Settings.handler is not None:
        _tell_suppressed(float("inf"))


def _admit_library(record: logging.LogRecord) -> bool:
    """Return whether a line is to be written; our own have been counted already."""
    return record.name == _OWN or _Windows.all.admits(
        record.name, record.levelname, _Windows.clock.monotonic_s()
    )


class Logger:
    """Writes events of one module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def debug(self, event: str, **values: Any) -> None:
        """Write an event for debugging."""
        self._write("debug", event, values)

    def info(self, event: str, **values: Any) -> None:
        """Write an event of normal operation."""
        self._write("info", event, values)

    def warning(self, event: str, **values: Any) -> None:
        """Write an event that needs attention."""
        self._write("warning", event, values)

    def error(self, event: str, **values: Any) -> None:
        """Write a failure."""
        self._write("error", event, values)

    def exception(self, event: str, **values: Any) -> None:
        """Log a failure with the traceback of the current exception."""
        self._write("error", event, {"exc_info": True, **values})

    def audit(self, event: str, **values: Any) -> None:
        """Log a user's action as a warning.

        No audit line is left out.
        """
        self._write("warning", event, values, is_limited=False)

    def _write(
        self, level: Level, event: str, values: dict[str, Any], *, is_limited: bool = True
    ) -> None:
        if _LEVELS[level.upper()] < _Settings.threshold:
            return
        now_s = _Windows.clock.monotonic_s()
        _tell_suppressed(now_s)
        # Who asks for debugging wants all of it.
        if is_limited and level != "debug":
            part = str(values.get("reason") or values.get("kind") or "")
            if not _Windows.all.admits(event, part, now_s):
                return
        _emit(level, event, {"logger": self._name, **values})


def _emit(level: Level, event: str, values: dict[str, Any]) -> None:
    try:
        getattr(_structlog_logger(), level)(event, **values)
    except (OSError, ValueError):
        _Settings.lost_lines += 1


class _Lines:
    """The end of structlog's chain: hands whole lines to the handler."""

    def warning(self, line: str) -> None:
        handler = _Settings.handler or logging.lastResort
        if handler is not None:
            handler.handle(logging.LogRecord(_OWN, logging.WARNING, "", 0, line, None, None))

    debug = info = error = warning


def get_logger(name: str) -> Logger:
    """Return the logger of a module, named by its `__name__`."""
    return Logger(name)


def _structlog_logger() -> Any:
    import structlog  # noqa: PLC0415  see the module's docstring

    if not _Settings.configured:
        structlog.configure(
            processors=[
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
                _redact,
                _render_json if _Settings.log_format == "json" else _render_line,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(_Settings.threshold),
            logger_factory=_Lines,
        )
        _Settings.configured = True
    return structlog.get_logger()


def _redact(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key in event:
        if any(secret in key.lower() for secret in _SECRET_KEYS):
            event[key] = "***"
    return event


def _render_json(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> str:
    return json.dumps(event, default=str, ensure_ascii=True)


def _render_line(_logger: Any, _name: str, event: MutableMapping[str, Any]) -> str:
    """Return `time level event key=value ...` on one line, with control characters escaped.

    Values are JSON.
    """
    stamp = event.pop("timestamp", "")
    level = event.pop("level", "")
    name = event.pop("event", "")
    trace = event.pop("exception", None)
    values = " ".join(f"{key}={json.dumps(value, default=str)}" for key, value in event.items())
    line = f"{stamp[:23]} {level:<7} {name} {values}".rstrip()
    return f"{line}\n{trace}" if trace else line
