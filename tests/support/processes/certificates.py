"""Test certificates from the openssl program: good ones, and one per kind of defect."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
_FOR_SERVER = "subjectAltName=DNS:localhost,IP:127.0.0.1"


class Certificates:
    """A folder of certificates (`NAME.pem`) and keys (`NAME.key`).

    `ca` has signed `server` (for localhost and 127.0.0.1), `elsewhere` (for two other names),
    `expired`, `future` and `client`; `other-ca` has signed `stranger`, a client's. `alone` is
    signed by itself. `encrypted.key` is the client's key with a password.
    """

    def __init__(self, folder: Path) -> None:
        """Make them all."""
        self.folder = folder
        for name in ("ca", "other-ca"):
            self._authority(name)
        self._leaf("server", "ca", _FOR_SERVER)
        self._leaf("elsewhere", "ca", "subjectAltName=DNS:broker.example,DNS:other.example")
        self._leaf(
            "expired", "ca", _FOR_SERVER, "-startdate", "240101000000Z", "-enddate", "250101000000Z"
        )
        self._leaf(
            "future", "ca", _FOR_SERVER, "-startdate", "470101000000Z", "-enddate", "490101000000Z"
        )
        self._leaf("client", "ca", "extendedKeyUsage=clientAuth")
        self._leaf("stranger", "other-ca", "extendedKeyUsage=clientAuth")
        _openssl(
            *("req", "-x509", *_CURVE, "-keyout", self.key("alone"), "-out", self.pem("alone")),
            *("-days", "9000", "-subj", "/CN=alone", "-addext", _FOR_SERVER),
        )
        _openssl(
            *("ec", "-in", self.key("client"), "-out", self.key("encrypted"), "-aes256"),
            *("-passout", "pass:opensesame"),
        )

    def pem(self, name: str) -> str:
        """Return the path of a certificate."""
        return str(self.folder / f"{name}.pem")

    def key(self, name: str) -> str:
        """Return the path of a key."""
        return str(self.folder / f"{name}.key")

    def listener(self, name: str = "server", *, asks_client: bool = False) -> list[str]:
        """Return the lines of a Mosquitto listener with TLS."""
        lines = [f"certfile {self.pem(name)}", f"keyfile {self.key(name)}"]
        return (
            [*lines, f"cafile {self.pem('ca')}", "require_certificate true"]
            if asks_client
            else lines
        )

    def _authority(self, name: str) -> None:
        _openssl(
            *("req", "-x509", *_CURVE, "-keyout", self.key(name), "-out", self.pem(name)),
            *(
                "-days",
                "9000",
                "-subj",
                f"/CN={name} of the tests",
                "-addext",
                "keyUsage=keyCertSign,cRLSign",
            ),
        )

    def _leaf(self, name: str, authority: str, extension: str, *times: str) -> None:
        request = self.folder / f"{name}.csr"
        settings = self.folder / f"{name}.cnf"
        _openssl(
            "req",
            "-new",
            *_CURVE,
            "-keyout",
            self.key(name),
            "-out",
            str(request),
            "-subj",
            f"/CN={name}",
        )
        database = self.folder / f"{name}.db"
        database.touch()
        lines = [
            "[ca]",
            "default_ca=made",
            "[made]",
            f"database={database}",
            f"serial={self.folder / 'serial'}",
            f"new_certs_dir={self.folder}",
            "default_md=sha256",
            "policy=any",
            "x509_extensions=leaf",
            "[any]",
            "commonName=supplied",
            "[leaf]",
            extension,
        ]
        settings.write_text("\n".join(lines) + "\n")
        _openssl(
            *(
                "ca",
                "-batch",
                "-notext",
                "-config",
                str(settings),
                "-create_serial",
                "-in",
                str(request),
            ),
            *(
                "-cert",
                self.pem(authority),
                "-keyfile",
                self.key(authority),
                "-out",
                self.pem(name),
            ),
            *(times or ("-days", "9000")),
        )


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)
