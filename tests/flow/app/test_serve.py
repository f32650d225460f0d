"""`trnfleet serve`: who gets in, what a page may do, and how it looks in Chromium."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import time
from typing import TYPE_CHECKING, Any, Self

import httpx
import psutil
import pytest
from support.processes.programs import Program
from support.processes.text_screen import TextScreen
from websockets.exceptions import ConnectionClosedOK, InvalidStatus
from websockets.sync.client import connect

from trnfleet.monitor.alerting.operator import READ_ONLY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from support.processes.mosquitto import MosquittoProcess

pytestmark = pytest.mark.broker

CHROMIUM = shutil.which("chromium")


@pytest.fixture
def served(
    mosquitto: MosquittoProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Program]:
    """Return a running `trnfleet serve` of a simulated fleet with an alert."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    broker = ("--broker", str(mosquitto.url))
    with (
        Program(tmp_path, "simulate", *broker, "--fleet", "demo"),
        Program(tmp_path, "serve", *broker, "--past", "0", TRNFLEET_ALLOW_COMMANDS="1") as program,
    ):
        program.wait_for("/\n")
        yield program


def wait_until(holds: Callable[[], object], what: str) -> None:
    until = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def test_who_gets_in_and_what_a_page_may_do(served: Program, tmp_path: Path) -> None:
    page = served.output.strip()
    origin, token, _ = page.rsplit("/", 2)
    socket = page.replace("http", "ws", 1) + "ws"

    html = httpx.get(page)
    assert html.text.count("://") == 1
    assert f'"{socket}"' in html.text
    assert "default-src 'none'" in html.headers["Content-Security-Policy"]
    for name in ("js/textual.js", "css/xterm.css", "fonts/RobotoMono-VariableFont_wght.ttf"):
        assert httpx.get(page + name).status_code == 200
    assert httpx.get(f"{page}js/other.js").status_code == 404
    assert httpx.get(f"{origin}/{token[:-1]}/").status_code == 403
    assert httpx.get(page, headers={"Host": "evil.example"}).status_code == 403
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.post(page, content=b"x")
    for address, site in (
        (socket, "http://evil.example"),
        (socket, None),
        (socket.replace(token, "x"), origin),
    ):
        with (
            pytest.raises(InvalidStatus, match="403"),
            connect(address, origin=site),  # type: ignore[arg-type]  # a text of its own type
        ):
            pass

    server = psutil.Process(served.process.pid)
    assert not server.children()
    with connect(socket, origin=origin) as browser:  # type: ignore[arg-type]
        screen = TextScreen(100, 30)

        def shows(text: str) -> None:
            def is_there() -> bool:
                data = browser.recv(timeout=60)
                assert isinstance(data, bytes)
                screen.feed(data)
                return any(text in line for line in screen.text_lines)

            wait_until(is_there, text)

        def press(keys: str) -> None:
            browser.send(json.dumps(["stdin", keys]))

        for nonsense in ("{", b"\0", "[]", '["resize", {"width": 1e9}]', "[" * 100_000):
            browser.send(nonsense)
        browser.send(json.dumps(["resize", {"width": 100, "height": 30}]))
        shows("192 chips")
        # Nothing could wake an app that ctrl+z has stopped.
        press("\x1a")
        press("8")
        shows("[8 Alerts")
        press("z")
        shows(READ_ONLY)
        # Keys go to the refused note until it is closed.
        press("q")
        shows("not sent: q")
        press("\r")
        press("\x13")
        shows("this screen is read-only: it saves no files")
        assert len(server.children()) == 1
        press("q")
        with pytest.raises(ConnectionClosedOK):
            shows("something after the app has ended")
    with connect(socket, origin=origin):  # type: ignore[arg-type]
        wait_until(server.children, "an app of its own")
    wait_until(lambda: not server.children(), "the app ends with its page")
    assert not list(tmp_path.rglob("*.svg"))
    assert served.output.strip() == page
    assert served.end() == 0


class ChromiumPage:
    """A page in headless Chromium, driven by the DevTools protocol."""

    def __init__(self, folder: Path) -> None:
        options = ("--headless", "--no-sandbox", "--disable-3d-apis", "--remote-debugging-port=0")
        self.process = subprocess.Popen(
            [str(CHROMIUM), *options, f"--user-data-dir={folder}", "about:blank"],
            stderr=subprocess.DEVNULL,
        )
        ports = folder / "DevToolsActivePort"
        wait_until(lambda: ports.exists() and ports.read_text().count("\n"), "Chromium starts")
        tabs = httpx.get(f"http://127.0.0.1:{ports.read_text().split()[0]}/json").json()
        [address] = [tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page"]
        self.tools = connect(address, max_size=None, ping_interval=None)
        self.screen = TextScreen(80, 24)
        self.requests: list[str] = []
        self._calls = 0
        self.call("Network.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        """Call a method and return its result; events before it are noted."""
        self._calls += 1
        self.tools.send(json.dumps({"id": self._calls, "method": method, "params": parameters}))
        while (answer := json.loads(self.tools.recv(timeout=60))).get("id") != self._calls:
            event = answer["params"]
            if answer["method"] == "Network.requestWillBeSent":
                self.requests.append(event["request"]["url"])
            elif answer["method"] == "Network.webSocketFrameSent":
                match json.loads(event["response"]["payloadData"]):
                    case ["resize", {"width": columns, "height": rows}]:
                        self.screen.resize(rows, columns)
            elif answer["method"] == "Network.webSocketFrameReceived":
                self.screen.feed(base64.b64decode(event["response"]["payloadData"]))
        return answer["result"]

    def press(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, text=key)

    def picture_of(self, text: str) -> bytes:
        """Return the page as PNG once the app has sent a text."""

        def is_there() -> bool:
            self.call("Runtime.evaluate", expression="1")
            return any(text in line for line in self.screen.text_lines)

        wait_until(is_there, text)
        # The page draws in its next frame.
        script = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        self.call("Runtime.evaluate", expression=script, awaitPromise=True)
        return base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.tools.close()
        self.process.terminate()
        self.process.wait()


@pytest.mark.skipif(
    CHROMIUM is None,
    reason="CHROMIUM MISSING: install the chromium package; no page was looked at",
)
def test_pictures_in_chromium(served: Program, tmp_path: Path) -> None:
    """Fleet and Topology are drawn, and nothing is requested from elsewhere."""
    page = served.output.strip()
    with ChromiumPage(tmp_path / "chromium") as browser:
        browser.call(
            "Emulation.setDeviceMetricsOverride",
            width=1200,
            height=800,
            deviceScaleFactor=1,
            mobile=False,
        )
        browser.call("Page.navigate", url=page)
        fleet = browser.picture_of("all live")
        browser.press("3")
        topology = browser.picture_of("[3 Topology]")
    (tmp_path / "fleet.png").write_bytes(fleet)
    (tmp_path / "topology.png").write_bytes(topology)
    assert fleet != topology
    # A page without text is 7 kB.
    assert min(len(fleet), len(topology)) > 20_000
    assert [url for url in browser.requests if not url.startswith((page, "data:"))] == []
    assert len(browser.requests) >= 4
