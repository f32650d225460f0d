"""Statements: what is told besides telemetry and descriptors, held against its topic and the limits, then kept.

Each function takes one class of topic: the payload of a message and whoever keeps such messages. An empty payload clears
what stood there. All of them raise `WireError` for what is refused, and then nothing has changed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnfleet.monitor.ingest.rejects import MisplacedError, RejectedError
from trnfleet.wire.alerts import AckMessage, AlertMessage, SilenceMessage
from trnfleet.wire.messages import EventMessage, JobMessage, PublisherMessage, decode_message
from trnfleet.wire.reservations import ReservationMessage
from trnfleet.wire.topics import FLEET_PATH

if TYPE_CHECKING:
    from trnfleet.monitor.alerting.engine import Alerts
    from trnfleet.monitor.alerting.silences import Quieting
    from trnfleet.monitor.reservations.table import Reservations
    from trnfleet.monitor.sources.clocks import Timebase
    from trnfleet.monitor.sources.publishers import Publishers
    from trnfleet.monitor.store.events import Events
    from trnfleet.monitor.store.jobs import Jobs
    from trnfleet.wire.limits import Limits
    from trnfleet.wire.ports import Envelope


def take_job(jobs: Jobs, name: str, payload: bytes, limits: Limits) -> None:
    """Take what a publisher tells of a job."""
    if not payload:
        jobs.remove(name)
        return
    message = decode_message(payload, JobMessage, limits)
    if message.job != name:
        raise MisplacedError("the job's name is not its topic's")
    if name not in jobs.by_name and len(jobs.by_name) >= limits.jobs:
        raise RejectedError(f"more than {limits.jobs} jobs")
    if jobs.places_with(message) > limits.job_places:
        raise RejectedError(f"jobs name over {limits.job_places} places")
    jobs.put(message)


def take_event(events: Events, path: str, envelope: Envelope, limits: Limits, now_s: float) -> None:
    """Take an event that came at monotonic `now_s`; it happens once, so that a retained one is none."""
    if envelope.retain:
        raise RejectedError("a retained event")
    message = decode_message(envelope.payload, EventMessage, limits)
    if (message.path or FLEET_PATH) != path:
        raise MisplacedError("the event's path is not its topic's")
    events.add(message, now_s)


def take_reservation(reservations: Reservations, name: str, payload: bytes, limits: Limits) -> None:
    """Take what a publisher tells of a reservation."""
    if not payload:
        reservations.remove(name)
        return
    message = decode_message(payload, ReservationMessage, limits)
    if message.id != name:
        raise MisplacedError("the reservation's id is not its topic's")
    if name not in reservations and len(reservations) >= limits.reservations:
        raise RejectedError(f"more than {limits.reservations} reservations")
    if reservations.places_with(message) > limits.reservation_places:
        raise RejectedError(f"reservations name over {limits.reservation_places} places")
    reservations.put(message)


def take_alert(
    told: dict[str, AlertMessage], alerts: Alerts, fingerprint: str, payload: bytes, limits: Limits
) -> None:
    """Take what a `watch` says of an alert, for whoever asks by its fingerprint and for the alerts seen here."""
    if not payload:
        told.pop(fingerprint, None)
        alerts.forget(fingerprint)
        return
    message = decode_message(payload, AlertMessage, limits)
    if message.fingerprint != fingerprint:
        raise MisplacedError("the alert's fingerprint is not its topic's")
    if fingerprint not in told and len(told) >= limits.alerts:
        raise RejectedError(f"more than {limits.alerts} alerts")
    alerts.remember(message)
    told[fingerprint] = message


def take_ack(quieting: Quieting, fingerprint: str, payload: bytes, limits: Limits) -> None:
    """Take an acknowledgement."""
    if not payload:
        quieting.remove_ack(fingerprint)
        return
    message = decode_message(payload, AckMessage, limits)
    if message.fingerprint != fingerprint:
        raise MisplacedError("the acknowledgement's fingerprint is not its topic's")
    if quieting.count()[0] >= limits.acks and not quieting.has_ack(fingerprint):
        raise RejectedError(f"more than {limits.acks} acknowledgements")
    quieting.put_ack(message)


def take_silence(quieting: Quieting, silence_id: str, payload: bytes, limits: Limits) -> None:
    """Take a silence."""
    if not payload:
        quieting.remove_silence(silence_id)
        return
    message = decode_message(payload, SilenceMessage, limits)
    if message.id != silence_id:
        raise MisplacedError("the silence's id is not its topic's")
    if quieting.count()[1] >= limits.silences and quieting.silence(silence_id) is None:
        raise RejectedError(f"more than {limits.silences} silences")
    quieting.put_silence(message)


def take_publisher(
    publishers: Publishers, timebase: Timebase, client: str, payload: bytes, limits: Limits
) -> None:
    """Take what a publisher, or its last will, says of itself."""
    if not payload:
        # A cleared message says nothing any more, so nothing is offline by it.
        publishers.clear(client)
        return
    message = decode_message(payload, PublisherMessage, limits)
    if message.client != client:
        raise MisplacedError("the publisher's name is not its topic's")
    if message.role == "watch":
        # It publishes no telemetry: whether it is there says nothing of what is known.
        return
    state = publishers.number(client, message.boot, limit=limits.publishers)
    if state is None:
        raise RejectedError(f"more than {limits.publishers} publishers")
    if publishers.say(state, online=message.state == "online"):
        # Another start may have begun its time anew.
        timebase.restart(client)
