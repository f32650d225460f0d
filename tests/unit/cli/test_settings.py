"""Settings files: their places, their precedence, and the output of `trnfleet config`."""

from __future__ import annotations

import json
import re
import stat
from datetime import date
from typing import TYPE_CHECKING, Any, NamedTuple

import click
import pytest
from support.processes.mosquitto import free_port

from trnfleet.cli.command_table import COMMANDS, load_command
from trnfleet.cli.main import run, unknown_variables
from trnfleet.cli.settings import files as settings_files
from trnfleet.cli.settings.files import Place, SettingsFile, check_file, mapped_keys
from trnfleet.cli.settings.keys import keys_of, leaves, options_of
from trnfleet.cli.settings.layers import ChosenProfile, Settings
from trnfleet.config import shipped_folder
from trnfleet.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


@pytest.mark.parametrize("name", [name for name in COMMANDS if keys_of(name)])
def test_the_settings_file_names_every_setting(name: str) -> None:
    """Each option for settings is in the shipped file, and nothing else."""
    text = (shipped_folder(".") / "trnfleet.toml").read_text(encoding="utf-8")
    tables = {
        table: set(re.findall(r"^(?:# )?([a-z-]+) = ", body, re.MULTILINE))
        for table, body in re.findall(
            r"^\[([a-z]+)\][^\n]*\n(.*?)(?=^\[|\Z)", text, re.MULTILINE | re.DOTALL
        )
    }
    settings = {
        key
        for command in leaves(name)
        for key, each in options_of(command).items()
        if isinstance(each, click.Option) and each.envvar
    }
    assert settings <= tables.get(name, set()) | tables["common"]
    assert tables.get(name, set()) <= keys_of(name)


def test_an_option_that_may_be_repeated_takes_one_value_or_a_list(tmp_path: Path) -> None:
    """One broker for all commands is valid for `status`, too.

    A list is refused if a command accepts only one.
    """
    for value, several in (('"mqtt://b1"', 1), ('["mqtt://b1", "mqtt://b2"]', 2)):
        file = tmp_path / f"{several}.toml"
        file.write_text(f"[common]\nbroker = {value}\n")
        ctx = load_command("status").make_context("status", ["--config", str(file)])
        assert [str(each) for each in ctx.params["broker"]] == ["mqtt://b1:1883", "mqtt://b2:1883"][
            :several
        ]
    with pytest.raises(
        click.UsageError, match=r"\[common\] broker: watch takes one broker; choose one with"
    ):
        load_command("watch").make_context("watch", ["--config", str(tmp_path / "2.toml")])


def test_a_misspelt_variable_is_named_with_the_nearest() -> None:
    """A variable without an option is named.

    Passwords, and variables of other programs and of alerts, are not.
    """
    right = (
        "TRNFLEET_BROKER",
        "TRNFLEET_RANDOM_FAULTS",
        "TRNFLEET_MQTT_PASSWORD",
        "TRNFLEET_ALERT_STATE",
    )
    assert list(unknown_variables((*right, "HOME"))) == []
    assert list(unknown_variables((*right, "TRNFLEET_BROKR", "TRNFLEET_XYZZY"))) == [
        "TRNFLEET_BROKR is ignored: did you mean TRNFLEET_BROKER?",
        "TRNFLEET_XYZZY is ignored: no option has this variable",
    ]


def test_every_option_with_a_variable_is_known() -> None:
    """No variable of any option is taken for an unknown one."""
    variables = {
        str(option.envvar)
        for name in COMMANDS
        for command in leaves(name)
        for option in command.params
        if isinstance(option, click.Option) and option.envvar
    }
    assert len(variables) > 50
    assert list(unknown_variables(variables)) == []


def test_it_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The command runs, with a line on stderr before it."""
    monkeypatch.setenv("TRNFLEET_FLET", "demo")
    assert run(["inject", "--list"]) == 0
    assert (
        capsys.readouterr().err
        == "trnfleet: TRNFLEET_FLET is ignored: did you mean TRNFLEET_FLEET?\n"
    )


class Files(NamedTuple):
    """The places of settings files, with nothing in them at first."""

    user: Path
    system: Path


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
    """Return places of settings files of the test's own; the working folder is another one."""
    found = Files(tmp_path / "home/trnfleet/trnfleet.toml", tmp_path / "etc/trnfleet.toml")
    for each in found:
        each.parent.mkdir(parents=True)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(settings_files, "SYSTEM_FILE", found.system)
    monkeypatch.delenv("TRNFLEET_CONFIG")
    monkeypatch.setenv("COLUMNS", "200")
    return found


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the options printed by `config print`, by name."""
    assert run(["config", "print", "--json", *words]) == 0, capsys.readouterr().err
    return {each["option"]: each for each in json.loads(capsys.readouterr().out)["options"]}


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the last line of a command's refusal."""
    assert run(words) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_each_source_goes_before_the_next(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Precedence: command line, variable, profile, command's table, [common], default.

    In each of these the user's file comes first.
    """
    files.user.write_text(
        '[common]\nlog-format = "json"\nroot = "user"\n[profile.prod]\nname ='
        ' "prod"\n[monitor]\nowner = "ann"\n'
    )
    files.system.write_text(
        '[common]\nroot = "system"\nlog-level = "info"\nname = "x"\nowner = "x"\ntheme ='
        ' "light"\nbell = true\n[profile.prod]\nname = "y"\npue = 1.2\n[monitor]\npue = 1.3\nowner'
        ' = "y"\npast = "1MB"\n'
    )
    monkeypatch.setenv("TRNFLEET_THEME", "ansi")
    found = printed(capsys, "monitor", "--profile", "prod", "--past", "7MB")
    user, system = map(str, files)
    assert {
        name: (each["value"], each["place"]) for name, each in found.items() if each["place"]
    } == {
        "theme": ("ansi", "TRNFLEET_THEME"),
        "name": (["prod"], f"{user} [profile.prod]"),
        "pue": (1.2, f"{system} [profile.prod]"),
        "owner": ("ann", f"{user} [monitor]"),
        "root": ("user", f"{user} [common]"),
        "log-format": ("json", f"{user} [common]"),
        "log-level": ("info", f"{system} [common]"),
        "bell": (True, f"{system} [common]"),
    }
    assert (found["past"]["value"], found["past"]["source"]) == ("7MB", "command line")
    assert (found["broker"]["value"], found["broker"]["source"]) == (None, "default")


def test_a_command_gets_what_is_printed(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    """A command uses the file found by default, and --config replaces it."""
    files.user.write_text('[simulate]\nticks = 2\nfleet = "lab"\n')
    assert run(["simulate", "--stdout"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2 * 2
    given = files.system.with_name("given.toml")
    given.write_text('[simulate]\nticks = 1\nfleet = "lab"\n')
    assert run(["simulate", "--stdout", "--config", str(given)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert printed(capsys, "simulate", "--config", "none")["ticks"]["source"] == "default"


@pytest.mark.parametrize(
    ("chosen", "by"), [("--profile", "lab"), ("TRNFLEET_PROFILE", "lab"), ("[common]", "prod")]
)
def test_a_profile_is_chosen_in_three_ways(
    chosen: str,
    by: str,
    files: Files,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The option, its variable, the key `profile` of [common]; `none` for none of them."""
    files.user.write_text(
        '[common]\nprofile = "prod"\n[profile.prod]\nname = "prod"\n[profile.lab]\nname = "lab"\n'
    )
    if chosen == "TRNFLEET_PROFILE":
        monkeypatch.setenv(chosen, "lab")
    words = ["watch", "--profile", "lab"] if chosen == "--profile" else ["watch"]
    assert printed(capsys, *words)["name"]["value"] == by
    assert printed(capsys, "watch", "--profile", "none")["name"]["value"] is None


def test_an_unknown_profile_is_refused_with_the_nearest_and_the_files(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        refusal(capsys, "watch", "--profile", "prd")
        == "trnfleet: --profile: no profile 'prd', because no settings file exists; looked for"
        f" {files.user} and {files.system}"
    )
    assert (
        refusal(capsys, "status", "--profile", "prd", "--config", "none")
        == "trnfleet: --profile: no profile 'prd', for --config none reads no file"
    )
    files.user.write_text("[profile.prod]\n")
    files.system.write_text("[profile.lab]\n")
    assert (
        refusal(capsys, "watch", "--profile", "prd")
        == f"trnfleet: --profile: no profile 'prd' in {files.user} and {files.system}: did you mean"
        " 'prod'?"
    )
    files.system.write_text('[common]\nprofile = "gone"\n')
    assert (
        refusal(capsys, "watch")
        == f"trnfleet: {files.system} [common]: no profile 'gone' in {files.user} and"
        f" {files.system}: choose from prod"
    )


@pytest.mark.parametrize("command", ["demo", "simulate", "replay"])
def test_the_broker_that_is_watched_gets_no_other_fleet(
    command: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo, simulation or replay uses only its own broker, not [common]'s or a profile's."""
    files.user.write_text(
        '[common]\nbroker = "mqtt://prod"\nname = "prod"\nprofile = "prod"\n'
        '[profile.prod]\nbroker = "mqtt://prod"\nname = "prod"\nlog-level = "info"\n'
    )
    found = printed(capsys, command)
    assert (found["broker"]["value"], found.get("name", {}).get("value")) == (None, None)
    assert found["log-level"]["value"] == "info"
    named = printed(capsys, command, "--profile", "prod")
    assert named["broker"]["value"] == ("mqtt://prod" if command == "simulate" else None)
    files.user.write_text(files.user.read_text() + f'[{command}]\nbroker = "mqtt://lab"\n')
    assert printed(capsys, command, "--profile", "none")["broker"]["value"] == "mqtt://lab"


def test_paths_are_relative_to_the_file_that_names_them(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Shipped names stay names, and `~` is the home."""
    monkeypatch.setenv("HOME", "/home/ann")
    files.user.write_text(
        '[common]\npassword-file = "prod.password"\n[monitor]\nrules = ["jobs",'
        ' "mine.toml"]\nlog-file = "~/app.log"\n[bridge]\nevents = "-"\n'
    )
    found = printed(capsys, "monitor")
    folder = files.user.parent
    assert found["password-file"]["value"] == f"{folder}/prod.password"
    assert found["rules"]["value"] == ["jobs", f"{folder}/mine.toml"]
    assert found["log-file"]["value"] == "/home/ann/app.log"
    assert printed(capsys, "bridge")["events"]["value"] == "-"


@pytest.mark.parametrize("source", ["command line", "variable", "file"])
def test_a_broker_s_host_and_port_are_enough(
    source: str, files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`host:port` is accepted from every source, as MQTT without TLS."""
    broker = f"127.0.0.1:{free_port()}"
    if source == "variable":
        monkeypatch.setenv("TRNFLEET_BROKER", broker)
    elif source == "file":
        files.user.write_text(f'[common]\nbroker = "{broker}"\n')
    words = ["status", "--broker", broker] if source == "command line" else ["status"]
    assert run(words) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"mqtt://{broker}: connection refused")


def test_secrets_are_not_printed(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users and hosts are, as are the names of files with passwords."""
    files.user.write_text(
        '[watch]\nbroker = "mqtt://ops@prod"\npassword-file = "/run/pw"\nwebhook ='
        ' ["https://hooks.example/T0/hunter2"]\nalertmanager = ["http://ann:hunter2@am:9093",'
        ' "http://am/x?key=hunter2"]\nexec = ["notify --token=hunter2", "beep"]\n'
    )
    monkeypatch.setenv("TRNFLEET_MQTT_PASSWORD", "hunter2")
    for form in ([], ["--json"]):
        assert run(["config", "print", "watch", *form]) == 0
        output = capsys.readouterr().out
        assert "hunter2" not in output
        assert "mqtt://ops@prod" in output
    found = printed(capsys, "watch")
    assert found["webhook"]["value"] == ["https://hooks.example/***"]
    assert found["alertmanager"]["value"] == ["http://ann@am:9093", "http://am/***"]
    assert found["exec"]["value"] == ["notify ***", "beep"]
    assert found["password-file"]["value"] == "/run/pw"
    assert found["password of broker"] == {
        "option": "password of broker",
        "value": "***",
        "source": "variable",
        "place": "TRNFLEET_MQTT_PASSWORD",
    }


def test_a_password_of_the_service_is_printed_with_its_file(
    files: Files,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A systemd credential is printed with its file.

    The variable comes first if set. An empty credential does not count.
    """
    monkeypatch.delenv("TRNFLEET_MQTT_PASSWORD", raising=False)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    credential = tmp_path / "mqtt-password"
    files.user.write_text('[common]\nbroker = "mqtt://ops@prod"\n')
    credential.write_text("\n")
    assert "password of broker" not in printed(capsys, "watch")
    credential.write_text("hunter2\n")
    assert printed(capsys, "watch")["password of broker"] == {
        "option": "password of broker",
        "value": "***",
        "source": "credential",
        "place": str(credential),
    }
    for words in (["watch"], []):
        assert run(["config", "print", *words]) == 0
        output = capsys.readouterr().out
        assert re.search(
            rf"password of broker +\*\*\* +credential {re.escape(str(credential))}", output
        )
        assert "hunter2" not in output
    monkeypatch.setenv("TRNFLEET_MQTT_PASSWORD", "hunter3")
    assert printed(capsys, "watch")["password of broker"]["source"] == "variable"


def test_a_password_in_a_broker_s_url_is_not_repeated(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names file, table and key."""
    files.user.write_text('[common]\nbroker = "mqtt://ops:hunter2@prod"\n')
    line = refusal(capsys, "status")
    assert line.startswith(f"trnfleet: {files.user}: [common] broker: broker 'mqtt://ops:***@prod'")
    assert "hunter2" not in line


ONE = ("mqtt://b1:1883", "mqtt://b2:1883")


@pytest.mark.parametrize(
    "words",
    [
        ["watch"],
        ["record", "x.mcap"],
        ["inject", "--list"],
        ["reserve", "list"],
        ["silence", "list"],
        ["jump", "1h"],
        ["ack", "0123456789abcdef"],
        ["usage"],
        ["history", "write", "x"],
        ["simulate"],
        ["bridge"],
    ],
    ids=lambda words: words[0],
)
def test_a_command_that_takes_one_broker_names_the_choice(
    files: Files, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Several brokers in a profile or on a command line are refused with the choice.

    On a command line the last one was used before.
    """
    files.user.write_text('[profile.two]\nbroker = ["mqtt://b1", "mqtt://b2"]\n')
    name = " ".join(words[:2]) if words[0] in {"reserve", "silence", "history"} else words[0]
    says = f"{name} takes one broker; choose one with --broker: {', '.join(ONE)}"
    assert (
        refusal(capsys, *words, "--profile", "two")
        == f"Error: {files.user}: [profile.two] broker: {says}"
    )
    assert refusal(capsys, *words, "--broker", "b1", "--broker", "b2") == f"Error: --broker: {says}"


def test_the_command_line_chooses_one_of_several_brokers_and_fleets(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker or fleet on the command line counts, as one value.

    A variable with several is refused by its name, and `config print` shows all.
    """
    files.user.write_text('[profile.two]\nbroker = ["mqtt://b1", "mqtt://b2"]\nname = ["a", "b"]\n')
    shown = printed(capsys, "usage", "--profile", "two", "--broker", "b2")
    assert (shown["broker"]["value"], shown["name"]["value"]) == ("b2", ["a", "b"])
    line = refusal(capsys, "usage", "--profile", "two", "--broker", "b2")
    assert (
        line == f"Error: {files.user}: [profile.two] name: usage takes one fleet; choose one with"
        " --name: a, b"
    )
    broker = f"127.0.0.1:{free_port()}"
    assert run(["usage", "--profile", "two", "--broker", broker, "--name", "a"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"mqtt://{broker}: connection refused")
    monkeypatch.setenv("TRNFLEET_BROKER", "b1 b2")
    assert refusal(capsys, "watch").startswith(
        "Error: TRNFLEET_BROKER: watch takes one broker; choose one"
    )
    monkeypatch.delenv("TRNFLEET_BROKER")
    files.user.write_text('[watch]\nbroker = ["mqtt://b1", "mqtt://b2"]\n')
    assert printed(capsys, "watch", "--broker", "b2")["broker"]["value"] == "b2"
    assert (
        refusal(capsys, "watch")
        == f"Error: {files.user}: [watch] broker: watch takes one broker; choose one with"
        " --broker: "
        "mqtt://b1:1883, mqtt://b2:1883"
    )
    files.user.write_text('[usage]\nbroker = ["mqtt://b1", "mqtt://b2"]\n')
    assert run(["usage", "--broker", broker, "--name", "a"]) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith(f"mqtt://{broker}: connection refused")
    files.user.write_text('[watch]\nbroker = ["mqtt://b1", "mqtt://b2"]\n')
    assert run(["check", str(files.user)]) == 2
    assert capsys.readouterr().out.endswith(
        "INVALID: [watch] broker: watch takes one broker, not 2\n"
    )


VALUES = ([1, [2]], ["a b", "c"], "no such", True, "", "\x1b", "x" * 300, date(2026, 1, 5))


@pytest.mark.parametrize("title", ["common", "profile.x", "own"])
def test_check_refuses_whatever_a_command_refuses(files: Files, title: str) -> None:
    """Each key and table goes through the same checks as in a command."""
    readers: dict[tuple[str, str], list[tuple[str, Any]]] = {}
    for name in COMMANDS:
        for command in leaves(name):
            for key in options_of(command):
                readers.setdefault((key, name if title == "own" else ""), []).append(
                    (name, command)
                )
    differing = []
    for key, own in sorted(readers):
        for value in VALUES if own else VALUES[:2]:
            table = {key: value}
            shared = {"common": table} if title == "common" else {"profile": {"x": table}}
            data = {own: table} if own else shared
            refusing = [
                name for name, each in readers[key, own] if is_refused(files.user, data, each, name)
            ]
            if bool(refusing) != is_refused(files.user, data):
                differing.append((key, own, value, refusing))
    assert differing == []


def is_refused(path: Path, data: Mapping[str, Any], command: Any = None, name: str = "") -> bool:
    """Return whether a command refuses a file, or without one `check` does."""
    try:
        if command is None:
            check_file(path, data)
        else:
            profile = ChosenProfile("x", "--profile")
            Settings([SettingsFile(Place("given", path), data)], profile).of(command, name)
    except ConfigError:
        return True
    return False


def test_check_names_the_command_that_refuses_a_shared_key(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """A key with another meaning in each command belongs in their tables.

    A list of brokers belongs in any.
    """
    for content, why in (
        (
            '[common]\nformat = "mcap"\n',
            (
                "choose from cbor, json (for simulate, which reads [common], too; put what is for"
                " record below [record])"
            ),
        ),
        (
            '[watch]\nalertmanager = "am:9093"\n',
            "[watch] alertmanager: not a URL such as https://host:9093",
        ),
        ('[watch]\nexec = "notify \'--token=hunter2"\n', "[watch] exec: no closing quotation"),
        (
            '[simulate]\nfleet = "demoo"\n',
            "no file in fleets is called 'demoo': did you mean 'demo'?",
        ),
        (
            '[common]\nprofile = "prodd"\n[profile.prod]\n',
            "no profile 'prodd' in {file}: did you mean 'prod'?",
        ),
    ):
        files.user.with_name("other.toml").write_text(content)
        assert run(["check", str(files.user.with_name("other.toml"))]) == 2
        out = capsys.readouterr().out
        assert why.format(file=files.user.with_name("other.toml")) in out
        assert "hunter2" not in out
    files.user.write_text('[profile.two]\nbroker = ["mqtt://b1", "mqtt://b2"]\nname = ["a", "b"]\n')
    assert run(["check", str(files.user)]) == 0
    assert (
        refusal(capsys, "record", "x.mcap", "--profile", "two", "--broker", "b1")
        == f"Error: {files.user}: [profile.two] name: record takes one fleet; choose one with"
        " --name: a, b"
    )
    files.user.chmod(0o666)
    assert run(["check", str(files.user)]) == 2
    assert "anybody may write" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("command", "key", "value", "why"),
    [
        ("watch", "broker", '[["mqtt://ops:hunter2@prod"]]', "a list, not a number or text"),
        ("watch", "broker", '{ url = "mqtt://ops:hunter2@prod" }', "a table, not a number or text"),
        ("watch", "webhook", '[["https://hooks.example/hunter2"]]', "a list, not a number or text"),
        ("watch", "exec", '[["notify", "--token=hunter2"]]', "a list, not a number or text"),
    ],
)
def test_a_value_of_the_wrong_kind_is_not_repeated_where_it_may_be_secret(
    files: Files, capsys: pytest.CaptureFixture[str], command: str, key: str, value: str, why: str
) -> None:
    """A misplaced URL or program is refused without its text.

    It is in a list or a table.
    """
    files.user.write_text(f"[{command}]\n{key} = {value}\n")
    assert refusal(capsys, command) == f"trnfleet: {files.user}: [{command}] {key} = ***: {why}"


@pytest.mark.parametrize("words", [("status",), ("reserve", "buy")])
def test_print_names_the_command_whose_option_is_wrong(
    files: Files, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """The hint is a valid command."""
    assert not files.user.exists()
    assert run(["config", "print", *words, "--nix"]) == 2
    assert f"Try 'trnfleet {' '.join(words)} --help' for help." in capsys.readouterr().err


def test_a_broken_file_that_was_found_ends_commands_but_not_help(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the file.

    Help, version and `config path` work without it, and so does --config none.
    """
    files.system.write_text("[common\n")
    assert f"{files.system}: not valid TOML" in refusal(capsys, "status", "--broker", "mqtt://h")
    assert f"{files.system}: not valid TOML" in refusal(capsys, "config", "print", "status")
    for words in (["--help"], ["--version"], ["status", "--help"], ["config", "path"]):
        assert run(words) == 0, words
    assert re.search(rf"{files.system} +INVALID: not valid TOML", capsys.readouterr().out)
    assert printed(capsys, "status", "--config", "none")
    files.system.unlink()
    files.system.mkdir()
    assert "cannot be read: Is a directory" in refusal(capsys, "status")


def test_a_file_that_anybody_may_write_is_not_read_by_itself(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """It can name programs to run; --config reads it all the same."""
    files.system.write_text('[common]\nroot = "site"\n')
    files.system.chmod(0o666)
    assert (
        refusal(capsys, "status")
        == f"trnfleet: {files.system}: anybody may write this settings file; chmod o-w it"
    )
    assert printed(capsys, "status", "--config", str(files.system))["root"]["value"] == "site"


def test_a_mistake_in_the_table_of_another_command_is_left_to_check(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """It ends no command that does not read it; `check` and `config path` name it."""
    files.user.write_text("[watch]\nexit-no = 'critical'\n")
    assert printed(capsys, "status")
    assert run(["config", "path"]) == 0
    assert (
        "INVALID: unknown key [watch] 'exit-no': did you mean 'exit-on'?" in capsys.readouterr().out
    )
    assert run(["check", str(files.user)]) == 2


def test_init_writes_every_setting_and_changes_none(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is its owner's alone, and is never written over without --force."""
    assert run(["config", "init"]) == 0
    assert stat.S_IMODE(files.user.stat().st_mode) == 0o600
    text = files.user.read_text()
    assert {'#root = "trnfleet"', '# broker = "mqtts://broker.example"'} <= {
        line.partition("  ")[0] for line in text.splitlines()
    }
    capsys.readouterr()
    assert run(["config", "print"]) == 0
    assert "every option has its default" in capsys.readouterr().out
    files.user.write_text("[common]\n")
    assert (
        refusal(capsys, "config", "init")
        == f"trnfleet: {files.user}: it is there already; --force replaces it"
    )
    assert run(["config", "init", "--force"]) == 0
    assert files.user.read_text() == text


def test_path_says_which_files_are_read(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that is given comes instead of both."""

    def states() -> dict[str, str]:
        assert run(["config", "path", "--json"]) == 0
        return {
            each["kind"]: each["state"] for each in json.loads(capsys.readouterr().out)["places"]
        }

    files.system.write_text("[common]\n")
    assert states() == {"user": "not there", "system": "read"}
    monkeypatch.setenv("TRNFLEET_CONFIG", "none")
    assert states()["system"] == "not read: --config or TRNFLEET_CONFIG names no file"
    given = files.user.with_name("given.toml")
    given.write_text("[common]\n")
    monkeypatch.setenv("TRNFLEET_CONFIG", str(given))
    assert states() == {
        "given": "read",
        "user": "not there",
        "system": f"not read: --config or TRNFLEET_CONFIG names {given}",
    }


def test_print_without_a_command_shows_what_is_no_default(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each value is printed once, with its commands."""
    files.user.write_text(
        '[common]\ntheme = "light"\n[reserve]\ndays = 7\n[silence]\nowner = "ann"\n[profile.x]\npue'
        " = 2\n"
    )
    found = printed(capsys)
    assert found["theme"]["commands"] == ["demo", "monitor", "replay"]
    assert found["days"]["commands"] == ["reserve offerings", "reserve buy", "reserve extend"]
    assert found["owner"]["commands"] == ["silence add"]
    assert set(found) == {"theme", "days", "owner"}
    assert printed(capsys, "--profile", "x")["pue"]["place"] == f"{files.user} [profile.x]"
    files.user.write_text("[profile.x]\npeu = 2\n")
    assert "[profile.x] 'peu': did you mean 'pue'?" in refusal(capsys, "config", "print")


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("monitr",), "no command 'monitr': did you mean 'monitor'?"),
        (
            ("reserve",),
            "reserve has commands of its own: choose from buy, extend, list, offerings, show",
        ),
        (("reserve", "lst"), "no command 'reserve lst': did you mean 'list'?"),
        (("status", "--wiat", "1s"), "'--wait'"),
    ],
)
def test_print_refuses_what_is_no_command(
    words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert said in refusal(capsys, "config", "print", *words)


def test_keys_of_the_user_come_before_those_of_the_system(tmp_path: Path) -> None:
    """Key by key, as in every table; and two files together may use a key twice."""

    def file(kind: str, **keys: str) -> SettingsFile:
        return SettingsFile(Place(kind, tmp_path / f"{kind}.toml"), {"keys": keys})

    files = [file("user", pause="f9"), file("system", pause="f8", help="f1")]
    assert mapped_keys(files) == {"pause": "f9", "help": "f1"}
    with pytest.raises(
        ConfigError, match=r"user\.toml: \[keys\] pause = 'f1': F1 is the key of help"
    ):
        mapped_keys([file("user", pause="f1"), files[1]])
