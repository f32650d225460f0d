"""`trnfleet job`: publish what a job does, for scripts and training loops."""

from __future__ import annotations

import asyncio
import math
from typing import TYPE_CHECKING, Any

import click

from trnfleet.cli.options import broker_options, fleet_option, log_options
from trnfleet.cli.params import CheckedText
from trnfleet.clock import SystemClock, format_rfc3339
from trnfleet.domain.address import Level, split, to_segment
from trnfleet.domain.metrics import JOB_FIGURES
from trnfleet.errors import ConfigError, WireError
from trnfleet.text import plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnfleet.services.session import BrokerSession

FINISHED = "finished"
"""State of a job that ended by itself."""
FIGURES = {
    **JOB_FIGURES,
    "loss": "Training loss of the last step",
    "flops_per_token": "Model FLOPs of a token",
}
"""Figures with an option, and their meanings."""


def _check_place(text: str) -> None:
    first, dots, last = text.partition("..")
    if len(split(first)) > Level.INSTANCE or (dots and len(split(last)) > 1):
        raise ConfigError(
            f"{text!r} is not an address down to an instance, or a range such as"
            " uc1/us-0001..us-0008"
        )


def _figure_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add an option for each figure."""
    for name, meaning in reversed(FIGURES.items()):
        short = ("--step",) if name == "steps_completed" else ()
        flag = f"--{name.replace('_', '-')}"
        command = click.option(*short, flag, name, type=float, metavar="N", help=f"{meaning}.")(
            command
        )
    return command


@click.command("job")
@click.argument("job", metavar="NAME")
@broker_options(required=True)
@fleet_option
@click.option(
    "--state",
    default="running",
    show_default=True,
    metavar="STATE",
    help="State: running, checkpointing, evaluating, compiling, loading, failed or another.",
)
@click.option(
    "--kind",
    default="training",
    show_default=True,
    metavar="KIND",
    help="Kind: training, finetuning, inference or another.",
)
@click.option(
    "--on",
    "places",
    type=CheckedText("place", _check_place),
    multiple=True,
    help=(
        "Address or range that it runs on; repeatable. By default the claims of hosts to a job of"
        " this name say where it runs."
    ),
)
@_figure_options
@click.option("--model", metavar="NAME", help="Name of the model that it trains or serves.")
@click.option("--dtype", metavar="TYPE", help="Type of the products' operands: bf16, fp8.")
@click.option(
    "--lnc",
    type=click.IntRange(1, 8),
    envvar="NEURON_LOGICAL_NC_CONFIG",
    show_envvar=True,
    help="Logical NeuronCore configuration of its chips, if it is not their hosts'.",
)
@click.option("--end", is_flag=True, help=f"It has ended by itself: state {FINISHED}, no place.")
@click.option("--clear", is_flag=True, help="Clear its message; the job disappears.")
@log_options
def command(
    session: BrokerSession,
    name: str | None,
    job: str,
    state: str,
    kind: str,
    places: tuple[str, ...],
    end: bool,
    clear: bool,
    **figures: Any,
) -> None:
    """Publish a message about job NAME, which the broker retains: state, figures, place.

    A message replaces the last one, so give all figures each time. Slashes, dots and spaces of NAME are shown, and become dashes in
    topics and labels. With access lists you need the role of a reporter, which reads nothing; so --name is required.

    \b
    Examples:
      trnfleet job llama3.1-8b --step 1200 --tokens-per-s 91000 --broker mqtt://127.0.0.1:1883 --name prod
      trnfleet job llama3.1-8b --state checkpointing --step 1200 --broker mqtt://127.0.0.1:1883 --name prod
      trnfleet job "$SLURM_JOB_ID" --on uc1/us-0001..us-0004 --broker mqtt://127.0.0.1:1883 --name prod
      trnfleet job llama3.1-8b --end --step 90000 --broker mqtt://127.0.0.1:1883 --name prod

    \b
    Exit status: 0 done, 1 not written, 2 wrong use, 4 sent but not confirmed (MQTT 3.1.1).
    """
    if name is None:
        raise click.UsageError("name the fleet with --name: a reporter cannot read which there are")
    given = {key: value for key, value in figures.items() if value is not None}
    if end and (places or state not in {"running", FINISHED}):
        raise click.UsageError("--end goes with neither --on nor another --state")
    if clear and (end or places or given):
        raise click.UsageError("--clear goes with nothing that the job is or does")
    segment = to_segment(job)
    if not segment:
        raise click.UsageError("NAME is empty")
    from trnfleet.services.job_report import clear_job, report_job
    from trnfleet.wire.messages import JobMessage, decode_message, encode_message

    if clear:
        asyncio.run(clear_job(session, name, segment))
        click.echo(f"job {segment} is cleared")
        return
    for key, value in given.items():
        if isinstance(value, float) and not math.isfinite(value):
            raise click.UsageError(f"--{key.replace('_', '-')} {value} is not a number")
    message = JobMessage(
        job=segment,
        display_name=None if segment == job else job,
        kind=kind,
        state=FINISHED if end else state,
        ts=format_rfc3339(SystemClock().wall_ns()),
        on=places,
        **given,
    )
    try:
        message = decode_message(encode_message(message), JobMessage)
    except WireError as error:
        raise ConfigError(str(error)) from error
    asyncio.run(report_job(session, name, message))
    shown = segment if message.display_name is None else f"{segment} ({plain(job)})"
    where = ", ".join(places) or "where its hosts claim it"
    click.echo(f"job {shown} is {message.state}" + ("" if end else f", {where}"))
