"""A problem of the pipeline and its remedy.

A problem with a shipped rule has the rule's name, severity and runbook, so alert and status agree
(`config/alerts/pipeline.toml`; checked by a test).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trnfleet.domain.severity import Severity

ADVICE = {
    "connection-lost": (
        "Is the broker up? Can this host reach it? Is the fleet's only publisher up? Publishers are"
        " not reported as silent before they could be heard again."
    ),
    "cannot-write": (
        "What is read comes over a connection of its own and goes on. May this user write, and"
        " connect twice? A second program with the same client id is another reason."
    ),
    "publisher-offline": "Is the process up? Can it reach the broker?",
    "publisher-silent": (
        "It is connected and publishes nothing. Is its process stopped, or its source of figures?"
    ),
    "monitor-overloaded": (
        'Publish in blocks (format = "cbor", granularity = "block"), less often, or fewer metrics.'
        " Or divide the fleet among brokers with a relay each. Read in MQTT 5. Or this"
        " machine or its network is too slow."
    ),
    "recording-stopped": (
        "The disk is full, or the folder cannot be written: see the log. Make room, or keep less"
        " with --past, and restart the app. W saves elsewhere what was recorded."
    ),
    "messages-lost": "Look for a lossy network, or for a full queue at the broker.",
    "messages-twice": (
        "Look for a client that sends again after a lost answer, or for two publishers of one path."
    ),
    "messages-late": (
        "Look for several routes through the network, or for a publisher that was restarted."
    ),
    "lag": (
        "Look for a slow network or an overloaded broker, or at this machine: see the status line."
    ),
    "messages-dropped": (
        "This reader is too slow, or a publisher sends too much at once: see the status line."
    ),
    "messages-refused": "The log names their topics.",
    "publisher-refused": (
        "It speaks, and nothing of what it says can be used: docs/wire.md has what a message needs."
    ),
    "values-unusable": (
        "They are not available, and the rest of their messages counts: docs/wire.md has the limits"
        " of each metric."
    ),
    "unknown-metrics": (
        "They are ignored, and the rest of their messages counts: docs/wire.md lists the metrics."
    ),
    "telemetry-late": (
        "Look for a publisher that sends what it had buffered, or for a wrong clock, there or here."
    ),
    "two-publishers": (
        "Two simulators or agents run for the same hosts, or with one client id. Stop one, or give"
        " it another client id (--client-id), another fleet name (--name) or a shard (--shard 1/2)."
    ),
    "clock-skew": "Check NTP on both sides.",
    "not-described": (
        "They publish, and no descriptor of them has come; publishers repeat theirs every 60 s. See"
        " docs/brokers.md."
    ),
    "retained-withheld": (
        "RabbitMQ's MQTT plugin does so. Descriptors and acknowledgements are requested by topic;"
        " ids of silences cannot be known. Silence again, or use a broker that docs/brokers.md"
        " names."
    ),
    "broker-drops": (
        "The broker drops for clients that are slow to take messages: fewer messages, or larger"
        " queues at the broker (Mosquitto: max_queued_messages)."
    ),
    "layouts-held": (
        "A publisher describes other instances over and over: they are shown with a delay."
    ),
    "internal-errors": (
        "A failure of this program: what failed shows what was known before. The log has the"
        " traceback."
    ),
}
"""The remedy for each problem."""


class PipelineProblem(NamedTuple):
    """Something that is wrong."""

    name: str
    """A rule's name, or one of the same kind."""
    severity: Severity
    text: str
    """A line with figures."""
    short: str
    """A few words for a status line; empty where that shows it in another way."""
    where: str = ""
    """Its origin without figures, such as `publisher agent-07`. Empty for all, or if unknown."""

    @property
    def advice(self) -> str:
        """The remedy."""
        return ADVICE[self.name]


def contest_text(names: str, paths: str) -> str:
    """Return what a contest is, in words.

    Args:
        names: The names of the two.
        paths: The number of their paths, with its noun.
    """
    one, _, other = names.partition(" and ")
    if one == other:
        return (
            f"two processes take turns under the client id {one}: each ends the other's connection"
        )
    return f"{names} publish the same {paths}: values change between them"
