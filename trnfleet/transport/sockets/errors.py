"""Errors of sockets to a broker, with the reason as text."""

from __future__ import annotations


class DialError(Exception):
    """An open but unusable TCP connection."""

    def __init__(self, why: str, *, is_foreign: bool = False, has_tls: bool = False) -> None:
        super().__init__(why)
        self.is_foreign = is_foreign
        """Whether the port may speak another protocol than its URL."""
        self.has_tls = has_tls
        """Whether TLS had begun."""


class WebSocketRefusedError(Exception):
    """A websocket request with another answer."""

    def __init__(self, why: str, status: int = 0) -> None:
        super().__init__(why)
        self.status = status
        """The status of the HTTP response; 0 where there was none."""


class WebSocketLimitError(ConnectionAbortedError):
    """A broker exceeded a websocket limit; ends the connection.

    Its text names the limit.
    """
