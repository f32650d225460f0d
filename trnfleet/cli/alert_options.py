"""Options about alerts: rules, the name for acknowledgements, and the app's notifications."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.cli.names import ShippedName
from trnfleet.cli.options import CommandT, setting

if TYPE_CHECKING:
    from collections.abc import Callable


class AlertOptions(NamedTuple):
    """Options about alerts in the app."""

    rules: tuple[str, ...]
    """Names or files; the shipped rules if empty."""
    owner: str | None
    """Name for acknowledgements and silences; None for the user's."""
    bell: bool
    notify: bool


rules_option = setting(
    "--rules",
    type=ShippedName("alerts"),
    multiple=True,
    metavar="NAME|FILE",
    help=(
        "Alert rules: shipped ones by name, or a file; several times for several. By default all"
        " shipped ones."
    ),
)
_APP_OPTIONS: tuple[Callable[[Any], Any], ...] = (
    rules_option,
    setting(
        "--owner",
        metavar="NAME",
        help="Name for acknowledgements and silences; by default the user's.",
    ),
    setting("--bell", is_flag=True, help="Ring the terminal's bell when an alert fires."),
    setting(
        "--notify",
        is_flag=True,
        help="Ask the terminal for a desktop notification when an alert fires (OSC 9).",
    ),
)


def app_alert_options(command: CommandT) -> CommandT:
    """Add the alert options of the app's commands.

    The command gets `alerts: AlertOptions`.
    """

    @functools.wraps(command)
    def with_alerts(
        *args: Any,
        rules: tuple[str, ...],
        owner: str | None,
        bell: bool,
        notify: bool,
        **others: Any,
    ) -> Any:
        return command(*args, alerts=AlertOptions(rules, owner, bell, notify), **others)

    for option in reversed(_APP_OPTIONS):
        with_alerts = option(with_alerts)
    return with_alerts  # type: ignore[return-value]  # click reads its parameters, not its signature
