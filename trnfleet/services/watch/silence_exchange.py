"""Silences of the leading watch and of its Alertmanagers, brought into one world.

Silences and acknowledgements of ours are passed on, and those that were made there are published here as retained silences with their
origin. What is ended on either side is ended on the other. What an Alertmanager said last counts while it cannot be reached.
"""

from __future__ import annotations

import contextlib
import enum
import itertools
import math
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.alerts.matchers import Matcher
from trnfleet.domain.alerts.rules import RESERVED_LABELS
from trnfleet.domain.alerts.silences import Span
from trnfleet.domain.alerts.watches import ReceiverError, ReceiverErrors
from trnfleet.export.http import Outcome
from trnfleet.export.other_clock import SKEW_NS
from trnfleet.export.silence_plan import MOST_TAKEN, PREFIX, Key, OwnSilence, differs, plan, take
from trnfleet.monitor.alerting.operator import LEAST_NS, withdrawn_ack, withdrawn_silence
from trnfleet.wire.alerts import SilenceMessage
from trnfleet.wire.topics import TopicClass
from trnfleet.wire.values import LATEST_NS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.domain.alerts.silences import Silence
    from trnfleet.export.alertmanager_silences import AlertmanagerSilences, Listing, SilenceDraft
    from trnfleet.export.http import Answer
    from trnfleet.export.silence_plan import Plan, TakenSilence
    from trnfleet.monitor.monitor import Monitor
    from trnfleet.monitor.sources.clocks import Moment
    from trnfleet.wire.messages import Message

log = logs.get_logger(__name__)

POLLED_EVERY_S = 15.0
"""Time between two looks at an Alertmanager; a change of silences here makes one at once."""
LEAST_PAUSE_S = 1.0
CHECK_EVERY_S = 0.1
UNKNOWN_FOR_S = 10.0
"""Time for which something of ours must be unknown here until it is ended there, unless it was withdrawn: retained messages and alerts
come in one after the other."""
MOST_WRITES = 100
"""Requests to one Alertmanager after one look; the rest follows with the next."""
LONGEST_NS = 366 * 86_400 * NS_PER_S
"""Longest that a silence lasts there: one of a fleet whose time is slow could end in centuries."""
UNREAD, UNWRITTEN = "alertmanager_silences_unread", "alertmanager_silences_unwritten"
_OF_ALL = {UNREAD, UNWRITTEN}
OWNER = "alertmanager"
"""Owner of withdrawals here of what was ended there."""


class _Subject(NamedTuple):
    """What is written to an Alertmanager."""

    receiver: str
    kind: str
    """`silence` or `acknowledgement` of ours, or `end of silence` of one that is there."""
    id: str


class SilenceMode(enum.StrEnum):
    """Which silences are exchanged."""

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
            report: Receives a line for each silence or acknowledgement that an Alertmanager refuses.
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
        """Reasons of what is refused at present."""
        self._listings: dict[str, Listing] = {}
        """What each said last."""
        self._last_errors: dict[tuple[str, str], str] = {}
        """Reasons by Alertmanager and event."""
        self._unknown_since_s: dict[Key, float] = {}
        self._labels = RESERVED_LABELS | {
            label for rule in monitor.alerts.rules for label in rule.labels
        }

    async def run(self) -> None:
        """Exchange silences until cancelled."""
        if not self._alertmanagers:
            return
        looked_s, revision = -math.inf, -1
        async with contextlib.AsyncExitStack() as stack:
            for each in self._alertmanagers:
                await stack.enter_async_context(each)
            while True:
                passed_s = self._clock.monotonic_s() - looked_s
                is_news = self._monitor.alerts.silences.revision != revision
                if self._leads() and passed_s >= (LEAST_PAUSE_S if is_news else POLLED_EVERY_S):
                    looked_s, revision = (
                        self._clock.monotonic_s(),
                        self._monitor.alerts.silences.revision,
                    )
                    for each in self._alertmanagers:
                        await self.look(each)
                    self._take()
                await self._clock.sleep(CHECK_EVERY_S)

    def errors(self) -> ReceiverErrors:
        """Return the silences and acknowledgements that an Alertmanager does not take, and why one takes or shows none."""
        of_all = [
            ReceiverError(name, "silences", "", why)
            for (name, event), why in self._last_errors.items()
            if why and event in _OF_ALL
        ]
        of_one = (ReceiverError(*subject, why) for subject, why in self._refused.items())
        return ReceiverErrors.of(len(of_all) + len(self._refused), itertools.chain(of_all, of_one))

    async def look(self, alertmanager: AlertmanagerSilences) -> None:
        """Read an Alertmanager's silences, and write what it has to have."""
        name, listing = alertmanager.name, await alertmanager.list()
        if listing.why:
            self._note_error(alertmanager, UNREAD, listing.why)
            return
        taken = take(self._fleet, listing.silences, self._labels)
        left = [f"{listing.invalid} entries cannot be read"] if listing.invalid else []
        left += (
            [f"{listing.left_out} silences beyond {len(listing.silences)}"]
            if listing.left_out
            else []
        )
        left += [f"only the first {MOST_TAKEN} are shown"] if len(taken) >= MOST_TAKEN else []
        self._note_error(alertmanager, "alertmanager_silences_left_out", ", ".join(left))
        self._note_error(alertmanager, UNREAD, "")
        self._listings[name] = listing
        if not self._writes or not self._leads():
            return
        wall_ns = self._clock.wall_ns()
        ours, silences = self._ours(wall_ns), self._monitor.alerts.silences
        made = plan(self._fleet, ours, listing.silences, self._is_over, wall_ns)
        self._unknown_since_s = {
            key: each for key, each in self._unknown_since_s.items() if key not in ours
        }
        for key in made.ended_there:
            self._withdraw(key)
        withdrawn = [each.removeprefix(PREFIX) for each in taken if silences.is_withdrawn(each)]
        await self._write(alertmanager, made, [*made.expire, *withdrawn])

    async def _write(
        self, alertmanager: AlertmanagerSilences, made: Plan, expire: Sequence[str]
    ) -> None:
        """Write and end silences there; what is left out or fails comes with the next look."""
        name = alertmanager.name
        ends = {
            _Subject(name, "end of silence", each): partial(alertmanager.expire, each)
            for each in expire
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
        ordered = sorted(works.items(), key=lambda each: each[0] in self._refused)
        for subject, work in ordered[:MOST_WRITES]:
            if not self._leads():
                return
            answer = await work()
            self._note_answer(subject, answer)
            if answer.outcome is Outcome.FAILED:
                unwritten = answer.why
                break
        self._note_error(alertmanager, UNWRITTEN, unwritten)

    def _note_answer(self, subject: _Subject, answer: Answer) -> None:
        """Name what is refused: once for each reason."""
        if answer.outcome is not Outcome.REFUSED:
            self._refused.pop(subject, None)
        elif self._refused.get(subject) != answer.why:
            self._refused[subject] = answer.why
            what, count = f"{subject.kind} {subject.id}", len(self._refused)
            log.warning(
                "alertmanager_refused",
                receiver=subject.receiver,
                what=what,
                reason=answer.why,
                refused_now=count,
            )
            self._report(f"{subject.receiver} refuses {what}, {count} in all: {answer.why}")

    # Ours

    def _ours(self, wall_ns: int) -> dict[Key, OwnSilence]:
        """Return the silences and acknowledgements that an Alertmanager is to have."""
        alerts, moment = self._monitor.alerts, self._monitor.moment()
        here = Matcher("fleet", "=", self._fleet)
        found: dict[Key, OwnSilence] = {}
        for silence in alerts.silences.known:
            if silence.source or silence.span(moment.time_ns) is Span.OVER:
                continue
            matchers = (here, *(each for each in silence.matchers if each != here))
            found[Key("silence", silence.id)] = OwnSilence(
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
            found[Key("ack", ack.fingerprint)] = OwnSilence(
                ack.revision,
                (here, *(Matcher(name, "=", labels[name]) for name in ("alertname", "target"))),
                _to_wall(ack.at_ns, moment, wall_ns),
                _to_wall(ack.ends_ns, moment, wall_ns),
                ack.owner,
                f"acknowledged: {ack.note}" if ack.note else "acknowledged",
            )
        return found

    def _is_over(self, key: Key) -> bool:
        """Return whether something of which a copy was found there, and that is none of ours now, is known to be over."""
        silences, now_s = self._monitor.alerts.silences, self._clock.monotonic_s()
        since_s = self._unknown_since_s.setdefault(key, now_s)
        is_withdrawn = silences.is_withdrawn if key.kind == "silence" else silences.is_ack_withdrawn
        return is_withdrawn(key.name) or now_s - since_s >= UNKNOWN_FOR_S

    def _withdraw(self, key: Key) -> None:
        """End here what somebody has ended there."""
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

    def _take(self) -> None:
        """Publish the silences that were made there, and clear those that have gone; what was withdrawn here stays so."""
        if not self._leads():
            return
        silences, wall_ns = self._monitor.alerts.silences, self._clock.wall_ns()
        moment = self._monitor.moment()
        wanted: dict[str, tuple[str, TakenSilence]] = {}
        for name, listing in self._listings.items():
            for silence_id, each in take(self._fleet, listing.silences, self._labels).items():
                if each.ends_ns > wall_ns:
                    # Members of a cluster have the same ones.
                    wanted.setdefault(silence_id, (name, each))
        for silence_id, (source, taken) in wanted.items():
            if silences.is_withdrawn(silence_id):
                continue
            known = silences.silence(silence_id)
            message = _message(
                taken, source, moment, wall_ns, 1 if known is None else known.revision + 1
            )
            if known is None or not _is_same(known, message, moment):
                self._publish(TopicClass.SILENCE, silence_id, message)
        for known in list(silences.known):
            if known.source in self._listings and known.id not in wanted:
                self._publish(TopicClass.SILENCE, known.id, None)

    def _note_error(self, alertmanager: AlertmanagerSilences, event: str, why: str) -> None:
        """Log a problem once, and not with every look."""
        key = (alertmanager.name, event)
        if why and self._last_errors.get(key) != why:
            log.warning(event, receiver=alertmanager.name, to=str(alertmanager.target), reason=why)
        self._last_errors[key] = why


def _copied(receiver: str, draft: SilenceDraft) -> _Subject:
    """Return what a silence there is a copy of."""
    kind, name = draft.comment.rpartition("[")[2].split()[2:4]
    return _Subject(receiver, "acknowledgement" if kind == "ack" else kind, name)


def _message(
    taken: TakenSilence, source: str, moment: Moment, wall_ns: int, revision: int
) -> SilenceMessage:
    starts_ns = _to_fleet(taken.starts_ns, moment, wall_ns)
    ends_ns = max(_to_fleet(taken.ends_ns, moment, wall_ns), starts_ns + LEAST_NS)
    return SilenceMessage(
        id=taken.id,
        matchers=taken.matchers,
        starts=format_rfc3339(starts_ns),
        until=format_rfc3339(ends_ns),
        who=taken.who,
        why=taken.why,
        revision=revision,
        source=source,
        not_applied=taken.not_applied,
    )


def _is_same(known: Silence, message: SilenceMessage, moment: Moment) -> bool:
    starts_ns, ends_ns, now_ns = (
        parse_rfc3339(message.starts),
        parse_rfc3339(message.until),
        moment.time_ns,
    )
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
    """Return whether the fleet's time is our wall clock's; a clock of ours that was set wrong is not the fleet's."""
    return moment.is_wall and abs(moment.time_ns - wall_ns) < SKEW_NS


def _to_wall(fleet_ns: int, moment: Moment, wall_ns: int) -> int:
    """Return our wall clock at an instant of the fleet's, if its time goes on as now."""
    if _agrees(moment, wall_ns):
        return min(fleet_ns, wall_ns + LONGEST_NS)
    return wall_ns + round(min((fleet_ns - moment.time_ns) / moment.speed, LONGEST_NS))


def _to_fleet(instant_ns: int, moment: Moment, wall_ns: int) -> int:
    """Return the fleet's time at an instant of our wall clock, if it goes on as now."""
    if not _agrees(moment, wall_ns):
        instant_ns = moment.time_ns + round((instant_ns - wall_ns) * moment.speed)
    return min(max(instant_ns, 0), LATEST_NS - LEAST_NS)
