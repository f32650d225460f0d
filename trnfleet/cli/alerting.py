"""Alerts in the app: which rules it holds against the fleet, whether it may write what people say, and how it calls for them."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from trnfleet.cli.options import LONGEST_USER, CommandT, setting, user_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.monitor.alerting.operator import OperatorActions
    from trnfleet.transport.mqtt import MqttPublisher
    from trnfleet.transport.url import BrokerUrl, Password


class Calling(NamedTuple):
    """How the app calls for whoever watches."""

    bell: bool
    """Ring the terminal's bell."""
    notify: bool
    """Ask the terminal for a desktop notification."""


class Alerting(NamedTuple):
    """What the options say about alerts."""

    rules: tuple[Rule, ...]
    owner: str | None
    calling: Calling
    may_write: bool
    """Whether people's words may be written."""


class DeskAndWriter(NamedTuple):
    """Where people's words about alerts are written, and the connection that must run for it; None where they are not."""

    desk: OperatorActions
    writer: MqttPublisher | None


def rules_option(command: CommandT) -> CommandT:
    """Add the option that says which alert rules hold: `rules`."""
    option = setting(
        "--rules",
        multiple=True,
        metavar="NAME|FILE",
        help="Alert rules: shipped ones by name, or a file; several times for several. By default all shipped ones.",
    )
    return option(command)


def app_alert_options(command: CommandT) -> CommandT:
    """Add the options about alerts that every command with the app has: `rules`, `owner`, `bell`, `notify`."""
    options: tuple[Callable[[Any], Any], ...] = (
        rules_option,
        setting("--owner", metavar="NAME", help="Who acknowledges and silences; by default the user's name."),
        setting("--bell", is_flag=True, help="Ring the terminal's bell when an alert fires."),
        setting(
            "--notify",
            is_flag=True,
            help="Ask the terminal for a desktop notification when an alert fires (OSC 9).",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def make_desk(
    url: BrokerUrl,
    fleet: str,
    *,
    root: str,
    password: Password | None,
    clock: Clock,
    owner: str | None,
    may_write: bool,
    protocol: Any = None,
) -> DeskAndWriter:
    """Return the desk of a command with its connection; run that beside whatever uses the desk.

    Args:
        url: The broker.
        fleet: The fleet's name.
        root: First part of the topics.
        password: The user's.
        clock: The time to go by.
        owner: Who sits at it; the user's name if none is given.
        may_write: Whether anything may be written at all.
        protocol: Speak only this version of MQTT.
    """
    from trnfleet.monitor.alerting.operator import OperatorActions  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.mqtt import MqttPublisher  # noqa: PLC0415  --help stays quick

    writer = None
    if may_write:
        client = f"trnfleet-desk-{secrets.token_hex(6)}"
        writer = MqttPublisher(url, client_id=client, password=password, clock=clock, protocol=protocol)
    return DeskAndWriter(
        OperatorActions(
            fleet, publisher=writer, owner=(owner or user_name("somebody"))[:LONGEST_USER], root=root
        ),
        writer,
    )
