from __future__ import annotations

import subprocess
import sys


def printed(code: str) -> list[str]:
    """Return the words that code prints in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.split()


DEFER = "from trnfleet.deferred_imports import DEFERRED, defer_imports; defer_imports(); import sys\n"


def test_the_app_of_the_demo_loads_no_openssl_http_archives_or_models_of_fleets() -> None:
    """What libraries import for TLS, proxies and plugins stays unloaded, of which only names are there; so does what simulators need."""
    code = """
import sys
from trnfleet.cli.command_table import load_command
load_command("demo")
import trnfleet.services.child_process, trnfleet.services.files.rules, trnfleet.transport.embedded
import trnfleet.services.session, trnfleet.services.viewing, trnfleet.tui.run
from trnfleet.cli.run_options import RunOptions
RunOptions("demo", None, 1, 1.0, 1.0, None, random_faults=None, given=frozenset()).head()
heavy = {"lz4.frame._frame", "trnfleet.domain.fleet", "trnfleet.domain.jobs", "trnfleet.domain.faults", "_ssl", "_hashlib", "http.client", "_bz2", "_lzma", "numpy.random", "markdown_it", "pygments", "httpx", "duckdb"}
print(*sorted(heavy & set(sys.modules)), "and", *sorted({"ssl", "hashlib", "zipfile"} & set(sys.modules)))
"""
    assert printed(code) == ["and", "hashlib", "ssl", "zipfile"]


def test_the_first_name_that_is_asked_for_loads_a_deferred_module() -> None:
    """A deferred module is whole from then on, and the same for all that imported it, by any way to import."""
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
    """It is loaded once, and who comes meanwhile waits."""
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
    """The error of its first name comes back with the next one, in the place of a module without names."""
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
