"""Settings files: where they are found, what goes before what, and what `trnfleet config` says of it."""

from __future__ import annotations

import json
import re
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from support.processes.mosquitto import free_port

from trnfleet.cli.main import run
from trnfleet.cli.settings import places

if TYPE_CHECKING:
    from pathlib import Path


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
    monkeypatch.setattr(places, "SYSTEM_FILE", found.system)
    monkeypatch.delenv("TRNFLEET_CONFIG")
    monkeypatch.setenv("COLUMNS", "200")
    return found


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    """Return the options that `config print` shows, by name."""
    assert run(["config", "print", "--json", *words]) == 0, capsys.readouterr().err
    return {each["option"]: each for each in json.loads(capsys.readouterr().out)["options"]}


def refusal(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """Return the last line that a command refuses with."""
    assert run(words) == 2
    return capsys.readouterr().err.splitlines()[-1]


def test_each_source_goes_before_the_next(
    files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Command line, variable, profile, the command's table, [common], default; in each of these the user's file first."""
    files.user.write_text(
        '[common]\nlog-format = "json"\nroot = "user"\n[profile.prod]\nname = "prod"\n[monitor]\nowner = "ann"\n'
    )
    files.system.write_text(
        '[common]\nroot = "system"\nlog-level = "info"\nname = "x"\nowner = "x"\ntheme = "light"\nbell = true\n'
        '[profile.prod]\nname = "y"\npue = 1.2\n[monitor]\npue = 1.3\nowner = "y"\npast = "1MB"\n'
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
    """The file that is found by itself is the one that a command goes by, and --config replaces it."""
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
    assert refusal(capsys, "watch", "--profile", "prd") == (
        f"trnfleet: --profile: no profile 'prd', for there is no settings file; looked for {files.user} and {files.system}"
    )
    assert refusal(capsys, "status", "--profile", "prd", "--config", "none") == (
        "trnfleet: --profile: no profile 'prd', for --config none reads no file"
    )
    files.user.write_text("[profile.prod]\n")
    files.system.write_text("[profile.lab]\n")
    assert refusal(capsys, "watch", "--profile", "prd") == (
        f"trnfleet: --profile: no profile 'prd' in {files.user} and {files.system}: did you mean 'prod'?"
    )
    files.system.write_text('[common]\nprofile = "gone"\n')
    assert refusal(capsys, "watch") == (
        f"trnfleet: {files.system} [common]: no profile 'gone' in {files.user} and {files.system}: choose from prod"
    )


@pytest.mark.parametrize("command", ["demo", "simulate", "replay"])
def test_the_broker_that_is_watched_gets_no_other_fleet(
    command: str, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """A demo, a simulation or a replay goes to a broker that is named for it, not to that of [common] or of a profile."""
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
    """Names of what ships stay names, and `~` is the home."""
    monkeypatch.setenv("HOME", "/home/ann")
    files.user.write_text(
        '[common]\npassword-file = "prod.password"\n[monitor]\nrules = ["jobs", "mine.toml"]\nlog-file = "~/app.log"\n'
        '[bridge]\nevents = "-"\n'
    )
    found, folder = printed(capsys, "monitor"), files.user.parent
    assert found["password-file"]["value"] == f"{folder}/prod.password"
    assert found["rules"]["value"] == ["jobs", f"{folder}/mine.toml"]
    assert found["log-file"]["value"] == "/home/ann/app.log"
    assert printed(capsys, "bridge")["events"]["value"] == "-"


@pytest.mark.parametrize("source", ["command line", "variable", "file"])
def test_a_broker_s_host_and_port_are_enough(
    source: str, files: Files, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`host:port` is understood wherever it comes from, as MQTT without TLS."""
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
        '[watch]\nbroker = "mqtt://ops@prod"\npassword-file = "/run/pw"\nwebhook = ["https://hooks.example/T0/hunter2"]\n'
        'alertmanager = ["http://ann:hunter2@am:9093", "http://am/x?key=hunter2"]\nexec = ["notify --token=hunter2", "beep"]\n'
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
        "option": "password of broker", "value": "***", "source": "variable", "place": "TRNFLEET_MQTT_PASSWORD"
    }  # fmt: skip  # one line


def test_a_password_of_the_service_is_printed_with_its_file(
    files: Files,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """As a credential of systemd; where the variable is set, that comes first, and an empty one is none."""
    monkeypatch.delenv("TRNFLEET_MQTT_PASSWORD", raising=False)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    credential = tmp_path / "mqtt-password"
    files.user.write_text('[common]\nbroker = "mqtt://ops@prod"\n')
    credential.write_text("\n")
    assert "password of broker" not in printed(capsys, "watch")
    credential.write_text("hunter2\n")
    assert printed(capsys, "watch")["password of broker"] == {
        "option": "password of broker", "value": "***", "source": "credential", "place": str(credential)
    }  # fmt: skip  # one line
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
        ["watch"], ["record", "x.mcap"], ["inject", "--list"], ["reserve", "list"], ["silence", "list"], ["jump", "1h"],
        ["ack", "0123456789abcdef"], ["usage"], ["history", "write", "x"], ["simulate"], ["bridge"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip  # a list of commands
def test_a_command_that_takes_one_broker_names_the_choice(
    files: Files, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """Of a profile with several, and of a command line with several, of which the last one was taken before."""
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
    """What is named there counts, as one value; a variable with several is refused by its name, and `config print` shows all."""
    files.user.write_text('[profile.two]\nbroker = ["mqtt://b1", "mqtt://b2"]\nname = ["a", "b"]\n')
    shown = printed(capsys, "usage", "--profile", "two", "--broker", "b2")
    assert (shown["broker"]["value"], shown["name"]["value"]) == ("b2", ["a", "b"])
    line = refusal(capsys, "usage", "--profile", "two", "--broker", "b2")
    assert (
        line
        == f"Error: {files.user}: [profile.two] name: usage takes one fleet; choose one with --name: a, b"
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
    assert refusal(capsys, "watch") == (
        f"Error: {files.user}: [watch] broker: watch takes one broker; choose one with --broker: "
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
    """A URL or a program in a list or a table is refused without its text."""
    files.user.write_text(f"[{command}]\n{key} = {value}\n")
    assert refusal(capsys, command) == f"trnfleet: {files.user}: [{command}] {key} = ***: {why}"


@pytest.mark.parametrize("words", [("status",), ("reserve", "buy")])
def test_print_names_the_command_whose_option_is_wrong(
    files: Files, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """The hint is a command that can be typed."""
    assert not files.user.exists()
    assert run(["config", "print", *words, "--nix"]) == 2
    assert f"Try 'trnfleet {' '.join(words)} --help' for help." in capsys.readouterr().err


def test_a_broken_file_that_was_found_ends_commands_but_not_help(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line names the file; help, version and `config path` do without it, as does --config none."""
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
    assert refusal(capsys, "status") == (
        f"trnfleet: {files.system}: anybody may write this settings file; chmod o-w it"
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
    assert refusal(capsys, "config", "init") == (
        f"trnfleet: {files.user}: it is there already; --force replaces it"
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
        "given": "read", "user": "not there", "system": f"not read: --config or TRNFLEET_CONFIG names {given}"
    }  # fmt: skip  # one line


def test_print_without_a_command_shows_what_is_no_default(
    files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each value once, with the commands that get it."""
    files.user.write_text(
        '[common]\ntheme = "light"\n[reserve]\ndays = 7\n[silence]\nowner = "ann"\n[profile.x]\npue = 2\n'
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
