from __future__ import annotations

import subprocess
import sys


def printed(code: str) -> list[str]:
    """Return the words printed by code in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


DEFER = (
    "from trnfleet.deferred_imports import DEFERRED, defer_imports; defer_imports(); import sys\n"
)


def test_the_app_of_the_demo_loads_nothing_that_it_does_not_use() -> None:
    """The demo's app loads no modules for TLS, HTTP or simulators.

    Nor their imports.
    """
    code = """
import sys
import trnfleet.cli.main
from trnfleet.cli.command_table import load_command
from trnfleet.deferred_imports import DEFERRED
load_command("demo")
import trnfleet.services.child_process, trnfleet.services.files.rules, trnfleet.transport.embedded
import trnfleet.services.session, trnfleet.services.viewing, trnfleet.tui.run
from trnfleet.cli.run_options import RunOptions
RunOptions("demo", None, 1, 1.0, 1.0, None, random_faults=None, given=frozenset()).head()
heavy = {"trnfleet.domain.fleet", "trnfleet.domain.jobs", "trnfleet.domain.faults.table", "_ssl", "_hashlib", "http.client", "markdown_it", "pygments", "httpx", "duckdb"}
loaded = {name for name in DEFERRED if type(sys.modules.get(name)).__name__ == "module"}
print(*sorted(heavy & set(sys.modules) | loaded), "and", *sorted({"ssl", "hashlib"} & set(sys.modules)))
"""  # noqa: E501
    assert printed(code) == ["and", "hashlib", "ssl"]


def test_the_first_name_that_is_asked_for_loads_a_deferred_module() -> None:
    """The first name loads a deferred module for all importers, by any way to import."""
    code = f"""{DEFER}
import asyncio, ssl, urllib.request
from asyncio import sslproto
print("_ssl" in sys.modules, asyncio.base_events.ssl is ssl)
print(ssl.create_default_context().verify_mode.name, type(ssl).__name__, "_ssl" in sys.modules)
print(sslproto.SSLProtocol.__module__, urllib.request.Request("http://a/").host)
from hashlib import sha256
print(sha256(b"").hexdigest()[:8])
"""
    assert printed(code) == [
        *("False", "True", "CERT_REQUIRED", "module", "True", "asyncio.sslproto", "a", "e3b0c442"),
    ]


def test_threads_that_need_a_deferred_module_at_once_all_get_it_whole() -> None:
    """A deferred module is loaded once, and other threads wait."""
    code = f"""{DEFER}
import threading
import ssl
sys.setswitchinterval(1e-5)
begin, found = threading.Barrier(8), []
def use():
    begin.wait()
    found.append(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).check_hostname)
threads = [threading.Thread(target=use) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(*found)
"""
    assert printed(code) == ["True"] * 8


def test_a_module_that_cannot_be_had_fails_at_its_import() -> None:
    """Libraries look whether an interpreter has TLS by importing it."""
    code = f"""{DEFER}
sys.modules["_ssl"] = None
try:
    import ssl
except ImportError as error:
    print("none", error.name)
"""
    assert printed(code) == ["none", "_ssl"]


def test_a_module_that_fails_to_load_fails_each_time() -> None:
    """A failed load raises its error again at the next name.

    No module without names is left.
    """
    code = f"""{DEFER}
import secrets
sys.modules["hmac"] = None
for _ in range(2):
    try:
        secrets.token_hex
    except ImportError as error:
        print(error.name)
"""
    assert printed(code) == ["hmac"] * 2
