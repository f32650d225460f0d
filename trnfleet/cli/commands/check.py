"""`trnfleet check`: whether files are valid, whatever they are."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from trnfleet.errors import ConfigError, TrnfleetError
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.cli.foreign import Kind

INVALID = 2
MOST_SHOWN = 10
"""Problems of one file that are shown; the rest is counted."""
_WIDTH = 600


@click.command("check")
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.pass_context
def command(ctx: click.Context, files: tuple[str, ...]) -> None:
    """Say of each FILE whether it is valid, or what is wrong where.

    What a file is follows from its content: a recording, a fleet, a scenario, alert rules, tests of rules, or settings.
    A recording that was not finished is not valid, though all that is in it can be read: trnfleet info tells what that is.

    \b
    Examples:
      trnfleet check night.mcap
      trnfleet check my-fleet.toml my-scenario.toml my-rules.toml

    Exit status: 0 all valid, 2 not.
    """
    valid = True
    for name in files:
        shown = plain(name, _WIDTH)
        try:
            what, problems = _check(Path(name))
        except TrnfleetError as error:
            what, problems = "", [str(error).removeprefix(f"{name}: ")]
        if not problems:
            click.echo(f"{shown}: valid ({what})")
            continue
        valid = False
        for problem in problems[:MOST_SHOWN]:
            said = plain(problem, _WIDTH).removeprefix(f"{shown}: ")
            click.echo(f"{shown}: INVALID: {said}")
        if len(problems) > MOST_SHOWN:
            click.echo(f"{shown}: and {len(problems) - MOST_SHOWN:,} more")
    ctx.exit(0 if valid else INVALID)


def _check(path: Path) -> tuple[str, list[str]]:
    """Return what a file is, and what is wrong with it.

    Raises:
        TrnfleetError: it is invalid; the message says where.
    """
    from trnfleet.cli.commands.convert import ENDINGS  # noqa: PLC0415  --help stays quick
    from trnfleet.cli.foreign import UnknownKindError, detect  # noqa: PLC0415  --help stays quick
    from trnfleet.config import load_toml  # noqa: PLC0415  --help stays quick

    try:
        return _messages(path, detect(path))
    except UnknownKindError:
        if path.suffix in ENDINGS:
            raise
    data = load_toml(path)
    for is_one, check in _KINDS:
        if is_one(data):
            return check(path, data), []
    raise ConfigError(
        f"{path}: neither a recording nor a fleet ([[clusters]]), a scenario ([[faults]], [[loads]] or [rates]), rules "
        "([[rules]]), tests of rules ([[tests]]) or settings ([common] or a command's name)"
    )


def _messages(path: Path, kind: Kind) -> tuple[str, list[str]]:
    from trnfleet.cli.foreign import NOUNS, Kind, LinesInput, NeuronInput  # noqa: PLC0415  --help stays quick
    from trnfleet.record.read.recording import Recording  # noqa: PLC0415  --help stays quick

    if kind is Kind.MCAP:
        recording = Recording.open([path])
        try:
            return f"recording, {recording.census().messages:,} messages", recording.verify()
        finally:
            recording.close()
    given = LinesInput(path) if kind is Kind.MOSQUITTO else NeuronInput(path)
    count = sum(1 for _ in given.messages())
    problems = [given.told.text(NOUNS[kind])] if given.told.count else []
    return f"another program's recording, {count:,} messages", problems


def _fleet(path: Path, _: dict[str, Any]) -> str:
    from trnfleet.cli.running import load_run, make_engine  # noqa: PLC0415  only for fleets

    run = load_run({"fleet"}, fleet=str(path), scenario=None, seed=7, period_s=1.0, speed=1.0, start=None)
    engine = make_engine(run, run.fleet)
    return f"fleet {run.fleet.name}, {engine.layout.chips:,} chips"


def _scenario(path: Path, _: dict[str, Any]) -> str:
    from trnfleet.cli.running import load_run, make_engine  # noqa: PLC0415  only for scenarios

    run = load_run(set(), fleet="demo", scenario=str(path), seed=7, period_s=1.0, speed=1.0, start=None)
    make_engine(run, run.fleet)
    run.transport_faults()
    return f"scenario for the fleet {run.fleet.name}"


def _rules(path: Path, _: dict[str, Any]) -> str:
    from trnfleet.cli.rulepack import KIND  # noqa: PLC0415  only for rules
    from trnfleet.config import find_file, load_model, shipped_names  # noqa: PLC0415  only for rules
    from trnfleet.domain.alerts.rules import RuleFile, join_rules  # noqa: PLC0415  only for rules

    content = load_model(path, RuleFile)
    shipped = [find_file(KIND, name) for name in shipped_names(KIND)]
    elsewhere = [
        rule.name
        for file in shipped
        if file.resolve() != path.resolve()
        for rule in load_model(file, RuleFile).rules
    ]
    join_rules([(str(path), content)], elsewhere=elsewhere)
    return f"alert rules, {len(content.rules):,} of them"


def _tests(path: Path, _: dict[str, Any]) -> str:
    from trnfleet.cli.commands.rules import run_tests  # noqa: PLC0415  only for tests of rules

    count, found = run_tests(path)
    if found:
        raise ConfigError(f"{path}: {len(found):,} results differ; trnfleet rules test {path} tells them")
    return f"tests of alert rules, {count:,} of them, all as expected"


def _settings(path: Path, data: dict[str, Any]) -> str:
    from trnfleet.cli.main import COMMANDS, cli  # noqa: PLC0415  main imports this module by its name

    tables = [name for name in data if name != "common"] or ["demo"]
    with click.Context(cli) as above:
        for name in tables:
            # A table of no command is refused by any command that reads the file.
            found = cli.get_command(above, name if name in COMMANDS else "demo")
            option = next((each for each in found.params if each.name == "config"), None) if found else None
            if found is None or option is None or option.callback is None:
                raise ConfigError(f"{path}: [{name}]: the command has no settings of its own; use [common]")
            option.callback(click.Context(found, above, info_name=name), option, str(path))
    return "settings"


def _is_settings(data: dict[str, Any]) -> bool:
    from trnfleet.cli.main import COMMANDS  # noqa: PLC0415  main imports this module by its name

    return bool(data) and any(name == "common" or name in COMMANDS for name in data)


_KINDS: tuple[tuple[Callable[[dict[str, Any]], bool], Callable[[Path, dict[str, Any]], str]], ...] = (
    (lambda data: "tests" in data, _tests),
    (lambda data: isinstance(data.get("rules"), list), _rules),
    (lambda data: "clusters" in data, _fleet),
    (
        lambda data: not {"faults", "loads", "rates"}.isdisjoint(data) or isinstance(data.get("fleet"), str),
        _scenario,
    ),
    (_is_settings, _settings),
)
"""How a TOML file is recognised, and what holds it against its rules; in this order."""
