"""Options with values: their types, checks and shell completion.

A path in a settings file is relative to that file (`PathType.in_folder`), on the command line and
in variables to the working folder.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from trnfleet.clock import NS_PER_S
from trnfleet.config import find_file, load_model, shipped_names
from trnfleet.domain.address import Level, format_chip, is_segment
from trnfleet.domain.alerts.links import check_web_url
from trnfleet.domain.durations import DAY_S, parse_duration_s
from trnfleet.domain.filters.columns import Column, Kind, parse_number
from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES, present_name
from trnfleet.domain.moments import find_moment
from trnfleet.domain.quantities import duration, size_text
from trnfleet.errors import ConfigError, nearest
from trnfleet.transport.filters import topic_matches
from trnfleet.transport.url import BrokerUrl, parse_url
from trnfleet.wire.topics import is_root

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from trnfleet.domain.fleet import FleetFile

MOST_ADDRESSES = 500
"""Most addresses offered to a shell at once."""
STREAM = "-"
"""Name of stdin or stdout where a file is expected."""
ORIGINS = "trnfleet.settings.origins"
"""Key of a context's `meta` for the settings' files and tables, by parameter."""
KINDS = ("telemetry", "events", "jobs", "reservations")
"""Kinds of lines on stdout."""

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt]?)b?|([kmgt])ib)", re.IGNORECASE)
"""Number, and decimal or binary prefix."""
_ENERGY_PRICE = re.compile(r"(\d{1,4}(?:\.\d{1,6})?)([A-Z]{3})?", re.ASCII)
_AMOUNT = re.compile(r"\d{1,6}(\.\d{1,6})?", re.ASCII)
_MOMENT_FORMS = (
    "write it as 2026-01-31T14:03:00Z, 14:03, +90s (after the start) or -90s (before the end)"
)


ValueT = TypeVar("ValueT")


class Typed(NamedTuple):
    """The typed text of a value to complete."""

    text: str
    ctx: click.Context
    """The values before it."""
    param: click.Parameter


class CompletedType(click.ParamType[ValueT]):
    """A value with shell completion by its beginning."""

    def choices(self, typed: Typed) -> Iterable[str]:  # noqa: ARG002  what it is for is a subclass's
        """Return the known values.

        Others may be valid as well.
        """
        return ()

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the values beginning with the typed text."""
        typed = Typed(incomplete, ctx, param)
        return [
            CompletionItem(choice)
            for choice in self.choices(typed)
            if choice.startswith(incomplete)
        ]


class PathType(CompletedType[str]):
    """A value for the path of a file, possibly among others."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002  click's arguments
        """Return the text."""
        return str(value)

    def is_path(self, text: str) -> bool:
        """Return whether a value is a path."""
        return text != STREAM

    def in_folder(self, text: str, folder: Path) -> str:
        """Return a path from a settings file in `folder`, for the working folder.

        `~` is the user's home.
        """
        if not self.is_path(text):
            return text
        try:
            path = Path(text).expanduser()
        except RuntimeError:
            # There is no such home: what opens the file says so.
            path = Path(text)
        return str(folder / path)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the matching values.

        Without any, the shell completes files instead.

        A shell does not mix the two.
        """
        items = super().shell_complete(ctx, param, incomplete)
        return items or [CompletionItem(incomplete, type="file")]


class FileName(PathType):
    """A file's path."""

    name = "file"


class ShippedName(PathType):
    """The name of a shipped file, such as fleet `demo`, or a file's path."""

    name = "name"

    def __init__(self, kind: str) -> None:
        """Choose the kind of shipped files.

        Args:
            kind: Folder of the files: `fleets`, `scenarios` or `alerts`.
        """
        self._kind = kind

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text: a path or a shipped name."""
        # No setting gives an argument: its command says more of a wrong one.
        if not self.is_path(str(value)) and not isinstance(param, click.Argument):
            try:
                find_file(self._kind, str(value))
            except ConfigError as error:
                self.fail(str(error), param, ctx)
        return str(value)

    def is_path(self, text: str) -> bool:
        """Return whether a value is a path: by its ending or a slash.

        `config.find_file` has the same rule.
        """
        return text.endswith(".toml") or "/" in text

    def choices(self, typed: Typed) -> Iterable[str]:  # noqa: ARG002  what ships depends on nothing
        """Return the shipped names."""
        return shipped_names(self._kind)


class Target(CompletedType[str]):
    """The target of a fault: an address, a pattern, or a random match."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:  # noqa: ARG002  click's arguments
        """Return the text."""
        return str(value)

    def choices(self, typed: Typed) -> Iterable[str]:
        """Return addresses of a shipped fleet at the fault's level.

        No broker is queried.

        The fleet comes from --name or the settings, else it is the demo's.
        """
        from trnfleet.domain.faults.table import FAULTS  # noqa: PLC0415  only completion needs it

        fault = FAULTS.get(str(typed.ctx.params.get("fault")))
        fleet = str(typed.ctx.params.get("name") or "demo")
        if fault is None or fleet not in shipped_names("fleets"):
            return []
        if fault.scope.value == "publisher":
            return ["*"]
        from trnfleet.domain.fleet import FleetFile  # noqa: PLC0415  it loads pydantic

        names = {"rack": Level.INSTANCE, "link": Level.CHIP}
        level = names.get(fault.scope.value) or Level[fault.scope.name]
        return _addresses(load_model(find_file("fleets", fleet), FleetFile), typed.text, level)


def _addresses(fleet: FleetFile, start: str, level: Level) -> list[str]:
    """Return the matching addresses of a level, or of a higher one.

    With more than `MOST_ADDRESSES` it is the lowest higher level within that limit. A shell
    completes their common beginning, one level after the other.
    """
    from trnfleet.domain.fleet import expand  # noqa: PLC0415  as above
    from trnfleet.domain.hardware.catalogue import INSTANCE_TYPES  # noqa: PLC0415

    inside = start.count("/")
    paths = [
        (path.split("/"), kind)
        for path, kind in expand(fleet)
        if f"{path}/".startswith(start[: len(path) + 1])
    ]
    addresses: list[str] = []
    for depth in range(min(inside + 1, level), level + 1):
        if depth == Level.CHIP:
            below = [
                f"{'/'.join(path)}/{format_chip(number)}"
                for path, kind in paths
                for number in range(INSTANCE_TYPES[kind].chips)
            ]
        else:
            below = ["/".join(path[:depth]) for path, _ in paths]
        below = [address for address in dict.fromkeys(below) if address.startswith(start)]
        if len(below) > MOST_ADDRESSES:
            break
        addresses = below
    return addresses


class OneOf(click.Option):
    """An option with one value where other commands accept several.

    More than one are refused, with the values to choose from. Otherwise the last one on a command
    line would silently win, and a list in a profile would be refused although the command line
    names one.
    """

    is_lenient = False
    """Whether several are accepted. `config print` shows them."""

    def __init__(self, *flags: Any, noun: str, **attributes: Any) -> None:
        """Make the option.

        Args:
            flags: Its flags, and its name.
            noun: What it names, for the message.
            attributes: As of any option.
        """
        super().__init__(*flags, **{**attributes, "multiple": True})
        self.noun = noun

    def process_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the one value.

        None without one.

        Raises:
            click.UsageError: there are several.
        """
        given = tuple(dict.fromkeys(super().process_value(ctx, value) or ()))
        if self.is_lenient:
            return given
        if len(given) > 1:
            flag = max(self.opts, key=len)
            origin = ctx.meta.get(ORIGINS, {}).get(self.name)
            source = ctx.get_parameter_source(self.name or "")
            where = {
                ParameterSource.DEFAULT_MAP: f"{origin} {flag[2:]}" if origin else flag,
                ParameterSource.ENVIRONMENT: str(self.envvar),
            }.get(source or ParameterSource.COMMANDLINE, flag)
            choices = ", ".join(map(str, given))
            raise click.UsageError(
                f"{where}: {ctx.command_path.removeprefix('trnfleet ')} takes one {self.noun};"
                f" choose one with {flag}: {choices}"
            )
        return given[0] if given else None


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


class CheckedText(click.ParamType[str]):
    """A text that a function checks."""

    def __init__(self, name: str, check: Callable[[str], object]) -> None:
        """Name the kind of text.

        Args:
            name: Its placeholder in the help.
            check: Raises `ConfigError` or `ValueError` for an invalid text.
        """
        self.name = name
        self._check = check

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text if it is valid."""
        try:
            self._check(str(value))
        except (ConfigError, ValueError) as error:
            self.fail(str(error), param, ctx)
        return str(value)


def _check_receiver(text: str) -> None:
    from trnfleet.export.http import parse_target  # noqa: PLC0415  only `watch` needs it

    parse_target(text)


def _check_program(text: str) -> None:
    from trnfleet.export.command import split_command  # noqa: PLC0415  only `watch` needs it

    split_command(text)


RECEIVER_URL = CheckedText("url", _check_receiver)
"""The URL of an Alertmanager or a webhook."""
PROGRAM = CheckedText("program", _check_program)
"""A program and its arguments, as a shell would read them."""
WEB_URL = CheckedText("url", check_web_url)
"""A link, `http://` or `https://`."""
TOPIC_FILTER = CheckedText("topic filter", lambda text: topic_matches(text, "a"))
"""A filter of topics: `+` matches one level, `#` the rest."""


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
                self.fail(f"{kind!r} is not a kind of line: {nearest(kind, KINDS)}", param, ctx)
        return chosen

    def choices(self, typed: Typed) -> Iterable[str]:
        """Return the kinds that may follow the typed ones."""
        before, comma, _ = typed.text.rpartition(",")
        given = before.split(",")
        return (f"{before}{comma}{kind}" for kind in KINDS if kind not in given)


class Price(click.ParamType[tuple[str, Decimal]]):
    """An instance type and its price an hour, such as `trn2.48xlarge=35.76`."""

    name = "type=amount"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Decimal]:
        """Return the type and the amount."""
        if isinstance(value, tuple):
            return value
        kind, _, amount = str(value).partition("=")
        if not _AMOUNT.fullmatch(amount):
            self.fail(f"{value!r} is not a price such as trn2.48xlarge=35.76", param, ctx)
        if present_name(kind) not in INSTANCE_TYPES:
            known = nearest(kind, INSTANCE_TYPES)
            self.fail(f"{value!r}: {kind!r} is not an instance type: {known}", param, ctx)
        return present_name(kind), Decimal(amount)


class EnergyPrice(click.ParamType[tuple[float, str]]):
    """A price of a kWh, such as `0.08` or `0.08EUR`."""

    name = "price"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[float, str]:
        """Return the amount and the currency."""
        if isinstance(value, tuple):
            return value
        match = _ENERGY_PRICE.fullmatch(str(value))
        if match is None:
            self.fail(f"{value!r} is not a price of a kWh such as 0.08 or 0.08EUR", param, ctx)
        return float(match[1]), match[2] or "USD"


class PowerCap(click.ParamType[tuple[str, float]]):
    """A place and its power cap, such as `uc1/us-0001/rack-a=12kW`."""

    name = "place=watts"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, float]:
        """Return the place and watts."""
        if isinstance(value, tuple):
            return value
        place, _, watts = str(value).rpartition("=")
        try:
            limit_w = parse_number(Column("cap", Kind.NUMBER, "W"), watts)
        except ConfigError as error:
            self.fail(f"{value!r}: {error}", param, ctx)
        if not place or limit_w <= 0:
            self.fail(f"{value!r} is not a cap such as uc1/us-0001/rack-a=12kW", param, ctx)
        return place, limit_w


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
            if match is None:
                self.fail(f"{value!r} is not a size; write it as 64MiB, 1GiB or 500MB", param, ctx)
            base, prefix = (1024, match[3]) if match[3] else (1000, match[2])
            factor = base ** " kmgt".index(prefix.lower())
            size = round(min(float(match[1]), 2.0**61) * factor)
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
            find_moment(text, 0, DAY_S * NS_PER_S)
        except ValueError:
            self.fail(f"{text!r} is not a moment; {_MOMENT_FORMS}", param, ctx)
        return text
