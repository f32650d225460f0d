"""Table of the commands: the name of each, which is its module's, and its short help.

Help and completion so import none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from trnfleet.deferred_imports import defer_imports

if TYPE_CHECKING:
    import click


COMMANDS = {
    "demo": "Embedded broker, simulator and app in one; what `trnfleet` alone does.",
    "monitor": "The app against a broker.",
    "simulate": "Headless telemetry to a broker, or NDJSON to stdout.",
    "record": "Record all that a broker delivers into a file.",
    "replay": "A recording into the app, back to a broker, or NDJSON to stdout.",
    "history": "Months of a fleet as Parquet: write, query, compact.",
    "info": "Contents of a recording: times, topics, counts, gaps.",
    "convert": "Recordings to and from mosquitto_sub lines and neuron-monitor NDJSON.",
    "check": "Validate files: recordings, fleets, scenarios, rules, settings.",
    "status": "One shot: a fleet's summary as text or JSON; exit status 3 if unhealthy.",
    "inject": "Inject a fault into a running simulator, or list the faults.",
    "jump": "Let a running simulator's time jump ahead.",
    "reserve": "Look for, buy, extend and list Capacity Blocks.",
    "usage": "Use of the reserved capacity over a period, as CSV.",
    "bridge": "Reservations of a real AWS account, from EC2 to a broker.",
    "relay": "A cell's roll-ups to a top broker, for fleets beyond one broker.",
    "watch": "Headless alerts: to the broker, Alertmanager, webhooks, programs, stdout.",
    "alerts": "List firing alerts; exit status 3 if a critical one is unhandled.",
    "ack": "Acknowledge an alert, or remove the acknowledgement.",
    "silence": "Silence alerts for a while; list and expire silences.",
    "rules": "Check, test and list alert rules.",
    "fleet": "Hierarchy and totals of a fleet file.",
    "forget": "Clear what a fleet that is gone has left on a broker.",
    "doctor": "Look what this machine and a broker can do; exit status 3 for problems.",
    "config": "Settings files: write one, list their places, print what is in force.",
    "completion": "Print the script by which bash, zsh or fish completes.",
    "broker": "The embedded broker alone.",
}
"""The commands in the order of `trnfleet --help`."""


def load_command(name: str) -> click.Command:
    """Import and return a command of the table.

    Rarely used parts load on first use.
    """
    defer_imports()
    module = importlib.import_module(f"trnfleet.cli.commands.{name}")  # noqa: TID251  the table says which modules there are
    command: click.Command = module.command
    return command
