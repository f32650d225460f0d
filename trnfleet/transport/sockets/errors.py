"""Errors of sockets to a broker, each with a text that says why."""

from __future__ import annotations


class DialError(Exception):
    """A connection that TCP could make, and that could not be used."""

    def __init__(self, why: str, *, is_foreign: bool = False, has_tls: bool = False) -> None:
        super().__init__(why)
        self.is_foreign = is_foreign
        """Whether the port may speak something else than the URL says."""
        self.has_tls = has_tls
        """Whether TLS had begun."""


class WebSocketRefusedError(Exception):
    """A request that was not answered by a websocket."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status
        """The status of the HTTP response; 0 where there was none."""


class WebSocketLimitError(ConnectionAbortedError):
    """More than a websocket takes of a broker, which ends the connection; its text says what."""
