"""`trnfleet check`: validate files of every kind."""

from __future__ import annotations

from pathlib import Path

import click

from trnfleet.cli.options import sysfs_option, utilization_option
from trnfleet.cli.output import MOST_SHOWN
from trnfleet.cli.params import FileName
from trnfleet.cli.settings.files import check_file
from trnfleet.cli.settings.keys import looks_like_settings
from trnfleet.errors import ConfigError, ExitStatus, TrnfleetError
from trnfleet.text import LONGEST_LINE, plain


@click.command("check")
@click.argument("files", type=FileName(), metavar="FILE...", nargs=-1, required=True)
@utilization_option
@sysfs_option
@click.pass_context
def command(
    ctx: click.Context, files: tuple[str, ...], utilization: str | None, sysfs: str | None
) -> None:
    """Check each FILE, and print its first errors.

    The content decides the kind of a file: a recording, a file of neuron-monitor, its exporter, Neuron Observer or neuron-ls, a fleet,
    a scenario, alert rules, tests of rules, or settings. An unfinished recording is invalid, but readable: see trnfleet info. Files
    of real hosts are shown with their form, count and begin. A folder is the Neuron driver's tree in sysfs, or a copy of it. Text may be packed with gzip or zstd.

    \b
    Examples:
      trnfleet check night.mcap
      trnfleet check my-fleet.toml my-scenario.toml my-rules.toml

    Exit status: 0 all are valid, 2 one is not.
    """
    valid = True
    for name in files:
        shown = plain(name, LONGEST_LINE)
        try:
            kind, problems = _check(Path(name), utilization, None if sysfs is None else Path(sysfs))
        except TrnfleetError as error:
            kind = ""
            problems = [str(error).removeprefix(f"{name}: ")]
        if not problems:
            click.echo(f"{shown}: valid ({kind})")
            continue
        valid = False
        for problem in problems[:MOST_SHOWN]:
            said = plain(problem, LONGEST_LINE).removeprefix(f"{shown}: ")
            click.echo(f"{shown}: INVALID: {said}")
        if len(problems) > MOST_SHOWN:
            click.echo(f"{shown}: and {len(problems) - MOST_SHOWN:,} more")
    ctx.exit(0 if valid else ExitStatus.INVALID)


def _check(
    path: Path, utilization: str | None = None, sysfs: Path | None = None
) -> tuple[str, list[str]]:
    """Return the kind of a file, and its problems.

    Raises:
        TrnfleetError: it is invalid; the message says where.
    """
    from trnfleet.config import load_toml
    from trnfleet.services.files.inputs import ENDINGS, UnknownKindError
    from trnfleet.services.validation import check_document, check_messages

    try:
        return check_messages(path, utilization, sysfs)
    except UnknownKindError as unknown:
        if path.suffix in ENDINGS:
            raise
        try:
            data = load_toml(path)
        except ConfigError:
            if path.suffix == ".toml":
                raise
            raise unknown from None
    kind = check_document(path, data)
    if kind is None and looks_like_settings(data):
        check_file(path, data)
        kind = "settings"
    if kind is None:
        raise ConfigError(
            f"{path}: neither a recording nor a fleet ([[clusters]]), a scenario ([[faults]],"
            " [[loads]] or [rates]), rules ([[rules]]), tests of rules ([[tests]]) or settings"
            " ([common], a profile or a command's name)"
        )
    return kind, []
