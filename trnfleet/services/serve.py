"""The app in a browser: a page on loopback, and a `trnfleet monitor --read-only` for each visitor.

Each websocket has a pseudo-terminal with a process of its own, which ends with it. So the app has a
terminal like any other, and a slow browser slows it down as a slow terminal does. The page's script
and the messages are those of textual-serve; docs/decisions.md has why its server is not used.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.resources
import json
import logging
import os
import re
import secrets
import signal
import termios
from http import HTTPStatus
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from websockets.asyncio.server import serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Response

from trnfleet import logs
from trnfleet.errors import ConfigError
from trnfleet.services.child_process import run_trnfleet
from trnfleet.tasks import Ending, background, run_until

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from websockets.asyncio.server import ServerConnection
    from websockets.http11 import Request

log = logs.get_logger(__name__)

MOST_SESSIONS = 8
"""Most browsers at a time: each has an app of 100 MB or more."""
_CHUNK_BYTES = 2**16
"""Most output in a message, and most unread keys of a session."""
_LOOPBACK = re.compile(r"(localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::(\d{1,5}))?", re.ASCII)
_FILES = {
    "js/textual.js": "text/javascript",
    "css/xterm.css": "text/css",
    "fonts/RobotoMono-VariableFont_wght.ttf": "font/ttf",
}
"""What the page loads from textual-serve, and its type."""
_PAGE = Path(__file__).with_suffix(".html")
_POLICY = (
    "default-src 'none'; script-src 'self' 'nonce-$nonce'; style-src 'self' 'unsafe-inline';"
    " font-src 'self'; img-src data:; connect-src $socket; base-uri 'none'; form-action 'none';"
    " frame-ancestors 'none'"
)
"""What the page may load and reach: nothing beyond this server."""
_SOCKET = "ws"
# Its own logger would write addresses, which have the token.
_LOG = logging.getLogger("trnfleet.serve")
_LOG.addHandler(logging.NullHandler())
_LOG.propagate = False


def parse_listen(text: str) -> tuple[str, int]:
    """Return host and port of a loopback address.

    Raises:
        ConfigError: it is no such address.
    """
    match = _LOOPBACK.fullmatch(text)
    if match is None or match[2] is None or int(match[2]) > 65_535:
        raise ConfigError(
            f"--listen {text!r}: only an address of this machine, such as 127.0.0.1:8080; from"
            " elsewhere use ssh -L"
        )
    return match[1].strip("[]"), int(match[2])


def refusal(path: str, headers: Headers, token: str) -> str:
    """Return why a request is refused; empty for one of a page of this server.

    Args:
        path: The path; its first part has to be the token.
        headers: The headers. Host has to be a loopback address, else a site could point its own
            name here. Origin has to be the same, and must not be missing for a websocket.
        token: The token of this server.
    """
    hosts = headers.get_all("Host")
    if len(hosts) != 1 or not _LOOPBACK.fullmatch(hosts[0]):
        return "Host is not a loopback address"
    origins = headers.get_all("Origin")
    if origins != [f"http://{hosts[0]}"] and (origins or path.endswith(f"/{_SOCKET}")):
        return "Origin is not this server"
    first = path.removeprefix("/").partition("/")[0]
    if not secrets.compare_digest(first.encode(errors="replace"), token.encode()):
        return "the token in the address is wrong: trnfleet serve prints the right one"
    return ""


class BrowserServer:
    """The pages and sessions of one `trnfleet serve`."""

    def __init__(self, arguments: Sequence[str]) -> None:
        """Prepare the server.

        Args:
            arguments: Options of `trnfleet monitor`.

        Raises:
            ConfigError: textual-serve is not installed.
        """
        self.token = secrets.token_urlsafe(24)
        self._arguments = arguments
        self._sessions = 0
        try:
            self._assets = importlib.resources.files("textual_serve") / "static"
        except ModuleNotFoundError:
            raise ConfigError(
                "textual-serve is not installed: pip install textual-serve, or pipx inject trnfleet"
                " textual-serve"
            ) from None

    async def run(self, host: str, port: int, announce: Callable[[str], None]) -> None:
        """Serve until cancelled.

        Args:
            host: A loopback address.
            port: The port; 0 for a free one.
            announce: Called with the address of the page once it is served.

        Raises:
            OSError: the address cannot be listened on.
        """
        async with serve(
            self._show,
            host,
            port,
            process_request=self._answer,
            compression=None,
            logger=_LOG,
            server_header=None,
        ) as server:
            bound = next(iter(server.sockets)).getsockname()[1]
            shown = f"[{host}]" if ":" in host else host
            announce(f"http://{shown}:{bound}/{self.token}/")
            await server.wait_closed()

    def _answer(self, _connection: ServerConnection, request: Request) -> Response | None:
        """Return the answer to a request; None to go on with the handshake of a websocket."""
        path = request.path.partition("?")[0]
        why = refusal(path, request.headers, self.token)
        if why:
            return _response(HTTPStatus.FORBIDDEN, "text/plain", f"{why}\n".encode())
        name = path.removeprefix(f"/{self.token}/")
        host = request.headers["Host"]
        if name == _SOCKET:
            return None
        if not name:
            parts = {"socket": f"ws://{host}{path}{_SOCKET}", "nonce": secrets.token_urlsafe(16)}
            body = Template(_PAGE.read_text(encoding="utf-8")).substitute(parts).encode()
            policy = Template(_POLICY).substitute(parts)
            return _response(HTTPStatus.OK, "text/html; charset=utf-8", body, policy)
        if name in _FILES:
            return _response(HTTPStatus.OK, _FILES[name], (self._assets / name).read_bytes())
        return _response(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

    async def _show(self, websocket: ServerConnection) -> None:
        """Run an app for a browser until either ends."""
        if self._sessions >= MOST_SESSIONS:
            why = f"{MOST_SESSIONS} pages are open, which is the most: close one"
            await websocket.send(f"{why}\r\n".encode())
            return
        self._sessions += 1
        try:
            await self._run_app(websocket)
        except Exception:
            log.exception("session_failed")
            raise
        finally:
            self._sessions -= 1

    async def _run_app(self, websocket: ServerConnection) -> None:
        loop = asyncio.get_running_loop()
        ending = Ending()
        output = asyncio.StreamReader(limit=_CHUNK_BYTES)
        ours, theirs = os.openpty()
        termios.tcsetwinsize(ours, (24, 80))
        async with contextlib.AsyncExitStack() as stack:
            keys, _ = await loop.connect_write_pipe(asyncio.Protocol, os.fdopen(ours, "wb", 0))
            stack.callback(keys.abort)
            screen, _ = await loop.connect_read_pipe(
                lambda: _Output(output), os.fdopen(os.dup(ours), "rb", 0)
            )
            stack.callback(screen.close)
            command = ["monitor", "--read-only", *self._arguments]
            with os.fdopen(theirs, "rb", 0) as terminal:
                app = await stack.enter_async_context(
                    run_trnfleet(command, _environment(), terminal, terminal)
                )

            async def receive() -> None:
                with contextlib.suppress(ConnectionClosed, ProcessLookupError):
                    async for message in websocket:
                        match _decoded(message):
                            case ["stdin", str(text)]:
                                if keys.get_write_buffer_size() < _CHUNK_BYTES:
                                    keys.write(text.encode(errors="replace"))
                            case ["resize", {"width": int(width), "height": int(height)}]:
                                # A page that asks for millions of cells would fill memory.
                                rows, columns = (max(1, min(n, 1_000)) for n in (height, width))
                                termios.tcsetwinsize(ours, (rows, columns))
                                os.kill(app.pid, signal.SIGWINCH)
                ending.ask()

            async def send() -> None:
                with contextlib.suppress(ConnectionClosed):
                    while data := await output.read(_CHUNK_BYTES):
                        await websocket.send(data)

            async with background(receive=receive()):
                await run_until(ending, send())


class _Output(asyncio.StreamReaderProtocol):
    """What an app draws; the error of a pseudo-terminal whose app has ended is its end."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002  as above
        super().connection_lost(None)


def _decoded(message: str | bytes) -> Any:
    """Return a message of the page's script; None for anything else."""
    try:
        return json.loads(message)
    except (ValueError, RecursionError):
        return None


def _environment() -> dict[str, str]:
    """Return the variables of an app: its terminal is the browser's, whatever this one is."""
    variables = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    return variables | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "PYTHONUTF8": "1"}


def _response(
    status: HTTPStatus, kind: str, body: bytes, policy: str = "default-src 'none'"
) -> Response:
    headers = Headers(
        {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Content-Security-Policy": policy,
            "Referrer-Policy": "no-referrer",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            "Connection": "close",
        }
    )
    return Response(status, status.phrase, headers, body)
