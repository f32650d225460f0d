"""Silences of the leading watch and of its Alertmanagers, synchronised.

Own silences and acknowledgements are passed on. Silences made in Alertmanager are published here as
retained silences with their origin. Ending one on either side ends it on the other. An unreachable
Alertmanager's last answer counts.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trnfleet import logs
from trnfleet.clock import NS_PER_MS, NS_PER_S, Clock, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.matchers import Matcher
from trnfleet.domain.alerts.rules import RESERVED_LABELS
from trnfleet.domain.alerts.silences import Silence, Span
from trnfleet.domain.alerts.watches import ReceiverError, ReceiverErrors
from trnfleet.export.http import Answer, RequestOutcome
from trnfleet.export.other_clock import SKEW_NS
from trnfleet.export.silence_plan import (
    MOST_TAKEN,
    PREFIX,
    OwnSilence,
    SilenceKey,
    SilencePlan,
    TakenSilence,
    differs,
    import_silences,
    plan,
)
from trnfleet.monitor.alerting.operator import withdrawn_ack, withdrawn_silence
from trnfleet.tasks import POLL_S
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.topics import TopicClass
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trnfleet.export.alertmanager_silences import AlertmanagerSilences, Listing, SilenceDraft
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.wire.structs import Message

log = logs.get_logger(__name__)

POLLED_EVERY_S = 15.0
"""Time between two reads of an Alertmanager. A changed silence here triggers one at once."""
LEAST_PAUSE_S = 1.0
UNKNOWN_FOR_S = 10.0
"""Time unknown here after which an own silence is ended there, unless it was withdrawn. Retained
messages and alerts arrive one after the other."""
MOST_WRITES = 100
"""Requests to one Alertmanager after one look; the rest follows with the next."""
LONGEST_NS = 366 * 86_400 * NS_PER_S
"""Longest duration of a silence there. A fleet with slow time could end one in centuries."""
UNREAD = "alertmanager_silences_unread"
UNWRITTEN = "alertmanager_silences_unwritten"
_OF_ALL = {UNREAD, UNWRITTEN}
OWNER = "alertmanager"
"""Owner of withdrawals here for silences ended there."""


class _Subject(NamedTuple):
    """The subject of a write to an Alertmanager."""

    receiver: str
    kind: str
    """`silence` or `acknowledgement` from here, or `end of silence` for one from there."""
    id: str


class SilenceMode(enum.StrEnum):
    """Directions of the exchange of silences."""

    BOTH = "both"
    READ = "read"
    OFF = "off"


class SilenceExchange:
    """The exchange of silences with all Alertmanagers of a watch."""

    def __init__(
        self,
        fleet: str,
        alertmanagers: Sequence[AlertmanagerSilences],
        mode: SilenceMode,
        monitor: Monitor,
        *,
        clock: Clock,
        leads: Callable[[], bool],
        publish: Callable[[TopicClass, str, Message | None], None],
        report: Callable[[str], None] = lambda _line: None,
    ) -> None:
        """Prepare the exchange.

        Args:
            fleet: The fleet's name.
            alertmanagers: The Alertmanagers.
            mode: What is exchanged.
            monitor: The monitor of the fleet.
            clock: The time to go by.
            leads: Returns whether this watch leads and knows all that the broker retains.
            publish: Publishes a retained message of a topic, or clears it.
            report: Receives a line for each silence or acknowledgement that an Alertmanager
                refuses.
        """
        self._fleet = fleet
        self._alertmanagers = alertmanagers if mode is not SilenceMode.OFF else ()
        self._writes = mode is SilenceMode.BOTH
        self._monitor = monitor
        self._clock = clock
        self._leads = leads
        self._publish = publish
        self._report = report
        self._refused: dict[_Subject, str] = {}
        """Reasons of present refusals."""
        self._listings: dict[str, Listing] = {}
        """Last answer of each Alertmanager."""
        self._last_errors: dict[tuple[str, str], str] = {}
        """Reasons by Alertmanager and event."""
        self._unknown_since_s: dict[SilenceKey, float] = {}
        self._labels = RESERVED_LABELS | {
            label for rule in monitor.alerts.rules for label in rule.labels
        }

    async def run(self) -> None:
        """Exchange silences until cancelled."""
        if not self._alertmanagers:
            return
        looked_s = -math.inf
        revision = -1
        async with contextlib.AsyncExitStack() as stack:
            for alertmanager in self._alertmanagers:
                await stack.enter_async_context(alertmanager)
            while True:
                passed_s = self._clock.monotonic_s() - looked_s
                is_news = self._monitor.alerts.silences.revision != revision
                if self._leads() and passed_s >= (LEAST_PAUSE_S if is_news else POLLED_EVERY_S):
                    looked_s = self._clock.monotonic_s()
                    revision = self._monitor.alerts.silences.revision
                    for alertmanager in self._alertmanagers:
                        await self._look_alone(alertmanager)
                    self._publish_theirs()
                await self._clock.sleep(POLL_S)

    def errors(self) -> ReceiverErrors:
        """Return refused silences and acks, and errors of Alertmanagers as a whole."""
        of_all = [
            ReceiverError(name, "silences", "", why)
            for (name, event), why in self._last_errors.items()
            if why and event in _OF_ALL
        ]
        of_one = (ReceiverError(*subject, why) for subject, why in self._refused.items())
        return ReceiverErrors.of(len(of_all) + len(self._refused), itertools.chain(of_all, of_one))

    async def _look_alone(self, alertmanager: AlertmanagerSilences) -> None:
        try:
            await self.look(alertmanager)
        except Exception as error:  # one Alertmanager must not end the others and the watch
            kind = type(error).__name__
            log.exception("silence_exchange_failed", receiver=alertmanager.name, kind=kind)
            self._note_error(alertmanager, UNREAD, f"internal error: {kind}")

    async def look(self, alertmanager: AlertmanagerSilences) -> None:
        """Read an Alertmanager's silences, and write its missing ones."""
        name = alertmanager.name
        listing = await alertmanager.list()
        if listing.why:
            self._note_error(alertmanager, UNREAD, listing.why)
            return
        theirs = import_silences(self._fleet, listing.silences, self._labels)
        left = [f"{listing.invalid} entries cannot be read"] if listing.invalid else []
        left += (
            [f"{listing.left_out} silences beyond {len(listing.silences)}"]
            if listing.left_out
            else []
        )
        left += [f"only the first {MOST_TAKEN} are shown"] if len(theirs) >= MOST_TAKEN else []
        self._note_error(alertmanager, "alertmanager_silences_left_out", ", ".join(left))
        self._note_error(alertmanager, UNREAD, "")
        self._listings[name] = listing
        if not self._writes or not self._leads():
            return
        wall_ns = self._clock.wall_ns()
        ours = self._ours(wall_ns)
        silences = self._monitor.alerts.silences
        made = plan(self._fleet, ours, listing.silences, self._is_over, wall_ns)
        self._unknown_since_s = {
            key: since_s for key, since_s in self._unknown_since_s.items() if key not in ours
        }
        for key in made.ended_there:
            self._withdraw(key)
        withdrawn = [
            silence_id.removeprefix(PREFIX)
            for silence_id in theirs
            if silences.is_withdrawn(silence_id)
        ]
        await self._write(alertmanager, made, [*made.expire, *withdrawn])

    async def _write(
        self, alertmanager: AlertmanagerSilences, made: SilencePlan, expire: Sequence[str]
    ) -> None:
        """Write and end silences there.

        Left out or failed ones follow next time.
        """
        name = alertmanager.name
        ends = {
            _Subject(name, "end of silence", silence_id): partial(alertmanager.expire, silence_id)
            for silence_id in expire
        }
        drafts = {
            _copied(name, draft): partial(alertmanager.write, draft, replaced)
            for draft, replaced in made.write
        }
        works: dict[_Subject, Callable[[], Awaitable[Answer]]] = {**ends, **drafts}
        self._refused = {
            subject: why
            for subject, why in self._refused.items()
            if subject.receiver != name or subject in works
        }
        unwritten = ""
        # Others first, so that many that are refused keep none back.
        ordered = sorted(works.items(), key=lambda work: work[0] in self._refused)
        for subject, work in ordered[:MOST_WRITES]:
            if not self._leads():
                return
            answer = await work()
            self._note_answer(subject, answer)
            if answer.outcome is RequestOutcome.FAILED:
                unwritten = answer.why
                break
        self._note_error(alertmanager, UNWRITTEN, unwritten)

    def _note_answer(self, subject: _Subject, answer: Answer) -> None:
        """Report a refusal once per reason."""
        if answer.outcome is not RequestOutcome.REFUSED:
            self._refused.pop(subject, None)
        elif self._refused.get(subject) != answer.why:
            self._refused[subject] = answer.why
            what = f"{subject.kind} {subject.id}"
            count = len(self._refused)
            log.warning(
                "alertmanager_refused",
                receiver=subject.receiver,
                what=what,
                reason=answer.why,
                refused_now=count,
            )
            self._report(f"{subject.receiver} refuses {what}, {count} in all: {answer.why}")

    # Ours

    def _ours(self, wall_ns: int) -> dict[SilenceKey, OwnSilence]:
        """Return the silences and acknowledgements for an Alertmanager."""
        alerts = self._monitor.alerts
        moment = self._monitor.moment()
        here = Matcher("fleet", "=", self._fleet)
        own: dict[SilenceKey, OwnSilence] = {}
        for silence in alerts.silences.known:
            if silence.source or silence.span(moment.time_ns) is Span.OVER:
                continue
            matchers = (here, *(matcher for matcher in silence.matchers if matcher != here))
            own[SilenceKey("silence", silence.id)] = OwnSilence(
                silence.revision,
                matchers,
                _to_wall(silence.starts_ns, moment, wall_ns),
                _to_wall(silence.ends_ns, moment, wall_ns),
                silence.who,
                silence.why,
            )
        for ack in alerts.silences.acks:
            alert = alerts.find(ack.fingerprint)
            if alert is None or alert.fired_ns is None or not alert.is_active:
                continue
            if alerts.silences.ack_of(alert, moment.time_ns) is None:
                continue
            labels = alert.labels
            own[SilenceKey("ack", ack.fingerprint)] = OwnSilence(
                ack.revision,
                (here, *(Matcher(name, "=", labels[name]) for name in ("alertname", "target"))),
                _to_wall(ack.at_ns, moment, wall_ns),
                _to_wall(ack.ends_ns, moment, wall_ns),
                ack.owner,
                f"acknowledged: {ack.note}" if ack.note else "acknowledged",
            )
        return own

    def _is_over(self, key: SilenceKey) -> bool:
        """Return whether an own silence or acknowledgement with a copy there is over.

        It is unknown here now: over if withdrawn, or unknown for `UNKNOWN_FOR_S`.
        """
        silences = self._monitor.alerts.silences
        now_s = self._clock.monotonic_s()
        since_s = self._unknown_since_s.setdefault(key, now_s)
        is_withdrawn = silences.is_withdrawn if key.kind == "silence" else silences.is_ack_withdrawn
        return is_withdrawn(key.name) or now_s - since_s >= UNKNOWN_FOR_S

    def _withdraw(self, key: SilenceKey) -> None:
        """End silences here that were ended there."""
        silences = self._monitor.alerts.silences
        if key.kind == "silence":
            silence = silences.silence(key.name)
            if silence is not None:
                self._publish(TopicClass.SILENCE, key.name, withdrawn_silence(silence, OWNER))
        else:
            ack = silences.ack(key.name)
            if ack is not None:
                self._publish(TopicClass.ACK, key.name, withdrawn_ack(ack, OWNER))
        log.info("silence_ended_by_alertmanager", kind=key.kind, id=key.name)

    # Theirs

    def _publish_theirs(self) -> None:
        """Publish silences made there, and clear vanished ones, except if withdrawn here."""
        if not self._leads():
            return
        silences = self._monitor.alerts.silences
        wall_ns = self._clock.wall_ns()
        moment = self._monitor.moment()
        published: dict[str, tuple[str, TakenSilence]] = {}
        for name, listing in self._listings.items():
            for silence_id, silence in import_silences(
                self._fleet, listing.silences, self._labels
            ).items():
                if silence.ends_ns > wall_ns:
                    # Members of a cluster have the same ones.
                    published.setdefault(silence_id, (name, silence))
        for silence_id, (source, silence) in published.items():
            if silences.is_withdrawn(silence_id):
                continue
            known = silences.silence(silence_id)
            message = _message(
                silence, source, moment, wall_ns, 1 if known is None else known.revision + 1
            )
            if known is None or not _is_same(known, message, moment):
                self._publish(TopicClass.SILENCE, silence_id, message)
        for known in list(silences.known):
            if known.source in self._listings and known.id not in published:
                self._publish(TopicClass.SILENCE, known.id, None)

    def _note_error(self, alertmanager: AlertmanagerSilences, event: str, why: str) -> None:
        """Log a problem once, and not with every look."""
        key = (alertmanager.name, event)
        if why and self._last_errors.get(key) != why:
            log.warning(event, receiver=alertmanager.name, to=str(alertmanager.target), reason=why)
        self._last_errors[key] = why


def _copied(receiver: str, draft: SilenceDraft) -> _Subject:
    """Return the original of a copy found there."""
    kind, name = draft.comment.rpartition("[")[2].split()[2:4]
    return _Subject(receiver, "acknowledgement" if kind == "ack" else kind, name)


def _message(
    theirs: TakenSilence, source: str, moment: Moment, wall_ns: int, revision: int
) -> SilenceMessage:
    starts_ns = _to_fleet(theirs.starts_ns, moment, wall_ns)
    ends_ns = max(_to_fleet(theirs.ends_ns, moment, wall_ns), starts_ns + NS_PER_MS)
    return SilenceMessage(
        id=theirs.id,
        matchers=theirs.matchers,
        starts=format_rfc3339(starts_ns),
        until=format_rfc3339(ends_ns),
        who=theirs.who,
        why=theirs.why,
        revision=revision,
        source=source,
        not_applied=theirs.not_applied,
    )


def _is_same(known: Silence, message: SilenceMessage, moment: Moment) -> bool:
    starts_ns = parse_rfc3339(message.starts)
    ends_ns = parse_rfc3339(message.until)
    now_ns = moment.time_ns
    return (
        (known.who, known.why, known.source, known.not_applied)
        == (message.who, message.why, message.source, message.not_applied)
        and tuple(map(str, known.matchers)) == message.matchers
        and not differs(known.ends_ns, ends_ns, now_ns, scale=moment.speed)
        and (
            starts_ns <= now_ns
            or not differs(known.starts_ns, starts_ns, now_ns, scale=moment.speed)
        )
    )


def _agrees(moment: Moment, wall_ns: int) -> bool:
    """Return whether the fleet's time is this machine's wall clock.

    A local clock set wrong is not the fleet's.
    """
    return moment.is_wall and abs(moment.time_ns - wall_ns) < SKEW_NS


def _to_wall(fleet_ns: int, moment: Moment, wall_ns: int) -> int:
    """Return the local wall clock at a fleet instant, at the present speed."""
    if _agrees(moment, wall_ns):
        return min(fleet_ns, wall_ns + LONGEST_NS)
    return wall_ns + round(min((fleet_ns - moment.time_ns) / moment.speed, LONGEST_NS))


def _to_fleet(instant_ns: int, moment: Moment, wall_ns: int) -> int:
    """Return the fleet's time at a local instant, at the present speed."""
    if not _agrees(moment, wall_ns):
        instant_ns = moment.time_ns + round((instant_ns - wall_ns) * moment.speed)
    return min(max(instant_ns, 0), LATEST_NS - NS_PER_MS)
