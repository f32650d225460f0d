"""Access to our own broker for others: authority, certificate, user and password.

All are in a folder. The `openssl` program makes the keys; they never pass through here. Everything
is readable by its owner only and survives restarts: clients keep the authority's certificate.
"""

from __future__ import annotations

import contextlib
import fcntl
import ipaddress
import os
import re
import secrets
import shutil
import socket
import struct
import subprocess
from typing import TYPE_CHECKING, NamedTuple

from trnfleet.errors import BrokerError
from trnfleet.files import open_private

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

USER = "trnfleet"
"""The only user of such a broker."""
PASSWORD_BYTES = 24
AUTHORITY_DAYS = 3_650
SERVER_DAYS = 397
"""Days of a server certificate. Today's browsers and phones refuse longer ones."""
RENEWED_DAYS = 30
"""A certificate is renewed at the next start within these last days."""
PROGRAM_LIMIT_S = 20.0
LONGEST_NAME = 64
"""Characters of a common name."""

_DAY_S = 86_400
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
        _write_private(access.password, secrets.token_urlsafe(PASSWORD_BYTES) + "\n")
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
            "openssl", "x509", "-checkend", str(days * _DAY_S), "-noout", "-in", str(cert)
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
    try:
        return subprocess.run(  # noqa: S603  the programs are named above, and no shell is wanted
            [path, *arguments],
            check=False,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PROGRAM_LIMIT_S,
        )
    except subprocess.TimeoutExpired:
        raise BrokerError(
            f"{program} {arguments[0]}: no end within {PROGRAM_LIMIT_S:g} s"
        ) from None
