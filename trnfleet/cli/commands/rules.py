"""`trnfleet rules`: check, test and list alert rules."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trnfleet.cli.output import MOST_SHOWN, table_lines
from trnfleet.cli.params import FileName, ShippedName
from trnfleet.domain.alerts.conditions import exact_duration
from trnfleet.domain.alerts.signals import FIGURES, Scope
from trnfleet.domain.alerts.templates import conditions_text
from trnfleet.domain.quantities import counted, duration
from trnfleet.domain.severity import Severity
from trnfleet.errors import ConfigError, ExitStatus
from trnfleet.text import LONGEST_LINE, plain

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnfleet.domain.alerts.rules import Rule
    from trnfleet.domain.alerts.signals import Figure
    from trnfleet.monitor.alerting.rule_tests.play import FailedExpectation


@click.group("rules")
def command() -> None:
    """Check, test and list alert rules.

    \b
    Examples:
      trnfleet rules list --scope job
      trnfleet rules check my-rules.toml
      trnfleet rules test my-rules-tests.toml
    """


@command.command("check")
@click.argument("files", type=ShippedName("alerts"), metavar="[FILE]...", nargs=-1)
@click.pass_context
def check(ctx: click.Context, files: tuple[str, ...]) -> None:
    """Check rule FILEs together: paths, or names of shipped files. By default all shipped files.

    \b
    Example:
      trnfleet rules check my-rules.toml more-rules.toml

    Exit status: 0 valid, 2 invalid.
    """
    from trnfleet.config import find_file, load_model, shipped_names
    from trnfleet.domain.alerts.rules import RuleFile, join_rules
    from trnfleet.services.files.rules import KIND, shipped_rules

    loaded: list[tuple[str, RuleFile]] = []
    valid = True
    for name in files or shipped_names(KIND):
        try:
            path = find_file(KIND, name)
            content = load_model(path, RuleFile)
        except ConfigError as error:
            click.echo(f"INVALID  {plain(str(error), LONGEST_LINE)}", err=True)
            valid = False
            continue
        loaded.append((str(path), content))
        click.echo(f"valid    {plain(str(path), LONGEST_LINE)}: {_counted(content.rules)}")
    try:
        rules = join_rules(loaded, elsewhere=shipped_rules())
    except ConfigError as error:
        # Of files that are invalid the rules are not known, so what refers to them cannot be
        # judged.
        if valid:
            click.echo(f"INVALID  {plain(str(error), LONGEST_LINE)}", err=True)
        valid = False
    else:
        if valid and len(loaded) > 1:
            click.echo(f"valid together: {_counted(rules)}")
    ctx.exit(0 if valid else ExitStatus.INVALID)


@command.command("test")
@click.argument("files", type=FileName(), metavar="FILE...", nargs=-1, required=True)
@click.pass_context
def test(ctx: click.Context, files: tuple[str, ...]) -> None:
    """Run the test FILEs through the alert engine, and compare alerts with the expected ones.

    A file has rules, series of figures in promtool's notation, and the expected alerts at certain instants.

    \b
    Example:
      trnfleet rules test tests/alerts/*.toml

    Exit status: 0 all as expected, 1 a test failed, 2 a file is invalid.
    """
    from trnfleet.services.files.rule_tests import run_tests

    worst = 0
    for name in files:
        path = Path(name)
        try:
            count, failures = run_tests(path)
        except ConfigError as error:
            click.echo(f"INVALID  {plain(str(error), LONGEST_LINE)}", err=True)
            worst = ExitStatus.INVALID
            continue
        shown = plain(name, LONGEST_LINE)
        if failures:
            failed = len({failure.test for failure in failures})
            click.echo(f"FAILED   {shown}: {failed} of {counted(count, 'test')}")
            click.echo("\n".join(_difference_lines(failures)))
            worst = max(worst, ExitStatus.FAILED)
        else:
            click.echo(f"SUCCESS  {shown}: {counted(count, 'test')}")
    ctx.exit(worst)


@command.command("list")
@click.option(
    "--scope", type=click.Choice([scope.value for scope in Scope]), help="Only this scope."
)
@click.option(
    "--figures", is_flag=True, help="List the figures that rules can use, instead of the rules."
)
@click.option(
    "--coverage",
    is_flag=True,
    help="List which sources a rule sees: a source may not know the rule's figures.",
)
@click.option(
    "--rules",
    "files",
    type=ShippedName("alerts"),
    metavar="FILE",
    multiple=True,
    help="Rule file instead of the shipped ones; repeatable.",
)
def list_rules(scope: str | None, figures: bool, coverage: bool, files: tuple[str, ...]) -> None:
    """List the shipped rules, or the figures that rules can use.

    \b
    Examples:
      trnfleet rules list
      trnfleet rules list --figures --scope chip
      trnfleet rules list --coverage
    """
    scopes = [Scope(scope)] if scope else list(Scope)
    if figures:
        click.echo("\n\n".join("\n".join(_figures(level)) for level in scopes))
        return
    from trnfleet.services.files.rules import SOURCES, load_rules, seen_by

    rules = [rule for rule in load_rules(files) if rule.scope in scopes]
    if coverage:
        table = [("RULE", *(source.upper() for source in SOURCES))]
        table += [(rule.name, *seen_by(rule).values()) for rule in rules]
        click.echo("\n".join(table_lines(table)))
        return
    rows = [("RULE", "SCOPE", "SEVERITY", "FOR", "CONDITION")]
    rows += [
        (
            rule.name,
            rule.scope.value,
            rule.severity.value,
            exact_duration(rule.for_s),
            _condition(rule),
        )
        for rule in rules
    ]
    click.echo("\n".join(table_lines(rows)))
    click.echo(f"\n{_counted(rules)}")


def _difference_lines(failures: Sequence[FailedExpectation]) -> list[str]:
    lines: list[str] = []
    for failure in failures[:MOST_SHOWN]:
        lines.append(
            f"  {plain(failure.test, LONGEST_LINE)}: {failure.rule} at {_instant(failure.at_s)}"
        )
        for head, alerts in (("expected", failure.expected), ("got", failure.got)):
            for number, alert in enumerate(alerts or ("no alert",)):
                lines.append(
                    f"    {head if number == 0 else '':>8}{':' if number == 0 else ' '}"
                    f" {plain(alert, LONGEST_LINE)}"
                )
    if len(failures) > MOST_SHOWN:
        lines.append(f"  and {counted(len(failures) - MOST_SHOWN, 'more difference')}")
    return lines


def _instant(seconds: float) -> str:
    return f"{seconds:g} s" if seconds < 60 else f"{seconds:g} s ({duration(seconds)})"


def _counted(rules: Sequence[Rule]) -> str:
    by_severity = Counter(rule.severity.value for rule in rules)
    parts = [
        f"{by_severity[name]} {name}"
        for name in (severity.value for severity in Severity)
        if by_severity[name]
    ]
    return f"{counted(len(rules), 'rule')}" + (f" (severity: {', '.join(parts)})" if parts else "")


def _condition(rule: Rule) -> str:
    grouped = () if rule.group_level is None else (f"one alert each {rule.grouping.value}",)
    return "; ".join((conditions_text(rule), *grouped, *rule.sources))


def _figures(scope: Scope) -> list[str]:
    rows = [(scope.value.upper(), "KIND", "UNIT", "MEANING")]
    rows += [
        (figure.name, figure.form.value, figure.unit or "-", _meaning(figure))
        for figure in FIGURES[scope].values()
    ]
    return table_lines(rows)


def _meaning(figure: Figure) -> str:
    text = figure.help
    if figure.values and figure.values[0] not in text:
        text += f" [{', '.join(figure.values)}]"
    return f"{text} ({figure.source})" if figure.source else text
