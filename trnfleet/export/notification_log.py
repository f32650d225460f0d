"""The leading watch's notification log: published alerts, and states sent to receivers.

It receives the current alerts, decides which are published and which each receiver gets, and reads
no clock. Its state is retained at the broker, so that another watch, or the same one after a
restart, continues from there. A receiver gets each start and each end at least once: a watch that
dies between a delivery and its record repeats it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from trnfleet import logs
from trnfleet.clock import NS_PER_S, format_rfc3339, parse_rfc3339
from trnfleet.domain.durations import DAY_S
from trnfleet.export.notification import Notification, mark_of
from trnfleet.export.other_clock import SKEW_NS
from trnfleet.export.receiver import RESOLVED_FOR_S, Receiver

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Hashable, Iterable, Sequence

    from trnfleet.wire.alerts import AlertMessage

log = logs.get_logger(__name__)

REFRESHED_EVERY_S = 10.0
"""Shortest time between two messages of a firing alert with changed values."""
MOST_RECEIVERS = 16


class Now(NamedTuple):
    """One instant by all clocks."""

    fleet_ns: int
    """Time of the fleet."""
    speed: float
    """Its seconds a wall second."""
    is_wall: bool
    """Whether it is the wall clock's time. Equal to ours unless a clock was set wrong."""
    wall_ns: int
    mono_s: float

    def to_wall(self, fleet_ns: int) -> int:
        """Return our wall clock at an instant of the fleet's, at the latest now."""
        if self.is_wall and abs(self.wall_ns - self.fleet_ns) <= SKEW_NS:
            return min(fleet_ns, self.wall_ns)
        return self.wall_ns - max(0, round((self.fleet_ns - fleet_ns) / self.speed))

    def stepped_ns(self, since: Now) -> int:
        """Return how far our wall clock was set since an earlier instant.

        0 if not set.
        """
        passed_ns = round((self.mono_s - since.mono_s) * NS_PER_S)
        step_ns = self.wall_ns - since.wall_ns - passed_ns
        return step_ns if abs(step_ns) > SKEW_NS else 0


class FiringAlert(NamedTuple):
    """An alert that fires."""

    fingerprint: str
    fired_ns: int
    is_quiet: bool
    """Whether it is silenced or inhibited."""
    is_unseen: bool
    """Whether it fires as last known, without live values."""
    urgent: Hashable
    """Its message is published again at once when this changes."""
    figures: Hashable
    """Its message is published again within `REFRESHED_EVERY_S` when this changes."""
    describe: Callable[[], AlertMessage]
    """Returns its message, without `told`."""


@dataclass(slots=True)
class _Entry:
    """An alert in the log."""

    message: AlertMessage
    """Last published message, except for `told`."""
    starts_ns: int
    """Our wall clock."""
    ends_ns: int | None = None
    is_quiet: bool = False
    confirmed: dict[str, str] = field(default_factory=dict)
    """Last state confirmed, per receiver."""
    offered: dict[str, str] = field(default_factory=dict)
    """Last state offered, per receiver."""
    turned_away: dict[str, str] = field(default_factory=dict)
    """Last state per receiver that did not fit its queue."""
    urgent: Hashable = None
    figures: Hashable = None
    refreshed_s: float = 0.0
    resolved_s: float | None = None
    """Monotonic seconds when its end was noticed."""
    is_dirty: bool = True
    """Whether it has changed since it was published."""
    may_be_told: bool = False
    """Whether it fired at the takeover. The former leader may have notified a receiver without
    recording it."""

    @property
    def mark(self) -> str:
        return mark_of(self.message.state, self.message.fired)


class NotificationLog:
    """Firing and recently resolved alerts of one fleet."""

    def __init__(self, fleet: str, client: str, receivers: Sequence[Receiver] = ()) -> None:
        """Make an empty log.

        Args:
            fleet: The fleet's name.
            client: Client id of its watch.
            receivers: Receivers of notifications; the caller runs them.
        """
        self.fleet = fleet
        self.client = client
        self.receivers = tuple(receivers)
        self.ended: list[str] = []
        """Alerts resolved since this list was last read."""
        self._now: Now | None = None
        """The instant of the last step."""
        self._entries: dict[str, _Entry] = {}
        self._cleared: list[str] = []
        for receiver in self.receivers:
            receiver.confirm = self._confirmer(receiver.name)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def has_changes(self) -> bool:
        """Whether there is anything to publish."""
        return bool(self._cleared) or any(entry.is_dirty for entry in self._entries.values())

    def publishes(self, fingerprint: str) -> bool:
        """Return whether an alert is in the log as firing."""
        entry = self._entries.get(fingerprint)
        return entry is not None and entry.message.state == "firing"

    def take_over(self, retained: Iterable[AlertMessage], now: Now) -> None:
        """Become the leader, from retained messages.

        For messages of this watch the log itself is more recent.
        """
        self._note_step(now)
        for receiver in self.receivers:
            receiver.set_sure(True)
        for message in retained:
            if message.fingerprint not in self._entries or message.watch != self.client:
                self._load(message, now)
        for entry in self._entries.values():
            entry.is_dirty = True
            entry.offered = {}

    def take_late(self, retained: Iterable[AlertMessage], now: Now) -> None:
        """Add retained alerts of other watches missing in the log."""
        for message in retained:
            if message.fingerprint not in self._entries and message.watch != self.client:
                self._load(message, now)

    def publish_again(self, fingerprints: Iterable[str]) -> None:
        """Publish again alerts overwritten or cleared by somebody else."""
        for fingerprint in fingerprints:
            entry = self._entries.get(fingerprint)
            if entry is not None and entry.message.state == "firing":
                entry.is_dirty = True

    def lose_connection(self) -> None:
        """Go on without the broker: another watch may lead, and end alerts."""
        for receiver in self.receivers:
            receiver.set_sure(False)

    def end_leadership(self, now: Now, own: Container[str] = ()) -> None:
        """Go to standby: another watch leads.

        Args:
            now: The instant.
            own: Names of rules about this watch's own way to the broker. Their alerts end here, for
                the leader does not know them.
        """
        fingerprints = {
            fingerprint for fingerprint, entry in self._entries.items() if entry.message.rule in own
        }
        for fingerprint in fingerprints:
            entry = self._entries[fingerprint]
            if entry.message.state == "firing":
                self._end(entry, None, now)
        self.notify_receivers(fingerprints)
        for receiver in self.receivers:
            receiver.end_leadership(fingerprints)

    def step(
        self,
        firing: Iterable[FiringAlert],
        resolved_ns: Callable[[str], int | None],
        now: Now,
        only: Container[str] | None = None,
    ) -> None:
        """Process the current alerts, and pass due notifications to receivers.

        Args:
            firing: All firing alerts.
            resolved_ns: Returns when an alert resolved, in the fleet's time; None if unknown.
            now: The instant.
            only: Names of the rules evaluated; alerts of other rules stay unchanged. None for all.
        """
        self._note_step(now)
        present: set[str] = set()
        for alert in firing:
            present.add(alert.fingerprint)
            entry = self._entries.get(alert.fingerprint)
            if entry is not None and entry.message.state == "firing":
                self._refresh(entry, alert, now)
                continue
            if (
                entry is not None
                and format_rfc3339(alert.fired_ns) == entry.message.fired
                and alert.is_unseen
            ):
                # A late message about an alert that is over.
                continue
            self._begin(alert, entry, now)
        for fingerprint, entry in list(self._entries.items()):
            if only is not None and entry.message.rule not in only:
                continue
            if entry.message.state == "firing" and fingerprint not in present:
                self._end(entry, resolved_ns(fingerprint), now)
            elif entry.resolved_s is not None:
                self._clear_if_due(fingerprint, entry, now.mono_s - entry.resolved_s)
        self.notify_receivers()

    def notify_receivers(self, only: Container[str] | None = None) -> None:
        """Pass due notifications to receivers with room, for all alerts or some fingerprints."""
        for receiver in self.receivers:
            due: list[tuple[_Entry, Notification]] = []
            for fingerprint, entry in self._entries.items():
                if only is not None and fingerprint not in only:
                    continue
                have = entry.offered.get(receiver.name)
                if have is None:
                    have = entry.confirmed.get(receiver.name, "")
                    if receiver.repeats and have == entry.mark:
                        # A former watch has notified it, and it needs repeats.
                        receiver.refresh(self._notification(entry))
                        entry.offered[receiver.name] = have
                        continue
                if self._is_due(entry, have, receiver):
                    due.append((entry, self._notification(entry)))
            count = receiver.notify([notification for _, notification in due]) if due else 0
            for entry, notification in due[:count]:
                entry.offered[receiver.name] = notification.mark
                entry.turned_away.pop(receiver.name, None)
            self._turn_away(receiver, due[count:])

    def take_changes(self) -> list[tuple[str, AlertMessage | None]]:
        """Return the messages to publish by fingerprint; None clears one."""
        changes: list[tuple[str, AlertMessage | None]] = [
            (fingerprint, None) for fingerprint in self._cleared
        ]
        self._cleared = []
        for fingerprint, entry in self._entries.items():
            if entry.is_dirty:
                entry.is_dirty = False
                update = {"told": dict(entry.confirmed), "watch": self.client}
                changes.append((fingerprint, msgspec.structs.replace(entry.message, **update)))
        return changes

    @staticmethod
    def _is_due(entry: _Entry, have: str, receiver: Receiver) -> bool:
        if entry.message.state == "firing":
            return have != entry.mark and not entry.is_quiet
        # An end goes to receivers that know, or may know, of the start: a receiver that stores
        # alerts ignores the end of an unknown one.
        return have.startswith("firing@") or (not have and receiver.repeats and entry.may_be_told)

    @staticmethod
    def _turn_away(receiver: Receiver, left: Sequence[tuple[_Entry, Notification]]) -> None:
        """Count states without room, each once; if still true they are offered again."""
        before = receiver.tally.dropped
        for entry, notification in left:
            if entry.turned_away.get(receiver.name) != notification.mark:
                entry.turned_away[receiver.name] = notification.mark
                receiver.tally.dropped += 1
        if receiver.tally.dropped > before:
            log.warning("receiver_full", receiver=receiver.name, dropped=receiver.tally.dropped)

    def _note_step(self, now: Now) -> None:
        """Preserve alert times in our wall clock if it was set since the last step."""
        before = self._now
        self._now = now
        step_ns = 0 if before is None else now.stepped_ns(before)
        if not step_ns:
            return
        for entry in self._entries.values():
            message = entry.message
            if now.is_wall:
                entry.starts_ns = now.to_wall(parse_rfc3339(message.fired))
            else:
                entry.starts_ns += step_ns
            if entry.ends_ns is not None:
                entry.ends_ns = max(entry.starts_ns, entry.ends_ns + step_ns)

    def _load(self, message: AlertMessage, now: Now) -> None:
        fired_ns = parse_rfc3339(message.fired)
        resolved_ns = now.fleet_ns if message.resolved is None else parse_rfc3339(message.resolved)
        is_over = message.state == "resolved"
        starts_ns = now.to_wall(fired_ns)
        self._entries[message.fingerprint] = _Entry(
            message,
            starts_ns,
            max(starts_ns, now.to_wall(resolved_ns)) if is_over else None,
            # Whether it is silenced is known with the first step; until then there are no
            # notifications.
            is_quiet=not is_over,
            confirmed=dict(message.told),
            resolved_s=now.mono_s if is_over else None,
            may_be_told=not is_over,
        )

    def _notification(self, entry: _Entry) -> Notification:
        return Notification(self.fleet, entry.message, entry.starts_ns, entry.ends_ns)

    def _begin(self, firing: FiringAlert, former: _Entry | None, now: Now) -> None:
        message = firing.describe()
        fired_ns = firing.fired_ns
        if former is not None and message.fired == former.message.fired:
            # It fires again: another beginning needs another time.
            fired_ns = now.fleet_ns
            message = msgspec.structs.replace(message, fired=format_rfc3339(fired_ns))
        entry = _Entry(
            message,
            now.to_wall(fired_ns),
            is_quiet=firing.is_quiet,
            urgent=firing.urgent,
            figures=firing.figures,
            refreshed_s=now.mono_s,
        )
        if former is not None:
            entry.confirmed = former.confirmed
            entry.offered = former.offered
        self._entries[firing.fingerprint] = entry

    def _refresh(self, entry: _Entry, firing: FiringAlert, now: Now) -> None:
        """Update an alert's values.

        Its start and labels stay, because they identify it for others.
        """
        entry.is_quiet = firing.is_quiet
        if entry.urgent == firing.urgent and (
            entry.figures == firing.figures or now.mono_s - entry.refreshed_s < REFRESHED_EVERY_S
        ):
            return
        entry.urgent = firing.urgent
        entry.figures = firing.figures
        entry.refreshed_s = now.mono_s
        known = entry.message
        unchanged = {
            "since": known.since,
            "fired": known.fired,
            "labels": known.labels,
            "told": known.told,
            "watch": known.watch,
        }
        message = msgspec.structs.replace(firing.describe(), **unchanged)
        if message == known:
            return
        entry.message = message
        entry.is_dirty = True
        for receiver in self.receivers:
            if entry.offered.get(receiver.name) == entry.mark:
                receiver.refresh(self._notification(entry))

    def _end(self, entry: _Entry, resolved_ns: int | None, now: Now) -> None:
        fired_ns = parse_rfc3339(entry.message.fired)
        if resolved_ns is None or not fired_ns <= resolved_ns <= now.fleet_ns:
            resolved_ns = now.fleet_ns
        entry.message = msgspec.structs.replace(
            entry.message, state="resolved", resolved=format_rfc3339(resolved_ns), inhibited_by=None
        )
        entry.ends_ns = max(entry.starts_ns, now.to_wall(resolved_ns))
        entry.resolved_s = now.mono_s
        entry.is_dirty = True
        self.ended.append(entry.message.fingerprint)

    def _clear_if_due(self, fingerprint: str, entry: _Entry, passed_s: float) -> None:
        """Clear a resolved alert, a day later if a receiver does not know of its end."""
        names = {receiver.name for receiver in self.receivers}
        is_owed = any(
            mark.startswith("firing@") for name, mark in entry.confirmed.items() if name in names
        )
        if passed_s >= (DAY_S if is_owed else RESOLVED_FOR_S):
            del self._entries[fingerprint]
            self._cleared.append(fingerprint)

    def _confirmer(self, name: str) -> Callable[[Notification], None]:
        def confirm(notification: Notification) -> None:
            entry = self._entries.get(notification.fingerprint)
            if entry is None or entry.confirmed.get(name) == notification.mark:
                return
            if name in entry.confirmed or len(entry.confirmed) < MOST_RECEIVERS:
                entry.confirmed[name] = notification.mark
                entry.is_dirty = True

        return confirm
