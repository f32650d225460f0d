"""`trnfleet watch`: alerts of a fleet without a terminal, told to the broker and to whoever should hear of them."""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import sys
import threading
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import click

from trnfleet import logs
from trnfleet.cli.options import (
    Duration,
    FleetName,
    broker_options,
    find_password,
    log_options,
    set_up_logs,
    setting,
)
from trnfleet.clock import NS_PER_S, SystemClock, format_rfc3339
from trnfleet.domain.severity import Severity
from trnfleet.errors import BrokerError, ConfigError, WireError
from trnfleet.tasks import Ending, background, run_until

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.cli.watching import Watch
    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.alert import Alert
    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.export.election import Election
    from trnfleet.export.notification_log import Firing, Ledger, Now
    from trnfleet.export.receiver import Receiver
    from trnfleet.transport.mqtt import MqttPublisher, MqttSource
    from trnfleet.transport.url import BrokerUrl, Password
    from trnfleet.wire.alerts import AlertMessage
    from trnfleet.wire.messages import Message
    from trnfleet.wire.ports import Envelope

log = logs.get_logger(__name__)

FIRES = 3
"""Exit status of `--exit-on`."""
CONNECT_LIMIT_S = 10.0
LISTEN_S = 2.0
"""How long it listens before it speaks: for other watches, and for what they have left."""
LOOK_S = 0.1
"""Time between two looks at who speaks and at what is to be published."""
TIDY_EVERY_S = 10.0
KEPT_NS = 3_600 * NS_PER_S
"""Acknowledgements and silences are cleared so long after their end, in the fleet's time."""
FORGOTTEN_AFTER_S = 900.0
"""What a watch that died has left of its presence is cleared after so long."""
LAST_WORDS_S = 1.0
"""How long receivers have, at the end by `--exit-on`, to be told why."""
GOODBYE_S = 0.3
END_LIMIT_S = 1.2
"""Longest that connections and threads have to end after the goodbye, so that all is over within 2 s."""
LONGEST_LINE = 1_000


@click.command("watch")
@broker_options(required=True)
@setting("--name", type=FleetName(), help="Which fleet, where the broker has several.")
@setting(
    "--rules",
    multiple=True,
    metavar="NAME|FILE",
    help="Alert rules: shipped ones by name, or a file; several times for several. By default all shipped ones.",
)
@setting(
    "--alertmanager",
    multiple=True,
    metavar="URL",
    help="Tell an Alertmanager, as http://host:9093; several times for several.",
)
@setting(
    "--webhook",
    multiple=True,
    metavar="URL",
    help="Post to a URL in the form of Alertmanager's webhooks; several times for several.",
)
@click.option(
    "--exec",
    "programs",
    multiple=True,
    metavar="'PROGRAM ARGS'",
    help="Run a program for each alert that fires or resolves, without a shell: JSON on its stdin, TRNFLEET_ALERT_... variables.",
)
@click.option("--stdout", is_flag=True, help="Write a line of JSON for each alert that fires or resolves.")
@setting(
    "--exit-on",
    type=click.Choice([severity.value for severity in Severity]),
    help="End with status 3 as soon as an alert of that severity or a worse one fires.",
)
@setting("--exit-after", type=Duration(), help="End after this wall time.")
@log_options
@click.pass_context
def command(
    ctx: click.Context,
    broker: BrokerUrl,
    password_file: str | None,
    root: str,
    name: str | None,
    rules: tuple[str, ...],
    alertmanager: tuple[str, ...],
    webhook: tuple[str, ...],
    programs: tuple[str, ...],
    stdout: bool,
    exit_on: str | None,
    exit_after: float | None,
    log_format: str,
    log_level: str,
) -> None:
    """Evaluate alert rules, publish how alerts stand, and tell receivers what fires and what resolves.

    Of several watches of a fleet the one that began first speaks; the others stand by and take over when it is gone. Give
    all of them the same receivers. What was told is noted at the broker, so that neither a restart nor another watch tells it
    again; whoever dies between telling and noting is followed by one who tells it twice. Silenced and inhibited alerts are
    not told until they no longer are. Passwords of receivers come from the URL, or from TRNFLEET_ALERTMANAGER_PASSWORD and
    TRNFLEET_WEBHOOK_PASSWORD for the user in the URL.

    \b
    Examples:
      trnfleet watch --broker mqtt://127.0.0.1:1883 --alertmanager http://127.0.0.1:9093
      trnfleet watch --broker mqtt://127.0.0.1:1883 --stdout | jq -r .summary
      trnfleet watch --broker mqtt://127.0.0.1:1883 --exec 'logger -t trnfleet' --webhook https://hooks.example/alerts
      trnfleet watch --broker mqtt://127.0.0.1:1883 --exit-on critical --exit-after 10m

    \b
    Exit status: 0 ended by a signal or --exit-after, 1 a failure explained in one line, also --exit-after with --exit-on while
    there is no connection, 2 wrong use, 3 by --exit-on.
    """
    set_up_logs(log_format, log_level)
    from trnfleet.cli.rulepack import load_rules  # noqa: PLC0415  --help stays quick

    options = Options(
        broker=broker,
        name=name,
        root=root,
        password=find_password(password_file),
        rules=load_rules(rules),
        exit_on=exit_on,
        exit_after_s=exit_after,
    )
    clock = SystemClock()
    receivers = make_receivers(alertmanager, webhook, programs, clock, stdout=stdout)
    found, last_resort = False, LastResort()
    try:
        found = asyncio.run(_watch(options, receivers, clock, last_resort))
    except BrokenPipeError:
        # Whoever reads has enough; Python's own flush at the end must not complain either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        last_resort.cancel()
    ctx.exit(FIRES if found else 0)


class Options(NamedTuple):
    """What is watched, and until when."""

    broker: BrokerUrl
    name: str | None
    root: str
    password: Password | None
    rules: tuple[Rule, ...]
    exit_on: str | None
    exit_after_s: float | None


def make_receivers(
    alertmanagers: Sequence[str],
    webhooks: Sequence[str],
    programs: Sequence[str],
    clock: Clock,
    *,
    stdout: bool,
) -> list[Receiver]:
    """Return the receivers that options name: the first of a kind has its name, the second `webhook-2`, and so on.

    Raises:
        ConfigError: a URL or a program is none, or there are too many.
    """
    from trnfleet.export.alertmanager import AlertmanagerReceiver  # noqa: PLC0415  --help stays quick
    from trnfleet.export.command import CommandReceiver, parse_command  # noqa: PLC0415  --help stays quick
    from trnfleet.export.http import parse_target  # noqa: PLC0415  --help stays quick
    from trnfleet.export.ndjson import LineReceiver  # noqa: PLC0415  --help stays quick
    from trnfleet.export.notification_log import MOST_RECEIVERS  # noqa: PLC0415  --help stays quick
    from trnfleet.export.webhook import WebhookReceiver  # noqa: PLC0415  --help stays quick

    def named(kind: str, number: int) -> str:
        return f"{kind}-{number + 1}" if number else kind

    receivers: list[Receiver] = []
    if stdout:
        receivers.append(LineReceiver("stdout", sys.__stdout__.fileno() if sys.__stdout__ else 1, clock))
    secret = os.environ.get("TRNFLEET_ALERTMANAGER_PASSWORD")
    for number, text in enumerate(alertmanagers):
        target = parse_target("--alertmanager", text, secret)
        receivers.append(AlertmanagerReceiver(named("alertmanager", number), target, clock))
    secret = os.environ.get("TRNFLEET_WEBHOOK_PASSWORD")
    for number, text in enumerate(webhooks):
        target = parse_target("--webhook", text, secret)
        receivers.append(WebhookReceiver(named("webhook", number), target, clock))
    for number, text in enumerate(programs):
        receivers.append(CommandReceiver(named("exec", number), parse_command("--exec", text), clock))
    if len(receivers) > MOST_RECEIVERS:
        raise ConfigError(f"{len(receivers)} receivers: at most {MOST_RECEIVERS}")
    return receivers


class LastResort:
    """Ends the process by force where a thread that nobody can interrupt, such as a look-up of a name, keeps it."""

    def __init__(self) -> None:
        self._timer: threading.Timer | None = None

    def start(self, status: int) -> None:
        """Leave everything else `END_LIMIT_S` to end by itself."""
        self._timer = threading.Timer(END_LIMIT_S, os._exit, (status,))
        self._timer.daemon = True
        self._timer.start()

    def cancel(self) -> None:
        """Leave it to the process, which is about to end."""
        if self._timer is not None:
            self._timer.cancel()


async def _watch(
    options: Options, receivers: Sequence[Receiver], clock: Clock, last_resort: LastResort
) -> bool:
    """Watch until the end; say whether `--exit-on` ended it."""
    from trnfleet.cli.discovery import find_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.watching import watch_fleet  # noqa: PLC0415  --help stays quick
    from trnfleet.export.election import Election  # noqa: PLC0415  --help stays quick
    from trnfleet.export.notification_log import Ledger  # noqa: PLC0415  --help stays quick
    from trnfleet.transport.mqtt import MqttPublisher, MqttSource  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.topics import TopicClass, build_filter  # noqa: PLC0415  --help stays quick

    ending = Ending()
    with ending.on_signals():
        url, root, password = options.broker, options.root, options.password
        fleet = await find_fleet(url, name=options.name, root=root, password=password, clock=clock)
        watch = watch_fleet(
            url, fleet, root=root, password=password, clock=clock, rules=options.rules, adopts_alerts=True
        )
        identity = Identity(
            fleet, root, f"trnfleet-watch-{secrets.token_hex(4)}", secrets.token_hex(8), clock.wall_ns()
        )
        presence = MqttSource(
            url, [(build_filter(fleet, TopicClass.PUBLISHER, root), 1)], password=password, clock=clock
        )
        publisher = MqttPublisher(
            url, client_id=identity.client, password=password, will=identity.presence("offline"), clock=clock
        )
        speaker = Speaker(
            identity,
            watch,
            Links(watch.source, presence, publisher),
            Ledger(fleet, identity.client, receivers),
            Election(identity.client, identity.since_ns),
            clock=clock,
            exit_on=options.exit_on,
            ending=ending,
        )
        publisher.on_connect(lambda: [identity.presence("online", clock.wall_ns())])
        works = {receiver.name: receiver.run() for receiver in receivers}
        async with background(
            source=watch.source.run(),
            monitor=watch.monitor.run(),
            presence=presence.run(),
            publisher=publisher.run(),
            **works,
        ):
            for link in (publisher, presence, watch.source):
                await link.wait_connected(CONNECT_LIMIT_S)
            names = ", ".join(receiver.name for receiver in receivers) or "nobody but the broker"
            click.echo(
                f"watching {fleet} at {url}: {len(options.rules)} rules, told to {names}; ctrl+c ends it",
                err=True,
            )
            await run_until(ending, speaker.run(options.exit_after_s))
            await speaker.leave()
            last_resort.start(FIRES if speaker.found else bool(speaker.blind))
    if speaker.blind and not speaker.found:
        raise BrokerError(f"--exit-on: no alert could be seen at the end: {speaker.blind}")
    return speaker.found


class Identity(NamedTuple):
    """Who a watch is."""

    fleet: str
    root: str
    client: str
    boot: str
    since_ns: int
    """Wall clock at its start."""

    def presence(self, state: Literal["online", "offline"], wall_ns: int | None = None) -> Envelope:
        """Return the message that says whether it is there, with the time of a heartbeat; a last will has none."""
        from trnfleet.wire.messages import WatchMessage  # noqa: PLC0415  --help stays quick
        from trnfleet.wire.topics import TopicClass  # noqa: PLC0415  --help stays quick

        since = format_rfc3339(self.since_ns)
        ts = None if wall_ns is None else format_rfc3339(wall_ns)
        message = WatchMessage(
            client=self.client, state=state, boot=self.boot, role="watch", since=since, ts=ts
        )
        return self.envelope(TopicClass.PUBLISHER, self.client, message)

    def envelope(self, topic_class: Any, path: str, message: Message | None) -> Envelope:
        """Return a message as it is retained; None clears what is."""
        from trnfleet.wire.messages import encode_message  # noqa: PLC0415  --help stays quick
        from trnfleet.wire.ports import CONTENT_TYPE_JSON, Envelope  # noqa: PLC0415  --help stays quick
        from trnfleet.wire.topics import build_topic  # noqa: PLC0415  --help stays quick

        payload = b"" if message is None else encode_message(message)
        topic = build_topic(self.fleet, topic_class, path, self.root)
        return Envelope(topic, payload, qos=1, retain=True, content_type=CONTENT_TYPE_JSON)


class Links(NamedTuple):
    """Connections of a watch; it hears and speaks only while all stand."""

    source: MqttSource
    presence: MqttSource
    """What publishers say of themselves."""
    publisher: MqttPublisher

    @property
    def stand(self) -> bool:
        """Whether all stand."""
        return all(link.status.connected for link in self)

    @property
    def connects(self) -> int:
        """Goes up with each reconnect."""
        return sum(link.status.connects for link in self)


class Speaker:
    """Lets one watch speak or stand by."""

    def __init__(
        self,
        identity: Identity,
        watch: Watch,
        links: Links,
        ledger: Ledger,
        election: Election,
        *,
        clock: Clock,
        exit_on: str | None,
        ending: Ending,
    ) -> None:
        """Connect what a watch is made of; somebody else runs links, monitor and receivers.

        Args:
            identity: Who it is.
            watch: The monitor with its source.
            links: The connections.
            ledger: What is said of alerts.
            election: Who speaks.
            clock: The time to go by.
            exit_on: Severity at which it ends; None for never.
            ending: Where the end is asked for.
        """
        self.found = False
        """Whether an alert fires at which it ends."""
        self.blind = ""
        """Why no alert could be seen when `--exit-after` ended it; only where `--exit-on` asks for one."""
        self.role: Literal["deaf", "stands by", "speaks"] = "deaf"
        """Deaf until it has listened for long enough on connections that stand."""
        self._identity = identity
        self._monitor = watch.monitor
        self._links = links
        self._ledger = ledger
        self._election = election
        self._clock = clock
        self._exit_on = None if exit_on is None else Severity(exit_on)
        self._ending = ending
        self._heard_s: float | None = None
        self._connects = 0
        self._speaker = ""
        self._tidied_s = -math.inf
        self._gone: dict[str, float] = {}
        """Watches that died and have left their presence, and since when that is known."""
        self._outgoing: list[Envelope] = []
        self._monitor.alerts.listener = lambda _news: self.step()

    async def run(self, exit_after_s: float | None = None) -> None:
        """Speak or stand by until cancelled or the end is asked for."""
        async with background(presence_reader=self._listen(), elections=self._look()):
            if exit_after_s is None:
                await self._ending.wait()
            await self._clock.sleep(exit_after_s or 0.0)
            if exit_after_s is not None and self._exit_on is not None and self.role == "deaf":
                self.blind = next(
                    (link.status.last_error for link in self._links if not link.status.connected),
                    f"a watch listens for {LISTEN_S:g} s before it sees any",
                )
        self._ending.ask()

    def step(self) -> None:
        """Take how alerts stand after an evaluation."""
        if self.role == "deaf":
            return
        alerts = self._monitor.alerts
        firing = [alert for alert in alerts.active() if alert.fired_ns is not None]
        if self.role == "speaks":
            ledger, told = self._ledger, self._monitor.ingest.alert_messages
            now = self._now()
            # What is retained may come late, behind a large fleet's descriptors.
            ledger.take_late(told.values(), now)
            ledger.step(map(self._firing, firing), self._resolved_ns, now)
        if self._exit_on is not None and not self.found:
            from trnfleet.domain.alerts.status import AlertStatus  # noqa: PLC0415  --help stays quick

            worst = next(
                (
                    alert
                    for alert in firing
                    if alert.severity <= self._exit_on and alerts.status(alert) is AlertStatus.FIRING
                ),
                None,
            )
            if worst is not None:
                self.found = True
                _say(f"{worst.severity.value}: {_line(worst)}")
                self._ending.ask()

    async def leave(self) -> None:
        """Say goodbye; where an alert ended it, tell receivers first, for a moment."""
        until_s = self._clock.monotonic_s() + LAST_WORDS_S
        while self.found and self.role == "speaks" and self._clock.monotonic_s() < until_s:
            if not self._ledger.has_changes and not any(
                each.tally.waiting for each in self._ledger.receivers
            ):
                break
            await self._publish(GOODBYE_S)
            await self._clock.sleep(LOOK_S / 2)
        await self._publish(GOODBYE_S)
        from trnfleet.export.receiver import finished_within  # noqa: PLC0415  --help stays quick
        from trnfleet.wire.topics import TopicClass  # noqa: PLC0415  --help stays quick

        farewell = self._identity.envelope(TopicClass.PUBLISHER, self._identity.client, None)
        # Who leaves in order is neither online nor offline: it is not there any more, and nobody waits for it.
        sent = self._links.publisher.publish([self._identity.presence("offline"), farewell])
        await finished_within(sent, self._clock, GOODBYE_S)

    async def _listen(self) -> None:
        """Take what publishers say of themselves."""
        from trnfleet.wire.topics import parse_topic  # noqa: PLC0415  --help stays quick

        while batch := await self._links.presence.take():
            for envelope in batch:
                try:
                    client = parse_topic(envelope.topic, self._identity.root).path
                    self._election.take(client, envelope.payload, self._clock.monotonic_s())
                    self._note_gone(client, envelope.payload)
                except WireError as error:
                    log.debug("presence_refused", topic=envelope.topic[:200], error=str(error))

    def _note_gone(self, client: str, payload: bytes) -> None:
        from trnfleet.wire.messages import PublisherMessage, decode_message  # noqa: PLC0415  --help stays quick

        message = decode_message(payload, PublisherMessage) if payload else None
        if message is not None and message.role == "watch" and message.state == "offline":
            if client in self._gone or len(self._gone) < 1_000:
                self._gone.setdefault(client, self._clock.monotonic_s())
        else:
            self._gone.pop(client, None)

    async def _look(self) -> None:
        """Find out again and again who speaks, publish what has changed, and put the broker in order."""
        while True:
            now_s = self._clock.monotonic_s()
            self._choose_role(now_s)
            if now_s - self._tidied_s >= TIDY_EVERY_S and self._links.stand:
                self._tidied_s = now_s
                self._outgoing.append(self._identity.presence("online", self._clock.wall_ns()))
                if self.role == "speaks":
                    self._outgoing += self._tidy(now_s)
            await self._publish()
            await self._clock.sleep(LOOK_S)

    def _choose_role(self, now_s: float) -> None:
        links = self._links
        if not links.stand or links.connects != self._connects:
            self._connects = links.connects
            self._heard_s = None
            self._election.hear_again(now_s)
            if self.role != "deaf":
                self.role = "deaf"
                log.warning(
                    "watch_deaf", broker=links.source.status.broker, reason=links.source.status.last_error
                )
                _say(f"no connection to {links.source.status.broker}: nobody is told until it is back")
            if not links.stand:
                return
        if self._heard_s is None:
            self._heard_s = now_s
        if now_s - self._heard_s < LISTEN_S or links.source.waiting or links.presence.waiting:
            return
        speaker = self._election.speaker(now_s)
        own = self._identity.client
        role: Literal["stands by", "speaks"] = "speaks" if speaker == own else "stands by"
        if role == self.role and speaker == self._speaker:
            return
        if role == "speaks":
            self._ledger.take_over(self._monitor.ingest.alert_messages.values(), self._now())
        else:
            self._ledger.stand_by()
        self.role, self._speaker = role, speaker
        log.info("watch_role", role=role, client=own, speaker=speaker)
        _say(f"speaks for {self._identity.fleet}" if role == "speaks" else f"stands by: {speaker} speaks")

    def _now(self) -> Now:
        from trnfleet.export.notification_log import Now  # noqa: PLC0415  --help stays quick

        moment, clock = self._monitor.moment(), self._clock
        # Alerts change at whole seconds; their instants are never after this one.
        fleet_ns = max(moment.time_ns, self._monitor.alerts.instant.now_ns)
        return Now(fleet_ns, moment.speed, moment.is_wall, clock.wall_ns(), clock.monotonic_s())

    def _firing(self, alert: Alert) -> Firing:
        from trnfleet.domain.alerts.status import AlertStatus  # noqa: PLC0415  --help stays quick
        from trnfleet.export.notification_log import Firing  # noqa: PLC0415  --help stays quick

        status = self._monitor.alerts.status(alert)
        return Firing(
            alert.fingerprint,
            alert.fired_ns or 0,
            is_quiet=status in {AlertStatus.SILENCED, AlertStatus.INHIBITED},
            is_unseen=alert.is_silent,
            urgent=(alert.inhibited_by, alert.is_flapping, alert.cause),
            figures=(alert.revision, alert.fired_ns),
            describe=lambda: describe(alert, self._identity.client),
        )

    def _resolved_ns(self, fingerprint: str) -> int | None:
        alert = self._monitor.alerts.find(fingerprint)
        return None if alert is None else alert.resolved_ns

    async def _publish(self, limit_s: float | None = None) -> None:
        """Publish what has changed."""
        from trnfleet.export.receiver import finished_within  # noqa: PLC0415  --help stays quick
        from trnfleet.wire.topics import TopicClass  # noqa: PLC0415  --help stays quick

        if not self._links.publisher.status.connected:
            return
        outgoing, self._outgoing = self._outgoing, []
        if self.role == "speaks":
            envelope = self._identity.envelope
            outgoing += [envelope(TopicClass.ALERT, path, each) for path, each in self._ledger.take_changes()]
            silences = self._monitor.alerts.silences
            ended, self._ledger.ended = self._ledger.ended, []
            outgoing += [envelope(TopicClass.ACK, each, None) for each in ended if silences.has_ack(each)]
        if not outgoing:
            return
        sent = self._links.publisher.publish(outgoing)
        if limit_s is None:
            await sent
        else:
            await finished_within(sent, self._clock, limit_s)

    def _tidy(self, now_s: float) -> Iterable[Envelope]:
        """Yield what clears words of people that are long over, and what dead watches have left."""
        from trnfleet.wire.topics import TopicClass  # noqa: PLC0415  --help stays quick

        silences, envelope = self._monitor.alerts.silences, self._identity.envelope
        over_ns = self._monitor.moment().time_ns - KEPT_NS
        for ack in silences.acks:
            if ack.ends_ns <= over_ns:
                yield envelope(TopicClass.ACK, ack.fingerprint, None)
        for silence in silences.known:
            if silence.ends_ns <= over_ns:
                yield envelope(TopicClass.SILENCE, silence.id, None)
        for client, since_s in self._gone.items():
            if now_s - since_s >= FORGOTTEN_AFTER_S:
                yield envelope(TopicClass.PUBLISHER, client, None)


def describe(alert: Alert, client: str) -> AlertMessage:
    """Return an alert that fires as a watch publishes it."""
    from trnfleet.domain.alerts.templates import fill, summary  # noqa: PLC0415  --help stays quick
    from trnfleet.wire.alerts import AlertMessage  # noqa: PLC0415  --help stays quick

    rule, value = alert.rule, alert.value
    fired_ns = alert.fired_ns or 0
    return AlertMessage(
        fingerprint=alert.fingerprint,
        rule=alert.name,
        severity=rule.severity,
        state="firing",
        target=alert.target,
        place=alert.place,
        labels=dict(alert.labels),
        summary=summary(alert)[:LONGEST_LINE],
        description=fill(rule.description, alert)[:LONGEST_LINE] if rule.description else "",
        runbook=rule.runbook or "",
        cause=alert.cause[:LONGEST_LINE],
        value=None if value is None or not math.isfinite(value) else value,
        members=alert.members,
        chips=alert.chips,
        since=format_rfc3339(min(alert.since_ns, fired_ns)),
        fired=format_rfc3339(fired_ns),
        inhibited_by=alert.inhibited_by or None,
        flapping=alert.is_flapping,
        times=alert.times,
        watch=client,
    )


def _line(alert: Alert) -> str:
    from trnfleet.domain.alerts.templates import summary  # noqa: PLC0415  --help stays quick
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    return plain(summary(alert), LONGEST_LINE)


def _say(text: str) -> None:
    """Tell whoever started it how it fares."""
    from trnfleet.text import plain  # noqa: PLC0415  --help stays quick

    click.echo(plain(text, LONGEST_LINE), err=True)
