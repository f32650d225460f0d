"""Table of the commands: the name of each, which is its module's, and its short help.

Help and completion so import none of them.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import click


COMMANDS = {
    "demo": "Run broker, simulator and app in one; `trnfleet` alone does this.",
    "monitor": "Watch the fleets of a broker in the app.",
    "serve": "Serve the app to a browser on this machine, read-only.",
    "simulate": "Simulate a fleet: publish telemetry, or write NDJSON or a recording.",
    "record": "Record a broker's messages into a file.",
    "replay": "Play a recording in the app, to a broker, or as NDJSON to stdout.",
    "history": "Write, query and compact months of a fleet as Parquet files.",
    "info": "Summarize a recording: times, topics, counts, gaps.",
    "convert": "Convert recordings, mosquitto_sub lines and neuron-monitor NDJSON.",
    "check": "Validate files: recordings, fleets, scenarios, rules, settings.",
    "status": "Print a fleet's summary as text or JSON; exit status 3 if unhealthy.",
    "inject": "Inject a fault into a running simulator, or list the faults.",
    "jump": "Move a running simulator's time ahead.",
    "reserve": "Find, buy, extend and list Capacity Blocks.",
    "usage": "Measure the use of reserved capacity over a period; prints CSV.",
    "agent": "Publish the telemetry of the real host that it runs on.",
    "bridge": "Publish the reservations of an AWS account to a broker.",
    "job": "Publish what a job does: state, step, figures; for scripts and training loops.",
    "scrape": "Publish real hosts from the metrics pages of their exporters.",
    "relay": "Publish a cell's roll-ups to a top broker, for fleets larger than one broker.",
    "watch": "Evaluate alerts and notify Alertmanager, webhooks, programs or stdout.",
    "alerts": "List firing alerts; exit status 3 if a critical one is unhandled.",
    "ack": "Acknowledge an alert, or remove the acknowledgement.",
    "silence": "Silence alerts for a while; list and expire silences.",
    "rules": "Check, test and list alert rules.",
    "fleet": "Describe, compare and list fleets and hardware.",
    "forget": "Clear the retained messages of a removed fleet.",
    "doctor": "Check this machine and a broker; exit status 3 for problems.",
    "config": "Write a settings file, list their places, print effective settings.",
    "completion": "Print the completion script of bash, zsh or fish.",
    "broker": "Run the embedded broker alone.",
}
"""The commands in the order of `trnfleet --help`."""


def load_command(name: str) -> click.Command:
    """Import and return a command of the table."""
    # Its search of all installed packages for plugins would delay each start.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    module = importlib.import_module(f"trnfleet.cli.commands.{name}")  # noqa: TID251  the table says which modules there are
    command: click.Command = module.command
    return command
