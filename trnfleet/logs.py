"""Logs: structlog, configured once by a command; never to stdout, which is for data.

Event names are constants in snake_case and values are key/values, so that nothing that came from the wire can make a
line of its own or reach the terminal raw. structlog is loaded with the first event that is written: it takes a fifth of
a second, which a command that has nothing to say should not spend before its first picture.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Any, Literal, TextIO

if TYPE_CHECKING:
    from collections.abc import MutableMapping
    from pathlib import Path

LogFormat = Literal["json", "console"]
Level = Literal["debug", "info", "warning", "error"]

_SECRET_KEYS = ("password", "secret", "token", "credential")
_LEVELS: dict[str, int] = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class _Settings:
    """Settings made by `configure`; by default warnings, for people, to stderr."""

    log_format: LogFormat = "console"
    threshold: int = _LEVELS["warning"]
    stream: TextIO | None = None
    configured: bool = False
    lost_lines: int = 0
    """Events that could not be written."""


def configure(
    *, log_format: LogFormat = "console", level: str = "warning", file: Path | None = None
) -> TextIO:
    """Set up logging for this process: to `file` where one is given (while the app owns the terminal), else stderr.

    Returns:
        What is written to; it stays open as long as the process.

    Raises:
        OSError: the file cannot be opened.
    """
    stream: TextIO = file.open("a", encoding="utf-8") if file else sys.stderr
    _Settings.log_format = log_format
    _Settings.threshold = _LEVELS[level]
    _Settings.stream = stream
    _Settings.configured = False
    # Libraries that use the standard library's logging (paho, amqtt) are heard from warnings on.
    logging.basicConfig(
        stream=stream, level=logging.WARNING, format="%(levelname)s %(name)s %(message)s", force=True
    )
    return stream


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
        """Write a failure with the traceback of the exception that is being handled."""
        self._write("error", event, {"exc_info": True, **values})

    def _write(self, level: Level, event: str, values: dict[str, Any]) -> None:
        if _LEVELS[level] >= _Settings.threshold:
            try:
                getattr(_structlog_logger(), level)(event, logger=self._name, **values)
            except (OSError, ValueError):
                # A full disk or a closed stream must not end what the log is about.
                _Settings.lost_lines += 1


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
            logger_factory=structlog.WriteLoggerFactory(_Settings.stream or sys.stderr),
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
    """Return `time level event key=value ...` on one line; values are JSON, so control characters are escaped."""
    stamp, level, name = event.pop("timestamp", ""), event.pop("level", ""), event.pop("event", "")
    trace = event.pop("exception", None)
    values = " ".join(f"{key}={json.dumps(value, default=str)}" for key, value in event.items())
    line = f"{stamp[:23]} {level:<7} {name} {values}".rstrip()
    return f"{line}\n{trace}" if trace else line
