"""A problem of the pipeline, and what to do about it.

A problem that a shipped rule is about has the rule's name, severity and runbook, so that alert and status say the same
(`config/alerts/pipeline.toml`; a test holds both together).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from trnfleet.domain.severity import Severity

ADVICE = {
    "connection-lost": "No connection to the broker, or to one of several, or nothing of the fleet comes over it. Is the broker up, the way to it, and the fleet's only publisher? Sources are not at fault before they have been heard again.",
    "cannot-write": "What is read comes over a connection of its own and goes on. May this user write, and connect twice? A second program with the same client id is another reason.",
    "publisher-offline": "Its last will or its goodbye says so. Is the process up, and its way to the broker?",
    "publisher-silent": "It is connected and publishes nothing. Is its process stopped, or its source of figures?",
    "monitor-overloaded": 'Publish in blocks (format = "cbor", granularity = "block"), less often or fewer metrics, or divide the fleet among brokers, with a relay each; read in MQTT 5 with --client mqtt5, the default; or this machine, or the way to it, is too slow.',
    "recording-stopped": "The disk is full, or the folder cannot be written to: the log says which. Make room, or keep less with --past, and start the app again; W saves what was kept elsewhere.",
    "messages-lost": "Sequence numbers are missing: a lossy network, or a queue of the broker that is full.",
    "messages-twice": "Resent after a lost answer, or two publishers of the same path.",
    "messages-late": "Several ways through a network, or a publisher that was started again.",
    "lag": "A slow network, an overloaded broker, or this machine: see the status line.",
    "messages-dropped": "This reader is too slow, or payloads are larger than allowed.",
    "messages-refused": "The log names their topics.",
    "telemetry-late": "It was long on its way, such as in a buffer of its publisher, or a clock is wrong, the source's or this machine's. The values look live and are old.",
    "two-publishers": "Two simulators or agents were started for the same hosts: end one, or give one another fleet name (--name), or shards (--shard 1/2).",
    "clock-skew": "Ages and orders of events cannot be trusted: check NTP on both sides.",
    "not-described": "They publish, and no descriptor of them has come; publishers repeat theirs every 60 s. See docs/brokers.md.",
    "retained-withheld": "RabbitMQ's MQTT plugin does so. Descriptors, and acknowledgements of what fires here, are asked for by their topics; ids of silences cannot be known. Silence again, or use a broker that docs/brokers.md names.",
    "broker-drops": "The broker drops for clients that are slow to take messages: fewer messages, or larger queues at the broker (Mosquitto: max_queued_messages).",
    "layouts-held": "A publisher describes other instances over and over: they are shown with a delay.",
    "internal-errors": "A failure of this program: what failed shows what was known before. The log has the traceback.",
}
"""What to do about each problem."""


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
    """Whose it is, without figures, such as `publisher agent-07`; empty where it is of all, or not known."""

    @property
    def advice(self) -> str:
        """What to do."""
        return ADVICE[self.name]
