"""Options of the app's commands: its look, alerts, past and log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet import folders
from trnfleet.cli.options import option_group, power_cap_option, rules_option, setting
from trnfleet.cli.output import report
from trnfleet.cli.params import CompletedType, EnergyPrice, FileName, Size, Typed
from trnfleet.cli.settings.files import mapped_keys
from trnfleet.cli.settings.layers import applied
from trnfleet.errors import nearest
from trnfleet.services.child_process import TOLD_S
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import click

    from trnfleet.clock import Clock

THEMES = ("dark", "light", "high-contrast", "colour-blind", "ansi", "monochrome")
"""Theme names of `trnfleet.tui.theme`. Importing it would slow every command's start and help."""

past_option = setting(
    "--past",
    type=Size(0),
    default="1GiB",
    help="Disk space for going back in time, freed at the end; 0 disables it.",
)
history_option = setting(
    "--history",
    type=FileName(),
    metavar="FOLDER",
    help=(
        "Folder of `trnfleet history write`, for charts of 24 hours, 7 and 30 days, and all time."
        " Needs DuckDB: pip install duckdb."
    ),
)
log_file_option = setting(
    "--log-file",
    type=FileName(),
    metavar="FILE",
    help="Log file; by default trnfleet/app.log in the state folder.",
)


class AlertOptions(NamedTuple):
    """Options about alerts in the app."""

    rules: tuple[str, ...]
    """Names or files; the shipped rules if empty."""
    owner: str | None
    """Name for acknowledgements and silences; None for the user's."""
    bell: bool
    notify: bool


app_alert_options = option_group(
    "alerts",
    AlertOptions,
    (
        rules_option,
        setting(
            "--owner",
            metavar="NAME",
            help="Your name in acknowledgements and silences; by default your user name.",
        ),
        setting("--bell", is_flag=True, help="Ring the terminal's bell when an alert fires."),
        setting(
            "--notify",
            is_flag=True,
            help="Show a desktop notification when an alert fires, if the terminal can (OSC 9).",
        ),
    ),
)
"""The command gets `alerts: AlertOptions`."""


class LookOptions(NamedTuple):
    """Options about the look of the app."""

    theme: str | None
    """One of `THEMES`. None to fit the terminal."""
    ascii_only: bool
    """Whether the terminal gets ASCII only, even where it has UTF-8."""
    local_time: bool
    """Whether the header shows local time beside UTC."""
    keys: Mapping[str, str] | None = None
    """Keys by the names of actions; None before `with_keys`."""

    def with_keys(self, ctx: click.Context) -> LookOptions:
        """Return these with the keys of a called command's settings.

        Raises:
            ConfigError: one of them is invalid.
        """
        settings, _ = applied(ctx) or (None, {})
        return self._replace(keys=mapped_keys(settings.files if settings else ()))


class ThemeName(CompletedType[str]):
    """The name of a theme."""

    name = "theme"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the name, or fail with the nearest one."""
        text = str(value)
        if text not in THEMES:
            self.fail(f"{text!r} is not a theme: {nearest(text, THEMES)}", param, ctx)
        return text

    def choices(self, typed: Typed) -> Iterable[str]:  # noqa: ARG002  the themes depend on nothing
        """Return the themes."""
        return THEMES


look_options = option_group(
    "looks",
    LookOptions,
    (
        setting(
            "--theme",
            type=ThemeName(),
            metavar="NAME",
            help=(
                f"Colours of the app: {', '.join(THEMES)}. The default is dark, ansi with 16"
                " colours, and monochrome if NO_COLOR is set."
            ),
        ),
        setting(
            "--ascii",
            "ascii_only",
            is_flag=True,
            help=(
                "Draw with ASCII only; the default if the locale has no UTF-8, or TERM is linux or"
                " vt100."
            ),
        ),
        setting(
            "--local-time",
            is_flag=True,
            help="Show local time beside UTC in the header, in the time zone of TZ or the machine.",
        ),
    ),
    without=("keys",),
)
"""The command gets `looks: LookOptions`."""


class PowerOptions(NamedTuple):
    """Price of energy and caps for the view Power."""

    kwh_price: tuple[float, str] | None
    """Amount and currency; None for no money."""
    power_caps: tuple[tuple[str, float], ...]
    """Watts by place."""


power_options = option_group(
    "power",
    PowerOptions,
    (
        setting(
            "--kwh-price",
            type=EnergyPrice(),
            metavar="PRICE",
            help="Price of a kWh for the view Power, such as 0.08 or 0.08EUR; no money by default.",
        ),
        power_cap_option,
    ),
)
"""The command gets `power: PowerOptions`."""


def log_file_for_app(given: str | None, *, keeps_past: bool = False) -> Path:
    """Return the app's log file: the given one, or one in the state folder.

    Without a writable home it is in a temporary folder, and stderr names once the places of log and
    past instead.

    Args:
        given: The option's value.
        keeps_past: Whether the app keeps its past in the cache folder.

    Raises:
        ConfigError: there is no folder to write to at all.
    """
    elsewhere: dict[str, str] = {}
    problem = ""
    file = Path(given) if given else None
    if file is None:
        state = folders.state_folder()
        problem = state.problem or folders.why_not_writable(state.path / "app.log")
        if problem:
            problem = state.problem or f"{state.path / 'app.log'}: {problem}"
            state = folders.OwnFolder(folders.temporary_folder())
            elsewhere["the log"] = str(state.path)
        file = state.path / "app.log"
    if keeps_past:
        cache = folders.cache_folder()
        if cache.problem:
            problem = problem or cache.problem
            elsewhere["the past"] = str(cache.path)
    if elsewhere:
        names = " and ".join(elsewhere)
        verb = "are" if len(elsewhere) > 1 else "is"
        report(
            f"trnfleet: {plain(problem, 300)}; {names} {verb} in"
            f" {plain(next(iter(elsewhere.values())), 300)}"
        )
    return file


class Notice:
    """A line shown in the app's first seconds; the port `OwnProcess`."""

    figure = ""

    def __init__(self, line: str, clock: Clock) -> None:
        self._line = line
        self._clock = clock
        self._until_s = clock.monotonic_s() + TOLD_S

    @property
    def note(self) -> str:
        """The line; empty once it has been shown."""
        return self._line if self._clock.monotonic_s() < self._until_s else ""
