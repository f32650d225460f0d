"""TLS settings, and secrets in files."""

from __future__ import annotations

import os
import ssl
from typing import TYPE_CHECKING

import pytest

from trnfleet.errors import ConfigError
from trnfleet.transport.security import TlsSettings, TokenFile, read_secret
from trnfleet.transport.url import BrokerUrl, parse_url
from trnfleet.wire.ports import LARGEST_TWO_BYTES

if TYPE_CHECKING:
    from pathlib import Path

    from support.processes.certificates import Certificates


def write(folder: Path, data: bytes, mode: int = 0o600) -> str:
    file = folder / "secret"
    file.write_bytes(data)
    file.chmod(mode)
    return str(file)


def test_a_token_is_what_the_file_has_now(tmp_path: Path) -> None:
    """It is read each time, without the line's end, and shows itself nowhere.

    It may have all of MQTT's 65,535 bytes before that end.
    """
    token = TokenFile(write(tmp_path, b"one\r\n"))
    assert token.reveal() == "one"
    write(tmp_path, b"two" * (LARGEST_TWO_BYTES // 3) + b"\r\n")
    assert token.reveal() == "two" * (LARGEST_TWO_BYTES // 3)
    assert "two" not in repr(token)


@pytest.mark.parametrize(
    ("data", "mode", "words"),
    [
        (b"hunter2", 0o640, "others may read it; chmod 600 it"),
        (b"\n", 0o600, "it is empty"),
        (
            b"hunter2\nnotes\n",
            0o600,
            "it has several lines; the secret must be the only one",
        ),
        (b"hunter2\xff", 0o600, "it is not UTF-8"),
        (b"h" * (LARGEST_TWO_BYTES + 1), 0o600, "it is over MQTT's 65,535 bytes"),
        (b"h\n" + b"\xc3\xa4" * LARGEST_TWO_BYTES, 0o600, "it is over MQTT's 65,535 bytes"),
        (b"h" * LARGEST_TWO_BYTES + b"\n\n\nnotes", 0o600, "it is over MQTT's 65,535 bytes"),
    ],
)
def test_a_file_that_is_no_good_is_named_and_not_quoted(
    data: bytes, mode: int, words: str, tmp_path: Path
) -> None:
    """The error has the option, the file and the reason, and none of its content.

    Nor has its traceback.
    """
    file = write(tmp_path, data, mode)
    with pytest.raises(ConfigError) as error:
        read_secret("--password-file", file)
    assert str(error.value) == f"--password-file {file}: {words}"
    assert error.value.__context__ is None or error.value.__suppress_context__


def test_a_token_in_a_pipe_is_refused_before_it_is_waited_for(tmp_path: Path) -> None:
    """It could be read once, and the next connection would wait for a writer forever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    with pytest.raises(
        ConfigError, match="not a regular file; it is read again for every connection"
    ):
        TokenFile(str(pipe)).check()


def test_a_missing_file_is_named() -> None:
    """The line says that it is missing."""
    with pytest.raises(ConfigError, match=r"--token-file /missing: no such file or directory"):
        TokenFile("/missing").reveal()


def test_a_credential_of_a_service_may_seem_to_be_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A systemd credential with group permission is accepted; other files are refused.

    Systemd permits its user by a list, and that shows as a right of the group.
    """
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    for folder in ("credentials", "elsewhere"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "token").write_text("t0ken\n")
        (tmp_path / folder / "token").chmod(0o440)
    assert read_secret("--token-file", str(tmp_path / "credentials" / "token")) == "t0ken"
    with pytest.raises(ConfigError, match="others may read it"):
        read_secret("--token-file", str(tmp_path / "elsewhere" / "token"))


URL = parse_url("mqtts://broker.example")


def test_by_default_a_broker_is_verified() -> None:
    """TLS is 1.2 or later, with certificate and host name verified by the system's authorities."""
    context = TlsSettings().context()
    assert context.minimum_version == ssl.TLSVersion.TLSv1_2
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.check_hostname
    unverified = TlsSettings(insecure=True).context()
    assert (unverified.verify_mode, unverified.check_hostname) == (ssl.CERT_NONE, False)


@pytest.mark.parametrize(
    ("settings", "url", "words"),
    [
        (
            TlsSettings(cert="c"),
            "mqtt://h",
            "--cert is for TLS, which mqtt://h:1883 does not use: write mqtts://",
        ),
        (
            TlsSettings(insecure=True),
            "ws://h",
            "--insecure is for TLS, which ws://h:80/mqtt does not use: write wss://",
        ),
        (
            TlsSettings(key="k"),
            "mqtts://h",
            "--key k: its certificate is missing; give --cert FILE",
        ),
        (TlsSettings(ca="c", insecure=True), "mqtts://h", "--insecure and --ca do not go together"),
        (
            TlsSettings(alpn="\u00e9"),
            "wss://h",
            "--alpn '\u00e9': it is not 1 to 255 printable ASCII",
        ),
        (TlsSettings(alpn="a" * 256), "wss://h", "it is not 1 to 255"),
        (
            TlsSettings(ca="/missing.pem"),
            "mqtts://h",
            "--ca /missing.pem: no such file or directory",
        ),
        (TlsSettings(ca="/"), "mqtts://h", "--ca /: is a directory"),
        (TlsSettings(ca="\0"), "mqtts://h", "not a file name"),
    ],
)
def test_settings_that_contradict_each_other(settings: TlsSettings, url: str, words: str) -> None:
    """Each contradiction, and each file that cannot be read, is one line with the option."""
    with pytest.raises(ConfigError) as error:
        settings.check(parse_url(url))
    assert words in str(error.value)


@pytest.mark.parametrize(
    ("cert", "key", "words"),
    [
        ("client.pem", "server.key", "server.key: the key is not that of the certificate in"),
        ("client.pem", "encrypted.key", "encrypted.key: the key must not be encrypted"),
        ("client.pem", "ca.pem", "ca.pem: it has no private key in PEM form"),
        (
            "client.pem",
            None,
            "client.pem: it has no private key in PEM form; give the key's own file with --key",
        ),
        ("client.key", "client.key", "client.key: it has no certificate in PEM form"),
        ("damaged", "client.key", "damaged: certificate or key is damaged, or of an unknown kind"),
    ],
)
def test_certificates_and_keys_that_are_no_good(
    cert: str, key: str | None, words: str, certificates: Certificates
) -> None:
    """One line says whether the key is another's, encrypted or missing, without a prompt."""
    (certificates.folder / "damaged").write_text(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
    )
    at = str(certificates.folder)
    with pytest.raises(ConfigError) as error:
        TlsSettings(cert=f"{at}/{cert}", key=key and f"{at}/{key}").check(URL)
    assert words in str(error.value)


def test_a_certificate_and_its_key_may_be_in_one_file(
    certificates: Certificates, tmp_path: Path
) -> None:
    """A file with both is valid alone; an authorities' file without any is refused."""
    both = tmp_path / "both.pem"
    both.write_bytes(
        b"".join((certificates.folder / f"client.{kind}").read_bytes() for kind in ("pem", "key"))
    )
    TlsSettings(ca=certificates.pem("ca"), cert=str(both)).check(URL)
    with pytest.raises(ConfigError, match="has no certificate in PEM form"):
        TlsSettings(ca=certificates.key("ca")).check(URL)
    TlsSettings().check(BrokerUrl("h"))
