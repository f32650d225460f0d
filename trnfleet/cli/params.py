"""Types of option values: durations, instants, sizes, names and addresses."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.names import CompletedType, Typed
from trnfleet.clock import NS_PER_S
from trnfleet.config import shipped_names
from trnfleet.domain.address import is_segment
from trnfleet.domain.alerts.links import check_web_url
from trnfleet.domain.durations import parse_duration_s
from trnfleet.domain.moments import find_moment
from trnfleet.domain.quantities import duration, size_text
from trnfleet.errors import ConfigError, nearest
from trnfleet.transport.filters import topic_matches
from trnfleet.transport.url import BrokerUrl, parse_url
from trnfleet.wire.topics import is_root

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("telemetry", "events", "jobs", "reservations")
"""Kinds of lines on stdout."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_BYTES = {
    "": 1,
    "b": 1,
    "k": 1_000,
    "kb": 1_000,
    "kib": 2**10,
    "m": 1_000_000,
    "mb": 1_000_000,
    "mib": 2**20,
    "g": 1_000_000_000,
    "gb": 1_000_000_000,
    "gib": 2**30,
    "t": 1_000_000_000_000,
    "tb": 1_000_000_000_000,
    "tib": 2**40,
}
_DAY_NS = 86_400 * NS_PER_S
_MOMENT_FORMS = (
    "write it as 2026-01-31T14:03:00Z, 14:03, +90s (after the start) or -90s (before the end)"
)


class Duration(click.ParamType[float]):
    """A duration such as `10s`, `500ms`, `5m`, `1h30m`."""

    name = "duration"

    def __init__(self, most_s: float = 1e9, *, least_s: float = 0.0) -> None:
        self._most_s = most_s
        self._least_s = least_s

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return seconds, above zero."""
        try:
            seconds = parse_duration_s(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if 0 < seconds < self._least_s:
            self.fail(f"{value!r} is not at least {duration(self._least_s)}", param, ctx)
        if not 0 < seconds <= self._most_s:
            self.fail(
                f"{value!r} is not above zero and at most {duration(self._most_s)}", param, ctx
            )
        return seconds


class FleetName(CompletedType[str]):
    """A fleet's name, or a client's: one segment of a topic."""

    name = "fleet"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name if it is a valid segment."""
        if not is_segment(str(value)):
            self.fail(f"{value!r} is not 1 to 64 of A-Z a-z 0-9 _ -", param, ctx)
        return str(value)

    def choices(self, typed: Typed) -> Iterable[str]:
        """Return the shipped fleets.

        Brokers are not queried, as an answer may take long.
        """
        return shipped_names("fleets") if "--name" in typed.param.opts else ()


class Broker(click.ParamType[BrokerUrl]):
    """A broker's URL, such as `mqtt://[user@]host[:port]`."""

    name = "url"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> BrokerUrl:
        """Return the parsed URL."""
        if isinstance(value, BrokerUrl):
            return value
        try:
            return parse_url(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)


class ReceiverUrl(click.ParamType[str]):
    """The URL of an Alertmanager or a webhook."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text if it is one."""
        from trnfleet.export.http import parse_target  # noqa: PLC0415  only `watch` needs it

        try:
            parse_target(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Program(click.ParamType[str]):
    """A program and its arguments, as a shell would read them."""

    name = "program"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text if it names a program."""
        from trnfleet.export.command import split_command  # noqa: PLC0415  only `watch` needs it

        try:
            split_command(str(value))
        except ConfigError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Printable(click.ParamType[str]):
    """Text of printable characters, such as a user's name."""

    name = "text"

    def __init__(self, most: int | None = None) -> None:
        """Limit the text.

        Args:
            most: Most characters, of ASCII; None for any number of any printable ones.
        """
        self._most = most

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text."""
        text = str(value)
        if not text or not text.isprintable():
            self.fail(f"{text!r} is empty or not printable", param, ctx)
        if self._most is not None and not (text.isascii() and len(text) <= self._most):
            self.fail(f"{text!r} is not 1 to {self._most} printable ASCII characters", param, ctx)
        return text


class WebUrl(click.ParamType[str]):
    """A link, `http://` or `https://`."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the link if it is one."""
        try:
            check_web_url(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Root(click.ParamType[str]):
    """The topics' root."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the root if it is valid."""
        if not is_root(str(value)):
            self.fail(
                f"{value!r}: segments of A-Z a-z 0-9 _ - with / between them, as in site/trnfleet",
                param,
                ctx,
            )
        return str(value)


class TopicFilter(click.ParamType[str]):
    """A filter of topics: `+` matches one level, `#` the rest."""

    name = "topic filter"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the filter if it is valid."""
        try:
            topic_matches(str(value), "a")
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


class Instant(click.ParamType[datetime]):
    """An instant such as `2026-01-05T09:00:00Z`; a date alone means its midnight, UTC."""

    name = "instant"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        """Return the instant with its time zone."""
        if isinstance(value, datetime):
            return value if value.tzinfo else value.replace(tzinfo=UTC)
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            self.fail(f"{value!r} is not an instant; write it as 2026-01-05T09:00:00Z", param, ctx)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        if not 1970 < moment.year < 2200:
            self.fail(f"{value!r} is not in the years 1971 to 2199", param, ctx)
        return moment


class PositiveNumber(click.ParamType[float]):
    """A number above zero, from one limit to another."""

    name = "number"

    def __init__(self, most: float, least: float = 0.0) -> None:
        self._most = most
        self._least = least

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number."""
        try:
            number = float(value)
        except ValueError:
            self.fail(f"{value!r} is not a number", param, ctx)
        if not (0.0 < number <= self._most and number >= self._least):
            least = f"at least {self._least:g}" if self._least else "above 0"
            self.fail(f"{value!r} is not {least} and at most {self._most:,.0f}", param, ctx)
        return number


class ShardPart(click.ParamType[tuple[int, int]]):
    """One part of several, such as `2/8`."""

    name = "k/n"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Return the number and the count."""
        if isinstance(value, tuple):
            return value
        number, slash, count = str(value).partition("/")
        if not (
            slash and number.isascii() and number.isdigit() and count.isascii() and count.isdigit()
        ):
            self.fail(f"{value!r} is not a part such as 2/8", param, ctx)
        if not 1 <= int(number) <= int(count) <= 100_000:
            self.fail(
                f"{value!r}: the part is 1 to the count, and the count at most 100000", param, ctx
            )
        return int(number), int(count)


class Kinds(CompletedType[tuple[str, ...]]):
    """Kinds of lines with commas between them."""

    name = "kinds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, ...]:
        """Return the kinds."""
        chosen = tuple(value) if isinstance(value, (tuple, list)) else tuple(str(value).split(","))
        for kind in chosen:
            if kind not in KINDS:
                self.fail(f"{kind!r} is no kind of line: {nearest(kind, KINDS)}", param, ctx)
        return chosen

    def choices(self, typed: Typed) -> Iterable[str]:
        """Return the kinds that may follow the typed ones."""
        before, comma, _ = typed.text.rpartition(",")
        given = before.split(",")
        return (f"{before}{comma}{kind}" for kind in KINDS if kind not in given)


class Size(click.ParamType[int]):
    """A size such as `64MiB`, `1GiB`, `500MB`; a bare number means bytes."""

    name = "size"

    def __init__(self, least: int = 1) -> None:
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return bytes."""
        if isinstance(value, int):
            size = value
        else:
            match = _SIZE.fullmatch(str(value).strip())
            if match is None or match[2].lower() not in _BYTES:
                self.fail(f"{value!r} is not a size; write it as 64MiB, 1GiB or 500MB", param, ctx)
            size = round(min(float(match[1]), 2.0**61) * _BYTES[match[2].lower()])
        if not self._least <= size <= 2**60:
            self.fail(f"{value!r} is not at least {size_text(self._least)}", param, ctx)
        return size


class Moment(click.ParamType[str]):
    """A moment of a recording, still as text.

    `part_of` resolves it with the recording.
    """

    name = "moment"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text if it is a moment."""
        text = value.isoformat() if isinstance(value, datetime) else str(value).strip()
        try:
            find_moment(text, 0, _DAY_NS)
        except ValueError:
            self.fail(f"{text!r} is not a moment; {_MOMENT_FORMS}", param, ctx)
        return text
