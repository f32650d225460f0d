"""`trnfleet info`: contents of a recording."""

from __future__ import annotations

from typing import Any

import click

from trnfleet.cli.files import open_recording
from trnfleet.cli.options import setting
from trnfleet.cli.output import MOST_SHOWN, print_json, row_lines
from trnfleet.cli.params import FileName, FleetName
from trnfleet.domain.quantities import duration as duration_text
from trnfleet.domain.quantities import size_text
from trnfleet.text import LONGEST_LINE, plain


@click.command("info")
@click.argument("files", type=FileName(), metavar="FILE...", nargs=-1, required=True)
@setting(
    "--name",
    type=FleetName(),
    help="Fleet of files without a fleet's name, such as those of neuron-monitor.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(files: tuple[str, ...], name: str | None, as_json: bool) -> None:
    """Summarize a recording: times, fleets, messages by class, gaps, and whether it is complete.

    Several FILEs are the parts of one recording. An unfinished file is summarized, too: the summary covers its readable part and
    names the rest.

    \b
    Examples:
      trnfleet info night.mcap
      trnfleet info night-*.mcap --json | jq .gaps
    """
    from trnfleet.services.files.recording_summary import summarize

    with open_recording(files, name=name) as recording:
        facts = summarize(files, recording)
    if as_json:
        print_json(facts)
    else:
        click.echo(_text(facts))


def _text(facts: dict[str, Any]) -> str:
    from trnfleet.services.files.recordings import left_out_text

    names = [file["file"] for file in facts["files"]]
    size = size_text(sum(file["bytes"] or 0 for file in facts["files"]))
    state = "complete" if facts["finished"] else "not finished, what is there can be read"
    if left_out := left_out_text(facts["damaged_chunks"], facts["senseless_messages"]):
        state += f"; {left_out}"
    files = (
        plain(names[0], LONGEST_LINE)
        if len(names) == 1
        else f"{plain(names[0], LONGEST_LINE)} and {len(names) - 1:,} more"
    )
    messages = (
        f"{facts['messages']:,} on {len(facts['topics']):,} topics, "
        f"{size_text(facts['payload_bytes'])} of payload"
    )
    more = len(facts["fleets"]) - MOST_SHOWN
    rows = [
        ("time", f"{facts['start']} to {facts['end']} ({duration_text(facts['duration_s'])})"),
        *(("fleet", _fleet_text(fleet)) for fleet in facts["fleets"][:MOST_SHOWN]),
        *[("fleet", f"and {more:,} more")][: more > 0],
        ("messages", messages),
        ("lost", f"{facts['lost']:,} (by sequence numbers); {_gap_text(facts)}"),
        *[
            ("backlog", f"{facts['backlog']:,} more came after an outage: not lost, not replayed"),
        ][: facts["backlog"] > 0],
        *(("gap", f"{gap['from']} to {gap['to']}") for gap in facts["gaps"][:MOST_SHOWN]),
        ("made by", _origin(facts["parts"][0])),
    ]
    if facts["parts"][0]["note"]:
        rows.append(("note", plain(facts["parts"][0]["note"], LONGEST_LINE)))
    table = [("CLASS", "MESSAGES", "TOPICS", "PAYLOAD")]
    table += [
        (
            name,
            f"{counts['messages']:,}",
            f"{counts['topics']:,}",
            size_text(counts["payload_bytes"]),
        )
        for name, counts in facts["classes"].items()
    ]
    return "\n".join(
        [
            f"{files}: {state}; {size}",
            *row_lines(rows, 10, "  "),
            *(f"  {row[0]:<14}{row[1]:>12}{row[2]:>10}{row[3]:>12}" for row in table),
        ]
    )


def _fleet_text(fleet: dict[str, Any]) -> str:
    chips = fleet["chips"]
    instances = fleet["instances"]
    text = f"{plain(fleet['name'])}: {chips:,} chip{'s' * (chips != 1)} of {instances:,} "
    text += f"instance{'s' * (instances != 1)}"
    if fleet["period_s"] is not None:
        text += f", a tick every {fleet['period_s']:g} s"
    if fleet["speed"] not in {None, 1.0}:
        text += f", {fleet['speed']:g} times as fast as the clock"
    return text + (", itself a replay" if fleet["is_replay"] else "")


def _gap_text(facts: dict[str, Any]) -> str:
    gaps = len(facts["gaps"])
    return "no gaps" if not gaps else f"{gaps:,} gap{'' if gaps == 1 else 's'} without telemetry"


def _origin(part: dict[str, Any]) -> str:
    parts = [f"trnfleet {plain(part['trnfleet']) or 'unknown'}", f"schema {plain(part['schema'])}"]
    if part["broker"]:
        parts.append(f"from {plain(part['broker'], LONGEST_LINE)}")
    if part["seed"] is not None:
        parts.append(f"seed {part['seed']}")
    return ", ".join(parts)
