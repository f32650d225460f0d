from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import click
import pytest
from click.testing import CliRunner

from trnfleet.cli import options
from trnfleet.cli.options import (
    PASSWORD_VARIABLE,
    AccessOptions,
    broker_arguments,
    broker_options,
    destination_options,
    settings_options,
)
from trnfleet.errors import ConfigError
from trnfleet.services.session import BrokerSession
from trnfleet.transport.security import TlsSettings, TokenFile
from trnfleet.transport.url import BrokerUrl, Password, parse_url

if TYPE_CHECKING:
    from pathlib import Path

    from trnfleet.cli.options import Destination


def with_settings(command: Any) -> Any:
    for option in settings_options():
        command = option(command)
    return command


def session_of(*arguments: str, **variables: str) -> BrokerSession:
    """Return the session of a command with the options about a broker."""
    (made,) = sessions_of(*arguments, **variables)
    return made


def sessions_of(*arguments: str, **variables: str) -> list[BrokerSession]:
    """Return the sessions of a command with the options about brokers."""
    made: list[BrokerSession] = []

    @click.command("watch")
    @with_settings
    @broker_options(required=True, several=True)
    def command(sessions: tuple[BrokerSession, ...]) -> None:
        made.extend(sessions)

    result = CliRunner().invoke(command, arguments, env=variables)
    if result.exception is not None:
        raise result.exception
    return made


def secret_file(folder: Path) -> str:
    file = folder / "secret"
    file.write_text("hunter2\n")
    file.chmod(0o600)
    return str(file)


@pytest.fixture
def file(tmp_path: Path) -> str:
    return secret_file(tmp_path)


def test_where_a_password_comes_from(file: str) -> None:
    """The file comes before the variable.

    A token stays in its file, and the user may be an option.
    """
    broker = ("--broker", "mqtt://h", "--user", "ops")
    by_file = session_of(*broker, "--password-file", file, **{PASSWORD_VARIABLE: "other"})
    assert (by_file.url, by_file.password) == (BrokerUrl("h", user="ops"), Password("hunter2"))
    assert session_of(*broker, **{PASSWORD_VARIABLE: "other"}).password == Password("other")
    token = session_of(*broker, "--token-file", file).password
    assert isinstance(token, TokenFile)
    assert token.path == file


def test_options_that_contradict_each_other_are_refused(file: str) -> None:
    """Contradictions are refused in one line each.

    They are two sources of a password, a token without a user, and a prompt without a terminal.
    """
    with pytest.raises(ConfigError, match="--password-file and --ask-password do not go together"):
        session_of("--broker", "mqtt://a@h", "--ask-password", "--password-file", file)
    with pytest.raises(
        ConfigError, match="--token-file needs a user: mqtts://user@h, or --user NAME"
    ):
        session_of("--broker", "mqtts://h", "--token-file", file)
    with pytest.raises(ConfigError, match="--ask-password needs a terminal"):
        session_of("--broker", "mqtt://a@h", "--ask-password")
    with pytest.raises(ConfigError, match="--user 'b': the broker's URL has another user, 'a'"):
        session_of("--broker", "mqtt://a@h", "--user", "b")


def test_of_options_that_come_instead_of_each_other_the_stronger_source_decides(
    file: str, tmp_path: Path
) -> None:
    """A stronger source's token replaces the password file of [common] or a variable.

    The token is on the command line or in a profile. In the same way --insecure replaces --ca.
    """
    settings = tmp_path / "settings.toml"
    settings.write_text(
        f'[common]\npassword-file = "{file}"\nca = "/missing.pem"\n[profile.cloud]\ntoken-file ='
        f' "{file}"\n[watch]\ninsecure = true\n'
    )
    broker = ("--broker", "mqtts://ops@h", "--config", str(settings))
    assert session_of(*broker).password == Password("hunter2")
    assert session_of(*broker).tls == TlsSettings(insecure=True)
    for more in (("--token-file", file), ("--profile", "cloud")):
        assert isinstance(session_of(*broker, *more).password, TokenFile)
    assert isinstance(session_of(*broker, TRNFLEET_TOKEN_FILE=file).password, TokenFile)
    settings.write_text(f'[common]\npassword-file = "{file}"\ntoken-file = "{file}"\n')
    with pytest.raises(ConfigError, match="--password-file and --token-file do not go together"):
        session_of(*broker)


def test_the_password_s_variable_goes_before_settings_files(file: str, tmp_path: Path) -> None:
    """The variable is stronger than a file, a token or a prompt of the settings.

    It is weaker than those of the command line.
    """
    settings = tmp_path / "settings.toml"
    broker = ("--broker", "mqtt://ops@h", "--config", str(settings))
    variable = {PASSWORD_VARIABLE: "other"}
    for line in (f'password-file = "{file}"', f'token-file = "{file}"', "ask-password = true"):
        settings.write_text(f"[common]\n{line}\n")
        assert session_of(*broker, **variable).password == Password("other")
        assert session_of(*broker, "--password-file", file, **variable).password == Password(
            "hunter2"
        )
    assert session_of(*broker, TRNFLEET_PASSWORD_FILE=file, **variable).password == Password(
        "hunter2"
    )


def test_an_option_is_for_the_brokers_that_have_a_use_for_it(file: str) -> None:
    """Brokers with TLS get the certificates, and those without a user the user.

    An option that no broker can use is refused.
    """
    brokers = ("--broker", "mqtts://h", "--broker", "mqtt://ann@h")
    over_tls, plain = sessions_of(*brokers, "--insecure", "--user", "ops", "--token-file", file)
    assert (over_tls.url.user, over_tls.tls) == ("ops", TlsSettings(insecure=True))
    assert (plain.url.user, plain.tls) == ("ann", TlsSettings())
    nobody, ann = sessions_of(*brokers, "--token-file", file)
    assert (nobody.password, isinstance(ann.password, TokenFile)) == (None, True)
    with pytest.raises(
        ConfigError, match="--insecure is for TLS, which mqtt://h:1883 does not use"
    ):
        sessions_of("--broker", "mqtt://h", "--broker", "mqtt://ann@h", "--insecure")


def test_more_brokers_than_an_instance_can_be_heard_over_are_refused() -> None:
    """The line has their number and the limit; one that is named twice counts once."""
    brokers = [word for number in range(1, 33) for word in ("--broker", f"mqtt://h:{number}")]
    assert len(sessions_of(*brokers[:-2], "--broker", "mqtt://h:1")) == 31
    with pytest.raises(ConfigError, match="--broker: 32 brokers, over the limit of 31"):
        sessions_of(*brokers)


def test_a_token_of_the_settings_is_for_brokers_with_a_user(file: str) -> None:
    """A broker without a user is connected to without the token.

    On the command line a token needs a user.
    """
    assert session_of("--broker", "mqtt://h", TRNFLEET_TOKEN_FILE=file).password is None
    assert isinstance(
        session_of("--broker", "mqtt://h", "--user", "ops", TRNFLEET_TOKEN_FILE=file).password,
        TokenFile,
    )


def test_a_key_goes_with_its_own_certificate() -> None:
    """A certificate on the command line leaves the key of the settings aside."""
    own = AccessOptions(cert="new.pem", key="old.key")
    assert own.strongest({"cert": (2, 0), "key": (4, 0)}) == AccessOptions(cert="new.pem")
    assert own.strongest({"cert": (4, 0), "key": (2, 0)}) == own
    assert own.strongest({"cert": (4, 1), "key": (4, 1)}) == own


def test_a_password_is_asked_for_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """The prompt names user and host; nothing typed is no password."""
    asked: list[str] = []
    answers = iter(["hunter2", ""])

    def ask(prompt: str) -> str:
        asked.append(prompt)
        return next(answers)

    monkeypatch.setattr("getpass.getpass", ask)
    monkeypatch.setattr(options, "_has_terminal", lambda: True)
    assert session_of("--broker", "mqtt://a@h", "--ask-password").password == Password("hunter2")
    with pytest.raises(ConfigError, match="no password was given"):
        session_of("--broker", "mqtt://a@h", "--ask-password")
    assert asked == ["Password of a at h: "] * 2


def test_what_variables_name_for_all_brokers_is_used_where_it_fits() -> None:
    """Variables with an authority and a user are ignored for a broker without TLS.

    On the command line they contradict.
    """
    variables = {"TRNFLEET_CA": "/missing.pem", "TRNFLEET_USER": "ops"}
    plain = session_of("--broker", "mqtt://ann@h", **variables)
    assert (plain.url.user, plain.tls) == ("ann", TlsSettings())
    with pytest.raises(ConfigError, match=r"--ca /missing\.pem: no such file"):
        session_of("--broker", "mqtts://h", **variables)
    with pytest.raises(ConfigError, match="--ca is for TLS"):
        session_of("--broker", "mqtt://h", "--ca", "/missing.pem")


def test_a_child_gets_every_option_and_no_password() -> None:
    """The demo's arguments make the same session in its simulator, without a password."""
    given: dict[str, Any] = {"ca": "a", "cert": "c", "key": "k", "alpn": "mqtt"}
    url = parse_url("mqtts://ops@h")
    with_token = BrokerSession(url, password=TokenFile("t"), tls=TlsSettings(**given))
    expected = [
        "--root",
        "site",
        "--ca",
        "a",
        "--cert",
        "c",
        "--key",
        "k",
        "--alpn",
        "mqtt",
        "--token-file",
        "t",
    ]
    assert broker_arguments(with_token, "site") == expected
    unverified = BrokerSession(url, password=Password("hunter2"), tls=TlsSettings(insecure=True))
    assert broker_arguments(unverified, "site") == ["--root", "site", "--insecure"]
    assert broker_arguments(None, "site") == ["--root", "site"]


def test_the_client_that_reads_can_be_chosen_and_help_does_not_show_it() -> None:
    """`--client` and its variable work, hidden from help."""
    broker = ("--broker", "mqtt://h")
    assert session_of(*broker).client == "mqtt5"
    assert session_of(*broker, "--client", "aiomqtt").client == "aiomqtt"
    assert session_of(*broker, TRNFLEET_CLIENT="aiomqtt").client == "aiomqtt"

    @click.command("watch")
    @broker_options(required=True)
    def command(**_: Any) -> None:
        """Do nothing."""

    shown = CliRunner().invoke(command, ["--help"]).output
    assert "--insecure" in shown
    assert "--client" not in shown


def test_a_look_is_named_after_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is published needs a fleet's name."""
    monkeypatch.setattr(socket, "gethostname", lambda: "ip-10-0-0-7.example")

    @click.command("agent")
    @destination_options
    def command(destination: Destination) -> None:
        click.echo(destination.name)

    looked = CliRunner().invoke(command, ["--once", "--stdout"])
    assert looked.stdout == "ip-10-0-0-7-example\n"
    assert "without --name" in looked.stderr
    followed = CliRunner().invoke(command, ["--stdout"])
    assert "Missing option '--name' (env var: 'TRNFLEET_NAME')" in followed.stderr
