"""Sessions with several brokers, behind the interface of a session with one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from trnfleet.services.brokers.merged import FanOutPublisher, MergedSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from trnfleet.clock import Clock
    from trnfleet.services.brokers.merged import RunningPublisher, RunningSource
    from trnfleet.services.session import BrokerSession
    from trnfleet.transport.inbox import InboxLimits
    from trnfleet.transport.url import BrokerUrl


class FleetSession(Protocol):
    """A fleet's connections to one or several brokers."""

    @property
    def root(self) -> str:
        """First part of every topic."""

    @property
    def clock(self) -> Clock:
        """The time to go by."""

    @property
    def url(self) -> object:
        """The broker, or the brokers, as text."""

    @property
    def urls(self) -> tuple[BrokerUrl, ...]:
        """The address of each broker."""

    def source(
        self,
        filters: Iterable[tuple[str, int]],
        *,
        limits: InboxLimits | None = None,
        reads_figures: bool = False,
    ) -> RunningSource:
        """Return a subscription to topic filters, each with its QoS; the caller runs it."""

    def publisher(self, client_id: str) -> RunningPublisher:
        """Return a connection to publish on; the caller runs it."""


class SeveralBrokers(NamedTuple):
    """The sessions with the brokers of one fleet."""

    sessions: tuple[BrokerSession, ...]

    @property
    def root(self) -> str:
        """First part of every topic."""
        return self.sessions[0].root

    @property
    def clock(self) -> Clock:
        """The time to go by."""
        return self.sessions[0].clock

    @property
    def url(self) -> str:
        """The brokers, in a line."""
        return ", ".join(str(session.url) for session in self.sessions)

    @property
    def urls(self) -> tuple[BrokerUrl, ...]:
        """The address of each broker."""
        return tuple(session.url for session in self.sessions)

    def source(
        self,
        filters: Iterable[tuple[str, int]],
        *,
        limits: InboxLimits | None = None,
        reads_figures: bool = False,
    ) -> MergedSource:
        """Return the subscriptions to topic filters on all brokers as one; the caller runs it."""
        subscriptions = list(filters)
        telemetry = limits.newest_of if limits else ""
        sources = [
            session.source(subscriptions, limits=limits, reads_figures=reads_figures)
            for session in self.sessions
        ]
        return MergedSource(sources, unmarked=telemetry)

    def publisher(self, client_id: str) -> FanOutPublisher:
        """Return connections to publish on at all brokers as one; the caller runs it."""
        return FanOutPublisher([session.publisher(client_id) for session in self.sessions])


def session_of(sessions: Sequence[BrokerSession]) -> BrokerSession | SeveralBrokers:
    """Return the session with one or more brokers."""
    return sessions[0] if len(sessions) == 1 else SeveralBrokers(tuple(sessions))
