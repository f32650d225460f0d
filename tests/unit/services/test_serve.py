"""What `trnfleet serve` listens on and lets in, without processes."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from websockets.datastructures import Headers

from trnfleet.errors import ConfigError
from trnfleet.services.serve import MOST_SESSIONS, BrowserServer, parse_listen, refusal

HOST = "127.0.0.1:8080"
OURS = ("Origin", f"http://{HOST}")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_loopback_addresses(text: str, address: tuple[str, int]) -> None:
    assert parse_listen(text) == address


@pytest.mark.parametrize(
    "text",
    ["0.0.0.0:80", "8080", "127.0.0.1", "127.0.0.1:65536", "[::]:80", "127.0.0.1.example:80"],
)
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="only an address of this machine"):
        parse_listen(text)


@pytest.mark.parametrize(
    ("path", "headers", "reason"),
    [
        ("/token/", [("Host", HOST)], ""),
        ("/token/ws", [("Host", HOST), OURS], ""),
        # Through ssh -L, at another port.
        ("/token/ws", [("Host", "localhost:9"), ("Origin", "http://localhost:9")], ""),
        ("/token/js/textual.js", [("Host", HOST), OURS], ""),
        ("/", [("Host", HOST)], "token"),
        ("/toke/ws", [("Host", HOST), OURS], "token"),
        ("/token\udc80/", [("Host", HOST)], "token"),
        ("/token/", [], "Host"),
        ("/token/", [("Host", HOST), ("Host", HOST)], "Host"),
        ("/token/", [("Host", "evil.example")], "Host"),
        ("/token/", [("Host", "127.0.0.1.evil.example")], "Host"),
        ("/token/", [("Host", f"{HOST}\n")], "Host"),
        ("/token/ws", [("Host", HOST)], "Origin"),
        ("/token/ws", [("Host", HOST), ("Origin", "null")], "Origin"),
        ("/token/ws", [("Host", HOST), ("Origin", "http://127.0.0.1:9090")], "Origin"),
        ("/token/ws", [("Host", HOST), ("Origin", f"https://{HOST}")], "Origin"),
        ("/token/ws", [("Host", HOST), OURS, ("Origin", "http://evil.example")], "Origin"),
        ("/token/", [("Host", HOST), ("Origin", "http://evil.example")], "Origin"),
    ],
)
def test_refusals(path: str, headers: list[tuple[str, str]], reason: str) -> None:
    """The reason names what is wrong; empty for our own page."""
    why = refusal(path, Headers(headers), "token")
    assert (reason in why) if reason else not why


def test_a_missing_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "textual_serve", None)
    with pytest.raises(ConfigError, match="pip install textual-serve"):
        BrowserServer(())


async def test_a_page_too_many() -> None:
    """It says why, and starts no app."""

    class Browser:
        sent = b""

        async def send(self, data: bytes) -> None:
            self.sent += data

    server = BrowserServer(())
    server._sessions = MOST_SESSIONS
    browser: Any = Browser()
    await server._show(browser)
    assert b"8 pages are open" in browser.sent
    assert server._sessions == MOST_SESSIONS
