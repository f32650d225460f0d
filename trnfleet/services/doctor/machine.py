"""Findings about this machine: versions, terminal, programs, folders."""

from __future__ import annotations

import locale
import os
import shutil
import ssl
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trnfleet import folders
from trnfleet.domain.quantities import size_text
from trnfleet.errors import ConfigError
from trnfleet.logs import FILE_BYTES
from trnfleet.services.doctor.findings import Finding, Health
from trnfleet.transport.embedded import mosquitto_program

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

PROGRAM_S = 2.0
"""Longest wait for a program to print its version."""
LEAST_CACHE = 2**30
"""Free bytes below which the app cannot store its default past."""
LEAST_SIZE = (80, 24)
"""Columns and lines that every view is made for."""
AGENT_PACKAGES = frozenset(
    {"aiomqtt", "cbor2", "click", "h2", "mqtt5", "msgspec", "numpy", "pydantic", "structlog"}
)
"""Dependencies that an agent needs, as in config/agent/requirements.txt."""
_DUMB = {"", "dumb", "unknown"}


def software(versions: Mapping[str, Any], *, agent: bool) -> Iterator[Finding]:
    """Yield the versions of the program and its platform.

    Args:
        versions: What `trnfleet --version --json` prints.
        agent: Whether to demand only the dependencies of `trnfleet agent`.
    """
    group = "software"
    yield Finding(group, "trnfleet", Health.OK, versions["version"])
    yield Finding(group, "Python", Health.OK, f"{versions['python']} on {versions['platform']}")
    installed: Mapping[str, str | None] = versions["dependencies"]
    optional = {
        "boto3": "for trnfleet bridge: pip install boto3, or pipx inject trnfleet boto3",
        "duckdb": "for trnfleet history: pip install duckdb, or pipx inject trnfleet duckdb",
        "textual-serve": "for trnfleet serve: pip install textual-serve, or pipx inject trnfleet"
        " textual-serve",
    }
    missing = [
        name
        for name, version in installed.items()
        if version is None and (name in AGENT_PACKAGES if agent else name not in optional)
    ]
    there = ", ".join(
        f"{name} {version}" for name, version in installed.items() if version is not None
    )
    if missing:
        advice = "install trnfleet again, with its dependencies"
        yield Finding(group, "libraries", Health.PROBLEM, f"missing: {', '.join(missing)}", advice)
    else:
        yield Finding(
            group,
            "libraries",
            Health.OK,
            there or "not known: trnfleet runs without being installed",
        )
    for name, purpose in optional.items():
        if installed.get(name, "") is None:
            yield Finding(group, name, Health.OK, f"not installed; {purpose}")


def terminal(environ: Mapping[str, str]) -> Iterator[Finding]:
    """Yield the capabilities of the app's terminal.

    Args:
        environ: The variables.
    """
    group = "terminal"
    if not any(_is_terminal(stream) for stream in (sys.stdout, sys.stderr, sys.stdin)):
        advice = "run it in the terminal that the app shall use"
        yield Finding(
            group, "terminal", Health.UNKNOWN, "not a terminal; only the app needs one", advice
        )
    else:
        size = shutil.get_terminal_size()
        columns, lines = LEAST_SIZE
        fits = size.columns >= columns and size.lines >= lines
        advice = "" if fits else f"make it {columns}x{lines} or larger: views are cut below that"
        health = Health.OK if fits else Health.WARNING
        yield Finding(group, "size", health, f"{size.columns}x{size.lines}", advice)
    kind = environ.get("TERM", "")
    if kind in _DUMB:
        advice = (
            "set it to what the terminal is, as in TERM=xterm-256color: the app does not start"
            " otherwise"
        )
        yield Finding(group, "TERM", Health.WARNING, kind or "not set", advice)
    else:
        yield Finding(group, "TERM", Health.OK, kind)
        yield _colours(kind, environ)
    encoding = locale.getpreferredencoding(do_setlocale=False)
    if encoding.lower().replace("-", "") == "utf8":
        yield Finding(group, "encoding", Health.OK, encoding)
    else:
        advice = (
            "set LANG to a locale with UTF-8, such as C.UTF-8: the app draws with ASCII until then"
        )
        yield Finding(group, "encoding", Health.WARNING, encoding, advice)


def _colours(kind: str, environ: Mapping[str, str]) -> Finding:
    if environ.get("NO_COLOR"):
        return Finding("terminal", "colours", Health.OK, "none, for NO_COLOR is set")
    if environ.get("COLORTERM", "").lower() in {"truecolor", "24bit"}:
        return Finding("terminal", "colours", Health.OK, "16 million")
    if "256color" in kind:
        return Finding("terminal", "colours", Health.OK, "256")
    advice = "set COLORTERM=truecolor if the terminal has more; the theme ansi is made for 16"
    return Finding("terminal", "colours", Health.WARNING, "16", advice)


def programs() -> Iterator[Finding]:
    """Yield the optional programs, used if installed."""
    group = "programs"
    mosquitto = mosquitto_program()
    if mosquitto is None:
        advice = (
            "install the package mosquitto; until then the demo and trnfleet broker run NATS"
            " Server, in MQTT 3.1.1"
        )
        yield Finding(group, "mosquitto", Health.WARNING, "not installed", advice)
    else:
        # "mosquitto version 2.0.11", then its options.
        words = _first_line([mosquitto, "-h"]).split()
        version = words[2] if words[:2] == ["mosquitto", "version"] else "version unknown"
        yield Finding(group, "mosquitto", Health.OK, f"{version} ({mosquitto})")
    openssl = shutil.which("openssl")
    if openssl is None:
        advice = "install it to make certificates for a broker of your own"
        yield Finding(group, "openssl", Health.OK, "not installed", advice)
    else:
        yield Finding(
            group, "openssl", Health.OK, _first_line([openssl, "version"]) or "version unknown"
        )
    yield Finding(group, "TLS of Python", Health.OK, ssl.OPENSSL_VERSION)


def own_folders() -> Iterator[Finding]:
    """Yield the folders for logs and for the app's past, with their free disk space."""
    for name, find, least, purpose in (
        ("state", folders.state_folder, FILE_BYTES, "logs"),
        (
            "cache",
            folders.cache_folder,
            LEAST_CACHE,
            "the app's past, 1 GiB unless --past says otherwise",
        ),
    ):
        try:
            folder = find()
            free = shutil.disk_usage(folder.path).free
        except (ConfigError, OSError) as error:
            yield Finding(
                "folders",
                name,
                Health.PROBLEM,
                str(error),
                "give it a folder that can be written to",
            )
            continue
        value = f"{folder.path}, {size_text(free)} free"
        if folder.problem:
            advice = (
                f"it stands in for one that cannot be used ({folder.problem}), and may be gone at"
                " the next start"
            )
            yield Finding("folders", name, Health.WARNING, value, advice)
        elif free < least:
            advice = f"make room: it is for {purpose}"
            yield Finding("folders", name, Health.WARNING, value, advice)
        else:
            yield Finding("folders", name, Health.OK, value)
    temporary = Path(os.environ.get("TMPDIR") or "/tmp")  # noqa: S108  where Python looks first, too
    if not os.access(temporary, os.W_OK | os.X_OK):
        advice = "set TMPDIR to a folder that can be written to"
        yield Finding("folders", "temporary", Health.WARNING, f"{temporary}: not writable", advice)


def _is_terminal(stream: object) -> bool:
    try:
        return bool(stream.isatty())  # type: ignore[attr-defined]  # a closed one is None
    except (AttributeError, ValueError):
        return False


def _first_line(command: Sequence[str]) -> str:
    try:
        ended = subprocess.run(  # noqa: S603  a program of this machine, with arguments of ours
            command, capture_output=True, timeout=PROGRAM_S, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = ended.stdout.decode("utf-8", "replace").splitlines()
    return lines[0] if lines else ""
