"""Table of the commands: module and short help of each.

Help and completion so import none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.deferred_imports import defer_imports

if TYPE_CHECKING:
    import click


class CommandRow(NamedTuple):
    """Row of a command."""

    module: str
    """Module in `trnfleet.cli.commands`."""
    help: str


COMMANDS = {
    "demo": CommandRow(
        "demo", "Embedded broker, simulator and app in one; what `trnfleet` alone does."
    ),
    "monitor": CommandRow("monitor", "The app against a broker."),
    "simulate": CommandRow("simulate", "Headless telemetry to a broker, or NDJSON to stdout."),
    "record": CommandRow("record", "Record all that a broker delivers into a file."),
    "replay": CommandRow(
        "replay", "A recording into the app, back to a broker, or NDJSON to stdout."
    ),
    "history": CommandRow("history", "Months of a fleet as Parquet: write, query, compact."),
    "info": CommandRow("info", "Contents of a recording: times, topics, counts, gaps."),
    "convert": CommandRow(
        "convert", "Recordings to and from mosquitto_sub lines and neuron-monitor NDJSON."
    ),
    "check": CommandRow("check", "Validate files: recordings, fleets, scenarios, rules, settings."),
    "status": CommandRow(
        "status", "One shot: a fleet's summary as text or JSON; exit status 3 if unhealthy."
    ),
    "inject": CommandRow("inject", "Inject a fault into a running simulator, or list the faults."),
    "jump": CommandRow("jump", "Let a running simulator's time jump ahead."),
    "reserve": CommandRow("reserve", "Look for, buy, extend and list Capacity Blocks."),
    "usage": CommandRow("usage", "Use of the reserved capacity over a period, as CSV."),
    "bridge": CommandRow("bridge", "Reservations of a real AWS account, from EC2 to a broker."),
    "relay": CommandRow(
        "relay", "A cell's roll-ups to a top broker, for fleets beyond one broker."
    ),
    "watch": CommandRow(
        "watch", "Headless alerts: to the broker, Alertmanager, webhooks, programs, stdout."
    ),
    "alerts": CommandRow(
        "alerts", "List firing alerts; exit status 3 if a critical one is unhandled."
    ),
    "ack": CommandRow("ack", "Acknowledge an alert, or remove the acknowledgement."),
    "silence": CommandRow("silence", "Silence alerts for a while; list and expire silences."),
    "rules": CommandRow("rules", "Check, test and list alert rules."),
    "fleet": CommandRow("fleet", "Hierarchy and totals of a fleet file."),
    "forget": CommandRow("forget", "Clear what a fleet that is gone has left on a broker."),
    "doctor": CommandRow(
        "doctor", "Look what this machine and a broker can do; exit status 3 for problems."
    ),
    "config": CommandRow(
        "config", "Settings files: write one, list their places, print what is in force."
    ),
    "completion": CommandRow(
        "completion", "Print the script by which bash, zsh or fish completes."
    ),
    "broker": CommandRow("broker", "The embedded broker alone."),
}
"""The commands in the order of `trnfleet --help`."""


def load_command(name: str) -> click.Command:
    """Import and return a command of the table.

    Rarely used parts load on first use.
    """
    defer_imports()
    module = importlib.import_module(f"trnfleet.cli.commands.{COMMANDS[name].module}")  # noqa: TID251  the table says which modules there are
    command: click.Command = module.command
    return command
