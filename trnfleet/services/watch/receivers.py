"""Receivers of notifications, from URLs and command lines, and their deliveries.

A webhook or an Alertmanager that is away is retried by its receiver. Failures that come to
`Deliveries` have no retry of their own: a closed stdout, a full disk, a bug. Only a closed stdout
stays closed.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from trnfleet import logs
from trnfleet.errors import ConfigError
from trnfleet.export.alertmanager import AlertmanagerReceiver
from trnfleet.export.alertmanager_silences import AlertmanagerSilences
from trnfleet.export.command import CommandReceiver, find_command
from trnfleet.export.http import parse_target
from trnfleet.export.ndjson import LineReceiver
from trnfleet.export.notification_log import MOST_RECEIVERS
from trnfleet.export.receiver import Receiver, pause_s
from trnfleet.export.webhook import WebhookReceiver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.clock import Clock
    from trnfleet.tasks import Ending

log = logs.get_logger(__name__)


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


class Deliveries:
    """The receivers of a watch while they run."""

    def __init__(self, receivers: Sequence[Receiver], clock: Clock, ending: Ending) -> None:
        """Prepare the deliveries.

        Args:
            receivers: The receivers.
            clock: The time to go by.
            ending: Asked for the end of the watch when its only receiver is closed.
        """
        self.problem = ""
        """Why the watch ends: its only receiver is closed. Empty otherwise."""
        self._receivers = receivers
        self._clock = clock
        self._ending = ending

    async def run(self, receiver: Receiver) -> None:
        """Run a receiver until cancelled, again after each failure."""
        attempt = 0
        tally = receiver.tally
        while True:
            delivered = tally.delivered
            try:
                await receiver.run()
            except BrokenPipeError as error:
                why = error.strerror or str(error)
                if len(self._receivers) == 1:
                    self.problem = f"nobody can be notified: {receiver.name}: {why}"
                    self._ending.ask()
            except OSError as error:
                why = error.strerror or str(error)
            except Exception as error:  # a bug in one receiver must not end the others
                why = f"internal error: {type(error).__name__}"
                log.exception("receiver_crashed", receiver=receiver.name, kind=why)
            else:
                return
            receiver.note_failure(why)
            attempt = 0 if tally.delivered > delivered else attempt
            await self._clock.sleep(pause_s(attempt))
            attempt += 1
