"""Receivers of notifications, from URLs and command lines."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from trnfleet.errors import ConfigError
from trnfleet.export.alertmanager import AlertmanagerReceiver
from trnfleet.export.alertmanager_silences import AlertmanagerSilences
from trnfleet.export.command import CommandReceiver, find_command
from trnfleet.export.http import parse_target
from trnfleet.export.ndjson import LineReceiver
from trnfleet.export.notification_log import MOST_RECEIVERS
from trnfleet.export.webhook import WebhookReceiver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.clock import Clock
    from trnfleet.export.receiver import Receiver


def make_silences(alertmanagers: Sequence[str], clock: Clock) -> list[AlertmanagerSilences]:
    """Return the silences of Alertmanagers, under their receivers' names.

    Raises:
        ConfigError: a URL is invalid.
    """
    secret = os.environ.get("TRNFLEET_ALERTMANAGER_PASSWORD")
    return [
        AlertmanagerSilences(_named("alertmanager", number), parse_target(text, secret), clock)
        for number, text in enumerate(alertmanagers)
    ]


def _named(kind: str, number: int) -> str:
    return f"{kind}-{number + 1}" if number else kind


def make_receivers(
    alertmanagers: Sequence[str],
    webhooks: Sequence[str],
    programs: Sequence[str],
    clock: Clock,
    *,
    stdout: bool,
) -> list[Receiver]:
    """Return receivers.

    The first of a kind has its name, the second `webhook-2`, and so on.

    Args:
        alertmanagers: URLs of Alertmanagers.
        webhooks: URLs to post to.
        programs: Command lines to run.
        clock: The time to go by.
        stdout: Whether to write lines to stdout.

    Raises:
        ConfigError: a URL or a program is invalid, or there are too many.
    """
    receivers: list[Receiver] = []
    if stdout:
        if sys.__stdout__ is None:
            raise ConfigError("--stdout: stdout is closed: there is nowhere to write to")
        receivers.append(LineReceiver("stdout", sys.__stdout__.fileno(), clock))
    secret = os.environ.get("TRNFLEET_ALERTMANAGER_PASSWORD")
    for number, text in enumerate(alertmanagers):
        target = parse_target(text, secret)
        receivers.append(AlertmanagerReceiver(_named("alertmanager", number), target, clock))
    secret = os.environ.get("TRNFLEET_WEBHOOK_PASSWORD")
    for number, text in enumerate(webhooks):
        target = parse_target(text, secret)
        receivers.append(WebhookReceiver(_named("webhook", number), target, clock))
    for number, text in enumerate(programs):
        receivers.append(CommandReceiver(_named("exec", number), find_command(text), clock))
    if len(receivers) > MOST_RECEIVERS:
        raise ConfigError(f"{len(receivers)} receivers: at most {MOST_RECEIVERS}")
    return receivers
